//! NCCL's vocabulary: algorithms, protocols, the collectives it tunes, kinds of paths, and patterns
//! of graphs, each in NCCL's own order and with NCCL's own spelling.
//!
//! The order matters: tables are indexed by it, ties between choices go to the first, and kinds
//! of paths compare from near to far. Next: [`constants`](super::constants).

use std::fmt;

use motet_collective::CollectiveKind;
pub use motet_collective::Protocol;
use serde::{Deserialize, Serialize};

/// How NCCL moves the data of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    Tree,
    Ring,
    CollNetDirect,
    CollNetChain,
    #[serde(rename = "NVLS")]
    Nvls,
    #[serde(rename = "NVLSTree")]
    NvlsTree,
    #[serde(rename = "PAT")]
    Pat,
}

impl Algorithm {
    pub const COUNT: usize = 7;
    pub const ALL: [Self; Self::COUNT] = [
        Self::Tree,
        Self::Ring,
        Self::CollNetDirect,
        Self::CollNetChain,
        Self::Nvls,
        Self::NvlsTree,
        Self::Pat,
    ];

    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name as in NCCL's TUNING log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "Tree",
            Self::Ring => "Ring",
            Self::CollNetDirect => "CollNetDirect",
            Self::CollNetChain => "CollNetChain",
            Self::Nvls => "NVLS",
            Self::NvlsTree => "NVLSTree",
            Self::Pat => "PAT",
        }
    }

    #[must_use]
    pub const fn is_collnet(self) -> bool {
        matches!(self, Self::CollNetDirect | Self::CollNetChain)
    }

    #[must_use]
    pub const fn is_nvls(self) -> bool {
        matches!(self, Self::Nvls | Self::NvlsTree)
    }
}

/// The collectives that NCCL chooses an algorithm for; it makes the others of sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunedCollective {
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllReduce,
}

impl TunedCollective {
    pub const COUNT: usize = 5;
    pub const ALL: [Self; Self::COUNT] =
        [Self::Broadcast, Self::Reduce, Self::AllGather, Self::ReduceScatter, Self::AllReduce];

    /// The same collective as a [`CollectiveKind`].
    #[must_use]
    pub const fn kind(self) -> CollectiveKind {
        match self {
            Self::Broadcast => CollectiveKind::Broadcast,
            Self::Reduce => CollectiveKind::Reduce,
            Self::AllGather => CollectiveKind::AllGather,
            Self::ReduceScatter => CollectiveKind::ReduceScatter,
            Self::AllReduce => CollectiveKind::AllReduce,
        }
    }

    /// The tuned collective of this kind, if NCCL tunes it.
    #[must_use]
    pub const fn of(kind: CollectiveKind) -> Option<Self> {
        match kind {
            CollectiveKind::Broadcast => Some(Self::Broadcast),
            CollectiveKind::Reduce => Some(Self::Reduce),
            CollectiveKind::AllGather => Some(Self::AllGather),
            CollectiveKind::ReduceScatter => Some(Self::ReduceScatter),
            CollectiveKind::AllReduce => Some(Self::AllReduce),
            _ => None,
        }
    }

    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => "Broadcast",
            Self::Reduce => "Reduce",
            Self::AllGather => "AllGather",
            Self::ReduceScatter => "ReduceScatter",
            Self::AllReduce => "AllReduce",
        }
    }

    /// AllGather or ReduceScatter: half of an AllReduce.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter)
    }

    /// How many steps a ring takes over `ranks` ranks.
    #[must_use]
    pub const fn ring_steps(self, ranks: u64) -> u64 {
        match self {
            Self::AllReduce => 2 * ranks.saturating_sub(1),
            Self::AllGather | Self::ReduceScatter => ranks.saturating_sub(1),
            Self::Broadcast | Self::Reduce => ranks,
        }
    }
}

/// What a path between two devices goes through, from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathKind {
    /// The device itself.
    Loc,
    NvLink,
    /// NVLink through another GPU.
    NvLinkBridged,
    C2c,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// C2C to the CPU, PCIe from there.
    P2c,
    /// NVLink to another GPU and PCIe from there (GPU to NIC only).
    Pxn,
    /// Through a CPU.
    Phb,
    /// From CPU to CPU.
    Sys,
    /// Not connected.
    Dis,
}

impl PathKind {
    const NAMES: [(Self, &'static str); 11] = [
        (Self::Loc, "LOC"),
        (Self::NvLink, "NVL"),
        (Self::NvLinkBridged, "NVB"),
        (Self::C2c, "C2C"),
        (Self::Pix, "PIX"),
        (Self::Pxb, "PXB"),
        (Self::P2c, "P2C"),
        (Self::Pxn, "PXN"),
        (Self::Phb, "PHB"),
        (Self::Sys, "SYS"),
        (Self::Dis, "DIS"),
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The kind with this name in a graph dump.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|it| it.1 == name).map(|it| it.0)
    }

    /// The next farther kind; `None` past `Sys`.
    #[must_use]
    pub(super) fn farther(self) -> Option<Self> {
        let next = Self::NAMES.get(self as usize + 1)?.0;
        (next < Self::Dis).then_some(next)
    }
}

/// The shape of a channel inside a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// A chain; the first GPU talks to the parent and one child, the second to the other child.
    BalancedTree = 1,
    /// A chain; the first GPU talks to the parent, the second to both children.
    SplitTree = 2,
    /// A chain; the first GPU talks to parent and children.
    Tree = 3,
    Ring = 4,
    Nvls = 5,
    CollNetDirect = 6,
}

impl Pattern {
    /// The pattern with this number in NCCL's logs and dumps.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::BalancedTree),
            2 => Some(Self::SplitTree),
            3 => Some(Self::Tree),
            4 => Some(Self::Ring),
            5 => Some(Self::Nvls),
            6 => Some(Self::CollNetDirect),
            _ => None,
        }
    }

    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    #[must_use]
    pub const fn is_tree(self) -> bool {
        matches!(self, Self::BalancedTree | Self::SplitTree | Self::Tree)
    }
}

/// The architecture of a CPU, as far as NCCL tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuArch {
    X86,
    Power,
    Arm,
}

/// Who made an x86 CPU, as far as NCCL tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuVendor {
    Intel,
    Amd,
    /// Several vendors in one communicator.
    Mixed,
    Other,
}

/// The CPU of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cpu {
    pub arch: CpuArch,
    pub vendor: CpuVendor,
}

impl Cpu {
    pub const INTEL: Self = Self { arch: CpuArch::X86, vendor: CpuVendor::Intel };
    pub const AMD: Self = Self { arch: CpuArch::X86, vendor: CpuVendor::Amd };

    #[must_use]
    pub fn is_amd(self) -> bool {
        self == Self::AMD
    }
}

macro_rules! display_by_name {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}
display_by_name!(Algorithm, TunedCollective, PathKind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_nccl() {
        for (index, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(algorithm.index(), index);
        }
        for (index, collective) in TunedCollective::ALL.into_iter().enumerate() {
            assert_eq!(collective.index(), index);
        }
        for (index, (kind, name)) in PathKind::NAMES.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name()), (index, name));
            assert_eq!(PathKind::from_name(name), Some(kind));
        }
        assert_eq!(PathKind::Phb.farther(), Some(PathKind::Sys));
        assert_eq!(PathKind::Sys.farther(), None);
    }

    #[test]
    fn patterns_by_number() {
        for number in 1..=6 {
            assert_eq!(Pattern::from_number(number).map(Pattern::number), Some(number));
        }
        assert_eq!(Pattern::from_number(0), None);
    }
}
