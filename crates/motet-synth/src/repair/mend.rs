//! [`Mending`]: moves trees off links that have become too slow for them.
//!
//! Trees that were good before a change are nearly good after it. Only trees over links that are
//! now slow or down must change, and only for part of their weight. That part becomes a copy of the
//! tree in which the rank behind the link hangs from another rank, over the shortest path with
//! spare capacity.
//!
//! Spare capacity depends on the completion time one accepts: a link can carry its bandwidth times
//! that time. The accepted time starts at the least that could be possible and is raised in small
//! steps until every link fits. That spreads the load evenly over the links that are left.
//!
//! An AllReduce's two trees (collect and spread) are repaired one after the other. There is no
//! search over alternatives: a change costs microseconds per tree that it touches.

use motet_graph::{Dijkstra, Hop};
use motet_units::{LinkId, NodeId, Rank};

use crate::fabric::Fabric;
use crate::tree::{Edge, PathTable, Tree};

/// Weights are scaled up so that the weight given as `least` to [`Mending::new`] becomes at least
/// this much. Weights are integers, so this is what allows a small part of a tree to be moved.
const UNITS: u64 = 256;

/// The accepted completion time grows by this factor per round; every [`ROUNDS_AT_ONE_PACE`] rounds
/// the factor is squared, up to [`FASTEST`].
const RAISE: f64 = 1.005;
const ROUNDS_AT_ONE_PACE: u32 = 24;
const FASTEST: f64 = 1.2;

/// Give up after this many rounds: the accepted time is then too long to be of any use.
const MOST_ROUNDS: u32 = 240;

/// Cost of one hop of a tree in addition to the latency of its links, in picoseconds. It stands for
/// the time a rank needs to receive a slice before it can forward it.
const STEP: u64 = 1_000_000;

/// Cap on the penalty for a link with little spare capacity, as a multiple of [`STEP`].
const MOST_CROWDED: u64 = 16;

/// A tree and the direction in which data travels over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Half {
    /// True if data travels towards the root (Reduce). Such a tree is found on the reversed fabric,
    /// so that its edges still lead from parent to child.
    pub(super) collects: bool,
    pub(super) root: Rank,
    pub(super) edges: Vec<Edge>,
}

impl Half {
    pub(super) fn of(tree: &Tree, collects: bool) -> Self {
        Self { collects, root: tree.root, edges: tree.edges.clone() }
    }
}

/// A share of the data and the trees it takes: one tree, or for an AllReduce the collecting and the
/// spreading tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strand {
    pub(super) weight: u64,
    pub(super) halves: Vec<Half>,
}

/// All strands, and the load they put on each link.
#[derive(Clone, Debug)]
pub(super) struct Mending {
    pub(super) paths: PathTable,
    pub(super) strands: Vec<Strand>,
    load: Vec<u64>,
}

/// Another parent for a rank: the parent, the path from it, and the spare capacity of that path.
struct Detour {
    from: Rank,
    links: Vec<LinkId>,
    room: u64,
}

/// The fabric in its own direction and reversed. Trees that collect are searched on the reversed
/// one.
pub(super) struct RepairFabric<'a> {
    pub(super) forth: &'a Fabric,
    pub(super) back: &'a Fabric,
}

impl RepairFabric<'_> {
    const fn of(&self, half: &Half) -> &Fabric {
        if half.collects { self.back } else { self.forth }
    }
}

impl Mending {
    /// Starts from trees that are good on some fabric. `least` is a weight of which a small part
    /// must be movable; see [`UNITS`].
    pub(super) fn new(
        paths: PathTable,
        mut strands: Vec<Strand>,
        least: u64,
        links: usize,
    ) -> Self {
        let times = UNITS.div_ceil(least.max(1));
        strands.iter_mut().for_each(|it| it.weight *= times);
        let mut it = Self { paths, strands, load: vec![0; links] };
        for at in 0..it.strands.len() {
            let weight = it.strands[at].weight;
            for half in 0..it.strands[at].halves.len() {
                for edge in 0..it.strands[at].halves[half].edges.len() {
                    it.carry(it.strands[at].halves[half].edges[edge].path, weight, true);
                }
            }
        }
        it
    }

    /// The load of a link, in units of weight.
    pub(super) fn load(&self, link: LinkId) -> u64 {
        self.load[link.index()]
    }

    /// Transmission time of the busiest link, in seconds if one unit of weight were one bit.
    pub(super) fn time(&self, fabric: &Fabric) -> f64 {
        let time = |(load, link): (&u64, usize)| match fabric.bits_per_s(LinkId::from_index(link)) {
            _ if *load == 0 => 0.0,
            0 => f64::INFINITY,
            bits => *load as f64 / bits as f64,
        };
        self.load.iter().zip(0..).map(time).fold(0.0, f64::max)
    }

    /// Moves trees until no link needs longer than the accepted time, which starts at `time`.
    /// Returns whether everything can still be delivered.
    pub(super) fn mend(&mut self, ways: &RepairFabric<'_>, mut time: f64) -> bool {
        let mut raise = RAISE;
        let mut search = Search::new(ways.forth);
        for round in 1..=MOST_ROUNDS {
            if self.time(ways.forth) <= time * (1.0 + 1e-9) {
                break;
            }
            self.relieve(ways, time, &mut search);
            if round % ROUNDS_AT_ONE_PACE == 0 {
                raise = (raise * raise).min(FASTEST);
            }
            time *= raise;
        }
        self.strands.retain(|it| it.weight > 0);
        self.time(ways.forth).is_finite()
    }

    /// One round: moves as much as possible off every link that needs longer than `time`.
    fn relieve(&mut self, ways: &RepairFabric<'_>, time: f64, search: &mut Search) {
        for link in (0..self.load.len()).map(LinkId::from_index) {
            let room = room(ways.forth, link, &self.load, time);
            if room >= 0 {
                continue;
            }
            let excess = room.unsigned_abs();
            let load = self.load[link.index()].max(1);
            // Light strands first: they can move as a whole, so fewer strands are split in two.
            let mut order: Vec<usize> = (0..self.strands.len()).collect();
            order.sort_by_key(|it| self.strands[*it].weight);
            for at in order {
                let Strand { weight, halves } = &self.strands[at];
                // Every collect/spread pair gives up the same share. A pair that kept all its
                // weight would finish collecting last and could start spreading only then.
                let most = match halves.len() {
                    1 => *weight,
                    _ => weight.saturating_mul(excess).div_ceil(load),
                };
                for half in 0..halves.len() {
                    let mut left = most;
                    while let Some(moved) =
                        self.move_off(ways, link, (at, half), (time, left), search)
                    {
                        left -= moved;
                    }
                }
            }
        }
    }

    /// Moves up to `most` of a tree's weight off a link: no more than the link has too much of, and
    /// no more than fits elsewhere. Returns the weight moved.
    fn move_off(
        &mut self,
        ways: &RepairFabric<'_>,
        link: LinkId,
        (at, half): (usize, usize),
        (time, most): (f64, u64),
        search: &mut Search,
    ) -> Option<u64> {
        let strand = &self.strands[at];
        let excess = room(ways.forth, link, &self.load, time).min(0).unsigned_abs();
        let wanted = excess.min(strand.weight).min(most);
        let edge = self.crossing(&strand.halves[half], |it| it == link).filter(|_| wanted > 0)?;
        let mut halves = strand.halves.clone();
        let amount = self.rehang(ways, &mut halves[half], edge, (time, wanted, 1), search)?;
        self.strands[at].weight -= amount;
        // The other tree of the pair avoids overloaded links too, so that this share need not be
        // split again later.
        for other in (0..halves.len()).filter(|it| *it != half) {
            let narrow = |it| room(ways.forth, it, &self.load, time) < 0;
            if let Some(edge) = self.crossing(&halves[other], narrow) {
                self.rehang(ways, &mut halves[other], edge, (time, amount, amount), search);
            }
        }
        match self.strands.iter_mut().find(|it| it.halves == halves) {
            Some(same) => same.weight += amount,
            None => self.strands.push(Strand { weight: amount, halves }),
        }
        Some(amount)
    }

    /// The first tree edge whose path contains a link with this property.
    fn crossing(&self, half: &Half, sought: impl Fn(LinkId) -> bool) -> Option<usize> {
        let crosses = |it: &Edge| self.paths.path(it.path).iter().any(|it| sought(*it));
        half.edges.iter().position(crosses)
    }

    /// Gives the rank at the end of `edge` another parent, for as much of `wanted` as fits. Does
    /// nothing if less than `least` fits. Returns the weight moved.
    fn rehang(
        &mut self,
        ways: &RepairFabric<'_>,
        half: &mut Half,
        edge: usize,
        (time, wanted, least): (f64, u64, u64),
        search: &mut Search,
    ) -> Option<u64> {
        let fabric = ways.of(half);
        let old = self.paths.path(half.edges[edge].path);
        let asked = Asked { fabric, paths: &self.paths, load: &self.load, old, time, wanted };
        let detour = search.detour(half, edge, &asked).filter(|it| it.room >= least)?;
        let amount = wanted.min(detour.room);
        let path = self.paths.number(&detour.links);
        let old = half.edges[edge];
        replace(&mut half.edges, edge, Edge { from: detour.from, to: old.to, path });
        self.carry(old.path, amount, false);
        self.carry(path, amount, true);
        Some(amount)
    }

    fn carry(&mut self, path: u32, weight: u64, more: bool) {
        for link in self.paths.path(path) {
            let load = &mut self.load[link.index()];
            *load = if more { *load + weight } else { load.saturating_sub(weight) };
        }
    }
}

/// Spare capacity of a link within `time`, in units of weight; negative if it is overloaded. The
/// small constant keeps rounding errors from losing a whole unit.
fn room(fabric: &Fabric, link: LinkId, load: &[u64], time: f64) -> i64 {
    (fabric.bits_per_s(link) as f64 * time + 1e-6) as i64 - load[link.index()] as i64
}

/// Replaces the edge at `place` by `new`, which leads to the same rank. The subtree below moves
/// behind it, so that parents still come before children.
fn replace(edges: &mut Vec<Edge>, place: usize, new: Edge) {
    let last = edges.iter().map(|it| it.to.index().max(it.from.index())).max().unwrap_or(0);
    let mut below = vec![false; last + 1];
    below[new.to.index()] = true;
    let old = edges.remove(place);
    let (mut under, mut kept) = (Vec::new(), Vec::with_capacity(edges.len() + 1));
    for edge in edges.drain(..) {
        if below[edge.from.index()] {
            below[edge.to.index()] = true;
            under.push(edge);
        } else {
            kept.push(edge);
        }
    }
    kept.push(Edge { to: old.to, ..new });
    kept.append(&mut under);
    *edges = kept;
}

/// The question that [`Search::detour`] answers.
struct Asked<'a> {
    fabric: &'a Fabric,
    paths: &'a PathTable,
    load: &'a [u64],
    /// The path in use now.
    old: &'a [LinkId],
    time: f64,
    wanted: u64,
}

impl Asked<'_> {
    /// How much a link can take. A link of the present path already carries this data, so it can
    /// take all of it unless it is overloaded.
    fn room(&self, link: LinkId) -> u64 {
        let room = room(self.fabric, link, self.load, self.time);
        if room >= 0 && self.old.contains(&link) {
            return self.wanted;
        }
        u64::try_from(room).unwrap_or(0)
    }
}

/// Shortest-path search; its buffers are reused between calls.
struct Search {
    reach: Vec<u64>,
    below: Vec<bool>,
    /// Nodes where a path may begin: ranks that have the data, with the time at which they get it.
    starts: Vec<(u32, u64)>,
    ways: Dijkstra<u64>,
}

impl Search {
    fn new(fabric: &Fabric) -> Self {
        Self {
            reach: vec![0; fabric.rank_count()],
            below: vec![false; fabric.rank_count()],
            starts: Vec::new(),
            ways: Dijkstra::new(fabric.node_count()),
        }
    }

    /// The path by which the data can reach the rank at the end of `edge` soonest, starting at any
    /// rank of the tree that is not below it, over links with spare capacity.
    fn detour(&mut self, half: &Half, edge: usize, asked: &Asked<'_>) -> Option<Detour> {
        let goal = half.edges[edge].to;
        self.begin(half, goal, asked);
        let hop = |link: &LinkId| {
            let room = asked.room(*link);
            let to = asked.fabric.to(*link);
            // A path may pass through switches but not through a third rank.
            let ends = asked.fabric.rank(to).is_none_or(|it| it == goal);
            let crowded = asked.wanted.checked_div(room).filter(|_| ends)?.min(MOST_CROWDED);
            let latency = asked.fabric.latency(*link).as_ps();
            Some(Hop { arc: link.0, to: to.0, length: latency + STEP * (1 + crowded) })
        };
        let (starts, end) = (self.starts.iter().copied(), asked.fabric.node(goal));
        let hops = |node: u32| asked.fabric.outgoing(NodeId(node)).iter().filter_map(hop);
        self.ways.search_to(end.0, starts, hops).then(|| self.found(end, asked)).flatten()
    }

    /// Starts the search at every rank that is not in the subtree of `goal`, at the time the data
    /// reaches it.
    fn begin(&mut self, half: &Half, goal: Rank, asked: &Asked<'_>) {
        self.starts.clear();
        self.below.fill(false);
        self.below[goal.index()] = true;
        self.reach[half.root.index()] = 0;
        let mut start = |rank: Rank, reach: u64| {
            self.starts.push((asked.fabric.node(rank).0, reach));
        };
        start(half.root, 0);
        for edge in &half.edges {
            if edge.to == goal || self.below[edge.from.index()] {
                self.below[edge.to.index()] = true;
                continue;
            }
            let latency = |it: &LinkId| asked.fabric.latency(*it).as_ps();
            let latency: u64 = asked.paths.path(edge.path).iter().map(latency).sum();
            let reach = self.reach[edge.from.index()] + latency + STEP;
            self.reach[edge.to.index()] = reach;
            start(edge.to, reach);
        }
    }

    /// Follows the path back from its end.
    fn found(&self, mut node: NodeId, asked: &Asked<'_>) -> Option<Detour> {
        let (mut links, mut least) = (Vec::new(), u64::MAX);
        while let Some(link) = self.ways.last_arc(node.0).map(LinkId) {
            least = least.min(asked.room(link));
            links.push(link);
            node = asked.fabric.from(link);
        }
        links.reverse();
        Some(Detour { from: asked.fabric.rank(node)?, links, room: least })
    }
}
