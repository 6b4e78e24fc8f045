//! [`Environment`]: runs a scenario one call at a time: observe, act, get the outcome.
//!
//! A policy sees an [`Observation`], which contains neither rank-dependent values nor the hidden load and model error. The
//! [`Outcome`] of a call is measured with noise. The [`Truth`] beside it is for evaluation, the oracle and training, not for
//! policies.

use std::sync::Arc;

use motet_nccl::NcclTerms;
use motet_units::{Duration, Stream};
use rand::RngExt;

use super::place::{Brief, PlaceError};
use super::scenario::{Scenario, Task};
use crate::action::Action;
use crate::gate::{Experts, Gate, Verdict, gate};
use crate::policy::Choice;
use crate::reward::{Outcome, SMS};
use crate::state::{CallState, LastKnobs, Rhythm, Scheduler, State};
use crate::trigger::Trigger;

/// What is known before a call, the same on all ranks.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The number of the call in its scenario.
    pub call: u64,
    /// The number of its task in the scenario, for policies that keep state per task.
    pub task: usize,
    /// The number of its communicator.
    pub group: usize,
    pub state: State,
    pub gate: Gate,
    /// The action space, and what the model of plans says of each action.
    pub brief: Arc<Brief>,
    /// The terms of the communicator's model without load.
    pub terms: NcclTerms,
    /// For how many calls of the task a probe stays in use: 1 if every call is decided separately.
    pub lease: u32,
}

impl Observation {
    /// The choice, if the gates decide the call; policies are then not asked.
    #[must_use]
    pub fn settled(&self) -> Option<Choice> {
        let action = match self.gate.verdict {
            Verdict::Policy(_) => return None,
            Verdict::LibraryDefault => 0,
            Verdict::Passthrough => self.brief.space.index(&Action::PASSTHROUGH).unwrap_or(0),
        };
        Some(Choice::best(action))
    }
}

/// The true mean times, without measurement noise, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// The mean time of the action that was taken.
    pub taken: f64,
    /// The mean time of the best action.
    pub best: f64,
    /// The mean time of NCCL's default.
    pub default: f64,
    /// The number of the best action.
    pub best_action: usize,
}

/// The result of one call: what a policy may know, and the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnvStep {
    pub outcome: Outcome,
    pub truth: Truth,
}

/// What the environment remembers of a task's or a communicator's last call.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    action: Option<usize>,
    knobs: Option<LastKnobs>,
    /// When its last call began, by the scenario's clock.
    began: Option<u64>,
    /// The last and the mean interval between the beginnings of calls.
    rhythm: Option<Rhythm>,
}

/// A scenario at a certain call.
#[derive(Debug)]
pub struct Environment {
    scenario: Scenario,
    briefs: Vec<Arc<Brief>>,
    experts: Experts,
    call: u64,
    /// Simulated time, in picoseconds since the scenario began.
    clock: u64,
    noise: Stream,
    tasks: Vec<Past>,
    groups: Vec<Past>,
    triggers: Vec<Trigger>,
    /// The true mean time of each action in the current call.
    means: Vec<f64>,
    /// For each task, the cost model's error factor of each action, which does not depend on the load.
    errors: Vec<Vec<f64>>,
    fault: bool,
}

impl Environment {
    /// The environment at the scenario's first call. Prices tasks that are not priced yet.
    pub fn new(scenario: Scenario) -> Result<Self, PlaceError> {
        let brief = |it: &Task| scenario.groups[it.group].place.brief(it.kind, it.bytes);
        let briefs = scenario.tasks.iter().map(brief).collect::<Result<Vec<_>, _>>()?;
        let mut made = Self {
            briefs,
            experts: Experts::default(),
            call: 0,
            clock: 0,
            noise: scenario.seed.stream("noise"),
            tasks: vec![Past::default(); scenario.tasks.len()],
            groups: vec![Past::default(); scenario.groups.len()],
            triggers: vec![Trigger::default(); scenario.groups.len()],
            means: Vec::new(),
            errors: Vec::new(),
            fault: false,
            scenario,
        };
        made.errors = made.draw_errors();
        made.weigh();
        Ok(made)
    }

    #[must_use]
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Whether all calls are done.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.call >= self.scenario.calls
    }

    /// The number of the next call.
    #[must_use]
    pub const fn call(&self) -> u64 {
        self.call
    }

    /// The true mean time of each action for the next call, in µs. For the oracle and for training.
    #[must_use]
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// What a policy may know before the next call.
    #[must_use]
    pub fn observe(&self) -> Observation {
        let number = self.scenario.task(self.call);
        let task = &self.scenario.tasks[number];
        let group = &self.groups[task.group];
        let state = State {
            topology: self.scenario.groups[task.group].place.topology,
            workload: task.workload,
            scheduler: Scheduler { role: task.role, ..self.scenario.scheduler },
            model: self.scenario.model,
            call: CallState {
                kind: task.kind,
                bytes: task.bytes,
                last: group.knobs,
                rhythm: group.rhythm,
            },
            anomaly: self.triggers[task.group].anomaly(),
        };
        Observation {
            call: self.call,
            task: number,
            group: task.group,
            gate: gate(&state, &self.experts),
            state,
            brief: Arc::clone(&self.briefs[number]),
            terms: *self.scenario.groups[task.group].place.terms(),
            lease: 1,
        }
    }

    /// Carries the next call out. What the gates have decided overrides the choice; an unknown action counts as NCCL's default.
    /// `None` if the scenario is over.
    pub fn step(&mut self, choice: Choice) -> Option<EnvStep> {
        if self.is_over() {
            return None;
        }
        let seen = self.observe();
        let choice = seen.settled().unwrap_or(choice);
        let index = if choice.action < self.means.len() { choice.action } else { 0 };
        let taken = self.means[index];
        let micros = taken * self.draw();
        let time = Duration::from_ps((micros * 1e6) as u64);
        let brief = &self.briefs[seen.task];
        let (best_action, best) = least(&self.means);
        let truth = Truth { taken, best, default: self.means[0], best_action };
        let switched = self.tasks[seen.task].action.is_some_and(|it| it != index);
        let outcome = Outcome {
            action: brief.space.get(index).unwrap_or(Action::DEFAULT),
            time,
            reference: Duration::from_ps((brief.nominal[0] * 1e6) as u64),
            switched,
            congestion: seen.state.anomaly.congestion,
            exploratory: choice.exploratory,
            loss_change: None,
            sms: (brief.channels[index], SMS),
            worst_tier: seen.state.topology.worst_tier(),
            fault: self.fault,
        };
        self.triggers[seen.group].step(&seen, index, &outcome);
        self.remember(&seen, index, time);
        self.call += 1;
        self.weigh();
        Some(EnvStep { outcome, truth })
    }

    fn remember(&mut self, seen: &Observation, index: usize, time: Duration) {
        let (algorithm, protocol) = seen.brief.kernels[index];
        let channels = seen.brief.channels[index];
        let threads = motet_nccl::knobs::most_threads(protocol);
        self.tasks[seen.task].action = Some(index);
        let group = &mut self.groups[seen.group];
        group.knobs = Some(LastKnobs { algorithm, protocol, channels, threads });
        if let Some(began) = group.began {
            let last = Duration::from_ps(self.clock.saturating_sub(began));
            let before = group.rhythm.map_or(last, |it| it.mean).as_ps();
            let mean = Duration::from_ps(before - before / 8 + last.as_ps() / 8);
            group.rhythm = Some(Rhythm { last, mean });
        }
        group.began = Some(self.clock);
        let spent = time.as_ps().saturating_add(self.scenario.gap.as_ps());
        self.clock = self.clock.saturating_add(spent);
    }

    /// Computes the true mean time of each action in the next call.
    fn weigh(&mut self) {
        let number = self.scenario.task(self.call);
        let Some(task) = self.scenario.tasks.get(number) else { return };
        let group = &self.scenario.groups[task.group];
        let (brief, load) = (&self.briefs[number], group.timeline.load(self.call));
        brief.times(group.place.terms(), &load, &group.response, &mut self.means);
        for (mean, error) in self.means.iter_mut().zip(&self.errors[number]) {
            *mean *= error;
        }
        let seed = self.scenario.seed.named("troubles").numbered(task.group as u64);
        for it in &group.troubles {
            it.act(self.call, seed, brief, group.place.terms(), &mut self.means);
        }
        self.fault = load.fault;
    }

    /// Draws the noise of one measurement, a factor around 1.
    fn draw(&mut self) -> f64 {
        let noise = self.scenario.noise;
        let factor = log_normal(&mut self.noise, noise.spread);
        let (rare, how) = (self.noise.random::<f64>(), self.noise.random::<f64>());
        if rare < noise.outliers { factor * (1.0 + how * (noise.outlier - 1.0)) } else { factor }
    }

    /// Draws the cost model's error of each action of each task: the error of its algorithm and protocol, times a factor for
    /// each number of channels.
    fn draw_errors(&self) -> Vec<Vec<f64>> {
        let tasks = self.scenario.tasks.iter().zip(&self.briefs).enumerate();
        tasks
            .map(|(number, (task, brief))| {
                let seed = self.scenario.seed.named("quirks").numbered(number as u64);
                let mut known = std::collections::BTreeMap::new();
                let actions = brief.kernels.iter().zip(&brief.channels);
                actions
                    .map(|((algorithm, protocol), channels)| {
                        let key = (algorithm.index(), protocol.index(), *channels);
                        let quirk = *known.entry(key).or_insert_with(|| {
                            let name = format!("{algorithm} {protocol} {channels}");
                            log_normal(&mut seed.stream(&name), self.scenario.quirk)
                        });
                        self.scenario.groups[task.group].error[key.0][key.1] * quirk
                    })
                    .collect()
            })
            .collect()
    }
}

/// Draws a log-normal factor of mean 1 whose logarithm has this standard deviation.
pub(super) fn log_normal(stream: &mut Stream, spread: f64) -> f64 {
    let (a, b) = (stream.random::<f64>(), stream.random::<f64>());
    let normal = libm::sqrt(-2.0 * libm::log(1.0 - a)) * libm::cos(2.0 * std::f64::consts::PI * b);
    libm::exp(spread * normal - spread * spread / 2.0)
}

/// The index and value of the minimum; the first one on a tie.
fn least(means: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (at, mean) in means.iter().enumerate() {
        if *mean < best.1 {
            best = (at, *mean);
        }
    }
    best
}
