//! [`Work`]: the AllReduce bound that counts messages, where switches only forward.
//!
//! The cut bound of AllReduce lets the data cross every cut once each way and holds even if
//! switches reduce and copy. A program whose reductions and copies all happen in GPUs must do
//! more. Take the nodes apart into k groups, each with at least one rank, and follow one byte of
//! the result. A group is done when it holds the sum over all groups. Until the first group is
//! done, each of the other k − 1 has sent at least one message that was delivered by then; after
//! that, each of the other k − 1 still gets at least one message. So every byte of the size costs
//! 2(k − 1) messages between groups, each of which uses up bandwidth out of a group and into a
//! group:
//!
//! > T ≥ 2(k − 1)·M ÷ Σ B⁺(group), and the same with Σ B⁻(group).
//!
//! For k = n single ranks on a ring or under one switch this is met by the ring algorithm. The
//! groups that say most are looked for among all there are ([`strength`](super::strength)), after
//! those that have names. Where links are as wide one way as the other the result is the largest
//! packing of spanning trees over the ranks: programs that go up and down packed trees reach it,
//! and no bound of any kind is sharper for programs whose switches only forward. Where links are
//! not, the search takes the mean of both directions and the groups it finds are judged by the
//! narrower one: a bound that holds, though other groups may say more.
//!
//! Latency comes on top ([`delay`](super::delay)): a message that crosses link (u, v) has its origin in some
//! rank and its use in some rank, so the link serves from the least latency of any rank to u on,
//! and until the least latency from v to any rank before the end. Groups that are far apart, such
//! as servers, may then say more than those that say most of bandwidth, so all are kept.
//!
//! Devices inside a group may do what they like. Of the devices outside all groups,
//! - if none copies or reduces, messages sent and messages delivered are the same, and both hold;
//! - if some copy (multicast) but none reduces, one message sent may be delivered often: only the
//!   count of deliveries, Σ B⁻, holds;
//! - if some reduce but none copies, only the count of sends, Σ B⁺, holds;
//! - if some do either, neither holds.

use motet_net::Network;
use motet_units::{Bandwidth, Rank};

use super::delay::{Delays, nearest_ranks};
use super::graph::{BothWays, BoundGraph};
use super::partition::{Level, Partition};
use super::ratio::Ratio;
use super::strength::strength;

/// A bound on programs for AllReduce, by counting the messages between groups of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Seconds per byte of size.
    pub time_per_byte: Ratio,
    /// What the groups are, and how many.
    pub level: Level,
    pub groups: usize,
    /// The ranks of each group.
    pub members: Vec<Vec<Rank>>,
    /// Out of (or into, if that is less) all groups together; the largest there is if it is more.
    pub bandwidth: Bandwidth,
    /// Whether links are as wide one way as the other and no groups say more: then some packing of
    /// spanning trees over the ranks reaches it.
    pub is_packing: bool,
}

impl Work {
    /// The algorithm bandwidth it allows, in GB/s (10⁹ bytes).
    #[must_use]
    pub fn algbw(&self) -> Option<Ratio> {
        super::gb_per_s(self.time_per_byte)
    }
}

/// The best such bound of an AllReduce, and what latency adds to this and to others.
pub(super) fn work(
    network: &Network,
    (graph, turned): BothWays<'_>,
    partitions: &[Partition],
) -> Option<(Work, Vec<Delays>)> {
    let nearest = nearest_ranks((graph, turned));
    let mut delays = Vec::new();
    let judge = |it| {
        let (work, late) = of_partition(network, graph, it, &nearest)?;
        delays.extend(late);
        Some(work)
    };
    let named: Vec<&Partition> = partitions.iter().filter(|it| it.covers(graph)).collect();
    let ratio = |it: &&Partition| {
        let borders = it.borders(graph);
        let sum = borders.out.iter().chain(&borders.into).sum();
        Ratio::new(sum, it.parts.saturating_sub(1) as u128)
    };
    let start = named.iter().filter_map(ratio).min()?;
    let search = strength(graph, start);
    let found = search
        .as_ref()
        .and_then(|it| it.sets.clone())
        .map(|(of, parts)| Partition::found(of, parts));
    // Of equals the last is taken: the smallest groups that have a name.
    let all = found.iter().chain(named.into_iter().rev());
    let mut best = all.filter_map(judge).max_by_key(|it| it.time_per_byte)?;
    // Borders count both ways, so that 2(k − 1) messages cost 4(k − 1) of them: 32 bits per byte.
    let least = search.and_then(|it| Ratio::new(32, graph.unit)?.checked_mul(it.ratio.inverse()?));
    best.is_packing = is_symmetric(graph) && least == Some(best.time_per_byte);
    Some((best, delays))
}

/// Whether every link is as wide one way as the other.
fn is_symmetric(graph: &BoundGraph) -> bool {
    (0..graph.arcs()).all(|it| graph.capacity(it) == graph.capacity(graph.opposite(it)))
}

/// The bound by the parts of one partition, and its delays. `nearest` has the latencies from the
/// nearest rank to each node and back.
fn of_partition(
    network: &Network,
    graph: &BoundGraph,
    partition: &Partition,
    nearest: &(Vec<u64>, Vec<u64>),
) -> Option<(Work, Option<Delays>)> {
    if partition.parts < 2 || !partition.covers(graph) {
        return None;
    }
    let outside = || {
        let apart = |it: &usize| graph.usable[*it] && partition.of(*it).is_none();
        (0..graph.nodes()).filter(apart).map(|it| &network.nodes()[it])
    };
    let copies = outside().any(|it| it.multicast);
    let reduces = outside().any(|it| it.reduces);
    let borders = partition.borders(graph);
    let out: u128 = borders.out.iter().sum();
    let into: u128 = borders.into.iter().sum();
    let by_sends = match (copies, reduces) {
        (false, false) => out < into,
        (true, false) => false,
        (false, true) => true,
        (true, true) => return None,
    };
    let bits = if by_sends { out } else { into } * graph.unit;
    let counted = graph.links().filter(|(from, to, _)| {
        let end = partition.of(if by_sends { *from } else { *to });
        end.is_some() && partition.of(*from) != partition.of(*to)
    });
    let counted = counted.map(|it| (it, graph.capacity(it.2)));
    let messages = Ratio::new(16 * (partition.parts as u128 - 1), 1)?;
    let delays = Delays::new(graph, messages, &nearest.0, &nearest.1, counted);
    let mut members = vec![Vec::new(); partition.parts];
    for (rank, node) in graph.ranks.iter().enumerate() {
        if let Some(part) = partition.of(*node as usize) {
            members[part].push(Rank::from_index(rank));
        }
    }
    let work = Work {
        time_per_byte: messages.checked_mul(Ratio::new(1, bits)?)?,
        level: partition.level,
        groups: partition.parts,
        members,
        bandwidth: Bandwidth::from_bits_per_s(u64::try_from(bits).unwrap_or(u64::MAX)),
        is_packing: false,
    };
    Some((work, delays))
}
