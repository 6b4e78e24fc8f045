//! The loss, as gradients ([`Pull`]s) with respect to the network's outputs at each call of an episode (a *life*).
//!
//! - **Actor.** The gradient of the reward that is expected has two parts. What an action costs at once the simulator
//!   can say for *every* action, so that part is exact: no chance in it but the life's own. What it changes later (by
//!   what is learned from it, and by the cost of switching) is estimated by the advantage of the action that was
//!   drawn, as in any actor–critic (GAE, Schulman et al., 2016). [`Advice::Drawn`] leaves the first part out and
//!   learns from the drawn action alone.
//! - **Baseline.** Loads come and go whatever the policy does, and change rewards by far more than any action. So what
//!   counts is the reward less what the best action would have had in the same call: an input-dependent baseline
//!   (Mao et al., 2019), which takes chance out of the gradient and leaves its mean as it is.
//! - **Critic.** The square of the value's error.
//! - **Entropy**, whose weight falls: at first the policy must not settle, at last it should.
//! - **Imitation**, in the first updates if asked for: towards the actions that the simulator knows to be cheap.

use super::rollout::Moment;
use crate::lstm::backward::Pull;
use crate::words::category;

category! {
    /// What the actor learns from.
    Advice {
        /// The costs of all actions, and the drawn one's advantage.
        Full = "full",
        /// The drawn action's advantage only.
        Drawn = "drawn",
        /// The cheapest actions, by cross entropy.
        Imitation = "imitation",
    }
}

/// The weights of the parts, at one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) advice: Advice,
    pub(super) entropy: f32,
    /// How much later rewards count, call by call.
    pub(super) discount: f32,
    /// How much of the advantage is measured and not the critic's word.
    pub(super) trace: f32,
}

const VALUE: f32 = 0.05;
/// Costs that differ by this much are alike enough to imitate both.
const ALIKE: f32 = 0.02;

/// Advantages and returns of a life; a life's end is an end of training only, so the last value stands for the rest.
pub(super) fn advantages(moments: &[Moment], weights: &Weights) -> Vec<(f32, f32)> {
    let mut later = 0.0;
    let mut next = moments.last().map_or(0.0, |it| it.step.value);
    let mut found: Vec<(f32, f32)> = Vec::with_capacity(moments.len());
    for moment in moments.iter().rev() {
        let value = moment.step.value;
        let error = -moment.regret() + weights.discount * next - value;
        later = error + weights.discount * weights.trace * later;
        found.push((later, later + value));
        next = value;
    }
    found.reverse();
    found
}

/// The pulls of a life, each divided by `calls`, the calls of all lives of an update.
pub(super) fn pulls(moments: &[Moment], weights: &Weights, calls: f32) -> Vec<Pull> {
    let advantages = advantages(moments, weights);
    let one = |(moment, (advantage, goal)): (&Moment, (f32, f32))| {
        let mut logits = vec![0.0; moment.scene.costs.len()];
        let by = 1.0 / calls;
        match weights.advice {
            Advice::Imitation => {
                let target = cheap(&moment.scene.costs);
                moment.odds.pull_towards(&target, by, &mut logits);
            }
            Advice::Drawn => moment.odds.pull_log(moment.action, -advantage * by, &mut logits),
            Advice::Full => {
                let expected = expected(moment);
                for ((logit, odds), cost) in
                    logits.iter_mut().zip(moment.odds.odds()).zip(&moment.scene.costs)
                {
                    *logit += by * odds * (cost - expected);
                }
                // What is left of the advantage once the action's own cost is out of it.
                let own = moment.scene.costs.get(moment.action).copied().unwrap_or(expected);
                let later = advantage + own - expected;
                moment.odds.pull_log(moment.action, -later * by, &mut logits);
            }
        }
        moment.odds.pull_entropy(-weights.entropy * by, &mut logits);
        let value = 2.0 * VALUE * (moment.step.value - goal) * by;
        let mut pull = Pull { value, ..Pull::default() };
        moment.faced.pull(&logits, &mut pull.rows);
        pull
    };
    moments.iter().zip(advantages).map(one).collect()
}

/// What the policy's odds cost.
fn expected(moment: &Moment) -> f32 {
    let all = moment.odds.odds().iter().zip(&moment.scene.costs);
    all.fold(0.0, |sum, (odds, cost)| sum + odds * cost)
}

/// Odds of actions by how cheap they are.
fn cheap(costs: &[f32]) -> Vec<f32> {
    let least = costs.iter().copied().fold(f32::INFINITY, f32::min);
    let mut odds: Vec<f32> = costs.iter().map(|it| libm::expf((least - it) / ALIKE)).collect();
    let sum = odds.iter().fold(0.0, |sum, it| sum + it);
    odds.iter_mut().for_each(|it| *it /= sum);
    odds
}
