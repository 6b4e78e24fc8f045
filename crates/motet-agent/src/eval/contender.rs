//! [`Contender`]: a policy to be judged: one of the [registry](crate::policy::registry), or the LSTM of a policy file.

use std::sync::Arc;

use motet_units::Seed;

use crate::lstm::{Lstm, PolicyFile};
use crate::policy::guard::Guarded;
use crate::policy::{Policy, Registered};

/// A policy to be judged.
#[derive(Clone, Debug)]
pub enum Contender {
    Registered(&'static Registered),
    /// The network of a file, with the guard that all learning policies have.
    Lstm(Arc<PolicyFile>),
    /// The same without the guard.
    Bare(Arc<PolicyFile>),
}

/// The names of contenders that need a policy file.
pub const FROM_FILE: [&str; 2] = ["lstm", "lstm-bare"];

impl Contender {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Registered(it) => it.name,
            Self::Lstm(_) => FROM_FILE[0],
            Self::Bare(_) => FROM_FILE[1],
        }
    }

    /// A new policy that has seen no call. Its random choices come from the seed.
    #[must_use]
    pub fn make(&self, seed: Seed) -> Box<dyn Policy> {
        match self {
            Self::Registered(it) => it.make(seed),
            Self::Lstm(it) => Box::new(Guarded::new(Lstm::new(Arc::clone(it)))),
            Self::Bare(it) => Box::new(Lstm::new(Arc::clone(it))),
        }
    }
}

impl From<&'static Registered> for Contender {
    fn from(it: &'static Registered) -> Self {
        Self::Registered(it)
    }
}
