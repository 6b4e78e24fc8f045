//! [`Mode`]: which hands may move.

use crate::programs::Strength;

/// Which hands may move (seed 000, Table I).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Base,
    Routes,
    Programs(Strength),
    Both(Strength),
}

impl Mode {
    /// Every mode, the programs hand in both strengths.
    pub const ALL: [Self; 6] = [
        Self::Base,
        Self::Routes,
        Self::Programs(Strength::Remap),
        Self::Both(Strength::Remap),
        Self::Programs(Strength::Synth),
        Self::Both(Strength::Synth),
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Routes => "routes",
            Self::Programs(Strength::Remap) => "programs (remap)",
            Self::Both(Strength::Remap) => "both (remap)",
            Self::Programs(Strength::Synth) => "programs (synth)",
            Self::Both(Strength::Synth) => "both (synth)",
        }
    }

    #[must_use]
    pub const fn moves_routes(self) -> bool {
        matches!(self, Self::Routes | Self::Both(_))
    }

    #[must_use]
    pub const fn strength(self) -> Option<Strength> {
        match self {
            Self::Base | Self::Routes => None,
            Self::Programs(it) | Self::Both(it) => Some(it),
        }
    }
}
