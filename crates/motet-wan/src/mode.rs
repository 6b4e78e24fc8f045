//! [`Mode`]: which of the two hands, routes and programs, may move in a run; [`Strength`]: what the
//! programs hand can do.

/// How far the programs hand may go when it replaces a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// The same rings or trees with the ranks in another order: what a user of NCCL can do.
    Remap,
    /// Any program that motet-synth makes for the network or repairs for its state.
    Synth,
}

impl Strength {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remap => "remap",
            Self::Synth => "synth",
        }
    }
}

/// Which hands may move between collectives (Xiong et al., Table I).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Neither: the first program on the first routes throughout.
    Base,
    /// WAN routes only.
    Routes,
    /// The collective's program only.
    Programs(Strength),
    /// WAN routes and the program.
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

    /// What the programs hand can do; `None` if it may not move.
    #[must_use]
    pub const fn strength(self) -> Option<Strength> {
        match self {
            Self::Base | Self::Routes => None,
            Self::Programs(it) | Self::Both(it) => Some(it),
        }
    }
}
