//! Which path suits what a job needs (§10.3): NCCL, a synthesized program, or aggregation in the network.
//!
//! The table compares NCCL with BlueConnect, TACCL and SwitchML. Its last column is kept here; a program of
//! `motet-synth` stands for TACCL. BlueConnect wins nowhere.

use crate::action::Path;
use crate::words::category;

category! {
    /// What a job may need: the rows of §10.3's table.
    Need {
        Symmetric = "symmetric topology",
        Asymmetric = "asymmetric topology",
        MultiRack = "multi-rack",
        Sparse = "sparse data",
        InNetwork = "in-network aggregation",
        Customizable = "user-customizable",
        GpuBandwidth = "GPU-tuned bandwidth",
        Today = "operating regime today",
    }
}

impl Need {
    /// The path that wins; `None` for sparse data, for which NCCL is inadequate and no other path is better
    /// ([`gate`](crate::gate) suggests a library).
    #[must_use]
    pub const fn path(self) -> Option<Path> {
        match self {
            Self::Symmetric | Self::Customizable | Self::GpuBandwidth | Self::Today => {
                Some(Path::Nccl)
            }
            Self::Asymmetric | Self::MultiRack => Some(Path::Program),
            Self::InNetwork => Some(Path::Passthrough),
            Self::Sparse => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_wins_somewhere() {
        for path in Path::ALL {
            assert!(Need::ALL.iter().any(|it| it.path() == Some(*path)), "{path}");
        }
        assert_eq!(Need::MultiRack.path(), Some(Path::Program));
        assert_eq!(Need::Sparse.path(), None);
    }
}
