//! [`run`]: runs one policy through one scenario and records every call.

use motet_nccl::{Algorithm, Protocol};
use motet_net::Tier;

use super::tables::Tables;
use crate::env::{Environment, Observation, PlaceError, Scenario, Truth};
use crate::policy::{Choice, Policy};

/// How often tables are published.
///
/// In a live job a policy does not decide call by call: it publishes a table that all ranks use from an
/// agreed call on. With an epoch of n calls the policy is asked at most once per task in n calls, and learns
/// their outcomes at the end of the epoch. [`Tables`] says how its choices get into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub epoch: u64,
    /// For how many calls of a task a probe stays in use, before the table's standing choice runs again.
    pub lease: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { epoch: 1, lease: 1 }
    }
}

/// An algorithm and a protocol.
pub type Kernel = (Algorithm, Protocol);

/// One call of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub task: usize,
    pub group: usize,
    pub choice: Choice,
    pub truth: Truth,
    /// The true time, in µs, of the action that the policy last believed to be the best for the task.
    pub held: f64,
    /// The kernel that was run, and (`best`) the one that would have been fastest.
    pub ran: Kernel,
    pub best: Kernel,
    /// The worst tier of the communicator.
    pub tier: u8,
}

/// Runs a scenario to its end. `each` sees every call as it is done.
pub fn run(
    policy: &mut dyn Policy,
    scenario: Scenario,
    pace: Pace,
    mut each: impl FnMut(&Record),
) -> Result<(), PlaceError> {
    let mut env = Environment::new(scenario)?;
    let mut tables = Tables::new(pace, env.scenario().tasks.len());
    let mut held: Vec<usize> = vec![0; env.scenario().tasks.len()];
    let mut waiting = Vec::new();
    while !env.is_over() {
        if env.call().is_multiple_of(pace.epoch.max(1)) {
            for (seen, choice, outcome) in waiting.drain(..) {
                policy.learn(&seen, &choice, &outcome);
            }
            tables.end();
        }
        let seen = Observation { lease: pace.lease.max(1), ..env.observe() };
        let choice = seen.settled().unwrap_or_else(|| {
            tables.next(seen.task, || {
                policy.told(env.means());
                policy.choose(&seen)
            })
        });
        if !choice.exploratory {
            held[seen.task] = choice.action;
        }
        let held = env.means().get(held[seen.task]).copied().unwrap_or(0.0);
        let Some(step) = env.step(choice) else { break };
        let kernel = |at: usize| {
            // An unknown action counts as NCCL's default, which always has a kernel.
            let all = &seen.brief.kernels;
            all.get(at).or(all.first()).copied().unwrap_or((Algorithm::Ring, Protocol::Simple))
        };
        each(&Record {
            task: seen.task,
            group: seen.group,
            choice,
            truth: step.truth,
            held,
            ran: kernel(choice.action),
            best: kernel(step.truth.best_action),
            tier: seen.state.topology.worst_tier().map_or(0, Tier::get),
        });
        if seen.settled().is_none() {
            tables.note(seen.task, &choice, &step.outcome);
            waiting.push((seen, choice, step.outcome));
        }
    }
    Ok(())
}
