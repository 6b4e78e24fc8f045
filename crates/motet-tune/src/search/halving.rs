//! [`Halving`]: successive halving, one bracket of Hyperband: which of its points are still in it, and
//! what must be profiled for the next rung.

use super::Ledger;
use super::brackets::{Rung, bracket};
use crate::profile::Request;

pub(super) struct Halving {
    rungs: Vec<Rung>,
    /// The rung that is being run, as an index into `rungs`.
    at: usize,
    /// The points of that rung.
    points: Vec<usize>,
}

impl Halving {
    /// Bracket `s`, still without points.
    pub(super) fn new(s: u32, most: u32, ratio: u32) -> Self {
        Self { rungs: bracket(s, most, ratio), at: 0, points: Vec::new() }
    }

    /// Widens a bracket whose only rung runs each point once (times without noise) to at least so many points.
    pub(super) fn with_at_least(mut self, points: usize) -> Self {
        if let [only] = &mut self.rungs[..]
            && only.iterations == 1
        {
            only.points = only.points.max(points as u32);
        }
        self
    }

    /// How many points the first rung still lacks.
    pub(super) fn lacking(&self) -> usize {
        if self.at > 0 {
            0
        } else {
            (self.rungs[0].points as usize).saturating_sub(self.points.len())
        }
    }

    /// Adds points to the first rung, and returns what is to be profiled for them.
    pub(super) fn add(&mut self, points: &[usize], ledger: &Ledger) -> Vec<Request> {
        self.points.extend_from_slice(points);
        let iterations = self.rungs[0].iterations;
        points.iter().filter_map(|it| ledger.up_to(*it, iterations)).collect()
    }

    /// Ends the first rung with the points that it has, because no more can be found.
    pub(super) fn close(&mut self) {
        self.rungs[0].points = self.points.len() as u32;
    }

    /// Goes up one rung with the best points, and returns what is to be profiled for it; `None` after the last
    /// rung. Points that were run often enough before are not run again.
    pub(super) fn promote(&mut self, ledger: &Ledger) -> Option<Vec<Request>> {
        self.at += 1;
        let rung = *self.rungs.get(self.at)?;
        let mean = |it: usize| ledger.record(it).mean().unwrap_or(f64::INFINITY);
        self.points.retain(|it| !ledger.record(*it).impossible);
        self.points.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)).then(a.cmp(b)));
        self.points.truncate(rung.points as usize);
        Some(self.points.iter().filter_map(|it| ledger.up_to(*it, rung.iterations)).collect())
    }
}
