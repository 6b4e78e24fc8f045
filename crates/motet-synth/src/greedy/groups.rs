//! [`Groups`]: ranks that are well joined inside and poorly to the outside.
//!
//! Examples are servers with fast links inside and a few network cards, and datacenters on a WAN. If the links
//! into a group are busy for longer than the links into any one rank, no chunk should enter the group twice.
//! Groups are the parts that remain connected when the ways of the least bandwidth are left out. There may be
//! groups within groups: the two dies of a GPU in a server, say, where a chunk that is sent to both dies wastes
//! the links between GPUs.

use motet_graph::DisjointSets;
use motet_units::{LinkId, Rank};

use super::overlay::Overlay;
use crate::fabric::Fabric;

/// Most levels of groups within groups.
const MOST_LEVELS: usize = 3;

/// Groups at several levels, the largest first; the groups of a level are parts of those of the level before.
/// No two groups have the same number, whatever their level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    levels: Vec<Level>,
    /// Per way: whether it is slower than the ways that connect the groups of the first level inside.
    slow: Vec<bool>,
}

/// A partition of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Level {
    /// Per rank: its group.
    of: Vec<u32>,
    count: usize,
}

impl Groups {
    /// Groups at all levels at which links into them are a bottleneck; none if there is no such level.
    pub(super) fn new(fabric: &Fabric, overlay: &Overlay) -> Self {
        let bits: Vec<u64> = (0..overlay.ways.len())
            .map(|way| {
                let links = overlay.hops(way).iter();
                links.map(|it| fabric.bits_per_s(LinkId(it.link))).min().unwrap_or(0)
            })
            .collect();
        let mut levels = bits.clone();
        levels.sort_unstable();
        levels.dedup();
        // Ways are left out one bandwidth after the other, and each partition with tight groups is kept.
        // If none is tight, the first partition counts all the same if some way's last link is faster than its
        // slowest: data from outside then takes up a port for longer than data from inside would.
        let holds = |way: usize| {
            let last = overlay.hops(way).last();
            last.is_some_and(|it| fabric.bits_per_s(LinkId(it.link)) > bits[way])
        };
        let (mut tight, mut otherwise): (Vec<Level>, Option<Level>) = (Vec::new(), None);
        // The least bandwidth of the ways that connect the groups of the first tight level, and of `otherwise`.
        let (mut first_least, mut other_least) = (0, 0);
        for least in levels.into_iter().skip(1) {
            let found = Level::joined_by(fabric, overlay, |way| bits[way] >= least);
            let known = tight.last().map_or(1, |it| it.count);
            if found.count == known || tight.len() == MOST_LEVELS {
                continue;
            }
            // Single ranks count as groups only where no larger ones are tight.
            let alone = found.count == fabric.rank_count() && !tight.is_empty();
            if !alone && found.is_tight(fabric, overlay) {
                if tight.is_empty() {
                    first_least = least;
                }
                tight.push(found);
            } else if otherwise.is_none() {
                otherwise = Some(found);
                other_least = least;
            }
        }
        if tight.is_empty() && (0..bits.len()).any(holds) {
            tight.extend(otherwise);
            first_least = other_least;
        }
        let slow = bits.iter().map(|it| *it < first_least).collect();
        let mut first = 0;
        for level in &mut tight {
            for group in &mut level.of {
                *group += first;
            }
            first += level.count as u32;
        }
        Self { levels: tight, slow }
    }

    /// The groups of the first level alone.
    pub(super) fn largest(&self) -> Self {
        let levels = self.levels.first().cloned().into_iter().collect();
        Self { levels, slow: self.slow.clone() }
    }

    /// Whether there are groups within groups.
    pub(super) fn are_nested(&self) -> bool {
        self.levels.len() > 1
    }

    /// How many groups the first level has.
    pub(super) fn count(&self) -> usize {
        self.levels.first().map_or(0, |it| it.count)
    }

    /// Whether a way leads to a rank of the same group of the first level, but over links that are scarce
    /// because they lead out of the group.
    pub(super) fn is_detour(&self, way: usize, from: u32, to: u32) -> bool {
        self.slow.get(way).is_some_and(|it| *it) && !self.crosses(from, to)
    }

    /// How many groups all levels have together.
    pub(super) fn total(&self) -> usize {
        self.levels.iter().map(|it| it.count).sum()
    }

    /// The groups that a rank is in.
    pub(super) fn of(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().map(move |it| it.of[rank as usize])
    }

    /// The groups that a way from one rank to another enters, the largest first.
    pub(super) fn entered(&self, from: u32, to: u32) -> impl Iterator<Item = u32> + '_ {
        let enters = move |it: &&Level| it.of[from as usize] != it.of[to as usize];
        self.levels.iter().filter(enters).map(move |it| it.of[to as usize])
    }

    /// Whether a way leads into another group of the first level.
    pub(super) fn crosses(&self, from: u32, to: u32) -> bool {
        self.levels.first().is_some_and(|it| it.of[from as usize] != it.of[to as usize])
    }
}

impl Level {
    /// The partition into ranks that are connected by the ways that count.
    fn joined_by(fabric: &Fabric, overlay: &Overlay, counts: impl Fn(usize) -> bool) -> Self {
        let mut sets = DisjointSets::new(fabric.rank_count());
        for (number, way) in overlay.ways.iter().enumerate() {
            if counts(number) {
                sets.join(way.from as usize, way.to as usize);
            }
        }
        let (of, count) = sets.numbered();
        Self { of, count }
    }

    /// Whether links into a group are a bottleneck: to bring in the data of all ranks outside takes about as
    /// long as any rank needs to receive the data of all others, or longer.
    fn is_tight(&self, fabric: &Fabric, overlay: &Overlay) -> bool {
        let ranks = fabric.rank_count();
        let mut entries: Vec<(u32, u32)> = Vec::new();
        for (number, way) in overlay.ways.iter().enumerate() {
            let group = self.of[way.to as usize];
            if group != self.of[way.from as usize] {
                // The slowest link stands for the way in.
                let links = overlay.hops(number).iter().rev();
                let slowest = links.min_by_key(|it| fabric.bits_per_s(LinkId(it.link)));
                entries.extend(slowest.map(|it| (group, it.link)));
            }
        }
        entries.sort_unstable();
        entries.dedup();
        let mut into = vec![0u64; self.count];
        for (group, link) in entries {
            let into = &mut into[group as usize];
            *into = into.saturating_add(fabric.bits_per_s(LinkId(link)));
        }
        let mut size = vec![0usize; self.count];
        for group in &self.of {
            size[*group as usize] += 1;
        }
        let receives = |rank: Rank| {
            let links = fabric.incoming(fabric.node(rank)).iter();
            (ranks as f64 - 1.0) / links.map(|it| fabric.bits_per_s(*it) as f64).sum::<f64>()
        };
        let one = fabric.ranks().map(receives).fold(0.0, f64::max);
        (0..self.count).any(|it| (ranks - size[it]) as f64 / into[it] as f64 > 0.8 * one)
    }
}
