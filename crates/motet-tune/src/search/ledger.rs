//! [`Ledger`]: everything that a search has profiled, what is known of every point from it, and
//! what it has cost.

use motet_units::Duration;
use serde::{Deserialize, Serialize};

use crate::profile::Request;
use crate::space::Space;

/// One profile as it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub request: Request,
    /// The time of its iterations together, in picoseconds; `None` if the point cannot run.
    pub total_ps: Option<u64>,
}

impl Trial {
    /// The mean of its iterations, in picoseconds.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        Some(self.total_ps? as f64 / f64::from(self.request.iterations.max(1)))
    }
}

/// All iterations of one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub iterations: u32,
    pub total: Duration,
    /// Whether the point turned out not to run.
    pub impossible: bool,
}

impl Record {
    /// The mean of its iterations, in picoseconds, if there are any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.iterations > 0).then(|| self.total.as_ps() as f64 / f64::from(self.iterations))
    }
}

/// What a search has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// How many profiles were asked for.
    pub trials: u32,
    /// The iterations of all profiles together.
    pub iterations: u64,
    /// The time of all these iterations.
    pub time: Duration,
    /// How often a communicator was made.
    pub restarts: u32,
}

/// What has been profiled.
#[derive(Clone, Debug)]
pub struct Ledger {
    records: Vec<Record>,
    /// Points with a record, in the order in which they were first profiled.
    profiled: Vec<usize>,
    batches: Vec<Vec<Trial>>,
    cost: Cost,
    /// The group of points whose communicator exists now.
    group: Option<u32>,
}

impl Ledger {
    pub(super) fn new(points: usize) -> Self {
        Self {
            records: vec![Record::default(); points],
            profiled: Vec::new(),
            batches: Vec::new(),
            cost: Cost::default(),
            group: None,
        }
    }

    #[must_use]
    pub fn record(&self, point: usize) -> Record {
        self.records[point]
    }

    /// Points that have been profiled, in the order of their first time.
    #[must_use]
    pub fn profiled(&self) -> &[usize] {
        &self.profiled
    }

    /// Whether the point has never been profiled.
    #[must_use]
    pub fn is_new(&self, point: usize) -> bool {
        let record = self.records[point];
        record.iterations == 0 && !record.impossible
    }

    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// The group of points whose communicator exists now: they need no restart.
    #[must_use]
    pub const fn group(&self) -> Option<u32> {
        self.group
    }

    /// Every batch so far.
    #[must_use]
    pub fn batches(&self) -> &[Vec<Trial>] {
        &self.batches
    }

    /// The last batch.
    #[must_use]
    pub fn last(&self) -> &[Trial] {
        self.batches.last().map_or(&[], Vec::as_slice)
    }

    /// As many iterations more as bring the point to `iterations`, if any are missing.
    #[must_use]
    pub fn up_to(&self, point: usize, iterations: u32) -> Option<Request> {
        let record = self.records[point];
        let missing = iterations.saturating_sub(record.iterations);
        (missing > 0 && !record.impossible).then_some(Request {
            point,
            iterations: missing,
            before: record.iterations,
        })
    }

    /// A request for this many more iterations, however many have been run already.
    #[must_use]
    pub fn more(&self, point: usize, iterations: u32) -> Request {
        Request { point, iterations, before: self.records[point].iterations }
    }

    /// The best mean among the points that were run most often.
    #[must_use]
    pub fn incumbent(&self) -> Option<usize> {
        let most = self.records.iter().map(|it| it.iterations).max().filter(|it| *it > 0)?;
        self.best_at(most)
    }

    /// The best mean among the points that were run at least so often.
    #[must_use]
    pub fn best_at(&self, iterations: u32) -> Option<usize> {
        let enough = |it: &&usize| self.records[**it].iterations >= iterations.max(1);
        let mean = |it: usize| self.records[it].mean().unwrap_or(f64::INFINITY);
        let points = self.profiled.iter().filter(enough).copied();
        points.min_by(|a, b| mean(*a).total_cmp(&mean(*b)).then(a.cmp(b)))
    }

    /// Puts requests into the order that needs the fewest restarts.
    pub(super) fn arrange(&self, space: &Space, requests: &mut [Request]) {
        requests.sort_by_key(|it| {
            let group = space.group(it.point);
            (Some(group) != self.group, group, it.point)
        });
    }

    /// Enters a batch.
    pub(super) fn enter(&mut self, space: &Space, batch: Vec<Trial>) {
        for trial in &batch {
            let Request { point, iterations, .. } = trial.request;
            if self.is_new(point) {
                self.profiled.push(point);
            }
            let group = Some(space.group(point));
            self.cost.restarts += u32::from(group != self.group);
            self.group = group;
            self.cost.trials += 1;
            let record = &mut self.records[point];
            match trial.total_ps.map(Duration::from_ps) {
                Some(total) => {
                    record.iterations = record.iterations.saturating_add(iterations);
                    record.total += total;
                    self.cost.iterations += u64::from(iterations);
                    self.cost.time += total;
                }
                None => record.impossible = true,
            }
        }
        self.batches.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Dimension;

    fn space() -> Space {
        let dimensions = vec![
            Dimension::categorical("a", 2),
            Dimension::logarithmic("b", [1, 2, 4]).with_restarts(),
        ];
        Space::new(dimensions, |_| true).unwrap()
    }

    fn trial(request: Request, total_ps: Option<u64>) -> Trial {
        Trial { request, total_ps }
    }

    #[test]
    fn points_and_costs_add_up() {
        let (space, mut ledger) = (space(), Ledger::new(6));
        assert_eq!(ledger.incumbent(), None);
        let mut requests: Vec<Request> = (0..6).map(|it| ledger.more(it, 3)).collect();
        ledger.arrange(&space, &mut requests);
        let order: Vec<usize> = requests.iter().map(|it| it.point).collect();
        assert_eq!(order, [0, 3, 1, 4, 2, 5]);
        let batch = requests.iter().map(|it| trial(*it, (it.point != 4).then_some(300)));
        ledger.enter(&space, batch.collect());
        let cost = Cost { trials: 6, iterations: 15, time: Duration::from_ps(1500), restarts: 3 };
        assert_eq!(ledger.cost(), cost);
        assert!(ledger.record(4).impossible && ledger.up_to(4, 9).is_none());
        let more = ledger.up_to(2, 9).unwrap();
        assert_eq!(more, Request { point: 2, iterations: 6, before: 3 });
        ledger.enter(&space, vec![trial(more, Some(1000))]);
        assert_eq!(ledger.cost().restarts, 3, "the communicator was still up");
        assert_eq!((ledger.incumbent(), ledger.best_at(3)), (Some(2), Some(0)));
        assert_eq!(ledger.up_to(2, 9), None);
        assert_eq!(ledger.last()[0].mean(), Some(1000.0 / 6.0));
    }
}
