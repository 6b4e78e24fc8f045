//! [`BoundGraph`]: the network as the bounds see it.
//!
//! Parallel links become one arc with the sum of their bandwidths and the least of their
//! latencies, which changes no cut and can only shorten a distance. Bandwidths are divided by
//! their greatest common divisor, so that flows count small numbers. GPUs outside the group have
//! no arcs: they do not relay.
//!
//! Every arc has its opposite in the graph, with capacity zero where the network has no link that
//! way. So one array of residual capacities serves a flow both ways, and the transposed graph is
//! the same graph with the capacities of opposite arcs exchanged.

use motet_graph::{Arcs, gcd};
use motet_net::{Network, NodeKind};
use motet_units::NodeId;

use super::distance::{ArcLengths, NO_LINK};

/// The graph of a bound, and the same with every arc turned round.
pub(super) type BothWays<'g> = (&'g BoundGraph, &'g BoundGraph);

/// A directed graph in compressed rows: the arcs out of node `v` are `start[v]..start[v + 1]`.
#[derive(Clone, Debug)]
pub(super) struct BoundGraph {
    start: Vec<u32>,
    head: Vec<u32>,
    opposite: Vec<u32>,
    /// In units of `unit` bits per second.
    capacity: Vec<u128>,
    latency: ArcLengths,
    /// The node of each rank of the group.
    pub(super) ranks: Vec<u32>,
    /// Whether the node takes part: everything but GPUs outside the group.
    pub(super) usable: Vec<bool>,
    pub(super) unit: u128,
}

impl BoundGraph {
    pub(super) fn new(network: &Network, group: &[NodeId]) -> Self {
        let mut usable: Vec<bool> =
            network.nodes().iter().map(|it| it.kind != NodeKind::Gpu).collect();
        for gpu in group {
            usable[gpu.index()] = true;
        }
        let mut entries = Vec::with_capacity(network.links().len() * 2);
        let mut unit = 0;
        for link in network.links() {
            if !usable[link.from.index()] || !usable[link.to.index()] {
                continue;
            }
            let bits = u128::from(link.spec.bandwidth.bits_per_s());
            unit = gcd(unit, bits);
            entries.push((
                link.from.0,
                link.to.0,
                bits,
                link.spec.latency.as_ps().min(NO_LINK - 1),
            ));
            entries.push((link.to.0, link.from.0, 0, NO_LINK));
        }
        entries.sort_unstable();
        entries.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
                kept.3 = kept.3.min(next.3);
            }
            same
        });
        let unit = unit.max(1);
        let mut start = vec![0u32; usable.len() + 1];
        for entry in &entries {
            start[entry.0 as usize + 1] += 1;
        }
        for node in 0..usable.len() {
            start[node + 1] += start[node];
        }
        let opposite = opposites(&start, &entries);
        Self {
            start,
            head: entries.iter().map(|it| it.1).collect(),
            opposite,
            capacity: entries.iter().map(|it| it.2 / unit).collect(),
            latency: ArcLengths::new(entries.iter().map(|it| it.3).collect()),
            ranks: group.iter().map(|it| it.0).collect(),
            usable,
            unit,
        }
    }

    /// The graph with every arc turned round.
    pub(super) fn transposed(&self) -> Self {
        Self {
            capacity: self.opposite.iter().map(|it| self.capacity[*it as usize]).collect(),
            latency: self.latency.permuted(&self.opposite),
            ..self.clone()
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.usable.len()
    }

    pub(super) fn arcs(&self) -> usize {
        self.head.len()
    }

    pub(super) fn arcs_of(&self, node: usize) -> std::ops::Range<usize> {
        self.start[node] as usize..self.start[node + 1] as usize
    }

    pub(super) fn head(&self, arc: usize) -> usize {
        self.head[arc] as usize
    }

    /// Where these arcs lead.
    pub(super) fn heads(&self, arcs: std::ops::Range<usize>) -> &[u32] {
        &self.head[arcs]
    }

    pub(super) fn opposite(&self, arc: usize) -> usize {
        self.opposite[arc] as usize
    }

    pub(super) fn capacity(&self, arc: usize) -> u128 {
        self.capacity[arc]
    }

    pub(super) const fn latencies(&self) -> &ArcLengths {
        &self.latency
    }

    pub(super) fn latency(&self, arc: usize) -> u64 {
        self.latency.of_arc[arc]
    }

    /// All arcs that stand for links, as (from, to, arc).
    pub(super) fn links(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        (0..self.nodes()).flat_map(move |from| {
            self.arcs_of(from)
                .filter(|arc| self.capacity[*arc] > 0)
                .map(move |arc| (from, self.head(arc), arc))
        })
    }

    /// The links from nodes that are `sending` to nodes that are not, as (from, to, arc).
    pub(super) fn links_out_of<'s>(
        &'s self,
        sending: &'s [bool],
    ) -> impl Iterator<Item = (usize, usize, usize)> + 's {
        let senders = (0..self.nodes()).filter(|it| sending[*it]);
        senders.flat_map(move |from| {
            // The capacity last: it is the largest of what is looked at, and most arcs do not cross.
            let arcs = self.arcs_of(from).map(move |arc| (from, self.head(arc), arc));
            arcs.filter(move |(_, to, arc)| !sending[*to] && self.capacity[*arc] > 0)
        })
    }

    /// The nodes that `from` reaches, itself among them.
    pub(super) fn reached(&self, from: usize) -> Vec<bool> {
        let mut seen = vec![false; self.nodes()];
        seen[from] = true;
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for arc in self.arcs_of(node) {
                let to = self.head(arc);
                if self.capacity[arc] > 0 && !std::mem::replace(&mut seen[to], true) {
                    open.push(to);
                }
            }
        }
        seen
    }
}

impl Arcs for BoundGraph {
    fn node_count(&self) -> usize {
        self.nodes()
    }

    fn arc_count(&self) -> usize {
        self.arcs()
    }

    fn arcs_of(&self, node: usize) -> impl Iterator<Item = usize> {
        self.arcs_of(node)
    }

    fn nth_arc_of(&self, node: usize, nth: u32) -> Option<usize> {
        self.arcs_of(node).nth(nth as usize)
    }

    fn head(&self, arc: usize) -> usize {
        self.head(arc)
    }

    fn opposite(&self, arc: usize) -> usize {
        self.opposite(arc)
    }
}

/// For each of the sorted (from, to) entries, where (to, from) is.
fn opposites(start: &[u32], entries: &[(u32, u32, u128, u64)]) -> Vec<u32> {
    // Taking the entries in order visits each row's heads in order too: a cursor per row is enough.
    let mut cursor: Vec<u32> = start.to_vec();
    entries
        .iter()
        .map(|(_, to, ..)| {
            let at = cursor[*to as usize];
            cursor[*to as usize] += 1;
            at
        })
        .collect()
}
