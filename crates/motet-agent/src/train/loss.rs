//! The loss, as gradients ([`Pull`]s) with respect to the network's outputs at each call of an episode (a *life*).
//!
//! - **Actor.** The gradient of the expected reward has two parts. The immediate cost is known to the
//!   simulator for *every* action, so this part is computed exactly, as an expectation over all actions. What
//!   an action changes later (by what is learned from it, and by the cost of switching) is estimated by the
//!   advantage of the drawn action, as in any actor–critic (GAE, Schulman et al., 2016). [`Advice::Drawn`]
//!   leaves the first part out and learns from the drawn action alone.
//! - **Baseline.** Loads come and go whatever the policy does, and change rewards by far more than any
//!   action. So an action is rewarded relative to the best action in the same call: an input-dependent
//!   baseline (Mao et al., 2019), which lowers the variance of the gradient and leaves its mean as it is.
//! - **Critic.** The squared error of the value.
//! - **Entropy**, with a falling weight: at first the policy must not settle on an action, in the end it
//!   should.
//! - **Imitation**, in the first updates if asked for: the policy is moved towards the actions that the
//!   simulator knows to be cheap.

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

/// The weights of the loss's parts at one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) advice: Advice,
    pub(super) entropy: f32,
    /// The discount: the weight of the next call's reward relative to this one's.
    pub(super) discount: f32,
    /// GAE's λ: from 0, where advantages trust the critic after one call, to 1, where they use the life's
    /// rewards only.
    pub(super) trace: f32,
}

/// The weight of the critic's loss.
const VALUE: f32 = 0.05;
/// The temperature of imitation: an action that costs this much more than the cheapest gets 1/e of its
/// weight.
const ALIKE: f32 = 0.02;

/// The advantage and the return of each call of a life. A job goes on where a life ends, so the critic's last
/// value stands for all later rewards.
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

/// The gradients at each call of a life, divided by `calls`, the calls of all lives of an update.
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
                // The advantage without the action's immediate cost, which the exact part above has counted.
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

/// The expected cost of a call under the policy's odds.
fn expected(moment: &Moment) -> f32 {
    let all = moment.odds.odds().iter().zip(&moment.scene.costs);
    all.fold(0.0, |sum, (odds, cost)| sum + odds * cost)
}

/// The target of imitation: odds of actions by how cheap they are.
fn cheap(costs: &[f32]) -> Vec<f32> {
    let least = costs.iter().copied().fold(f32::INFINITY, f32::min);
    let mut odds: Vec<f32> = costs.iter().map(|it| libm::expf((least - it) / ALIKE)).collect();
    let sum = odds.iter().fold(0.0, |sum, it| sum + it);
    odds.iter_mut().for_each(|it| *it /= sum);
    odds
}
