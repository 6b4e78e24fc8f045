//! [`tightest`]: the cut over which data is slowest, among all cuts, exactly.
//!
//! Given a weight for each rank (how much data starts there) and a set of sinks (ranks that must
//! get everything), it finds the node set S that leaves out some sink and has the least
//! B⁺(S) / w(S): bandwidth out of S per data in S. No program moves data faster than x* = that
//! ratio. AllGather, Broadcast and Gather are this problem with different weights and sinks, their
//! mirrors are it on the transposed graph, and AllReduce is it both ways.
//!
//! The method keeps the best cut found so far and its ratio x. For a sink t, a flow from a source
//! that feeds x·w(c) into each rank c reaches t whole, w(V)·x, exactly if no set that leaves out t
//! has a ratio below x; otherwise the least cut of that flow is such a set, and becomes the best
//! (Newton's method on a piecewise linear function: a few steps). Two things make it fast:
//! - x only falls, so a sink that passed at some x passes for good: n flows and a few, not n per
//!   step;
//! - after t passed, every set worth finding contains t, so the source may feed t without end.
//!   Later sinks find supply next door, and their flows stay local.

use std::cmp::Ordering;

use motet_graph::{Capacity, MaxFlow};

use super::graph::BoundGraph;
use super::partition::Partition;
use super::ratio::Ratio;

/// What flows where: see the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// Data at each rank, in parts.
    pub(super) weight: Vec<u32>,
    /// Ranks that must get all of it.
    pub(super) sinks: Vec<usize>,
}

/// A set of nodes and what it has to send.
#[derive(Clone, Debug)]
pub(super) struct Tightest {
    /// Bandwidth out of the set, in units of the graph.
    pub(super) capacity: u128,
    /// Parts inside it.
    pub(super) weight: u128,
    pub(super) sending: Vec<bool>,
}

impl Tightest {
    /// Bandwidth per part.
    fn rate(&self) -> Option<Ratio> {
        Ratio::new(self.capacity, self.weight)
    }
}

/// The tightest cut, starting from the seams of some partitions; `None` if no cut has anything to send. Every sink must be
/// reachable from every rank with data.
pub(super) fn tightest(graph: &BoundGraph, spread: &Spread, seams: &Seams<'_>) -> Option<Tightest> {
    let total: u128 = spread.weight.iter().map(|it| u128::from(*it)).sum();
    let mut best = seams.slowest()?.measure(graph, spread);
    let mut rate = best.rate()?;
    let mut flow = MaxFlow::new(graph);
    set_rate(&mut flow, graph, spread, rate);
    for sink in &spread.sinks {
        let node = graph.ranks[*sink] as usize;
        // At most 2²³ links of 2⁶⁴ bit/s and 2¹⁷ parts: nothing here passes 2¹⁰⁴.
        while !passes(&mut flow, graph.ranks[*sink], total * rate.numerator()) {
            let sending =
                (0..graph.nodes()).map(|it| graph.usable[it] && flow.is_sending(it)).collect();
            let cut = measure(graph, spread, sending);
            match cut.rate() {
                Some(lower) if lower < rate => rate = lower,
                // A least cut below the limit has a lower rate; anything else would be endless.
                _ => break,
            }
            best = cut;
            set_rate(&mut flow, graph, spread, rate);
        }
        flow.set_supply(node, u128::ENDLESS);
    }
    Some(best)
}

/// Flows on the graph of a bound; scaled capacities need 128 bits.
type CutFlow<'g> = MaxFlow<&'g BoundGraph, u128>;

/// Whether `wanted` reaches the sink.
fn passes(flow: &mut CutFlow<'_>, sink: u32, wanted: u128) -> bool {
    flow.flow_into([(sink, u128::ENDLESS)], wanted) >= wanted
}

/// Scales everything by the rate's denominator, so that supplies are whole numbers.
fn set_rate(flow: &mut CutFlow<'_>, graph: &BoundGraph, spread: &Spread, rate: Ratio) {
    flow.set_capacities(|arc| graph.capacity(arc) * rate.denominator());
    for (node, weight) in graph.ranks.iter().zip(&spread.weight) {
        if flow.supply(*node as usize) < u128::ENDLESS {
            flow.set_supply(*node as usize, u128::from(*weight) * rate.numerator());
        }
    }
}

pub(super) fn measure(graph: &BoundGraph, spread: &Spread, sending: Vec<bool>) -> Tightest {
    let inside =
        graph.ranks.iter().zip(&spread.weight).filter(|(node, _)| sending[**node as usize]);
    Tightest {
        weight: inside.map(|(_, weight)| u128::from(*weight)).sum(),
        capacity: capacity_out_of(graph, &sending),
        sending,
    }
}

pub(super) fn capacity_out_of(graph: &BoundGraph, sending: &[bool]) -> u128 {
    graph.links_out_of(sending).map(|(.., arc)| graph.capacity(arc)).sum()
}

/// A cut between one part of a partition and the rest.
struct Seam<'p> {
    /// Bandwidth across it, and parts of data that must cross.
    capacity: u128,
    weight: u128,
    partition: &'p Partition,
    part: usize,
    /// Whether the part sends to the rest, or receives from it.
    sends: bool,
}

impl Seam<'_> {
    /// Compares bandwidth per part of data: the less, the slower. Both products are below 2¹⁰⁴.
    fn compare(&self, other: &Self) -> Ordering {
        (self.capacity * other.weight).cmp(&(other.capacity * self.weight))
    }

    fn measure(&self, graph: &BoundGraph, spread: &Spread) -> Tightest {
        measure(graph, spread, self.partition.side(graph, self.part, self.sends))
    }
}

/// The cuts around single ranks, servers, racks and datacenters that have data to send, partition by partition.
pub(super) struct Seams<'p> {
    of: Vec<Vec<Seam<'p>>>,
}

impl<'p> Seams<'p> {
    pub(super) fn new(graph: &BoundGraph, spread: &Spread, partitions: &'p [Partition]) -> Self {
        Self { of: partitions.iter().map(|it| seams(graph, spread, it)).collect() }
    }

    /// The slowest of all.
    fn slowest(&self) -> Option<&Seam<'p>> {
        // The widest parts first: of two equal cuts, a datacenter says more than a rank.
        self.of.iter().rev().flatten().min_by(|a, b| a.compare(b))
    }

    /// The slowest cut out of one part and the slowest into one, for each partition.
    pub(super) fn slowest_of_each(&self, graph: &BoundGraph, spread: &Spread) -> Vec<Tightest> {
        let mut cuts = Vec::new();
        for seams in &self.of {
            for sends in [true, false] {
                let side = seams.iter().filter(|it| it.sends == sends);
                cuts.extend(side.min_by(|a, b| a.compare(b)).map(|it| it.measure(graph, spread)));
            }
        }
        cuts
    }
}

/// All cuts out of and into the parts of a partition that have data to send.
fn seams<'p>(graph: &BoundGraph, spread: &Spread, partition: &'p Partition) -> Vec<Seam<'p>> {
    let total: u128 = spread.weight.iter().map(|it| u128::from(*it)).sum();
    let borders = partition.borders(graph);
    let mut weight = vec![0u128; partition.parts];
    let mut sinks = vec![0usize; partition.parts];
    let part = |rank: usize| partition.of(graph.ranks[rank] as usize);
    for (rank, parts) in spread.weight.iter().enumerate() {
        if let Some(part) = part(rank) {
            weight[part] += u128::from(*parts);
        }
    }
    for part in spread.sinks.iter().filter_map(|it| part(*it)) {
        sinks[part] += 1;
    }
    let mut seams = Vec::with_capacity(2 * partition.parts);
    for part in 0..partition.parts {
        let out = (sinks[part] < spread.sinks.len(), borders.out[part], weight[part], true);
        let into = (sinks[part] > 0, borders.into[part], total - weight[part], false);
        for (cuts, capacity, weight, sends) in [out, into] {
            if cuts && weight > 0 {
                seams.push(Seam { capacity, weight, partition, part, sends });
            }
        }
    }
    seams
}
