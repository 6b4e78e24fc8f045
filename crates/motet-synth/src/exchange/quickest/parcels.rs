//! [`Parcels`]: which chunks take which link when, given a flow over time that only says how many do.
//!
//! Nodes are gone through in the order of time. Each has a queue of parcels: those that came first leave first,
//! over the links that the flow leaves by, and the rest waits for the next slot.

use motet_graph::Arcs;
use motet_units::LinkId;

use super::grid::Grid;

/// No hop before this one.
const START: u32 = u32::MAX;

/// Chunks of one pair that have taken the same path so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    pub(super) pair: u32,
    /// First chunk within the pair.
    pub(super) base: u32,
    pub(super) chunks: u32,
    /// The last link crossed, as an index into [`Parcels::trail`]; [`START`] at the rank that sends.
    behind: u32,
}

/// The routes of all chunks.
pub(super) struct Parcels<'a> {
    grid: &'a Grid<'a>,
    /// Per node of the grid: the parcels there, in the order in which they came.
    queues: Vec<Vec<Parcel>>,
    /// Every crossing of a link, in the order of time: the link, and the crossing before it on the same route.
    trail: Vec<(LinkId, u32)>,
    /// The parcels at the hub, in the order in which they came.
    pub(super) arrived: Vec<Parcel>,
}

impl<'a> Parcels<'a> {
    /// Sends the chunks of each source as the grid's flow says. There is one source for each pair of the
    /// demands.
    pub(super) fn sent(grid: &'a Grid<'a>) -> Self {
        let queues = vec![Vec::new(); grid.flow.graph().node_count()];
        let mut parcels = Self { grid, queues, trail: Vec::new(), arrived: Vec::new() };
        for (pair, (_, chunks)) in (0..).zip(&grid.sources) {
            let parcel = Parcel { pair, base: 0, chunks: *chunks, behind: START };
            parcels.leave(grid.source(pair as usize), &[parcel]);
        }
        for at in grid.in_order() {
            let queue = std::mem::take(&mut parcels.queues[at as usize]);
            if grid.is_hub(at) {
                parcels.arrived.extend(queue);
            } else {
                parcels.leave(at, &queue);
            }
        }
        parcels
    }

    /// Sends on the parcels at a node: over links first, then into the next slot, as its arcs are listed.
    fn leave(&mut self, at: u32, queue: &[Parcel]) {
        let mut queue = queue.iter().copied();
        let mut rest: Option<Parcel> = None;
        for arc in self.grid.flow.graph().of(at).iter().filter(|it| **it % 2 == 0) {
            let mut room = self.grid.flow.flow(*arc as usize) as u32;
            let arc = &self.grid.arcs[*arc as usize / 2];
            while room > 0 {
                let Some(parcel) = rest.take().or_else(|| queue.next()) else { return };
                let chunks = parcel.chunks.min(room);
                room -= chunks;
                if chunks < parcel.chunks {
                    let (base, chunks) = (parcel.base + chunks, parcel.chunks - chunks);
                    rest = Some(Parcel { base, chunks, ..parcel });
                }
                let behind = match arc.link {
                    None => parcel.behind,
                    Some(link) => {
                        self.trail.push((link, parcel.behind));
                        self.trail.len() as u32 - 1
                    }
                };
                self.queues[arc.to as usize].push(Parcel { chunks, behind, ..parcel });
            }
        }
    }

    /// The links that a parcel crossed, each with its place among all crossings; cycles are left out.
    pub(super) fn hops(&self, parcel: &Parcel) -> Vec<(LinkId, u32)> {
        let fabric = self.grid.fabric;
        let mut back: Vec<(LinkId, u32)> = Vec::new();
        let mut at = parcel.behind;
        while at != START {
            let (link, before) = self.trail[at as usize];
            // The route is read from its end: if a later hop comes back to the node that this one leaves, the
            // two and all hops between are a cycle.
            let again = back.iter().position(|(it, _)| fabric.to(*it) == fabric.from(link));
            match again {
                Some(again) => back.truncate(again),
                None => back.push((link, at)),
            }
            at = before;
        }
        back.reverse();
        back
    }
}
