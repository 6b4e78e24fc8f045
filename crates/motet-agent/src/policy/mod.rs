//! [`Policy`]: the interface of everything that chooses actions: NCCL's default, a plan's table, bandits, an LSTM.
//!
//! A policy is a deterministic function of what it was fed: observations, its own choices and their outcomes,
//! all of which the leader publishes and every rank has alike. [`Policy::checksum`] shows that two instances have
//! stayed the same. [`registry`] has them all by name.

pub mod arms;
pub mod bandit;
pub mod budget;
pub mod fixed;
pub mod guard;
pub mod infer;
pub mod registry;

use motet_runtime::Checksum;

use crate::env::Observation;
use crate::reward::Outcome;

pub use registry::{DEFAULT, MOST_LOST, Registered, default_policy, find, registered};

/// A policy's decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The action's number in the space of the observation.
    pub action: usize,
    /// Whether it is a probe: chosen to learn, not because it is believed to be the best.
    pub exploratory: bool,
    /// The action believed to be the best. In a probe it differs from `action`, and is used again afterwards.
    pub best: usize,
}

impl Choice {
    /// NCCL's own.
    pub const DEFAULT: Self = Self::best(0);

    /// Uses the action that is believed to be the best.
    #[must_use]
    pub const fn best(action: usize) -> Self {
        Self { action, exploratory: false, best: action }
    }

    /// Probes `action` while `best` is believed to be the best.
    #[must_use]
    pub const fn probe(action: usize, best: usize) -> Self {
        Self { action, exploratory: true, best }
    }
}

/// A policy that chooses actions and learns from their outcomes.
pub trait Policy: std::fmt::Debug + Send {
    /// The name by which the [`registry`] has it.
    fn name(&self) -> &'static str;

    /// Chooses for the call that is observed. Not asked where the gates have settled the call.
    fn choose(&mut self, seen: &Observation) -> Choice;

    /// Learns from the outcome of a choice. Outcomes may come some calls later, but always in the order of the calls.
    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome);

    /// Forgets all that was learned, as before the first call.
    fn reset(&mut self);

    /// A checksum of all state that further choices depend on.
    fn checksum(&self) -> Checksum;

    /// Tells the true mean time of each action, in µs, before a choice. Only the oracle uses it.
    fn told(&mut self, _means: &[f64]) {}
}

#[cfg(test)]
mod tests;
