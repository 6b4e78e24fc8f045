//! [`Grid`]: the time-expanded network, with one node for each node and time slot. How slots are counted is
//! described [one level up](super).

use motet_graph::{Dijkstra, Hop, MaxFlow, PairedArcs};
use motet_units::{Bytes, LinkId, NodeId, Rank};

use crate::fabric::Fabric;

/// The place of a node from which the hub cannot be reached.
const NOWHERE: u32 = u32::MAX;

/// An arc over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeArc {
    from: u32,
    pub(super) to: u32,
    /// The link that is crossed; `None` for data that waits from one slot to the next.
    pub(super) link: Option<LinkId>,
}

/// The time-expanded network. All data goes to the hub.
pub(super) struct Grid<'a> {
    pub(super) fabric: &'a Fabric,
    hub: usize,
    /// Picoseconds of a slot.
    slot: f64,
    slots: u32,
    /// Per node: the least latency of a path to the hub.
    distance: Vec<u64>,
    /// The nodes from which the hub can be reached, the nearest first.
    order: Vec<u32>,
    /// Per node: its place in `order`, or [`NOWHERE`].
    place: Vec<u32>,
    pub(super) arcs: Vec<TimeArc>,
    /// Arc i of the grid is arc 2i of the flow, whose other arcs are the opposites.
    pub(super) flow: MaxFlow<PairedArcs, u64>,
    /// Ranks, and how many chunks each sends to the hub. Each is one more node of the grid, with an arc to the
    /// rank in every slot in which it can send.
    pub(super) sources: Vec<(u32, u32)>,
    /// The chunks of all sources.
    all: u64,
}

impl<'a> Grid<'a> {
    /// The grid for the data of `sources` to go to the hub, in at most `slots` slots of `slot` picoseconds.
    pub(super) fn new(
        fabric: &'a Fabric,
        hub: u32,
        (slot, slots): (f64, u32),
        chunk: Bytes,
        sources: Vec<(u32, u32)>,
    ) -> Self {
        let hub = fabric.node(Rank(hub)).index();
        let mut search = Dijkstra::<u64>::new(fabric.node_count());
        search.search([(hub as u32, 0)], |node| {
            fabric.incoming(NodeId(node)).iter().map(|link| Hop {
                arc: link.0,
                to: fabric.from(*link).0,
                length: fabric.latency(*link).as_ps(),
            })
        });
        let order = search.order().to_vec();
        let mut place = vec![NOWHERE; fabric.node_count()];
        for (at, node) in (0..).zip(&order) {
            place[*node as usize] = at;
        }
        let nodes = order.len() * slots as usize + sources.len();
        let flow = MaxFlow::new(PairedArcs::new(nodes));
        let all = sources.iter().map(|it| u64::from(it.1)).sum();
        let distance = search.into_distances();
        let arcs = Vec::new();
        let mut grid =
            Self { fabric, hub, slot, slots, distance, order, place, arcs, flow, sources, all };
        grid.connect();
        grid.fill(chunk);
        grid
    }

    /// An upper estimate of how many arcs a grid has.
    pub(super) fn size(fabric: &Fabric, slots: u32) -> u64 {
        (fabric.links().len() + fabric.node_count()) as u64 * u64::from(slots)
    }

    /// The grid's node for a node in a slot.
    fn at(&self, node: usize, slot: u32) -> u32 {
        slot * self.order.len() as u32 + self.place[node]
    }

    /// The grid's nodes, apart from sources, each after all that lead to it.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> + use<> {
        let nodes = self.order.len() as u32;
        (0..self.slots).flat_map(move |slot| (0..nodes).rev().map(move |it| slot * nodes + it))
    }

    pub(super) fn is_hub(&self, at: u32) -> bool {
        self.order[at as usize % self.order.len()] as usize == self.hub
    }

    fn slot_of(&self, at: u32) -> u32 {
        at / self.order.len() as u32
    }

    /// The grid's node for a source.
    pub(super) fn source(&self, nth: usize) -> u32 {
        self.order.len() as u32 * self.slots + nth as u32
    }

    /// The grid's nodes for a rank, in every slot in which it can send. The first is that of its distance: data
    /// that it sends at time 0 is at the hub then.
    fn releases(&self, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let (nodes, slots) = (self.order.len() as u32, self.slots);
        let place = self.place[self.fabric.node(Rank(rank)).index()];
        let distance = self.distance[self.fabric.node(Rank(rank)).index()];
        let first =
            if place == NOWHERE { slots } else { (distance as f64 / self.slot).round() as u32 };
        (first..slots).map(move |slot| slot * nodes + place)
    }

    /// How many slots later data that enters a link can enter the next.
    fn delay(&self, link: LinkId) -> u32 {
        let (from, to) = (self.fabric.from(link), self.fabric.to(link));
        let there = self.fabric.latency(link).as_ps().saturating_add(self.distance[to.index()]);
        let detour = there.saturating_sub(self.distance[from.index()]) as f64 / self.slot;
        // Ranks forward only what has arrived whole, which takes a slot. And within a slot data only comes
        // nearer to the hub, so that the grid has no cycles.
        let waits = to.index() != self.hub && self.fabric.rank(to).is_some();
        let nearer = self.place[to.index()] < self.place[from.index()];
        (detour.round() as u32).max(u32::from(waits || !nearer))
    }

    /// Adds the arcs: every link and every wait in every slot, and those of the sources. Nothing leaves the
    /// hub. A source has arcs to all slots, although one to the first would do since data may wait at the
    /// rank: augmenting paths are shorter and of fewer lengths that way, and the maximum flow needs a phase
    /// for each length.
    fn connect(&mut self) {
        for slot in 0..self.slots {
            for place in 0..self.order.len() {
                let node = self.order[place] as usize;
                if node == self.hub {
                    continue;
                }
                let from = self.at(node, slot);
                for link in self.fabric.outgoing(NodeId::from_index(node)) {
                    let to = self.fabric.to(*link).index();
                    if self.place[to] == NOWHERE {
                        continue;
                    }
                    let then = slot.saturating_add(self.delay(*link));
                    if then < self.slots {
                        let to = self.at(to, then);
                        self.arcs.push(TimeArc { from, to, link: Some(*link) });
                    }
                }
                if slot + 1 < self.slots {
                    let to = self.at(node, slot + 1);
                    self.arcs.push(TimeArc { from, to, link: None });
                }
            }
        }
        for (nth, (rank, _)) in self.sources.iter().enumerate() {
            let from = self.source(nth);
            self.arcs.extend(self.releases(*rank).map(|to| TimeArc { from, to, link: None }));
        }
        for arc in &self.arcs {
            self.flow.add_pair(arc.from, arc.to);
        }
    }

    /// Sets capacities in whole chunks, rounded so that over many slots they add up to what a link carries.
    fn fill(&mut self, chunk: Bytes) {
        let capacity = |arc: &TimeArc| {
            let Some(link) = arc.link else { return self.all };
            let rate = self.fabric.bits_per_s(link) as f64 / (8e12 * chunk.get() as f64);
            let (slot, chunks) = (f64::from(self.slot_of(arc.from)), self.slot * rate);
            (((slot + 1.0) * chunks) as u64 - (slot * chunks) as u64).min(self.all)
        };
        let capacities: Vec<u64> = self.arcs.iter().map(capacity).collect();
        self.flow.set_capacities(|arc| if arc % 2 == 0 { capacities[arc / 2] } else { 0 });
        for nth in 0..self.sources.len() {
            let (source, chunks) = (self.source(nth), self.sources[nth].1);
            self.flow.set_supply(source as usize, u64::from(chunks));
        }
    }

    /// Whether everything can be at the hub within so many slots; if so, the flow says how.
    fn is_enough(&mut self, slots: u32) -> bool {
        let sinks: Vec<_> = (0..slots).map(|it| (self.at(self.hub, it), self.all)).collect();
        self.flow.flow_into(sinks, self.all) == self.all
    }

    /// The least number of slots in which everything can be at the hub, likely close to `guess`; the flow is
    /// then one for that number. `None` if all slots are not enough.
    pub(super) fn least_slots(&mut self, guess: u32) -> Option<u32> {
        let (mut few, mut enough, mut step) = (0, guess.min(self.slots), 1);
        while !self.is_enough(enough) {
            if enough == self.slots {
                return None;
            }
            few = enough;
            enough = (enough + step).min(self.slots);
            step *= 2;
        }
        step = 1;
        while few == 0 && enough > step {
            if self.is_enough(enough - step) {
                enough -= step;
                step *= 2;
            } else {
                few = enough - step;
            }
        }
        while enough - few > 1 {
            let middle = few + (enough - few) / 2;
            if self.is_enough(middle) {
                enough = middle;
            } else {
                few = middle;
            }
        }
        self.is_enough(enough).then_some(enough)
    }
}
