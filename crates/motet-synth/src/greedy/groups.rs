//! [`Groups`]: ranks that are well joined inside and poorly to the outside.
//!
//! Servers with fast links inside and a few network cards, datacenters on a WAN. If what must
//! come into a group from outside takes longer than what any one rank must receive, nothing may
//! come in twice. Groups are the parts that remain together when the ways of the least bandwidth
//! are left out.

use motet_graph::DisjointSets;
use motet_units::{LinkId, Rank};

use super::overlay::Overlay;
use crate::fabric::Fabric;

pub(super) const NO_GROUP: u32 = u32::MAX;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// Per rank; empty if there are none.
    of: Vec<u32>,
    count: usize,
}

impl Groups {
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
        // Leaving out one more kind of ways at a time: the first parts that are tight are kept.
        // A slow way holds the port it enters by for as long as it takes: then parts count even
        // where they are not tight.
        let holds = |way: usize| {
            let last = overlay.hops(way).last();
            last.is_some_and(|it| fabric.bits_per_s(LinkId(it.link)) > bits[way])
        };
        let mut otherwise = Self::default();
        for least in levels.into_iter().skip(1) {
            let found = Self::joined_by(fabric, overlay, |way| bits[way] >= least);
            if found.count > 1 && found.is_tight(fabric, overlay) {
                return found;
            }
            if found.count > 1 && otherwise.count == 0 {
                otherwise = found;
            }
        }
        if (0..bits.len()).any(holds) { otherwise } else { Self::default() }
    }

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

    /// Whether coming into the groups takes longest.
    fn is_tight(&self, fabric: &Fabric, overlay: &Overlay) -> bool {
        let ranks = fabric.rank_count();
        let mut entries: Vec<(u32, u32)> = Vec::new();
        for (number, way) in overlay.ways.iter().enumerate() {
            if let Some(group) = self.entered(way.from, way.to) {
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

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn of(&self, rank: u32) -> u32 {
        self.of.get(rank as usize).copied().unwrap_or(NO_GROUP)
    }

    /// The group that a way from one rank to another enters, if it enters one.
    pub(super) fn entered(&self, from: u32, to: u32) -> Option<u32> {
        let group = self.of(to);
        (group != NO_GROUP && group != self.of(from)).then_some(group)
    }
}
