//! [`Counts`]: the hops, messages and bytes of an NCCL call's rings or trees, which do not depend on the machine.
//!
//! Rings and trees are those that NCCL connects ([`Channels`]); PAT is counted in closed form. NVLS and CollNet,
//! which need switches that compute, are not counted.
//!
//! A call is counted as one of many in a row, as nccl-tests and `motet bench` time them. In an AllReduce, an
//! AllGather or a ReduceScatter every rank needs data of every other, so no call ends before all of it has been
//! through the whole chain. In a Broadcast or a Reduce data only moves on: the first rank of the chain sends the
//! next call while the last still waits for this one. So such a call counts a single hop, however long the chain is.

use motet_units::{Bytes, Rank};

use crate::choice::Choice;
use crate::connect::{Channels, Tree};
use crate::kinds::{Algorithm, Protocol, TunedCollective};

/// The most edges of all channels together; calls with more are not counted.
const MOST_EDGES: usize = 1 << 20;

/// The counts of a call. Bytes are as on the wire, with the flags of LL and LL128.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    pub protocol: Protocol,
    /// How many channels carry data.
    pub channels: f64,
    /// Hops of the longest chain that stay inside a node.
    pub hops_inside: f64,
    /// Hops of the longest chain that go from node to node.
    pub hops_between: f64,
    /// Messages that the rank with most of them sends to other nodes and receives from them.
    pub messages: f64,
    /// Bytes sent inside its node by the GPU that sends most there.
    pub bytes_inside: f64,
    /// Bytes sent to other nodes by the node that sends most.
    pub bytes_between: f64,
    /// Bytes sent anywhere by the GPU that sends most.
    pub bytes_rank: f64,
}

/// Which ranks are in which node.
#[derive(Clone, Debug)]
pub struct Places {
    node_of: Vec<u32>,
    nodes: usize,
}

impl Places {
    /// From the ranks of each node.
    #[must_use]
    pub fn new(nodes: &[Vec<u32>]) -> Self {
        let ranks = nodes.iter().flatten().map(|it| *it as usize + 1).max().unwrap_or(0);
        let mut node_of = vec![0; ranks];
        for (node, members) in nodes.iter().enumerate() {
            for rank in members {
                node_of[*rank as usize] = u32::try_from(node).unwrap_or(u32::MAX);
            }
        }
        Self { node_of, nodes: nodes.len() }
    }

    fn node(&self, rank: Rank) -> usize {
        self.node_of.get(rank.index()).map_or(0, |it| *it as usize)
    }

    fn are_apart(&self, a: Rank, b: Rank) -> bool {
        self.node(a) != self.node(b)
    }
}

/// What every rank and every node sends, added up over all channels.
struct Loads<'a> {
    places: &'a Places,
    messages: Vec<f64>,
    inside: Vec<f64>,
    rank: Vec<f64>,
    between: Vec<f64>,
}

impl<'a> Loads<'a> {
    fn new(places: &'a Places) -> Self {
        let none = || vec![0.0; places.node_of.len()];
        let (messages, inside, rank) = (none(), none(), none());
        Self { places, messages, inside, rank, between: vec![0.0; places.nodes] }
    }

    fn send(&mut self, from: Rank, to: Rank, bytes: f64, messages: f64) {
        self.rank[from.index()] += bytes;
        if self.places.are_apart(from, to) {
            self.between[self.places.node(from)] += bytes;
            self.messages[from.index()] += messages;
            self.messages[to.index()] += messages;
        } else {
            self.inside[from.index()] += bytes;
        }
    }
}

impl Counts {
    /// The counts of a call of `size` bytes (nccl-tests' meaning) under a choice of NCCL's; `None` for algorithms
    /// that are not counted and for calls that are too large.
    #[must_use]
    pub fn of(
        channels: &Channels,
        places: &Places,
        collective: TunedCollective,
        choice: &Choice,
        size: Bytes,
    ) -> Option<Self> {
        let used = choice.used_channels.max(1);
        let ranks = places.node_of.len();
        if ranks < 2 || ranks.checked_mul(used)? > MOST_EDGES {
            return None;
        }
        let share = size.get() as f64 / used as f64;
        let piece = choice.chunk.get().max(1) as f64;
        let mut loads = Loads::new(places);
        let chain = match choice.algorithm {
            Algorithm::Ring => {
                for channel in 0..used {
                    ring(&mut loads, channels.ring(channel), collective, share, piece);
                }
                ring_chain(collective, ranks, places.nodes)
            }
            Algorithm::Tree => {
                for channel in 0..used {
                    tree(&mut loads, channels.tree(channel), share, piece);
                }
                let depths = (0..used).map(|it| depth(channels.tree(it), places));
                let (between, inside) = depths.max().unwrap_or_default();
                (2 * inside, 2 * between)
            }
            Algorithm::Pat if places.nodes == ranks => {
                return Some(pat(ranks, choice, size.get() as f64, share, piece));
            }
            _ => return None,
        };
        let pipelined = choice.algorithm == Algorithm::Tree;
        let fill = if pipelined { fill(&loads, chain, share, piece) } else { 0.0 };
        Some(Self::new(&loads, choice, chain, fill))
    }

    fn new(loads: &Loads<'_>, choice: &Choice, chain: (usize, usize), fill: f64) -> Self {
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let wire = wire(choice.protocol);
        let several = loads.places.nodes > 1;
        let (near, far) = if several { (0.0, fill) } else { (fill, 0.0) };
        Self {
            protocol: choice.protocol,
            channels: choice.used_channels.max(1) as f64,
            hops_inside: chain.0 as f64,
            hops_between: chain.1 as f64,
            messages: most(&loads.messages),
            bytes_inside: (most(&loads.inside) + near) * wire,
            bytes_between: (most(&loads.between) + far) * wire,
            bytes_rank: most(&loads.rank) * wire,
        }
    }
}

/// Bytes on the wire for each byte of data.
const fn wire(protocol: Protocol) -> f64 {
    match protocol {
        Protocol::Ll => 2.0,
        Protocol::Ll128 => 128.0 / 120.0,
        Protocol::Simple => 1.0,
    }
}

/// Adds the loads of one channel of a ring; `share` is the channel's part of the call's bytes, `piece` its chunk.
fn ring(loads: &mut Loads<'_>, ring: &[Rank], collective: TunedCollective, share: f64, piece: f64) {
    let ranks = ring.len() as f64;
    let next = |at: usize| ring[(at + 1) % ring.len()];
    let chain = matches!(collective, TunedCollective::Broadcast | TunedCollective::Reduce);
    for (at, from) in ring.iter().enumerate() {
        if chain {
            // Nothing comes back to where the chain begins.
            if at + 1 < ring.len() {
                loads.send(*from, next(at), share, (share / piece).ceil().max(1.0));
            }
        } else {
            let steps = collective.ring_steps(ring.len() as u64) as f64;
            let each = share / ranks;
            loads.send(*from, next(at), steps * each, steps * (each / piece).ceil().max(1.0));
        }
    }
}

/// The hops of a ring's longest chain, inside nodes and between them.
const fn ring_chain(collective: TunedCollective, ranks: usize, nodes: usize) -> (usize, usize) {
    let rounds = match collective {
        TunedCollective::Broadcast | TunedCollective::Reduce if nodes > 1 => return (0, 1),
        TunedCollective::Broadcast | TunedCollective::Reduce => return (1, 0),
        TunedCollective::AllReduce => 2,
        _ => 1,
    };
    let between = rounds * nodes.saturating_sub(1);
    (rounds * (ranks - 1) - between, between)
}

/// Adds the loads of one channel of a tree: its share goes up and down every edge.
fn tree(loads: &mut Loads<'_>, tree: &Tree, share: f64, piece: f64) {
    let messages = (share / piece).ceil().max(1.0);
    for rank in 0..loads.messages.len() {
        let rank = Rank(u32::try_from(rank).unwrap_or(u32::MAX));
        if let Some(parent) = tree.parent(rank) {
            loads.send(rank, parent, share, messages);
            loads.send(parent, rank, share, messages);
        }
    }
}

/// Hops from the farthest leaf to the root: between nodes, and inside.
fn depth(tree: &Tree, places: &Places) -> (usize, usize) {
    let mut farthest = (0, 0);
    let mut open: Vec<(Rank, usize, usize)> =
        tree.root().map(|it| (it, 0, 0)).into_iter().collect();
    while let Some((rank, between, inside)) = open.pop() {
        farthest = farthest.max((between, inside));
        for child in tree.children(rank) {
            let apart = usize::from(places.are_apart(rank, child));
            open.push((child, between + apart, inside + 1 - apart));
        }
    }
    farthest
}

/// What filling the pipeline adds, in bytes: the first piece goes through the chain hop by hop, so it takes as
/// long as one piece per hop, of which what the busiest sender sends of a piece is counted already.
fn fill(loads: &Loads<'_>, chain: (usize, usize), share: f64, piece: f64) -> f64 {
    let several = loads.places.nodes > 1;
    let (hops, sent) = if several { (chain.1, &loads.between) } else { (chain.0, &loads.inside) };
    let pieces = (share / piece).ceil().max(1.0);
    let each = sent.iter().copied().fold(0.0, f64::max) / pieces;
    (hops as f64 * piece.min(share) - each).max(0.0)
}

/// PAT between nodes of one rank: a binomial tree for each rank, all at once.
fn pat(ranks: usize, choice: &Choice, size: f64, share: f64, piece: f64) -> Counts {
    let hops = f64::from(ranks.next_power_of_two().ilog2());
    let sent = size * (ranks as f64 - 1.0) / ranks as f64 * wire(choice.protocol);
    let rounds = (share / ranks as f64 / piece).ceil().max(1.0);
    Counts {
        protocol: choice.protocol,
        channels: choice.used_channels.max(1) as f64,
        hops_inside: 0.0,
        hops_between: hops,
        messages: 2.0 * hops * rounds * choice.used_channels.max(1) as f64,
        bytes_inside: 0.0,
        bytes_between: sent,
        bytes_rank: sent,
    }
}
