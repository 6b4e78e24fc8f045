//! [`Segments`]: what moves at one rate under fair sharing.
//!
//! A cut-through node forwards data as it arrives, so all legs between two store-and-forward nodes
//! move together: a chain for one transfer, a tree where a switch multicasts or reduces. Such a
//! segment is one flow, which uses all its links from its start to its end.

use motet_graph::{DisjointSets, Rows};

use super::prepared::{NONE, Prepared};

/// The segments of a program, numbered by their first legs.
#[derive(Debug)]
pub(super) struct Segments {
    /// By leg: its segment.
    pub(super) of: Vec<u32>,
    /// The legs of each segment.
    pub(super) legs: Rows,
    /// How many heads must come before segment s starts.
    pub(super) heads: Vec<u32>,
    /// Of each leg: the latency from the segment's start to the leg's end.
    pub(super) latency: Vec<u64>,
}

impl Segments {
    pub(super) fn new(prepared: &Prepared<'_>) -> Self {
        let count = prepared.legs.len();
        let links = prepared.routed.network().links();
        // Legs are numbered upstream first, so one pass joins, and one settles, the segments.
        let mut joined = DisjointSets::new(count);
        let mut latency = vec![0u64; count];
        for (id, leg) in prepared.legs.iter().enumerate() {
            let own = links.get(leg.link as usize).map_or(0, |it| it.spec.latency.as_ps());
            latency[id] = latency[id].saturating_add(own);
            for next in followers(prepared, id as u32) {
                if !prepared.legs[*next as usize].starts_segment {
                    latency[*next as usize] = latency[*next as usize].max(latency[id]);
                    joined.join(id, *next as usize);
                }
            }
        }
        let (of, segments) = joined.numbered();
        Self::collect(prepared, of, segments, latency)
    }

    fn collect(prepared: &Prepared<'_>, of: Vec<u32>, count: usize, latency: Vec<u64>) -> Self {
        let mut heads = vec![0u32; count];
        for (leg, segment) in prepared.legs.iter().zip(&of) {
            if leg.starts_segment {
                let needed =
                    if leg.is_shared { prepared.shared[leg.next as usize].heads } else { 1 };
                heads[*segment as usize] += needed;
            }
        }
        let legs = Rows::group(count, (0..).zip(&of).map(|(leg, it)| (*it as usize, leg)));
        Self { of, legs, heads, latency }
    }

    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn legs_of(&self, segment: u32) -> &[u32] {
        self.legs.row(segment as usize)
    }
}

/// The legs behind a leg.
pub(super) fn followers<'p>(prepared: &'p Prepared<'_>, id: u32) -> &'p [u32] {
    let leg = &prepared.legs[id as usize];
    if leg.is_shared {
        &prepared.shared[leg.next as usize].next
    } else if leg.next == NONE {
        &[]
    } else {
        std::slice::from_ref(&leg.next)
    }
}
