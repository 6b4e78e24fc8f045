//! Training: from a simulated world to the weights of the [LSTM](crate::lstm).
//!
//! - [`world`]: the interface to simulated jobs, [`lives`]: the agent's environment behind it; [`settings`]: hyperparameters;
//! - [`rollout`]: runs episodes (*lives*) under the present policy; [`loss`]: their gradients; [`adam`]: the optimizer;
//! - [`curve`]: metrics over time; [`checkpoint`]: a file to continue from.
//!
//! The method is a recurrent actor–critic: each [update](Trainer::advance) plays some lives, backpropagates
//! through each whole life, and takes one step. **Rewards** are those of [`reward`](crate::reward), eight
//! terms with their weights, except that the term of time is the *logarithm* of time over the call's least
//! nominal time. Times of one call differ by orders of magnitude between actions, and the worst of them would
//! dominate a sum of ratios; in logarithms 10 % count alike wherever they are lost.
//!
//! **Determinism.** A life follows from its seed, which follows from the run's seed and the numbers of update and life.
//! Lives are played on all threads, and their gradients added up in their order. So a run has the same bits on any
//! number of threads, and one that was killed and goes on from a checkpoint ends in the same bits as one that was not.

pub mod adam;
pub mod checkpoint;
pub mod curve;
pub mod lives;
pub mod loss;
pub mod rollout;
pub mod settings;
pub mod world;

use motet_units::Seed;
use rayon::prelude::*;

use crate::lstm::{Mind, Net, NetStep, PolicyFile};
use adam::Adam;
use loss::{advantages, pulls};
use rollout::{Choosing, Moment, play};

pub use curve::Point;
pub use lives::Scenarios;
pub use settings::{JUDGE_EVERY, Settings};
pub use world::{Life, Lived, Scene, Stage, World};

/// A gradient longer than this is shortened.
const LONGEST: f32 = 1.0;

/// A training run, between two updates.
#[derive(Clone, Debug, PartialEq)]
pub struct Trainer {
    settings: Settings,
    net: Net,
    adam: Adam,
    curve: Vec<Point>,
    best: Best,
}

/// The policy that was judged best so far.
#[derive(Clone, Debug, PartialEq)]
struct Best {
    /// Its mean regret; the largest number if none was judged yet.
    regret: f32,
    /// After how many updates it was judged.
    updates: u64,
    weights: Vec<f32>,
}

/// How well a policy does on episodes it was not trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judgement {
    pub calls: u64,
    /// The mean of the chosen action's cost less the best action's. Costs are logarithms of times plus small
    /// terms, so 0.01 is about 1 %.
    pub regret: f32,
    /// The same mean for NCCL's own choice.
    pub default_regret: f32,
    /// Share of calls whose action costs at most 1 % more than the best.
    pub as_best: f32,
}

impl Trainer {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let net = Net::new(settings.shape, Seed::new(settings.seed));
        let adam = Adam::new(net.weights().len());
        let best = Best { regret: f32::MAX, updates: 0, weights: net.weights().to_vec() };
        Self { settings, net, adam, curve: Vec::new(), best }
    }

    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many updates were made.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.curve.len() as u64
    }

    #[must_use]
    pub fn is_done(&self) -> bool {
        self.updates() >= self.settings.updates
    }

    #[must_use]
    pub fn curve(&self) -> &[Point] {
        &self.curve
    }

    /// The policy that was judged best so far. It need not be the last: gradients are noisy, and the
    /// likeliest action, which decides in a job, may get worse while the drawn actions get better on average.
    #[must_use]
    pub fn policy(&self) -> PolicyFile {
        let net = Net::of(self.settings.shape, self.best.weights.clone());
        PolicyFile {
            net: net.unwrap_or_else(|| self.net.clone()),
            ..self.latest(self.best.updates)
        }
    }

    /// The policy as it is now.
    fn latest(&self, updates: u64) -> PolicyFile {
        let Settings { variant, seed, .. } = self.settings;
        PolicyFile { net: self.net.clone(), variant, seed, updates }
    }

    /// Judges the present policy, and keeps it if it is better than any before.
    fn keep_best<W: World>(&mut self, world: &W) {
        let now = self.latest(self.updates());
        let seeds = self.settings.judged();
        if seeds.is_empty() {
            // Without seeds to judge on, the last policy is kept.
            self.best.regret = f32::MAX;
        }
        let judged = Stage::ALL.iter().map(|stage| judge(world, &now, *stage, &seeds).regret);
        let regret = judged.fold(0.0, |sum, it| sum + it) / Stage::ALL.len() as f32;
        if regret < self.best.regret {
            let weights = now.net.weights().to_vec();
            self.best = Best { regret, updates: now.updates, weights };
        }
    }

    /// One update.
    pub fn advance<W: World>(&mut self, world: &W) {
        let update = self.updates();
        if update == 0 {
            self.keep_best(world);
        }
        let weights = self.settings.weights(update);
        let mind = Mind { net: &self.net, variant: self.settings.variant };
        let runs: Vec<Vec<Moment>> = (0..self.settings.lives)
            .into_par_iter()
            .flat_map_iter(|life| {
                let (stage, seed) = self.settings.life(update, life);
                let mut stream = seed.stream("actions");
                let choosing = Choosing::Drawn(&mut stream);
                play(world, (stage, seed), mind, choosing)
            })
            .collect();
        let calls: usize = runs.iter().map(Vec::len).sum();
        let gradients: Vec<Vec<f32>> =
            runs.par_iter().map(|it| self.gradient(it, &weights, calls as f32)).collect();
        let mut gradient = vec![0.0; self.net.weights().len()];
        for part in &gradients {
            gradient.iter_mut().zip(part).for_each(|(sum, it)| *sum += it);
        }
        let rate = self.settings.rate(update);
        let length = self.adam.step(self.net.weights_mut(), &gradient, rate, LONGEST);
        let errors = runs.iter().flat_map(|it| advantages(it, &weights)).map(|it| it.0);
        let error = errors.fold(0.0, |sum, it| sum + it * it) / calls.max(1) as f32;
        self.curve.push(point(update, &runs, libm::sqrtf(error), length));
        if self.updates().is_multiple_of(JUDGE_EVERY) || self.is_done() {
            self.keep_best(world);
        }
        let judged = self.best.regret;
        self.curve.iter_mut().last().into_iter().for_each(|it| it.best = judged);
    }

    fn gradient(&self, moments: &[Moment], weights: &loss::Weights, calls: f32) -> Vec<f32> {
        let pulls = pulls(moments, weights, calls);
        let mut gradient = vec![0.0; self.net.weights().len()];
        let steps: Vec<NetStep> = moments.iter().map(|it| it.step.clone()).collect();
        self.net.backward(&steps, &pulls, self.settings.variant.recurrent, &mut gradient);
        gradient
    }
}

fn mean(runs: &[Vec<Moment>], of: impl Fn(&Moment) -> f32) -> f32 {
    let calls: usize = runs.iter().map(Vec::len).sum();
    runs.iter().flatten().fold(0.0, |sum, it| sum + of(it)) / calls.max(1) as f32
}

fn default_regret(moment: &Moment) -> f32 {
    let costs = &moment.scene.costs;
    costs.first().map_or(0.0, |it| it - costs.iter().copied().fold(f32::INFINITY, f32::min))
}

fn point(update: u64, runs: &[Vec<Moment>], value_error: f32, gradient: f32) -> Point {
    Point {
        update,
        reward: mean(runs, |it| it.lived.reward),
        regret: mean(runs, Moment::regret),
        default_regret: mean(runs, default_regret),
        entropy: mean(runs, |it| it.odds.entropy()),
        value_error,
        gradient,
        best: 0.0,
    }
}

/// Evaluates a policy on lives of a stage, one for each seed, taking the likeliest action every time.
#[must_use]
pub fn judge<W: World>(world: &W, policy: &PolicyFile, stage: Stage, seeds: &[Seed]) -> Judgement {
    let runs: Vec<Vec<Moment>> = seeds
        .par_iter()
        .flat_map_iter(|seed| play(world, (stage, *seed), Mind::from(policy), Choosing::Best))
        .collect();
    Judgement {
        calls: runs.iter().map(|it| it.len() as u64).sum(),
        regret: mean(&runs, Moment::regret),
        default_regret: mean(&runs, default_regret),
        as_best: mean(&runs, |it| if it.regret() <= 0.01 { 1.0 } else { 0.0 }),
    }
}

#[cfg(test)]
mod corpora;
#[cfg(test)]
mod tests;
