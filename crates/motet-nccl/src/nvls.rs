//! NCCL's NVLS and NVLSTree as programs: sums and copies in the NVSwitches.
//!
//! Every GPU of a node heads one share of the data. The switch sums the share of all GPUs of the node on
//! its way to the head; between nodes the heads of a share form one of NCCL's two trees; and the switch
//! copies the result from the head to everyone. Within one node, AllGather is the last of these steps
//! alone and ReduceScatter the first.
//!
//! NCCL's model says how long that takes inside servers. It knows nothing of the fabric between them;
//! [`Switched::time`] says how long the links take, so that NVLS is never priced faster than the network
//! allows.

use motet_collective::program::{Forms, Hints, Protocol};
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_net::{Network, NetworkBuilder, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration, Rank};

use crate::double_tree::{Neighbours, both};

/// How many slices each share is cut into, which follow one another as in a pipeline. NCCL cuts finer, which
/// would change little here.
const SLICES: u32 = 16;

/// The same network with NVSwitches that can copy and sum, which is how NCCL uses them from Hopper on.
#[must_use]
pub fn capable(network: &Network) -> Option<Network> {
    let mut builder = NetworkBuilder::new(network.name());
    for node in network.nodes() {
        let mut node = node.clone();
        if node.kind == NodeKind::NvSwitch {
            (node.multicast, node.reduces) = (true, true);
        }
        builder.add_node(node).ok()?;
    }
    for link in network.links() {
        builder.add_link(link.from, link.to, link.spec).ok()?;
    }
    builder.build().ok()
}

/// NVLS or NVLSTree on a network, as a verified program.
#[derive(Clone, Debug)]
pub struct Switched {
    network: Network,
    program: Verified<Program>,
}

impl Switched {
    /// `nodes` are the ranks of each node. `None` where NCCL has no such algorithm.
    #[must_use]
    pub fn new(network: &Network, nodes: &[Vec<u32>], kind: CollectiveKind) -> Option<Self> {
        let program = Maker::new(nodes, kind)?.program(nodes);
        let program = Verified::new(program, None).ok()?;
        Some(Self { network: capable(network)?, program })
    }

    /// How long the links take for `size` bytes in nccl-tests' sense; `None` if the network cannot run it.
    #[must_use]
    pub fn time(&self, size: Bytes) -> Option<Duration> {
        let routed =
            Routed::new(&self.program, &self.network, SwitchForwarding::CutThrough).ok()?;
        let prepared = Prepared::new(&routed);
        Simulation::new(&prepared, size).run().ok().map(|it| it.time)
    }
}

/// Every slice of every rank's part.
fn slices(ranks: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    (0..SLICES).flat_map(|slice| ranks.iter().map(move |rank| (slice, *rank)))
}

/// A chunk, and the GPU of each node that heads it (collects its sum).
struct Share {
    /// The number of the heading GPU in its node.
    head: usize,
    chunk: u32,
    /// The tree over the heads, by node, and the nodes in an order from its root down.
    tree: Vec<Neighbours>,
    order: Vec<usize>,
    /// By node: the transfers whose data the node's head has summed so far.
    come: Vec<Vec<TransferId>>,
}

impl Share {
    fn new(nodes: &[Vec<u32>], head: usize, chunk: u32) -> Self {
        let tree: Vec<Neighbours> =
            (0..nodes.len()).map(|it| both(nodes.len(), it)[head % 2]).collect();
        let mut order: Vec<usize> = Vec::with_capacity(nodes.len());
        order.extend(tree.iter().position(|it| it.parent.is_none()));
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            order.extend(tree[node].children.iter().flatten());
            next += 1;
        }
        Self { head, chunk, tree, order, come: Vec::new() }
    }
}

struct Maker {
    builder: ProgramBuilder,
    kind: CollectiveKind,
}

impl Maker {
    fn new(nodes: &[Vec<u32>], kind: CollectiveKind) -> Option<Self> {
        let ranks = u32::try_from(nodes.iter().map(Vec::len).sum::<usize>()).ok()?;
        let heads = u32::try_from(nodes.iter().map(Vec::len).min()?).ok()?;
        let alone = nodes.len() == 1;
        let chunks = match kind {
            CollectiveKind::AllReduce => heads.checked_mul(SLICES)?,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter if alone => SLICES,
            _ => return None,
        };
        let collective = Collective::new(kind, ranks, chunks).ok()?;
        let hints = Hints { protocol: Protocol::Simple, ..Hints::default() };
        let builder =
            ProgramBuilder::new("nccl-nvls", collective).forms(Forms::IN_PLACE).hints(hints);
        Some(Self { builder, kind })
    }

    fn program(mut self, nodes: &[Vec<u32>]) -> Program {
        match self.kind {
            CollectiveKind::AllReduce => self.all_reduce(nodes),
            CollectiveKind::AllGather => {
                for (slice, rank) in slices(&nodes[0]) {
                    let copy = |to: Rank| {
                        let part = Slot::output(to, rank * SLICES + slice);
                        Transfer::copy(Slot::input(Rank(rank), slice), part, 1)
                    };
                    self.copies(&nodes[0], rank, copy, &[]);
                }
            }
            _ => {
                for (slice, rank) in slices(&nodes[0]) {
                    let part = |at: Rank| Slot::input(at, rank * SLICES + slice);
                    self.sum(&nodes[0], rank, part, part(Rank(rank)));
                }
            }
        }
        self.builder.build()
    }

    /// The sums of a slice are sent before the copies of the slice before it, so that both directions of a link
    /// are busy at once.
    fn all_reduce(&mut self, nodes: &[Vec<u32>]) {
        let heads = nodes.iter().map(Vec::len).min().unwrap_or(0);
        let mut before: Vec<Share> = Vec::new();
        for slice in 0..SLICES {
            let summed = (0..heads).map(|head| {
                let chunk = slice * heads as u32 + head as u32;
                self.up(Share::new(nodes, head, chunk), nodes)
            });
            let summed: Vec<Share> = summed.collect();
            for share in std::mem::replace(&mut before, summed) {
                self.down(&share, nodes);
            }
        }
        for share in before {
            self.down(&share, nodes);
        }
    }

    /// Sums inside every node, then up the tree: a node sends when all below it has come.
    fn up(&mut self, mut share: Share, nodes: &[Vec<u32>]) -> Share {
        let Share { chunk, head, .. } = share;
        let slot = |rank: Rank| Slot::output(rank, chunk);
        share.come = nodes
            .iter()
            .map(|ranks| self.sum(ranks, ranks[head], slot, slot(Rank(ranks[head]))))
            .collect();
        for node in share.order.iter().rev().copied() {
            let Some(parent) = share.tree[node].parent else { continue };
            let at = |node: usize| slot(Rank(nodes[node][head]));
            let transfer = Transfer::reduce(at(node), at(parent), 1);
            let id = self.builder.add_after(transfer, &share.come[node]);
            if let Some(last) = share.come[parent].last() {
                self.builder.wait(id.arrived(), last.arrived());
            }
            share.come[parent].push(id);
        }
        share
    }

    /// Copies down the tree again, and from every head to the other GPUs of its node.
    fn down(&mut self, share: &Share, nodes: &[Vec<u32>]) {
        let slot = |rank: Rank| Slot::output(rank, share.chunk);
        let at = |node: usize| Rank(nodes[node][share.head]);
        let mut whole = share.come.clone();
        for node in share.order.iter().copied() {
            if let Some(parent) = share.tree[node].parent {
                let transfer = Transfer::copy(slot(at(parent)), slot(at(node)), 1);
                let after = whole[parent].clone();
                let id = self.builder.add_after(transfer, &after);
                for below in &share.come[node] {
                    self.builder.wait(id.arrived(), below.arrived());
                }
                whole[node] = vec![id];
            }
            let copy = |to: Rank| Transfer::copy(slot(at(node)), slot(to), 1);
            let after = whole[node].clone();
            self.copies(&nodes[node], at(node).0, copy, &after);
        }
    }

    /// Sums what all ranks of a node have at its head, and returns the transfers. Their arrivals wait for one
    /// another, as reductions into one place must.
    fn sum(
        &mut self,
        ranks: &[u32],
        head: u32,
        from: impl Fn(Rank) -> Slot,
        to: Slot,
    ) -> Vec<TransferId> {
        let mut before: Option<TransferId> = None;
        let others = ranks.iter().filter(|it| **it != head);
        let mut all = Vec::new();
        for rank in others {
            let id = self.builder.add(Transfer::reduce(from(Rank(*rank)), to, 1));
            if let Some(before) = before {
                self.builder.wait(id.arrived(), before.arrived());
            }
            before = Some(id);
            all.push(id);
        }
        all
    }

    /// A copy to every other rank of a node.
    fn copies(
        &mut self,
        ranks: &[u32],
        head: u32,
        copy: impl Fn(Rank) -> Transfer,
        after: &[TransferId],
    ) {
        // What is written was read for the sum before: the head had it all when it sent this.
        for rank in ranks.iter().filter(|it| **it != head) {
            self.builder.add_after(copy(Rank(*rank)), after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, model};

    /// In the switch every byte leaves a GPU once and comes to it once.
    #[test]
    fn one_box_takes_what_its_links_take() {
        let network = build("dgx-h100", &[]);
        let nodes = model(&network).nodes();
        let size = Bytes::gib(1);
        let links = size.get() as f64 / 450e9 * 1e6;
        for (kind, share) in [
            (CollectiveKind::AllReduce, 1.0),
            (CollectiveKind::AllGather, 7.0 / 8.0),
            (CollectiveKind::ReduceScatter, 7.0 / 8.0),
        ] {
            let time = Switched::new(&network, &nodes, kind).unwrap().time(size).unwrap();
            let ratio = time.as_us_f64() / (links * share);
            assert!((1.0..1.15).contains(&ratio), "{kind}: {ratio}");
        }
    }

    /// A link between datacenters slows NVLS as it slows everything.
    #[test]
    fn four_boxes_wait_for_the_slowest_link() {
        let fast = build("dgx-h100", &["count=4"]);
        let slow = build("dgx-h100", &["count=4", "nic=100 Gbit/s"]);
        let time = |network: &Network| {
            let nodes = model(network).nodes();
            let kind = CollectiveKind::AllReduce;
            Switched::new(network, &nodes, kind).unwrap().time(Bytes::gib(1)).unwrap()
        };
        let ratio = time(&slow).as_us_f64() / time(&fast).as_us_f64();
        assert!(ratio > 2.0, "{ratio}");
    }
}
