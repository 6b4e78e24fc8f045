//! [`Mode`]: which hands may move in a run: routes and programs, and beside them knobs; [`Strength`]: what the
//! programs hand can do.

use motet_control::hand::{HandKind, Hands};

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
    /// The knobs of each call only: NCCL's algorithm and channels, chosen by a policy.
    Knobs,
    RoutesKnobs,
    ProgramsKnobs(Strength),
    /// Routes, the program and knobs.
    AllKnobs(Strength),
}

impl Mode {
    /// Every mode of Xiong et al., the programs hand in both strengths: those without a knobs hand.
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
            Self::Knobs => "knobs",
            Self::RoutesKnobs => "routes + knobs",
            Self::ProgramsKnobs(Strength::Remap) => "programs (remap) + knobs",
            Self::ProgramsKnobs(Strength::Synth) => "programs (synth) + knobs",
            Self::AllKnobs(Strength::Remap) => "both (remap) + knobs",
            Self::AllKnobs(Strength::Synth) => "both (synth) + knobs",
        }
    }

    #[must_use]
    pub const fn moves_routes(self) -> bool {
        matches!(self, Self::Routes | Self::Both(_) | Self::RoutesKnobs | Self::AllKnobs(_))
    }

    #[must_use]
    pub const fn moves_knobs(self) -> bool {
        matches!(self, Self::Knobs | Self::RoutesKnobs | Self::ProgramsKnobs(_) | Self::AllKnobs(_))
    }

    /// This mode with a knobs hand added.
    #[must_use]
    pub const fn with_knobs(self) -> Self {
        match self {
            Self::Base | Self::Knobs => Self::Knobs,
            Self::Routes | Self::RoutesKnobs => Self::RoutesKnobs,
            Self::Programs(it) | Self::ProgramsKnobs(it) => Self::ProgramsKnobs(it),
            Self::Both(it) | Self::AllKnobs(it) => Self::AllKnobs(it),
        }
    }

    /// The hands that may move.
    #[must_use]
    pub fn hands(self) -> Hands {
        let moving = [
            (HandKind::Routes, self.moves_routes()),
            (HandKind::Programs, self.strength().is_some()),
            (HandKind::Knobs, self.moves_knobs()),
        ];
        moving.into_iter().filter(|it| it.1).map(|it| it.0).collect()
    }

    /// What the programs hand can do; `None` if it may not move.
    #[must_use]
    pub const fn strength(self) -> Option<Strength> {
        match self {
            Self::Base | Self::Routes | Self::Knobs | Self::RoutesKnobs => None,
            Self::Programs(it) | Self::Both(it) | Self::ProgramsKnobs(it) | Self::AllKnobs(it) => {
                Some(it)
            }
        }
    }
}
