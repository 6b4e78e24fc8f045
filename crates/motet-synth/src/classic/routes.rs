//! [`Routes`]: paths between ranks, chosen so that links share the load.
//!
//! The cost of a path is Σ(α + L/b) over its links, for the L bytes of a typical send; that prefers
//! fast links and short paths. Among paths of equal cost the least loaded one is taken, so a
//! leaf–spine fabric uses all its spines. Where links are unequal (WANs), [`Choice::Balanced`] also
//! takes costlier paths once the cheap ones are busy.
//!
//! Paths do not pass through GPUs. If there is no such path, [`Routes::relays`] says which GPUs
//! must forward the data; they store and forward, so each hop is a separate transfer.

use motet_graph::{Dijkstra, Hop, NO_ARC};
use motet_units::{Bytes, LinkId, NodeId, Rank};
use rustc_hash::FxHashMap;

use crate::fabric::{Fabric, Path};
use crate::tree::PathTable;

/// There is no path.
pub(super) const NO_WAY: u64 = u64::MAX;

/// How many paths between two ranks are searched for; after that, the best of them is reused.
const WAYS: u8 = 4;

/// Which of several paths to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// The cheapest on idle links; among equals, the least loaded.
    Cheapest,
    /// The cheapest when it must queue behind everything its links carry already.
    Balanced,
}

/// Paths already found between two ranks.
#[derive(Debug, Default)]
struct Known {
    paths: Vec<u32>,
    asked: u8,
}

/// Finds paths on a fabric and keeps count of each link's load.
#[derive(Debug)]
pub(super) struct Routes<'a> {
    fabric: &'a Fabric,
    table: PathTable,
    /// The paths, by their number in the table.
    paths: Vec<Path>,
    /// Per link, in picoseconds: α + L/b, and L/b alone.
    cost: Vec<u64>,
    busy: Vec<u64>,
    /// The load of each link so far, in picoseconds of transmission time.
    load: Vec<u64>,
    known: FxHashMap<(Rank, Rank, Choice), Known>,
    /// For each rank, the costs of paths to all others that pass through no GPU.
    rows: Vec<Option<Vec<u64>>>,
    /// For each rank, the last link of the path to every node when paths may pass through GPUs.
    through: Vec<Option<Vec<u32>>>,
    /// Paths by (cost, tie-breaker).
    search: Dijkstra<(u64, u64)>,
}

impl<'a> Routes<'a> {
    /// Paths on `fabric` for sends of about `bytes`.
    pub(super) fn new(fabric: &'a Fabric, bytes: Bytes) -> Self {
        let ranks = fabric.rank_count();
        let mut busy = vec![0; fabric.link_count()];
        let mut cost = vec![NO_WAY; fabric.link_count()];
        for link in fabric.links() {
            busy[link.index()] = fabric.busy(*link, bytes).as_ps();
            // At least 1 ps, so that among free links fewer hops are better.
            let latency = fabric.latency(*link).as_ps();
            cost[link.index()] = busy[link.index()].saturating_add(latency).max(1);
        }
        Self {
            fabric,
            table: PathTable::default(),
            paths: Vec::new(),
            cost,
            busy,
            load: vec![0; fabric.link_count()],
            known: FxHashMap::default(),
            rows: vec![None; ranks],
            through: vec![None; ranks],
            search: Dijkstra::new(fabric.node_count()),
        }
    }

    pub(super) const fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    pub(super) fn into_paths(self) -> Vec<Path> {
        self.table.into_paths()
    }

    pub(super) fn links(&self, path: u32) -> &[LinkId] {
        &self.paths[path as usize]
    }

    /// The load of each link, in picoseconds of transmission time.
    pub(super) fn loads(&self) -> &[u64] {
        &self.load
    }

    /// Costs of the paths from `from` to every rank on idle links, through no GPU.
    pub(super) fn row(&mut self, from: Rank) -> &[u64] {
        if self.rows[from.index()].is_none() {
            let row = self.costs_from(from, false);
            self.rows[from.index()] = Some(row);
        }
        self.rows[from.index()].as_deref().unwrap_or(&[])
    }

    /// Costs of the paths from `from` to every rank behind the present load, through GPUs where
    /// there is no other path.
    pub(super) fn loaded_row(&mut self, from: Rank) -> Vec<u64> {
        let mut row = self.costs_from(from, true);
        for (to, cost) in row.iter_mut().enumerate().filter(|it| *it.1 == NO_WAY) {
            let links = self.links_through(from, Rank::from_index(to));
            *cost = links.map_or(NO_WAY, |it| self.behind(&it));
        }
        row
    }

    fn behind(&self, links: &[LinkId]) -> u64 {
        let each = |it: &LinkId| self.cost[it.index()].saturating_add(self.load[it.index()]);
        links.iter().map(each).fold(0, u64::saturating_add)
    }

    fn costs_from(&mut self, from: Rank, loaded: bool) -> Vec<u64> {
        let fabric = self.fabric;
        let (cost, load) = (&self.cost, &self.load);
        let start = fabric.node(from);
        self.search.search([(start.0, (0, 0))], |node| {
            let passes = node == start.0 || fabric.rank(NodeId(node)).is_none();
            let out = if passes { fabric.outgoing(NodeId(node)) } else { &[] };
            out.iter().map(move |link| {
                let extra = if loaded { load[link.index()] } else { 0 };
                let length = cost[link.index()].saturating_add(extra);
                Hop { arc: link.0, to: fabric.to(*link).0, length: (length, 0) }
            })
        });
        fabric.ranks().map(|it| self.search.distance(fabric.node(it).0).0).collect()
    }

    /// A path for `weight` times the typical send; `None` if every path passes through GPUs.
    pub(super) fn path(
        &mut self,
        from: Rank,
        to: Rank,
        weight: u32,
        choice: Choice,
    ) -> Option<u32> {
        let mut known = self.known.remove(&(from, to, choice)).unwrap_or_default();
        if known.asked < WAYS {
            known.asked += 1;
            if let Some(links) = self.links_between(from, to, choice) {
                let number = self.table.number(&links);
                if number as usize == self.paths.len() {
                    self.paths.push(links);
                }
                if !known.paths.contains(&number) {
                    known.paths.push(number);
                }
            }
        }
        let chosen = known.paths.iter().copied().min_by_key(|it| self.fullest(*it));
        self.known.insert((from, to, choice), known);
        if let Some(chosen) = chosen {
            for link in &self.paths[chosen as usize] {
                let more = self.busy[link.index()].saturating_mul(u64::from(weight));
                self.load[link.index()] = self.load[link.index()].saturating_add(more);
            }
        }
        chosen
    }

    /// Adds one typical send to the load of a path's links; the path may pass through GPUs.
    pub(super) fn carry(&mut self, from: Rank, to: Rank) -> Option<()> {
        if self.path(from, to, 1, Choice::Cheapest).is_some() {
            return Some(());
        }
        for hop in self.relays(from, to)?.windows(2) {
            self.path(hop[0], hop[1], 1, Choice::Cheapest)?;
        }
        Some(())
    }

    /// When the busiest link of a path would finish one more send, and the sum of the loads of all
    /// its links.
    fn fullest(&self, path: u32) -> (u64, u64) {
        let after = |it: &LinkId| self.load[it.index()].saturating_add(self.busy[it.index()]);
        let links = &self.paths[path as usize];
        let fullest = links.iter().map(after).max().unwrap_or(0);
        (fullest, links.iter().map(after).fold(0, u64::saturating_add))
    }

    /// A path that passes through no GPU.
    fn links_between(&mut self, from: Rank, to: Rank, choice: Choice) -> Option<Path> {
        let fabric = self.fabric;
        let (start, target) = (fabric.node(from), fabric.node(to));
        let (cost, load) = (&self.cost, &self.load);
        let found = self.search.search_to(target.0, [(start.0, (0, 0))], |node| {
            let passes = |it: NodeId| it == target || fabric.rank(it).is_none();
            let out = fabric.outgoing(NodeId(node)).iter().map(|it| (*it, fabric.to(*it)));
            out.filter(move |(_, to)| passes(*to)).map(move |(link, to)| {
                let (more, queue) = (cost[link.index()], load[link.index()]);
                let length = match choice {
                    Choice::Cheapest => (more, queue),
                    Choice::Balanced => (more.saturating_add(queue), 0),
                };
                Hop { arc: link.0, to: to.0, length }
            })
        });
        found.then(|| self.walk_back(start, target))
    }

    fn walk_back(&self, start: NodeId, end: NodeId) -> Path {
        let mut links = Vec::new();
        let mut at = end;
        while at != start {
            let link = LinkId(self.search.last_arcs()[at.index()]);
            links.push(link);
            at = self.fabric.from(link);
        }
        links.reverse();
        links
    }

    /// The ranks on a path that may pass through GPUs, both ends included.
    pub(super) fn relays(&mut self, from: Rank, to: Rank) -> Option<Vec<Rank>> {
        let links = self.links_through(from, to)?;
        let ranks = links.iter().filter_map(|it| self.fabric.rank(self.fabric.to(*it)));
        Some(std::iter::once(from).chain(ranks).collect())
    }

    /// A path that may pass through GPUs.
    fn links_through(&mut self, from: Rank, to: Rank) -> Option<Path> {
        if self.through[from.index()].is_none() {
            let last = self.search_through(from);
            self.through[from.index()] = Some(last);
        }
        let last = self.through[from.index()].as_ref()?;
        let (start, mut at) = (self.fabric.node(from), self.fabric.node(to));
        let mut links = Vec::new();
        while at != start {
            let link = LinkId(last[at.index()]);
            if link.0 == NO_ARC {
                return None;
            }
            links.push(link);
            at = self.fabric.from(link);
        }
        links.reverse();
        Some(links)
    }

    fn search_through(&mut self, from: Rank) -> Vec<u32> {
        let fabric = self.fabric;
        let (cost, load) = (&self.cost, &self.load);
        self.search.search([(fabric.node(from).0, (0, 0))], |node| {
            fabric.outgoing(NodeId(node)).iter().map(|link| {
                let length = (cost[link.index()], load[link.index()]);
                Hop { arc: link.0, to: fabric.to(*link).0, length }
            })
        });
        self.search.last_arcs().to_vec()
    }
}
