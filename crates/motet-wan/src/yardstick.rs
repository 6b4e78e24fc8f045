//! What would be possible: the bound, and an oracle that makes a new program for every collective
//! and routes it as it likes. Both are found on a sample of the collectives, evenly spread, which
//! the report says.

use motet_collective::Verified;
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::{Effort, Method, Repairer, Task, synthesize};
use motet_units::{Duration, Instant};
use rayon::prelude::*;

use crate::fault;
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::variation::Course;

/// The means over a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yardstick {
    pub sampled: u32,
    pub bound: Duration,
    pub oracle: Duration,
}

/// Measures on `sample` of the collectives. A trace and faults, which go by the clock, are taken
/// as they are at the start.
pub fn measure(scenario: &Scenario<'_>, sample: u32) -> Result<Yardstick, RunError> {
    let sample = sample.clamp(1, scenario.count.max(1));
    let step = (scenario.count / sample).max(1);
    let mut course = Course::new(scenario.network, &scenario.variation, scenario.seed);
    let mut states = Vec::new();
    for index in 0..scenario.count {
        let (state, _) = course.state(index, Instant::START);
        if index % step == 0 && states.len() < sample as usize {
            let mut state = state.clone();
            fault::apply(&scenario.faults, Instant::START, &mut state);
            states.push((index, state));
        }
    }
    let found: Result<Vec<(u64, u64)>, RunError> = states
        .into_par_iter()
        .map(|(index, state)| {
            let asked = &scenario.collectives[index as usize % scenario.collectives.len()];
            let task = Task::new(scenario.network, asked.goal.clone(), asked.size).in_state(state);
            let bound = task.bound()?.program_time(asked.size);
            Ok((bound.as_ps(), best(scenario, &task)?.as_ps()))
        })
        .collect();
    let found = found?;
    let mean = |sum: u128| Duration::from_ps((sum / found.len().max(1) as u128) as u64);
    Ok(Yardstick {
        sampled: found.len() as u32,
        bound: mean(found.iter().map(|it| u128::from(it.0)).sum()),
        oracle: mean(found.iter().map(|it| u128::from(it.1)).sum()),
    })
}

/// The best program for one state: repaired, or made anew where that is better.
fn best(scenario: &Scenario<'_>, task: &Task<'_>) -> Result<Duration, RunError> {
    let effort = Effort::unlimited(scenario.seed);
    let made = synthesize(task, Method::Auto, &effort)?.prove(task)?.time;
    let repaired = Repairer::new(task).and_then(|it| it.repair(&task.state)).ok();
    let repaired = repaired.and_then(|it| Verified::new(it.program, Some(task.network)).ok());
    let time = repaired.and_then(|program| {
        let routed = Routed::new(&program, task.network, SwitchForwarding::CutThrough).ok()?;
        let prepared = Prepared::new(&routed);
        Some(Simulation::new(&prepared, task.size).state(&task.state).run().ok()?.time)
    });
    Ok(time.map_or(made, |it| it.min(made)))
}
