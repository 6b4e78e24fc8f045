//! [`Draft::prove`]: turns a method's draft into a verified program with its simulated time.
//!
//! A program is verified on the task's network, simulated in its state, and its time held against
//! the bound: a time below it means that the simulator or the bound is wrong, and nobody should see
//! either. If the choice of `auto` fails in any of these, `auto` chooses again without the method that
//! made it.

use motet_collective::{Program, Verified};
use motet_net::Signature;
use motet_sim::{Prepared, Routed, SimError, Simulation, SwitchForwarding};
use motet_units::Duration;

use crate::auto::{Draft, Synthesis, Tried, best};
use crate::effort::Effort;
use crate::fabric::Fabric;
use crate::task::{SynthError, Task};

/// Most ranks for which the bound is worked out for the proof alone. It takes milliseconds there;
/// far beyond, it would take longer than many a method.
const MOST_BOUNDED: u32 = 256;

impl Draft {
    /// Tells the draft the least time that the bound allows, where the caller knows it already.
    #[must_use]
    pub const fn at_least(mut self, least: Duration) -> Self {
        self.least = Some(least);
        self
    }

    /// Verifies the program on the task's network, simulates it in the task's state, and holds its
    /// time against the bound.
    pub fn prove(self, task: &Task<'_>) -> Result<Synthesis, SynthError> {
        let mut draft = self;
        let mut first_error = None;
        loop {
            let error = match draft.check(task) {
                Ok((program, time)) => {
                    let Self { method, explanation, tried, .. } = draft;
                    return Ok(Synthesis { method, program, time, explanation, tried });
                }
                Err(error) => error,
            };
            let Some((seed, most_transfers)) = draft.chosen_with else { return Err(error) };
            let mut tried = draft.tried;
            for it in tried.iter_mut().filter(|it| it.method.name() == draft.method.name()) {
                *it = Tried { method: it.method, time: None, why_not: Some(error.to_string()) };
            }
            // Methods that made a program may win now; those that made none need not be tried again.
            tried.retain(|it| it.why_not.is_some());
            let first_error = first_error.get_or_insert(error);
            let effort = Effort { most_transfers, ..Effort::unlimited(seed) };
            draft = match best(task, &Fabric::new(task)?, &effort, tried) {
                Ok(next) => next,
                Err(_) => return Err(first_error.clone()),
            };
        }
    }

    /// The verified program and its simulated time.
    pub(crate) fn check(
        &self,
        task: &Task<'_>,
    ) -> Result<(Verified<Program>, Duration), SynthError> {
        let method = self.method.name();
        let wrong = |report: String| SynthError::Wrong { method, report };
        let mut builder = self.program.to_builder();
        builder.set_network(Some(Signature::of(task.network)));
        let program = Verified::new(builder.build(), Some(task.network))
            .map_err(|rejected| wrong(rejected.report.to_string()))?;
        let routed = Routed::new(&program, task.network, SwitchForwarding::CutThrough)
            .map_err(|it| wrong(it.to_string()))?;
        let prepared = Prepared::new(&routed);
        let outcome = Simulation::new(&prepared, task.size).state(&task.state).run();
        let time = match outcome {
            Ok(outcome) => outcome.time,
            Err(why @ (SimError::TooLong { .. } | SimError::TooLarge { .. })) => {
                return Err(SynthError::NotTimed { method, why });
            }
            Err(fault) => return Err(wrong(fault.to_string())),
        };
        match self.known_or_bounded(task, &program)? {
            Some(bound) if time < bound => {
                let program = program.name().to_owned();
                Err(SynthError::BelowBound { method, program, time, bound })
            }
            _ => Ok((program, time)),
        }
    }

    /// The least time of the task, where it is known or soon found.
    fn known_or_bounded(
        &self,
        task: &Task<'_>,
        program: &Program,
    ) -> Result<Option<Duration>, SynthError> {
        // The known bound holds only for programs in which GPUs copy and reduce, not switches.
        let known = self.least.filter(|_| !program.uses_switches());
        if known.is_some() || task.goal.ranks() > MOST_BOUNDED {
            return Ok(known);
        }
        let bound = task.bound()?;
        Ok(Some(bound.least(bound.held_against(program), task.size)))
    }
}
