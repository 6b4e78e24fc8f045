//! Cuts for traffic between pairs: every cut bounds it, and here good ones are looked for.
//!
//! Data from ranks inside a set to ranks outside must cross the set's border. The sets tried are
//! single ranks, servers, racks, pods and datacenters, and all but them; the tightest cuts of AllGather
//! and ReduceScatter; and the sets of nodes within some distance of a rank. Unlike for AllGather,
//! the best of all cuts is not found for certain, nor would it be the whole truth:
//! [`lengths`](super::lengths) goes on from here.

use super::delay::{Delays, Receivers};
use super::demand::Demands;
use super::distance::{ArcLengths, Search};
use super::graph::{BothWays, BoundGraph};
use super::partition::Partition;
use super::ratio::Ratio;
use super::tightest::capacity_out_of;

/// Most ranks around which sets are grown.
const MAX_CENTRES: usize = 16;

/// A set of nodes with the chunks that must leave it.
#[derive(Clone, Debug)]
pub(super) struct DemandCut {
    pub(super) chunks: u128,
    pub(super) capacity: u128,
    pub(super) sending: Vec<bool>,
}

impl DemandCut {
    pub(super) fn new(graph: &BoundGraph, demands: &Demands<'_>, sending: Vec<bool>) -> Self {
        let inside = |rank: usize| sending[graph.ranks[rank] as usize];
        let within = graph.ranks.iter().filter(|it| sending[**it as usize]).count();
        let chunks = match demands {
            Demands::Uniform { ranks, chunks } => crossing(within, *ranks, *chunks),
            _ => (0..demands.ranks())
                .filter(|it| inside(*it))
                .flat_map(|from| demands.from(from))
                .filter(|(to, _)| !inside(*to))
                .map(|(_, chunks)| u128::from(chunks))
                .sum(),
        };
        Self { chunks, capacity: capacity_out_of(graph, &sending), sending }
    }

    /// Chunks per unit of bandwidth: the time that the cut takes.
    pub(super) fn time(&self) -> Ratio {
        Ratio::new(self.chunks, self.capacity).unwrap_or(Ratio::ZERO)
    }

    /// What latency adds, by the ranks that have something to send across and to get. `chunks` make
    /// up the size.
    pub(super) fn delays(
        &self,
        both: BothWays<'_>,
        demands: &Demands<'_>,
        chunks: u128,
    ) -> Option<Delays> {
        let graph = both.0;
        let node = |rank: usize| graph.ranks[rank] as usize;
        let inside = |rank: &usize| self.sending[node(*rank)];
        let mut senders = Vec::new();
        let mut gets = vec![false; demands.ranks()];
        for from in (0..demands.ranks()).filter(inside) {
            if let Demands::Uniform { .. } = demands {
                senders.push(node(from));
                continue;
            }
            for (to, _) in demands.from(from).filter(|(to, _)| !inside(to)) {
                gets[to] = true;
                if senders.last() != Some(&node(from)) {
                    senders.push(node(from));
                }
            }
        }
        let is_uniform = matches!(demands, Demands::Uniform { .. });
        let receivers =
            (0..gets.len()).filter(|it| if is_uniform { !inside(it) } else { gets[*it] });
        let receivers: Vec<usize> = receivers.map(node).collect();
        let cut = (&self.sending[..], Ratio::new(self.chunks, chunks)?);
        Delays::of_cut(both, cut, senders.into_iter(), Receivers::Nearest(&receivers))
    }
}

fn crossing(inside: usize, ranks: usize, chunks: u32) -> u128 {
    inside as u128 * (ranks - inside) as u128 * u128::from(chunks)
}

/// The best cut along the seams of the partitions.
pub(super) fn best_of_partitions(
    graph: &BoundGraph,
    demands: &Demands<'_>,
    partitions: &[Partition],
) -> Option<DemandCut> {
    let seams = partitions.iter().rev().flat_map(|it| seams(graph, demands, it));
    let best = seams.reduce(|best, next| if next.time > best.time { next } else { best })?;
    Some(best.cut(graph, demands))
}

/// The slowest cut out of one part and the slowest into one, for each partition.
pub(super) fn best_of_each_partition(
    graph: &BoundGraph,
    demands: &Demands<'_>,
    partitions: &[Partition],
) -> Vec<DemandCut> {
    let mut cuts = Vec::new();
    for partition in partitions {
        let (out, into): (Vec<_>, Vec<_>) =
            seams(graph, demands, partition).into_iter().partition(|it| it.sends);
        for side in [out, into] {
            let slowest = side.into_iter().min_by_key(|it| std::cmp::Reverse(it.time));
            cuts.extend(slowest.map(|it| it.cut(graph, demands)));
        }
    }
    cuts
}

/// A cut between one part of a partition and the rest.
struct Seam<'p> {
    /// Chunks per unit of bandwidth.
    time: Ratio,
    partition: &'p Partition,
    part: usize,
    /// Whether the part sends to the rest, or receives from it.
    sends: bool,
}

impl Seam<'_> {
    fn cut(&self, graph: &BoundGraph, demands: &Demands<'_>) -> DemandCut {
        DemandCut::new(graph, demands, self.partition.side(graph, self.part, self.sends))
    }
}

/// All cuts out of and into the parts of a partition.
fn seams<'p>(graph: &BoundGraph, demands: &Demands<'_>, partition: &'p Partition) -> Vec<Seam<'p>> {
    let borders = partition.borders(graph);
    let (leaving, entering) = traffic(graph, demands, partition);
    let out = leaving.into_iter().zip(borders.out).enumerate().map(|it| (it, true));
    let into = entering.into_iter().zip(borders.into).enumerate().map(|it| (it, false));
    out.chain(into)
        .filter_map(|((part, (chunks, capacity)), sends)| {
            Some(Seam { time: Ratio::new(chunks, capacity)?, partition, part, sends })
        })
        .collect()
}

/// Chunks that leave each part, and that enter it.
fn traffic(
    graph: &BoundGraph,
    demands: &Demands<'_>,
    partition: &Partition,
) -> (Vec<u128>, Vec<u128>) {
    let part = |rank: usize| partition.of(graph.ranks[rank] as usize);
    let mut leaving = vec![0u128; partition.parts];
    if let Demands::Uniform { ranks, chunks } = *demands {
        let mut sizes = vec![0usize; partition.parts];
        for part in (0..ranks).filter_map(part) {
            sizes[part] += 1;
        }
        for (leaving, size) in leaving.iter_mut().zip(sizes) {
            *leaving = crossing(size, ranks, chunks);
        }
        return (leaving.clone(), leaving);
    }
    let mut entering = vec![0u128; partition.parts];
    for from in 0..demands.ranks() {
        for (to, chunks) in demands.from(from).filter(|(to, _)| part(*to) != part(from)) {
            if let Some(part) = part(from) {
                leaving[part] += u128::from(chunks);
            }
            if let Some(part) = part(to) {
                entering[part] += u128::from(chunks);
            }
        }
    }
    (leaving, entering)
}

/// The best set of nodes within any distance of a rank, under the given lengths of arcs: cuts
/// hide where the lengths that bound the traffic best are long. The first nodes in the network's
/// own order are tried too: grids are mostly written row by row.
pub(super) fn best_of_balls(
    graph: &BoundGraph,
    demands: &Demands<'_>,
    lengths: Vec<u64>,
) -> Option<DemandCut> {
    let step = demands.ranks().div_ceil(MAX_CENTRES).max(1);
    let as_written: Vec<u32> =
        (0..graph.nodes() as u32).filter(|it| graph.usable[*it as usize]).collect();
    let lengths = ArcLengths::new(lengths);
    let mut search = Search::new(graph, &lengths);
    let around = |centre: usize| {
        let far = search.from([(graph.ranks[centre] as usize, 0)]);
        let mut order = as_written.clone();
        order.sort_by_key(|it| (far[*it as usize], *it));
        order
    };
    let orders = (0..demands.ranks()).step_by(step).map(around);
    let mut best: Option<(Ratio, Vec<u32>)> = None;
    for mut order in std::iter::once(as_written.clone()).chain(orders) {
        let (time, size) = best_prefix(graph, demands, &order);
        if best.as_ref().is_none_or(|(most, _)| time > *most) {
            order.truncate(size);
            best = Some((time, order));
        }
    }
    let (_, inside) = best?;
    let mut sending = vec![false; graph.nodes()];
    for node in inside {
        sending[node as usize] = true;
    }
    Some(DemandCut::new(graph, demands, sending))
}

/// The slowest of the cuts around the first nodes of an order, and how many nodes those are.
fn best_prefix(graph: &BoundGraph, demands: &Demands<'_>, order: &[u32]) -> (Ratio, usize) {
    let mut rank_of = vec![usize::MAX; graph.nodes()];
    for (rank, node) in graph.ranks.iter().enumerate() {
        rank_of[*node as usize] = rank;
    }
    let mut sending = vec![false; graph.nodes()];
    let inside = |sending: &[bool], rank: usize| sending[graph.ranks[rank] as usize];
    // Chunks into each rank from those inside: they stop crossing when it joins them.
    let mut due = vec![0u128; demands.ranks()];
    let (mut capacity, mut chunks) = (0u128, 0u128);
    let mut best = (Ratio::ZERO, 0);
    for (index, node) in order.iter().enumerate() {
        let node = *node as usize;
        for arc in graph.arcs_of(node) {
            if sending[graph.head(arc)] {
                capacity -= graph.capacity(graph.opposite(arc));
            } else {
                capacity += graph.capacity(arc);
            }
        }
        sending[node] = true;
        if let Some(due_here) = due.get(rank_of[node]).copied() {
            chunks -= due_here;
            for (to, count) in demands.from(rank_of[node]) {
                due[to] += u128::from(count);
                if !inside(&sending, to) {
                    chunks += u128::from(count);
                }
            }
        }
        if let Some(time) = Ratio::new(chunks, capacity).filter(|it| *it > best.0) {
            best = (time, index + 1);
        }
    }
    best
}
