//! [`Mending`]: trees are re-hung where links have become too narrow for them.
//!
//! Trees that were good before a change are nearly good after it. Only those over links that are now
//! slow or gone have to give way, and only with part of their weight: that part leaves the rank below
//! the link hanging from another rank of the tree, over the shortest way that has room. How much room
//! there is depends on how long all may take; that is raised little by little until everything fits,
//! so that the load spreads evenly over what is left.
//!
//! An AllReduce's pair is mended half by half. Nothing is searched for: a change costs microseconds
//! for each tree it touches.

use motet_graph::{Dijkstra, Hop};
use motet_units::{LinkId, NodeId, Rank};

use crate::fabric::Fabric;
use crate::tree::{Edge, PathTable, Tree};

/// What is given as `least` to [`Mending::new`] weighs at least this much, so that small parts can be
/// moved.
const UNITS: u64 = 256;

/// The time is raised by this factor between rounds, and from time to time faster.
const RAISE: f64 = 1.005;
const ROUNDS_AT_ONE_PACE: u32 = 24;
const FASTEST: f64 = 1.2;

/// After so many rounds the time is far beyond anything of use.
const MOST_ROUNDS: u32 = 240;

/// What a step of a tree costs besides the latency of its links, in picoseconds.
const STEP: u64 = 1_000_000;

/// How much longer a way counts at most because it has little room.
const MOST_CROWDED: u64 = 16;

/// A tree, and which way it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Half {
    /// Whether it was found on the fabric turned round, and collects.
    pub(super) collects: bool,
    pub(super) root: Rank,
    pub(super) edges: Vec<Edge>,
}

impl Half {
    pub(super) fn of(tree: &Tree, collects: bool) -> Self {
        Self { collects, root: tree.root, edges: tree.edges.clone() }
    }
}

/// What goes the same ways: one half, or the two of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strand {
    pub(super) weight: u64,
    pub(super) halves: Vec<Half>,
}

/// Strands with what they load on links.
#[derive(Clone, Debug)]
pub(super) struct Mending {
    pub(super) paths: PathTable,
    pub(super) strands: Vec<Strand>,
    load: Vec<u64>,
}

/// Where a rank can hang instead.
struct Detour {
    from: Rank,
    links: Vec<LinkId>,
    room: u64,
}

/// A fabric both ways round.
pub(super) struct Ways<'a> {
    pub(super) forth: &'a Fabric,
    pub(super) back: &'a Fabric,
}

impl Ways<'_> {
    const fn of(&self, half: &Half) -> &Fabric {
        if half.collects { self.back } else { self.forth }
    }
}

impl Mending {
    /// Trees that serve a fabric well. `least` is the weight of which a small part can be moved.
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

    /// What a link carries, in units of weight.
    pub(super) fn load(&self, link: LinkId) -> u64 {
        self.load[link.index()]
    }

    /// How long the busiest link takes, in seconds for a unit of a bit.
    pub(super) fn time(&self, fabric: &Fabric) -> f64 {
        let time = |(load, link): (&u64, usize)| match fabric.bits_per_s(LinkId::from_index(link)) {
            _ if *load == 0 => 0.0,
            0 => f64::INFINITY,
            bits => *load as f64 / bits as f64,
        };
        self.load.iter().zip(0..).map(time).fold(0.0, f64::max)
    }

    /// Fits the trees to a fabric that has changed, where all will take at least `time`; whether that
    /// is possible.
    pub(super) fn mend(&mut self, ways: &Ways<'_>, mut time: f64) -> bool {
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

    /// Moves what it can off links that take longer than `time`.
    fn relieve(&mut self, ways: &Ways<'_>, time: f64, search: &mut Search) {
        for link in (0..self.load.len()).map(LinkId::from_index) {
            let room = room(ways.forth, link, &self.load, time);
            if room >= 0 {
                continue;
            }
            let excess = room.unsigned_abs();
            let load = self.load[link.index()].max(1);
            // Light strands can move as a whole, so that fewer are split.
            let mut order: Vec<usize> = (0..self.strands.len()).collect();
            order.sort_by_key(|it| self.strands[*it].weight);
            for at in order {
                let Strand { weight, halves } = &self.strands[at];
                // Of pairs all give up the same part: one that kept all of its own would collect until
                // the end, and only then spread.
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

    /// Moves a half off a link, with as much weight as is too much and has room elsewhere, and at most
    /// `most`; how much it moved.
    fn move_off(
        &mut self,
        ways: &Ways<'_>,
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
        // What moves moves both ways, so that it need not be split again.
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

    /// The first edge over a link that is sought.
    fn crossing(&self, half: &Half, sought: impl Fn(LinkId) -> bool) -> Option<usize> {
        let crosses = |it: &Edge| self.paths.path(it.path).iter().any(|it| sought(*it));
        half.edges.iter().position(crosses)
    }

    /// Hangs the rank that an edge leads to from another, with as much of `wanted` as has room but not
    /// less than `least`; how much that is.
    fn rehang(
        &mut self,
        ways: &Ways<'_>,
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

/// How much more a link can carry in `time`; below zero, how much too much it carries. What is whole
/// but for the last digits counts as whole.
fn room(fabric: &Fabric, link: LinkId, load: &[u64], time: f64) -> i64 {
    (fabric.bits_per_s(link) as f64 * time + 1e-6) as i64 - load[link.index()] as i64
}

/// Puts an edge in the place of another that leads to the same rank; parents stay first.
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

/// What a detour is asked for.
struct Asked<'a> {
    fabric: &'a Fabric,
    paths: &'a PathTable,
    load: &'a [u64],
    /// The way it goes now.
    old: &'a [LinkId],
    time: f64,
    wanted: u64,
}

impl Asked<'_> {
    /// How much of what is wanted a link can take: all, where it already carries it and that is not
    /// too much.
    fn room(&self, link: LinkId) -> u64 {
        let room = room(self.fabric, link, self.load, self.time);
        if room >= 0 && self.old.contains(&link) {
            return self.wanted;
        }
        u64::try_from(room).unwrap_or(0)
    }
}

/// Finds shortest ways; what it needs is kept between questions.
struct Search {
    reach: Vec<u64>,
    below: Vec<bool>,
    /// Where a way can begin: the ranks that have the data, and when.
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

    /// The shortest way with room from the tree's root to the rank that `edge` leads to: the last
    /// part of it, from the rank that it leaves the tree at.
    fn detour(&mut self, half: &Half, edge: usize, asked: &Asked<'_>) -> Option<Detour> {
        let goal = half.edges[edge].to;
        self.begin(half, goal, asked);
        let hop = |link: &LinkId| {
            let room = asked.room(*link);
            let to = asked.fabric.to(*link);
            // Ways lead through no third rank.
            let ends = asked.fabric.rank(to).is_none_or(|it| it == goal);
            let crowded = asked.wanted.checked_div(room).filter(|_| ends)?.min(MOST_CROWDED);
            let latency = asked.fabric.latency(*link).as_ps();
            Some(Hop { arc: link.0, to: to.0, length: latency + STEP * (1 + crowded) })
        };
        let (starts, end) = (self.starts.iter().copied(), asked.fabric.node(goal));
        let hops = |node: u32| asked.fabric.outgoing(NodeId(node)).iter().filter_map(hop);
        self.ways.search_to(end.0, starts, hops).then(|| self.found(end, asked)).flatten()
    }

    /// All ranks of the tree that do not hang from `goal` have the data, each when it reaches it.
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

    /// Reads the way back from where it ends.
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
