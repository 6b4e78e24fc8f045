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
//! For k = n single ranks on a ring or under one switch this is met by the ring algorithm.
//!
//! Devices inside a group may do what they like. Of the devices outside all groups,
//! - if none copies or reduces, messages sent and messages delivered are the same, and both hold;
//! - if some copy (multicast) but none reduces, one message sent may be delivered often: only the
//!   count of deliveries, Σ B⁻, holds;
//! - if some reduce but none copies, only the count of sends, Σ B⁺, holds;
//! - if some do either, neither holds.

use motet_net::Network;
use motet_units::Bandwidth;

use super::graph::Graph;
use super::partition::{Level, Partition};
use super::ratio::Ratio;

/// A bound by counting messages between groups of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Seconds per byte of size.
    pub time_per_byte: Ratio,
    /// What the groups are, and how many.
    pub level: Level,
    pub groups: usize,
    /// Out of (or into, if that is less) all groups together; the largest there is if it is more.
    pub bandwidth: Bandwidth,
}

/// The best such bound of an AllReduce, over ranks, servers, racks, pods and datacenters.
pub(super) fn work(network: &Network, graph: &Graph, partitions: &[Partition]) -> Option<Work> {
    let of = |partition| of_partition(network, graph, partition);
    let found: Vec<Work> = partitions.iter().filter_map(of).collect();
    found.into_iter().rev().max_by_key(|it| it.time_per_byte)
}

fn of_partition(network: &Network, graph: &Graph, partition: &Partition) -> Option<Work> {
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
    let capacity = match (copies, reduces) {
        (false, false) => out.min(into),
        (true, false) => into,
        (false, true) => out,
        (true, true) => return None,
    };
    let bits = capacity * graph.unit;
    Some(Work {
        time_per_byte: Ratio::new(16 * (partition.parts as u128 - 1), bits)?,
        level: partition.level,
        groups: partition.parts,
        bandwidth: Bandwidth::from_bits_per_s(u64::try_from(bits).unwrap_or(u64::MAX)),
    })
}
