//! [`Method`]: every way of making a program, by name.

use std::str::FromStr;

use motet_collective::CollectiveKind;
use motet_net::node::UnknownName;

use crate::classic;
pub use crate::recipe::Recipe;

/// A way of making a program.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    /// The best of all for the task, judged by the simulator.
    Auto,
    /// Throughput-optimal packing of spanning trees.
    Forest,
    /// AllReduce by packed pairs of trees.
    Packing,
    /// Matching of chunks to links, step by step.
    Greedy,
    /// One pattern, moved to every rank of a symmetric network.
    Symmetric,
    /// Routing of point-to-point traffic.
    Exchange,
    /// Copies and sums in switches.
    InSwitch,
    /// A textbook algorithm, one of NCCL's own, or a method of another crate.
    Recipe(&'static Recipe),
}

impl Method {
    /// Every method of this crate, `auto` first.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [
            Self::Auto,
            Self::Forest,
            Self::Packing,
            Self::Greedy,
            Self::Symmetric,
            Self::Exchange,
            Self::InSwitch,
        ];
        own.into_iter().chain(classic::methods().iter().map(Self::Recipe))
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Forest => "forest",
            Self::Packing => "packing",
            Self::Greedy => "greedy",
            Self::Symmetric => "symmetric",
            Self::Exchange => "exchange",
            Self::InSwitch => "in-switch",
            Self::Recipe(it) => it.name,
        }
    }

    /// What it does, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Auto => "the best of all methods for the task, judged by the simulator",
            Self::Forest => "throughput-optimal packing of spanning trees, exact over switches",
            Self::Packing => "allreduce up and down packed pairs of trees",
            Self::Greedy => "chunks matched to links as they come free, rarest first",
            Self::Symmetric => "one pattern moved to every rank, on rings, tori and the like",
            Self::Exchange => "point-to-point traffic routed so that no link is overloaded",
            Self::InSwitch => "copies and sums in switches that do so for programs (NVLS, SHARP)",
            Self::Recipe(it) => it.about,
        }
    }

    /// Whether it can do the collective at all, on some network.
    #[must_use]
    pub fn does(self, kind: CollectiveKind) -> bool {
        use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        match self {
            Self::Auto | Self::Greedy => true,
            Self::Forest | Self::InSwitch => {
                matches!(kind, AllGather | ReduceScatter | Broadcast | Reduce | AllReduce)
            }
            Self::Packing => kind == AllReduce,
            Self::Symmetric => matches!(kind, AllGather | ReduceScatter | AllReduce),
            Self::Exchange => {
                !matches!(kind, AllGather | ReduceScatter | Broadcast | Reduce | AllReduce)
            }
            Self::Recipe(it) => it.collectives.contains(&kind),
        }
    }
}

impl FromStr for Method {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::all()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownName::new("method", text, Self::all().map(Self::name)))
    }
}
