//! [`judge`]: whether what comes of a task is a program that physics allows, or a clear refusal.

use motet_sim::{Discipline, Prepared, Routed, SimError, SimOptions, Simulation, SwitchForwarding};
use motet_synth::{Effort, SynthError, Synthesis, Task, synthesize};
use motet_units::{Duration, Seed};

use crate::cases::Case;

/// Most transfers of a program here: enough for pipelines, few enough for thousands of runs.
const MOST_TRANSFERS: u64 = 4000;

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Program,
    /// With the kind of reason.
    Refused(String),
    Failed(String),
}

impl Verdict {
    pub(crate) const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Makes a program for the task, proves it, and runs it under every discipline.
pub(crate) fn judge(case: &Case) -> Verdict {
    let mut task = Task::new(&case.network, case.goal.clone(), case.size);
    task.most_transfers = MOST_TRANSFERS;
    let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(Seed::new(1)) };
    let made = synthesize(&task, case.method, &effort).and_then(|it| it.prove(&task));
    let made = match made {
        Ok(made) => made,
        Err(error) => return refusal(&error),
    };
    // A fault in one method is a fault, even if `auto` went on with another.
    let faults = made.tried.iter().filter_map(|it| it.why_not.as_ref());
    if let Some(fault) = faults.into_iter().find(|it| it.contains("fault in Motet")) {
        return Verdict::Failed(format!("survived: {fault}"));
    }
    let bound = match task.bound() {
        Ok(bound) => bound.program_time(task.size),
        Err(error) => return Verdict::Failed(format!("a program, but no bound: {error}")),
    };
    match by_discipline(&task, &made, bound) {
        Ok(()) => Verdict::Program,
        Err(why) => Verdict::Failed(why),
    }
}

fn refusal(error: &SynthError) -> Verdict {
    Verdict::Refused(match error {
        SynthError::Impossible(_) => "no path between two ranks".to_owned(),
        SynthError::TooLong => "beyond 213 days at best".to_owned(),
        SynthError::NotTimed { .. } => "beyond 213 days".to_owned(),
        SynthError::NotForMethod { method, why } => format!("{method}: {why}"),
        fault => return Verdict::Failed(fault.to_string()),
    })
}

fn by_discipline(task: &Task<'_>, made: &Synthesis, bound: Duration) -> Result<(), String> {
    let routed = Routed::new(&made.program, task.network, SwitchForwarding::CutThrough)
        .map_err(|it| it.to_string())?;
    let prepared = Prepared::new(&routed);
    for discipline in [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare] {
        let options = SimOptions { discipline, ..SimOptions::default() };
        let outcome = Simulation::new(&prepared, task.size).options(options).run();
        match outcome {
            Ok(outcome) if outcome.time < bound => {
                let (method, time) = (made.method.name(), outcome.time);
                return Err(format!("{method} {discipline:?}: {time} is below the bound, {bound}"));
            }
            // In another order than it was made for a program may take longer than time reaches.
            Ok(_) | Err(SimError::TooLong { .. }) => {}
            Err(error) => return Err(format!("{discipline:?}: {error}")),
        }
    }
    Ok(())
}
