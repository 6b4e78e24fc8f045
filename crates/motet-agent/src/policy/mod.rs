//! [`Policy`]: whoever chooses actions, behind one interface: NCCL's default, a plan's table, bandits, an LSTM.
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

/// What a policy says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The action's number in the space of the observation.
    pub action: usize,
    /// It was chosen to learn, not because it is held to be the best.
    pub exploratory: bool,
    /// What is held to be the best. It differs from the action of a trial, and runs again once that has ended.
    pub best: usize,
}

impl Choice {
    /// NCCL's own.
    pub const DEFAULT: Self = Self::best(0);

    /// The action that is held to be the best.
    #[must_use]
    pub const fn best(action: usize) -> Self {
        Self { action, exploratory: false, best: action }
    }

    /// An action that is tried, and the one that is held to be the best.
    #[must_use]
    pub const fn probe(action: usize, best: usize) -> Self {
        Self { action, exploratory: true, best }
    }
}

/// See the [module](self).
pub trait Policy: std::fmt::Debug + Send {
    /// As in the [`registry`].
    fn name(&self) -> &'static str;

    /// Chooses for the call that is observed. Not asked where the gates have settled the call.
    fn choose(&mut self, seen: &Observation) -> Choice;

    /// Learns what came of a choice. Outcomes may come some calls later, and always in the order of the calls.
    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome);

    /// Forgets all that was learned, as before the first call.
    fn reset(&mut self);

    /// Of all that its further choices depend on.
    fn checksum(&self) -> Checksum;

    /// The true mean of each action, in µs, before a choice: only an oracle listens.
    fn told(&mut self, _means: &[f64]) {}
}

#[cfg(test)]
mod tests;
