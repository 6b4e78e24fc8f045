//! [`Reward`]: the reward of a call: the eight terms of §13.6, each with its weight.
//!
//! All terms are costs in units of the *reference*, the time that the call should take with NCCL's default. So a 4 KiB call
//! counts as much as one of 4 GiB, and a reward of −1 means: as fast as NCCL's default, and no other costs.
//!
//! | term | cost before its weight | default weight |
//! | --- | --- | --- |
//! | time | completion time ÷ reference | 1, fixed |
//! | switch | 1 if the action is another than for the last call of its kind | 0.02 |
//! | congestion | time of recent calls above what they should take, at most 10 | 0.05 |
//! | probe | 1 if the action was chosen to learn | 0.02 |
//! | convergence | 1 ÷ change of the loss, at most 10 | 0 |
//! | SMs | share of the GPU's multiprocessors that the call held | 0.1 |
//! | tier | [`tier_penalty`] | 0.02 |
//! | fault | 1 if a fault occurred during the call | 1 |
//!
//! The text gives no weights; these are ours. Switching and probing cost what the agent may lose to NCCL's
//! default at most (2 %). The convergence term as printed is infinite where the loss stands still, and no
//! knob of NCCL changes the loss, so it is bounded and off. The tier term repeats, as a prior, what
//! completion time will show; it is small enough to break ties only.

use motet_nccl::Protocol;
use motet_net::Tier;
use motet_units::Duration;

use crate::action::heads::CHUNKS;
use crate::action::{Action, Path};
use crate::prior::tiers;

/// Multiprocessors of the GPU that rewards count with: those of an H100 and an H200.
pub(crate) const SMS: u32 = 132;

/// What is known after a call, from which its reward is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub action: Action,
    pub time: Duration,
    /// The time that the call should take with NCCL's default.
    pub reference: Duration,
    /// Whether the action differs from that of the last call of its kind.
    pub switched: bool,
    /// The trigger's congestion signal ([`Anomaly::congestion`](crate::state::Anomaly)).
    pub congestion: f64,
    /// Whether the action was chosen for exploration, not because it was believed to be the best.
    pub exploratory: bool,
    /// By how much the training loss has changed since the last step, if known.
    pub loss_change: Option<f64>,
    /// Multiprocessors that the call held, one for each channel, and those of the GPU.
    pub sms: (u32, u32),
    /// The worst tier of the communicator.
    pub worst_tier: Option<Tier>,
    /// A rank, a link or a NIC failed during the call.
    pub fault: bool,
}

/// The weights of the terms beside completion time, which has weight 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub switch: f64,
    pub congestion: f64,
    pub probe: f64,
    pub convergence: f64,
    pub sms: f64,
    pub tier: f64,
    pub fault: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            switch: 0.02,
            congestion: 0.05,
            probe: 0.02,
            convergence: 0.0,
            sms: 0.1,
            tier: 0.02,
            fault: 1.0,
        }
    }
}

/// The most that congestion and convergence cost before their weights.
pub const MOST: f64 = 10.0;

/// The eight terms, each at most 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reward {
    pub time: f64,
    pub switch: f64,
    pub congestion: f64,
    pub probe: f64,
    pub convergence: f64,
    pub sms: f64,
    pub tier: f64,
    pub fault: f64,
}

impl Reward {
    /// The reward of an outcome.
    #[must_use]
    pub fn of(outcome: &Outcome, weights: &Weights) -> Self {
        let one = |it: bool| if it { 1.0 } else { 0.0 };
        let reference = outcome.reference.as_ps().max(1) as f64;
        let (held, all) = outcome.sms;
        let convergence = outcome.loss_change.map_or(0.0, |it| bounded(1.0 / it.abs()));
        let tier = outcome.worst_tier.map_or(0.0, |it| tier_penalty(&outcome.action, it));
        Self {
            time: -(outcome.time.as_ps() as f64 / reference),
            switch: -weights.switch * one(outcome.switched),
            congestion: -weights.congestion * bounded(outcome.congestion),
            probe: -weights.probe * one(outcome.exploratory),
            convergence: -weights.convergence * convergence,
            sms: -weights.sms * (f64::from(held) / f64::from(all.max(1))).min(1.0),
            tier: -weights.tier * tier,
            fault: -weights.fault * one(outcome.fault),
        }
    }

    /// The terms with their names, in the text's order.
    #[must_use]
    pub const fn terms(&self) -> [(&'static str, f64); 8] {
        [
            ("time", self.time),
            ("switch", self.switch),
            ("congestion", self.congestion),
            ("probe", self.probe),
            ("convergence", self.convergence),
            ("sms", self.sms),
            ("tier", self.tier),
            ("fault", self.fault),
        ]
    }

    /// The sum of all terms.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.terms().iter().map(|it| it.1).sum()
    }
}

/// Clamps a value to 0 to [`MOST`]; NaN becomes [`MOST`].
fn bounded(value: f64) -> f64 {
    if value.is_nan() { MOST } else { value.clamp(0.0, MOST) }
}

/// How much an action relies on bandwidth, times how far apart the communicator's ranks are; from 0 to 1.
///
/// Half of the former is running the protocol Simple, the other half grows with the logarithm of the chunk size; what is left to
/// NCCL counts as 0. The distance of a tier is the logarithm of the survey's latency multiplier: a prior, not a measurement.
#[must_use]
pub fn tier_penalty(action: &Action, worst: Tier) -> f64 {
    if action.path != Path::Nccl {
        return 0.0;
    }
    let protocol = match action.protocol {
        Some(Protocol::Simple) => 0.5,
        Some(Protocol::Ll128) => 0.25,
        Some(Protocol::Ll) | None => 0.0,
    };
    let doublings = |bytes: u64| libm::log2(bytes.max(1) as f64 / CHUNKS[0].get() as f64);
    let most = doublings(CHUNKS[CHUNKS.len() - 1].get());
    let chunk = action.chunk.map_or(0.0, |it| (doublings(it.get()) / most).clamp(0.0, 1.0));
    (protocol + 0.5 * chunk) * tiers::farness(worst)
}

#[cfg(test)]
mod tests {
    use motet_nccl::Algorithm;

    use super::*;

    const PLAIN: Outcome = Outcome {
        action: Action::DEFAULT,
        time: Duration::from_us(100),
        reference: Duration::from_us(100),
        switched: false,
        congestion: 0.0,
        exploratory: false,
        loss_change: None,
        sms: (0, SMS),
        worst_tier: Tier::new(4),
        fault: false,
    };

    fn total(outcome: &Outcome) -> f64 {
        Reward::of(outcome, &Weights::default()).total()
    }

    /// Checks that a change of the outcome changes only the named term, and returns by how much.
    fn cost(term: &str, outcome: Outcome, weights: &Weights) -> f64 {
        let (before, after) = (Reward::of(&PLAIN, weights), Reward::of(&outcome, weights));
        for ((name, before), (_, after)) in before.terms().into_iter().zip(after.terms()) {
            assert_eq!(name == term, before != after, "{name} while {term} changes");
        }
        before.total() - after.total()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn a_call_as_nccl_does_it_is_worth_minus_one() {
        near(total(&PLAIN), -1.0);
    }

    #[test]
    fn each_term_costs_its_weight() {
        let weights = Weights::default();
        let slow = Outcome { time: Duration::from_us(150), ..PLAIN };
        near(cost("time", slow, &weights), 0.5);
        near(cost("switch", Outcome { switched: true, ..PLAIN }, &weights), 0.02);
        near(cost("congestion", Outcome { congestion: 2.0, ..PLAIN }, &weights), 0.1);
        near(cost("probe", Outcome { exploratory: true, ..PLAIN }, &weights), 0.02);
        near(cost("sms", Outcome { sms: (33, 132), ..PLAIN }, &weights), 0.025);
        near(cost("fault", Outcome { fault: true, ..PLAIN }, &weights), 1.0);
        let action = Action::nccl(Algorithm::Ring, Protocol::Simple);
        near(cost("tier", Outcome { action, ..PLAIN }, &weights), 0.01);
        let on = Weights { convergence: 0.5, ..weights };
        near(cost("convergence", Outcome { loss_change: Some(-0.5), ..PLAIN }, &on), 1.0);
    }

    /// As printed, the term is infinite on a plateau.
    #[test]
    fn convergence_is_bounded_and_off() {
        let weights = Weights { convergence: 1.0, ..Weights::default() };
        for change in [0.0, -0.0, 1e-300, f64::NAN] {
            let stuck = Outcome { loss_change: Some(change), ..PLAIN };
            near(cost("convergence", stuck, &weights), MOST);
            near(total(&stuck), total(&PLAIN));
        }
        for congestion in [f64::INFINITY, f64::NAN, 1e9] {
            near(total(&Outcome { congestion, ..PLAIN }), -1.5);
        }
    }

    #[test]
    fn far_tiers_make_bandwidth_hungry_actions_dear() {
        let of = |protocol, chunk| Action { chunk, ..Action::nccl(Algorithm::Ring, protocol) };
        let tier = |it: u8| Tier::new(it).unwrap();
        let simple = of(Protocol::Simple, None);
        let costs: Vec<f64> = (0..5).map(|it| tier_penalty(&simple, tier(it))).collect();
        assert_eq!(costs[..2], [0.0, 0.0]);
        assert!(costs.windows(2).skip(1).all(|it| it[0] < it[1]), "{costs:?}");
        let dear = of(Protocol::Simple, Some(CHUNKS[9]));
        near(tier_penalty(&dear, tier(4)), 1.0);
        let order = [of(Protocol::Ll, None), of(Protocol::Ll128, None), simple, dear];
        let costs = order.map(|it| tier_penalty(&it, tier(4)));
        assert!(costs.windows(2).all(|it| it[0] < it[1]), "{costs:?}");
        near(tier_penalty(&Action::DEFAULT, tier(4)), 0.0);
        near(tier_penalty(&Action::PASSTHROUGH, tier(4)), 0.0);
        // Knobs are NCCL's and mean nothing on another path.
        near(tier_penalty(&Action { path: Path::Program, ..dear }, tier(4)), 0.0);
    }
}
