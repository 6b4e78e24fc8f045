//! [`Segments`]: what moves at one rate under fair sharing.
//!
//! Behind a node that cuts through, data goes on as it comes; so all legs between two nodes that
//! store and forward move together: a chain for one transfer, a tree where a switch multicasts or
//! reduces. Such a segment is one flow, which uses all its links from its start to its end.

use super::prepared::{NONE, Prepared};

/// The segments of a program, numbered by their first legs.
#[derive(Debug)]
pub(super) struct Segments {
    /// Of each leg.
    pub(super) of: Vec<u32>,
    /// The legs of segment s: `legs[starts[s]..starts[s + 1]]`.
    pub(super) starts: Vec<u32>,
    pub(super) legs: Vec<u32>,
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
        let mut parent: Vec<u32> = (0..count as u32).collect();
        let mut latency = vec![0u64; count];
        for (id, leg) in prepared.legs.iter().enumerate() {
            let own = links.get(leg.link as usize).map_or(0, |it| it.spec.latency.as_ps());
            latency[id] = latency[id].saturating_add(own);
            for next in followers(prepared, id as u32) {
                if !prepared.legs[*next as usize].starts_segment {
                    latency[*next as usize] = latency[*next as usize].max(latency[id]);
                    join(&mut parent, id as u32, *next);
                }
            }
        }
        let mut of = vec![NONE; count];
        let mut segments = 0;
        for id in 0..count as u32 {
            let root = find(&mut parent, id) as usize;
            if of[root] == NONE {
                of[root] = segments;
                segments += 1;
            }
            of[id as usize] = of[root];
        }
        Self::collect(prepared, of, segments as usize, latency)
    }

    fn collect(prepared: &Prepared<'_>, of: Vec<u32>, count: usize, latency: Vec<u64>) -> Self {
        let mut starts = vec![0u32; count + 1];
        let mut heads = vec![0u32; count];
        for (leg, segment) in prepared.legs.iter().zip(&of) {
            starts[*segment as usize + 1] += 1;
            if leg.starts_segment {
                let needed =
                    if leg.is_shared { prepared.shared[leg.next as usize].heads } else { 1 };
                heads[*segment as usize] += needed;
            }
        }
        for segment in 0..count {
            starts[segment + 1] += starts[segment];
        }
        let mut fill = starts.clone();
        let mut legs = vec![0u32; of.len()];
        for (id, segment) in of.iter().enumerate() {
            let slot = &mut fill[*segment as usize];
            legs[*slot as usize] = id as u32;
            *slot += 1;
        }
        Self { of, starts, legs, heads, latency }
    }

    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn legs_of(&self, segment: u32) -> &[u32] {
        let segment = segment as usize;
        &self.legs[self.starts[segment] as usize..self.starts[segment + 1] as usize]
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

fn find(parent: &mut [u32], mut id: u32) -> u32 {
    while parent[id as usize] != id {
        // Halving the way keeps later searches short.
        parent[id as usize] = parent[parent[id as usize] as usize];
        id = parent[id as usize];
    }
    id
}

/// The lower id becomes the root.
fn join(parent: &mut [u32], a: u32, b: u32) {
    let (a, b) = (find(parent, a), find(parent, b));
    parent[a.max(b) as usize] = a.min(b);
}
