//! [`Channels`]: rings and trees over all ranks, made of the graphs of each node.
//!
//! A ring goes through the nodes in order, through the GPUs of each as its graph says. A tree is
//! a chain inside each node and one of the two [`double_tree`](super::double_tree)s between them.
//! NCCL makes two channels of each channel of the graph: the same ring, and one tree each; more
//! are copies. The rings and trees here are data; [`own`](super::own) makes programs of them.

use motet_units::Rank;

use super::double_tree::{Neighbours, both};
use super::graph::Graphs;
use super::kinds::Pattern;

/// A tree over all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    parent: Vec<Option<Rank>>,
    /// In NCCL's order: first the next GPU in the chain of the same node, then GPUs of other nodes.
    children: Vec<[Option<Rank>; 3]>,
}

impl Tree {
    fn new(ranks: usize) -> Self {
        Self { parent: vec![None; ranks], children: vec![[None; 3]; ranks] }
    }

    #[must_use]
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        self.parent.get(rank.index()).copied().flatten()
    }

    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        self.children.get(rank.index()).into_iter().flatten().copied().flatten()
    }

    /// The rank without a parent.
    #[must_use]
    pub fn root(&self) -> Option<Rank> {
        let root = self.parent.iter().position(Option::is_none)?;
        Some(Rank(u32::try_from(root).ok()?))
    }

    fn join(&mut self, parent: u32, child: u32) {
        self.parent[child as usize] = Some(Rank(parent));
        let free = self.children[parent as usize].iter_mut().find(|it| it.is_none());
        if let Some(free) = free {
            *free = Some(Rank(child));
        }
    }
}

/// What runs on each channel of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// One per channel of the ring graph: the ranks in the order data goes.
    pub rings: Vec<Vec<Rank>>,
    /// Two per channel of the tree graph: the first trees of all channels, then their second trees.
    pub trees: Vec<Tree>,
    count: usize,
    /// Channels beyond this many are copies of those before.
    distinct: usize,
}

impl Channels {
    /// Channels with these rings, for callers that know their rings already; there are no trees.
    #[must_use]
    pub fn of_rings(rings: Vec<Vec<Rank>>) -> Self {
        let count = rings.len();
        Self { rings, trees: Vec::new(), count, distinct: count.max(1) }
    }

    /// How many channels the communicator has.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The ring of a channel.
    #[must_use]
    pub fn ring(&self, channel: usize) -> &[Rank] {
        &self.rings[channel % self.distinct % self.rings.len()]
    }

    /// The tree of a channel.
    #[must_use]
    pub fn tree(&self, channel: usize) -> &Tree {
        &self.trees[channel % self.distinct]
    }
}

/// A node: its ranks by local number, and its graphs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) ranks: &'a [u32],
    pub(super) graphs: &'a Graphs,
}

impl Member<'_> {
    fn order(&self, gpus: &[usize]) -> Vec<u32> {
        gpus.iter().map(|it| self.ranks[*it]).collect()
    }
}

/// Joins `graph_channels` channels of every node's graphs into rings and trees. That makes twice as many channels,
/// of which the first `distinct` are kept; channels beyond that, up to `count`, repeat them.
pub(super) fn connect(
    members: &[Member<'_>],
    graph_channels: usize,
    distinct: usize,
    count: usize,
) -> Channels {
    let ranks = members.iter().map(|it| it.ranks.len()).sum();
    let rings = (0..graph_channels).map(|it| ring(members, it, graph_channels)).collect();
    let mut trees = vec![Tree::new(ranks); 2 * graph_channels];
    for (index, tree) in trees.iter_mut().enumerate() {
        let channel = index % graph_channels;
        // Chains first, so that the next in the chain is the first child everywhere.
        members.iter().for_each(|it| chain(tree, it, channel));
        for number in 0..members.len() {
            let neighbours = both(members.len(), number)[index / graph_channels];
            hang(tree, members, number, channel, &neighbours);
        }
    }
    Channels { rings, trees, count, distinct }
}

fn ring(members: &[Member<'_>], channel: usize, channels: usize) -> Vec<Rank> {
    let mut ring = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let graph = &member.graphs.ring;
        // Rings that swap interfaces in pairs do so on every second server, to keep to one rail.
        let swap = graph.cross_nic == 2 && channels.is_multiple_of(2) && number % 2 == 1;
        let channel = if swap { channel ^ 1 } else { channel };
        ring.extend(member.order(&graph.channels[channel].gpus).into_iter().map(Rank));
    }
    ring
}

/// Inside a node each GPU of a channel is the parent of the next.
fn chain(tree: &mut Tree, member: &Member<'_>, channel: usize) {
    let order = member.order(&member.graphs.tree.channels[channel].gpus);
    for pair in order.windows(2) {
        tree.join(pair[0], pair[1]);
    }
}

/// Joins the nodes below a node to those of its GPUs that talk to them, which its pattern decides.
fn hang(
    tree: &mut Tree,
    members: &[Member<'_>],
    number: usize,
    channel: usize,
    neighbours: &Neighbours,
) {
    let at = |member: &Member<'_>, gpu: usize| {
        let gpus = &member.graphs.tree.channels[channel].gpus;
        member.ranks[gpus[gpu.min(gpus.len() - 1)]]
    };
    let above = &members[number];
    for (side, child) in neighbours.children.iter().enumerate() {
        let Some(child) = child else { continue };
        let gpu = match above.graphs.tree.pattern {
            Pattern::BalancedTree => 1 - side,
            Pattern::SplitTree => 1,
            _ => 0,
        };
        tree.join(at(above, gpu), at(&members[*child], 0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{build, model};
    use super::*;
    use std::collections::BTreeSet;

    fn check(channels: &Channels, ranks: usize) {
        for channel in 0..channels.count() {
            let ring: BTreeSet<Rank> = channels.ring(channel).iter().copied().collect();
            assert_eq!((ring.len(), channels.ring(channel).len()), (ranks, ranks));
            let tree = channels.tree(channel);
            let mut waiting = vec![tree.root().unwrap()];
            let mut seen = BTreeSet::new();
            while let Some(rank) = waiting.pop() {
                assert!(seen.insert(rank));
                for child in tree.children(rank) {
                    assert_eq!(tree.parent(child), Some(rank));
                    waiting.push(child);
                }
            }
            assert_eq!(seen.len(), ranks);
        }
    }

    #[test]
    fn every_channel_visits_all() {
        for (kind, words) in [
            ("dgx-a100", vec!["count=5"]),
            ("dgx-a100", vec!["count=2", "detail=full"]),
            ("dgx-h100", vec!["count=4"]),
            ("dgx-1", vec!["count=3"]),
            ("ndv2", vec!["count=2"]),
            ("gb200-nvl72", vec!["trays=2"]),
        ] {
            let network = build(kind, &words);
            check(&model(&network).channels(), network.ranks().len());
        }
    }

    /// On NVSwitch boxes with a NIC per GPU, each channel enters at another GPU and goes down from
    /// it: NCCL tries the GPU before first.
    #[test]
    fn rings_of_dgx_a100_pairs() {
        let channels = model(&build("dgx-a100", &["count=2"])).channels();
        let ring: Vec<u32> = channels.ring(0).iter().map(|it| it.0).collect();
        assert_eq!(ring, [0, 7, 6, 5, 4, 3, 2, 1, 8, 15, 14, 13, 12, 11, 10, 9]);
    }
}
