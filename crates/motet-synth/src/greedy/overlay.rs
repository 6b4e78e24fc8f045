//! [`Overlay`]: the ways from rank to rank that the matching chooses from.
//!
//! A way is a path through no third rank. Every direct link is one. Through switches there is a way for each
//! port that data can leave a rank by and each port that it can enter another by, up to a few, and for some
//! of the equally long routes between those ports. On a large switched network a rank keeps only some of the
//! others as partners, at distances 1, 2, 4, 8, … among those that are equally far from it: a good matching
//! needs many chunks to choose from, not many partners.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_graph::Rows;
use motet_units::{Bytes, LinkId};

use crate::fabric::{Fabric, Path};

/// The most ways from one rank to another that start on the same link.
const MOST_ENTRIES: usize = 4;
/// How many times other routes through the devices between two ranks are searched for.
const MOST_ROUTES: usize = 4;
/// With more ways than about this many, ranks keep only some partners.
const MOST_WAYS: usize = 1 << 15;
/// If more partners than this are equally far from a rank (four times as many if they are the nearest), only
/// some are kept.
const PARTNERS: usize = 8;

/// One way: a path from a rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverlayEdge {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its hops: `hops` many, from the index `first` on.
    first: u32,
    hops: u32,
}

/// One link of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) link: u32,
    /// The latency from the start of the way until the first byte gets here, in picoseconds.
    pub(super) head: u64,
    pub(super) latency: u64,
}

/// All ways that a matching may use.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) ways: Vec<OverlayEdge>,
    hops: Vec<Hop>,
    /// Per link: the ways that begin with it.
    of_link: Rows,
}

impl Overlay {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let ports = |it| fabric.outgoing(fabric.node(it)).iter();
        let switched = |it: &&LinkId| fabric.rank(fabric.to(**it)).is_none();
        let count: usize = fabric.ranks().map(|it| ports(it).filter(switched).count()).sum();
        let all_partners = count.saturating_mul(fabric.rank_count()) <= MOST_WAYS;
        let mut found: Vec<(u32, u32, Path)> = Vec::new();
        let mut through = Through::new(fabric);
        for rank in fabric.ranks() {
            for link in ports(rank) {
                if let Some(to) = fabric.rank(fabric.to(*link)).filter(|it| *it != rank) {
                    found.push((rank.0, to.0, vec![*link]));
                }
            }
            let links: Vec<LinkId> = ports(rank).filter(switched).copied().collect();
            through.add_ways(rank.index(), &links, all_partners, &mut found);
        }
        Self::of(fabric, found)
    }

    fn of(fabric: &Fabric, found: Vec<(u32, u32, Path)>) -> Self {
        let mut ways = Vec::with_capacity(found.len());
        let mut hops = Vec::with_capacity(found.len());
        for (from, to, path) in &found {
            let first = hops.len() as u32;
            let mut head = 0;
            for link in path {
                let latency = fabric.latency(*link).as_ps();
                hops.push(Hop { link: link.0, head, latency });
                head = u64::saturating_add(head, latency);
            }
            ways.push(OverlayEdge { from: *from, to: *to, first, hops: path.len() as u32 });
        }
        let first_links = (0..).zip(&found).map(|(way, it)| (it.2[0].index(), way));
        let of_link = Rows::group(fabric.link_count(), first_links);
        Self { ways, hops, of_link }
    }

    /// Whether some way has several links.
    pub(super) fn passes_switches(&self) -> bool {
        self.hops.len() > self.ways.len()
    }

    pub(super) fn hops(&self, way: usize) -> &[Hop] {
        let way = &self.ways[way];
        &self.hops[way.first as usize..][..way.hops as usize]
    }

    /// The ways that begin with a link.
    pub(super) fn of_link(&self, link: usize) -> &[u32] {
        self.of_link.row(link)
    }

    pub(super) fn path(&self, way: usize) -> Path {
        self.hops(way).iter().map(|it| LinkId(it.link)).collect()
    }

    /// The latency of a way in all.
    pub(super) fn latency(&self, way: usize) -> u64 {
        self.hops(way).last().map_or(0, |it| it.head.saturating_add(it.latency))
    }

    /// How long `bytes` take over a way that nothing else uses.
    pub(super) fn alone(&self, fabric: &Fabric, way: usize, bytes: Bytes) -> u64 {
        let hops = self.hops(way);
        let busy = hops.iter().map(|it| fabric.busy(LinkId(it.link), bytes).as_ps()).max();
        self.latency(way).saturating_add(busy.unwrap_or(0))
    }
}

/// The search for ways through devices that are no ranks.
struct Through<'a> {
    fabric: &'a Fabric,
    /// Per node, in the last search: the link by which it was reached.
    reached: Vec<Option<LinkId>>,
    /// The nodes reached in the last search.
    touched: Vec<usize>,
    /// Per link: how many ways of the rank at hand use it.
    used: Vec<u32>,
}

/// A rank that a search has reached.
struct Entry {
    to: u32,
    latency: u64,
    /// The link by which it was reached.
    last: LinkId,
}

impl<'a> Through<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let reached = vec![None; fabric.node_count()];
        Self { fabric, reached, touched: Vec::new(), used: vec![0; fabric.link_count()] }
    }

    /// Adds the ways of a rank that begin with any of `links` to `found`.
    fn add_ways(
        &mut self,
        rank: usize,
        links: &[LinkId],
        all_partners: bool,
        found: &mut Vec<(u32, u32, Path)>,
    ) {
        let mut near = vec![u64::MAX; self.fabric.rank_count()];
        if !all_partners {
            for link in links {
                for entry in self.search(rank, *link) {
                    let near = &mut near[entry.to as usize];
                    *near = (*near).min(entry.latency);
                }
                self.forget();
            }
        }
        let start = found.len();
        self.used.fill(0);
        let rounds = if all_partners { MOST_ROUTES } else { 1 };
        for link in links {
            for _ in 0..rounds {
                let mut entries = self.search(rank, *link);
                if !all_partners {
                    keep_some(rank, &near, &mut entries);
                }
                let before = found.len();
                for entry in &entries {
                    let path = self.path(*link, entry.last);
                    path.iter().for_each(|it| self.used[it.index()] += 1);
                    if !found[start..before].iter().any(|it| it.2 == path) {
                        found.push((rank as u32, entry.to, path));
                    }
                }
                self.forget();
                if found.len() == before {
                    break;
                }
            }
        }
        found[start..].sort_by_key(|it| it.1);
    }

    /// The path that the last search found from one link to another.
    fn path(&self, first: LinkId, last: LinkId) -> Path {
        let mut path = vec![last];
        let mut node = self.fabric.from(last);
        while let Some(by) = self.reached[node.index()] {
            path.push(by);
            if by == first {
                break;
            }
            node = self.fabric.from(by);
        }
        path.reverse();
        path
    }

    /// Clears the last search.
    fn forget(&mut self) {
        for node in self.touched.drain(..) {
            self.reached[node] = None;
        }
    }

    /// Searches the ranks that can be reached over `link`, in the order of latency. Of equally long routes it
    /// prefers links that the rank's ways use least; ties are broken by a number that differs from rank to
    /// rank, so that parallel switches are all used.
    ///
    /// Not [`motet_graph::Dijkstra`], which visits equally far nodes by number and each once: here the order among
    /// equals is the point, and a rank is entered by several last links.
    fn search(&mut self, rank: usize, link: LinkId) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut entered = vec![0u8; self.fabric.rank_count()];
        let mut queue = BinaryHeap::new();
        let mix = |link: LinkId| (link.0 ^ (rank as u32)).wrapping_mul(0x9e37_79b9);
        queue.push(Reverse((self.fabric.latency(link).as_ps(), 0, 0, link)));
        while let Some(Reverse((latency, _, _, by))) = queue.pop() {
            let node = self.fabric.to(by);
            if let Some(to) = self.fabric.rank(node) {
                let times = &mut entered[to.index()];
                if to.index() != rank && (*times as usize) < MOST_ENTRIES {
                    *times += 1;
                    entries.push(Entry { to: to.0, latency, last: by });
                }
                continue;
            }
            if self.reached[node.index()].is_some() {
                continue;
            }
            self.reached[node.index()] = Some(by);
            self.touched.push(node.index());
            for next in self.fabric.outgoing(node) {
                let latency = latency.saturating_add(self.fabric.latency(*next).as_ps());
                queue.push(Reverse((latency, self.used[next.index()], mix(*next), *next)));
            }
        }
        entries
    }
}

/// Keeps some of a rank's partners on a large network. Where many are equally far, these are the ones 1, 2,
/// 4, … places after the rank. Places are counted in multiples of the size of the rank's nearest group (a
/// server, say), so that ranks at the same place in their groups become partners. `near` is the latency to
/// every rank by the best port; entries by ports that take more than twice that are dropped.
fn keep_some(rank: usize, near: &[u64], entries: &mut Vec<Entry>) {
    let ranks = near.len();
    entries.retain(|it| it.latency <= near[it.to as usize].saturating_mul(2));
    let nearest = near.iter().min().copied().unwrap_or(0);
    let group = near.iter().filter(|it| **it == nearest).count() + 1;
    let step = if group < ranks { group } else { 1 };
    let mut latencies: Vec<u64> = entries.iter().map(|it| it.latency).collect();
    latencies.sort_unstable();
    let as_far = |latency: u64| {
        let before = latencies.partition_point(|it| *it < latency);
        latencies.partition_point(|it| *it <= latency) - before
    };
    entries.retain(|it| {
        let apart = (it.to as usize + ranks - rank) % ranks;
        let few = as_far(it.latency) <= if it.latency == nearest { 4 } else { 1 } * PARTNERS;
        few || (apart.is_multiple_of(step) && (apart / step).is_power_of_two())
    });
}
