//! [`Exposed`]: attributes the idle time of a stage to causes, along the critical path.
//!
//! A stage may be idle before a compute operation and at the end of the step. The cause is found by walking backwards along the
//! critical path: to the operation that the waiting one waited for longest, what that one had waited for, and so on, until the idle
//! time is covered. Each piece of the path is counted by its kind: a communication under way, a communication that the fabric or
//! its stream held back, or compute of another stage, which is the pipeline bubble. So idle times and compute of a stage add up to the
//! whole step.

use std::collections::BTreeMap;

use motet_units::{Duration, Instant};

use super::run::Run;
use crate::iteration::Iteration;
use crate::layout::Parallelism;

/// The cause of idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A communication under way.
    Transfer(Parallelism),
    /// A communication that was ready but not allowed to start.
    Held(Parallelism),
    /// Compute of another stage.
    Bubble,
    /// The stage had finished the step before others.
    Done,
}

/// The idle time of a stage by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposed(pub BTreeMap<Reason, Duration>);

impl Exposed {
    /// All communication: under way or held.
    #[must_use]
    pub fn communication(&self) -> Duration {
        let of = |it: &Reason| matches!(it, Reason::Transfer(_) | Reason::Held(_));
        self.0.iter().filter(|it| of(it.0)).map(|it| *it.1).sum()
    }

    #[must_use]
    pub fn of(&self, reason: Reason) -> Duration {
        self.0.get(&reason).copied().unwrap_or(Duration::ZERO)
    }

    fn add(&mut self, reason: Reason, from: Instant, to: Instant) {
        if to > from {
            *self.0.entry(reason).or_insert(Duration::ZERO) += to.since(from);
        }
    }
}

impl Run {
    /// The idle time of a stage in this run, by cause.
    #[must_use]
    pub fn exposed(&self, iteration: &Iteration, stage: u32) -> Exposed {
        let mut all = Exposed::default();
        let mut idle = Instant::START;
        let mut last = None;
        for (index, operation) in iteration.operations().iter().enumerate() {
            if operation.stage != stage {
                continue;
            }
            if operation.communication().is_none() {
                let span = self.spans()[index];
                self.explain(iteration, index, (idle, span.start), stage, &mut all);
                idle = span.end;
            }
            let end = self.spans()[index].end;
            if last.is_none_or(|it: usize| self.spans()[it].end <= end) {
                last = Some(index);
            }
        }
        // After the last compute: communication of its own, then idle until the others are done.
        if let Some(last) = last {
            let end = self.spans()[last].end.max(idle);
            if end > idle {
                self.chain(iteration, Some(last), (idle, end), stage, &mut all);
            }
            all.add(Reason::Done, end, Instant::START + self.time());
        }
        all
    }

    /// The idle time before an operation.
    fn explain(
        &self,
        iteration: &Iteration,
        index: usize,
        idle: (Instant, Instant),
        stage: u32,
        all: &mut Exposed,
    ) {
        self.chain(iteration, self.latest(iteration, index), idle, stage, all);
    }

    /// The operation that another one waited for longest.
    fn latest(&self, iteration: &Iteration, index: usize) -> Option<usize> {
        let waits = iteration.waits(index).iter().map(|it| *it as usize);
        waits.max_by_key(|it| (self.spans()[*it].end, *it))
    }

    /// From `idle.1` back to `idle.0`, along what was waited for.
    fn chain(
        &self,
        iteration: &Iteration,
        mut cause: Option<usize>,
        idle: (Instant, Instant),
        stage: u32,
        all: &mut Exposed,
    ) {
        let (from, mut to) = idle;
        while to > from {
            let Some(index) = cause else {
                all.add(Reason::Bubble, from, to);
                return;
            };
            let (operation, span) = (&iteration.operations()[index], self.spans()[index]);
            let (start, ready) = (span.start.max(from), span.ready.max(from));
            match operation.communication() {
                Some(what) => {
                    all.add(Reason::Transfer(what.parallelism), start, to);
                    all.add(Reason::Held(what.parallelism), ready, start.min(to));
                    to = ready.min(to);
                }
                None if operation.stage == stage => return,
                None => {
                    all.add(Reason::Bubble, start, to);
                    to = start.min(to);
                }
            }
            cause = self.latest(iteration, index);
        }
    }
}
