//! [`ExchangePlan`]: which chunks each rank sends to which other over which path, and which sends must come first.
//!
//! A plan is made of [`Leg`]s: consecutive chunks of one sender's input that go from one rank to
//! another. All methods of this module make one; [`super::timing`] finds in which order its legs
//! should go and [`super::emit`] makes the program.

use motet_graph::Rows;
use motet_units::{Duration, LinkId};

use super::demand::Demands;
use super::round::Route;
use super::ways::Ways;
use crate::fabric::{Fabric, Path};
use crate::tree::PathTable;

/// Stands for a leg or an output that is missing.
pub(super) const NONE: u32 = u32::MAX;

/// Consecutive chunks of one input on their way between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Index among the plan's paths.
    pub(super) path: u32,
    /// The leg that brought the chunks to `from`; [`NONE`] if they are its own.
    pub(super) after: u32,
    /// First chunk in the input of the rank that they come from.
    pub(super) input: u32,
    pub(super) chunks: u32,
    /// First chunk in the output of `to`, where they stay; [`NONE`] if they are forwarded.
    pub(super) output: u32,
}

/// Legs, each after the one it waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct ExchangePlan {
    pub(super) paths: Vec<Path>,
    pub(super) legs: Vec<Leg>,
}

impl ExchangePlan {
    /// Routes cut at the ranks they pass through.
    pub(super) fn of_routes(ways: &Ways, demands: &Demands, routes: &[Route]) -> Self {
        let mut paths = PathTable::default();
        let mut legs = Vec::with_capacity(routes.len());
        let mut path: Vec<LinkId> = Vec::new();
        for route in routes {
            let pair = &demands.pairs[route.pair as usize];
            let (mut from, mut after) = (pair.src, NONE);
            for (at, arc) in route.arcs.iter().enumerate() {
                let arc = *arc as usize;
                path.push(ways.link[arc]);
                let to = ways.head[arc];
                if to as usize >= ways.ranks {
                    continue;
                }
                let last = at + 1 == route.arcs.len();
                legs.push(Leg {
                    from,
                    to,
                    path: paths.number(&path),
                    after,
                    input: pair.input + route.base,
                    chunks: route.chunks,
                    output: if last { pair.output + route.base } else { NONE },
                });
                (from, after) = (to, legs.len() as u32 - 1);
                path.clear();
            }
        }
        Self { paths: paths.into_paths(), legs }
    }

    /// The legs that wait for each leg.
    pub(super) fn followers(&self) -> Rows {
        let waits = (0..).zip(&self.legs).filter(|(_, it)| it.after != NONE);
        Rows::group(self.legs.len(), waits.map(|(leg, it)| (it.after as usize, leg)))
    }

    /// How many chunks the bottleneck carries: the link whose chunks take longest at its bandwidth.
    pub(super) fn busiest(&self, fabric: &Fabric) -> u64 {
        let mut chunks = vec![0u64; fabric.link_count()];
        for leg in &self.legs {
            for link in &self.paths[leg.path as usize] {
                chunks[link.index()] += u64::from(leg.chunks);
            }
        }
        let time = |link: &LinkId| chunks[link.index()] as f64 / fabric.bits_per_s(*link) as f64;
        let busiest = fabric.links().iter().max_by(|a, b| time(a).total_cmp(&time(b)));
        busiest.map_or(0, |it| chunks[it.index()])
    }

    /// The greatest latency of a route, from its sender to where it ends.
    pub(super) fn longest(&self, fabric: &Fabric) -> Duration {
        let mut late = vec![0u64; self.legs.len()];
        for (at, leg) in self.legs.iter().enumerate() {
            let path = &self.paths[leg.path as usize];
            let own = path.iter().map(|it| fabric.latency(*it).as_ps());
            let before = if leg.after == NONE { 0 } else { late[leg.after as usize] };
            late[at] = own.fold(before, u64::saturating_add);
        }
        Duration::from_ps(late.into_iter().max().unwrap_or(0))
    }

    /// Merges every `by` chunks into one, for demands cut likewise.
    pub(super) fn coarser(&mut self, by: u32) {
        for leg in &mut self.legs {
            leg.input /= by;
            leg.chunks /= by;
            if leg.output != NONE {
                leg.output /= by;
            }
        }
    }
}
