//! MRACO, corrected: a surrogate model proposes the points of Hyperband's brackets, and convergence ends the
//! search.
//!
//! MRACO is the search of *TuCCL* (Li et al., §III-C). What the paper leaves open or prints wrongly is
//! settled here as follows; [`literal`](super::literal) is the algorithm as it is printed:
//! - **Model.** A Gaussian process ([`Belief`]) in place of the paper's Parzen estimator: the next point is
//!   the one that is expected to gain most, found by looking at all of them. It takes points of all rungs,
//!   each as sure as it was run often. With densities of good and bad points instead, more seeds missed
//!   the best on surfaces where one point in a thousand is good (BENCHMARKS). A quarter of every chunk is drawn at
//!   random, which keeps Hyperband's guarantee; after 400 points all are.
//! - **Brackets.** Hyperband's own, widest first. A bracket's last rung runs its survivors at full
//!   length: that is its elite, confirmed once; what has been run already is not run again. The best
//!   of the very first chunk is confirmed at once, so that there is soon something to rely on.
//! - **Restarts.** Where a new communicator costs time, a chunk comes from few of them: the best
//!   point brings others along that need the same one.
//! - **Convergence** (Eq. 5). After a bracket that gained less than 1% and moved the density of the good
//!   points (the best 15%) by less than 0.1 (Kullback–Leibler, by marginals), both, and not before a floor of
//!   trials. Brackets too small to tell anything are taken together.

use motet_units::{Seed, Stream};

use super::belief::{self, Belief, MOST_OBSERVED};
use super::brackets::most_rungs;
use super::density::{divergence, marginals};
use super::gaussian::Kernel;
use super::halving::Halving;
use super::{Ledger, Settings, Strategy, random};
use crate::profile::Request;
use crate::space::Space;

/// Points proposed from one look at the model; they are profiled together.
const CHUNK: usize = 8;
/// One point in so many of a chunk is drawn at random.
const RANDOM: usize = 4;
/// Points of a chunk under one communicator, where restarts cost time.
const TOGETHER: usize = 4;
/// The least number of trials from one check of convergence to the next.
const APART: u32 = 16;
/// The share of profiled points that count as good: the best of them.
const GOOD: f64 = 0.15;
/// Convergence (Eq. 5): the search ends when the best time has improved by less than this share, and the density of
/// good points has moved by less than this divergence.
const LEAST_GAIN: f64 = 0.01;
const LEAST_CHANGE: f64 = 0.1;

pub(super) struct Mraco {
    most: u32,
    ratio: u32,
    /// Trials before which the search does not end.
    floor: u32,
    /// How many points of a chunk have one communicator: one, if restarts cost nothing.
    together: usize,
    stream: Stream,
    kernel: Kernel,
    /// How many points must have run for the kernel to be fitted again.
    next_fit: usize,
    running: Halving,
    s: u32,
    /// Whether the best of the first chunk has been run at full length.
    has_first: bool,
    before: Option<Earlier>,
}

/// What was known at the last check of convergence.
struct Earlier {
    trials: u32,
    best: f64,
    /// The density of good points in each dimension.
    good: Vec<Vec<f64>>,
}

impl Mraco {
    pub(super) fn new(space: &Space, settings: &Settings) -> Self {
        let (most, ratio) = (settings.most_iterations.max(1), settings.ratio.max(2));
        let s = most_rungs(most, ratio);
        Self {
            most,
            ratio,
            floor: settings.least_trials,
            together: if settings.restart.is_zero() { 1 } else { TOGETHER },
            stream: Seed::new(settings.seed).stream("mraco"),
            kernel: Kernel::new(space, most > 1),
            next_fit: 0,
            running: Halving::new(s, most, ratio).with_at_least(CHUNK),
            s,
            has_first: false,
            before: None,
        }
    }

    /// New points for the running bracket.
    fn propose(&mut self, space: &Space, ledger: &Ledger, count: usize) -> Vec<usize> {
        let startup = 2 * (space.dimensions().len() + 1);
        if ledger.profiled().len() < startup {
            return self.draw(space, ledger, count.min(startup));
        }
        let count = count.min(CHUNK);
        let Some(mut belief) = self.belief(space, ledger) else {
            return self.draw(space, ledger, count);
        };
        let mut proposed = self.draw(space, ledger, count / RANDOM);
        let mut open: Vec<bool> = (0..space.len()).map(|it| ledger.is_new(it)).collect();
        proposed.iter().for_each(|it| open[*it] = false);
        let mut left = 0_usize;
        while proposed.len() < count {
            let group = proposed.last().filter(|_| left > 0).map(|it| space.group(*it));
            let best =
                best(space, &belief, &open, group).or_else(|| best(space, &belief, &open, None));
            let Some(best) = best else { break };
            left = left.checked_sub(1).unwrap_or(self.together - 1);
            open[best] = false;
            belief.suppose(space, best);
            proposed.push(best);
        }
        proposed
    }

    /// The surrogate model; `None` if no point has run so far, or so many have that the model would be slow.
    fn belief(&mut self, space: &Space, ledger: &Ledger) -> Option<Belief> {
        let (running, reference) =
            belief::running(ledger).filter(|it| it.0.len() < MOST_OBSERVED)?;
        if running.len() >= self.next_fit {
            let sweeps = if self.next_fit == 0 { 3 } else { 1 };
            let observed = belief::pooled(ledger, reference);
            belief::fit(&mut self.kernel, space, &observed, reference, sweeps);
            self.next_fit = running.len() + running.len() / 8 + 4;
        }
        Belief::new(space, ledger, &self.kernel)
    }

    /// Random points; up to `together` of them under each communicator drawn.
    fn draw(&mut self, space: &Space, ledger: &Ledger, count: usize) -> Vec<usize> {
        let mut drawn = Vec::new();
        for first in random::draw(&mut self.stream, ledger, space, count) {
            if drawn.len() < count && !drawn.contains(&first) {
                let group = space.group(first);
                let others = random::draw(&mut self.stream, ledger, space, space.len());
                let others = others.into_iter().filter(|it| space.group(*it) == group);
                let others = others.filter(|it| *it != first && !drawn.contains(it));
                let more = (count - drawn.len()).min(self.together) - 1;
                let others: Vec<usize> = others.take(more).collect();
                drawn.push(first);
                drawn.extend(others);
            }
        }
        drawn
    }

    /// Whether the bracket that has ended was the last.
    fn has_converged(&mut self, space: &Space, ledger: &Ledger) -> bool {
        let trials = ledger.cost().trials;
        let since = trials - self.before.as_ref().map_or(0, |it| it.trials);
        if since < APART {
            return false;
        }
        let best = ledger.best_at(self.most).and_then(|it| ledger.record(it).mean());
        let best = best.unwrap_or(f64::INFINITY);
        let good = marginals(space, &good(ledger));
        let converged = self.before.as_ref().is_some_and(|it| {
            best > it.best * (1.0 - LEAST_GAIN) && divergence(&good, &it.good) < LEAST_CHANGE
        });
        self.before = Some(Earlier { trials, best, good });
        converged && trials >= self.floor
    }
}

/// The open point with the largest expected improvement, in one restart group if one is given.
fn best(space: &Space, belief: &Belief, open: &[bool], group: Option<u32>) -> Option<usize> {
    let of_group = |it: &usize| group.is_none_or(|group| space.group(*it) == group);
    let points = (0..open.len()).filter(|it| open[*it]).filter(of_group);
    let gains = points.map(|it| (it, belief.gain(it)));
    gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|it| it.0)
}

/// The good points ([`GOOD`]), best first.
fn good(ledger: &Ledger) -> Vec<usize> {
    let mean = |it: usize| ledger.record(it).mean().unwrap_or(f64::INFINITY);
    let mut ranked = ledger.profiled().to_vec();
    ranked.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)).then(a.cmp(b)));
    let running = ranked.iter().filter(|it| !ledger.record(**it).impossible).count();
    ranked.truncate(((ranked.len() as f64 * GOOD).ceil() as usize).min(running));
    ranked
}

impl Strategy for Mraco {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        if !self.has_first && !ledger.profiled().is_empty() {
            self.has_first = true;
            let first = good(ledger).first().and_then(|it| ledger.up_to(*it, self.most));
            if let Some(first) = first {
                return vec![first];
            }
        }
        loop {
            let lacking = self.running.lacking();
            let requests = if lacking > 0 {
                let points = self.propose(space, ledger, lacking);
                let requests = self.running.add(&points, ledger);
                if points.is_empty() {
                    self.running.close();
                }
                requests
            } else if let Some(requests) = self.running.promote(ledger) {
                requests
            } else {
                let all = ledger.profiled().len() == space.len();
                if self.has_converged(space, ledger) || all {
                    return Vec::new();
                }
                self.s = self.s.checked_sub(1).unwrap_or(most_rungs(self.most, self.ratio));
                self.running = Halving::new(self.s, self.most, self.ratio).with_at_least(CHUNK);
                Vec::new()
            };
            if !requests.is_empty() {
                return requests;
            }
        }
    }
}
