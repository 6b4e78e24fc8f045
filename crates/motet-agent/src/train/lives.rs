//! [`Scenarios`]: the agent's [environment](crate::env) as a [`World`] that training can use.
//!
//! The reward is [`Reward`]'s, with the term of time replaced by the logarithm of time over the call's least
//! nominal time. The simulator knows the cost of every action but for noise: the logarithm of its true mean
//! time, and the terms of multiprocessors, tier and switching, which follow from the action. Congestion and
//! faults do not depend on the action, and the convergence term is off.

use motet_units::Seed;

use super::world::{Life, Lived, Scene, Stage, World};
use crate::env::{Environment, Observation, Scenario};
use crate::lstm::policy::Briefed;
use crate::policy::Choice;
use crate::reward::{Reward, SMS, Weights, tier_penalty};
use crate::state::State;
use crate::trigger::Trigger;

/// A source of episodes from scenarios: `draw` makes the scenario of a stage and a seed. If it returns `None`, the episode has no
/// calls.
#[derive(Clone, Copy, Debug)]
pub struct Scenarios<F> {
    pub draw: F,
    pub weights: Weights,
}

impl<F: Fn(Stage, Seed) -> Option<Scenario> + Sync> World for Scenarios<F> {
    type Life = ScenarioLife;

    fn begin(&self, stage: Stage, seed: Seed) -> ScenarioLife {
        let environment = (self.draw)(stage, seed).and_then(|it| Environment::new(it).ok());
        let tasks = environment.as_ref().map_or(0, |it| it.scenario().tasks.len());
        let groups = environment.as_ref().map_or(0, |it| it.scenario().groups.len());
        ScenarioLife {
            environment,
            weights: self.weights,
            tasks: vec![None; tasks],
            last: vec![None; tasks],
            triggers: vec![Trigger::default(); groups],
            seen: None,
        }
    }
}

/// A scenario being lived.
#[derive(Debug)]
pub struct ScenarioLife {
    environment: Option<Environment>,
    weights: Weights,
    tasks: Vec<Option<Briefed>>,
    /// The last action of each task.
    last: Vec<Option<usize>>,
    /// One for each communicator.
    triggers: Vec<Trigger>,
    seen: Option<Observation>,
}

impl ScenarioLife {
    fn costs(&self, seen: &Observation, task: &Briefed, means: &[f64]) -> Vec<f32> {
        let last = self.last[seen.task];
        let worst = seen.state.topology.worst_tier();
        let penalties = means.iter().enumerate().map(|(at, mean)| {
            let channels = seen.brief.channels.get(at).copied().unwrap_or(0);
            let sms = (f64::from(channels) / f64::from(SMS)).min(1.0);
            let action = seen.brief.space.get(at);
            let tier = action.zip(worst).map_or(0.0, |(it, worst)| tier_penalty(&it, worst));
            let switched = last.is_some_and(|it| it != at);
            let switch = if switched { self.weights.switch } else { 0.0 };
            let cost = task.lost(*mean) + self.weights.sms * sms + self.weights.tier * tier;
            (cost + switch) as f32
        });
        penalties.collect()
    }
}

impl Life for ScenarioLife {
    fn face(&mut self) -> Option<Scene> {
        let environment = self.environment.as_mut()?;
        let seen = loop {
            if environment.is_over() {
                return None;
            }
            let seen = environment.observe();
            if seen.settled().is_none() {
                break seen;
            }
            environment.step(Choice::DEFAULT)?;
        };
        let means = environment.means().to_vec();
        let task = self.tasks[seen.task].get_or_insert_with(|| Briefed::new(&seen.brief)).clone();
        let costs = self.costs(&seen, &task, &means);
        let scene = Scene {
            group: seen.group,
            state: State { anomaly: self.triggers[seen.group].anomaly(), ..seen.state },
            catalogue: task.catalogue,
            nominal: task.nominal,
            costs,
        };
        self.seen = Some(seen);
        Some(scene)
    }

    fn act(&mut self, action: usize, drawn: bool) -> Option<Lived> {
        let seen = self.seen.take()?;
        let choice = Choice { exploratory: drawn, ..Choice::best(action) };
        let step = self.environment.as_mut()?.step(choice)?;
        let task = self.tasks.get(seen.task)?.as_ref()?;
        self.last[seen.task] = Some(action);
        self.triggers[seen.group].step(&seen, action, &step.outcome);
        let reward = Reward::of(&step.outcome, &self.weights);
        let lost = task.lost(step.outcome.time.as_us_f64());
        Some(Lived {
            reward: (reward.total() - reward.time - lost) as f32,
            seen: task.seen(&seen, action, &step.outcome),
        })
    }
}
