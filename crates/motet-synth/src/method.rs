//! [`Method`]: every way of making a program, by name.

use std::str::FromStr;

use motet_collective::CollectiveKind;
use motet_net::node::UnknownName;

use crate::classic::{self, Classic};

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
    /// The best of all programs in few synchronous steps, proved so; small networks only.
    Exact,
    /// A textbook algorithm, or one of NCCL's own.
    Classic(&'static Classic),
}

impl Method {
    /// Every method, `auto` first.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [
            Self::Auto,
            Self::Forest,
            Self::Packing,
            Self::Greedy,
            Self::Symmetric,
            Self::Exchange,
            Self::Exact,
        ];
        own.into_iter().chain(classic::methods().iter().map(Self::Classic))
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
            Self::Exact => "exact",
            Self::Classic(it) => it.name,
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
            Self::Exact => "the fewest steps and rounds there are, proved; up to 32 ranks",
            Self::Exchange => "point-to-point traffic routed so that no link is overloaded",
            Self::Classic(it) => it.about,
        }
    }

    /// Whether it can do the collective at all, on some network.
    #[must_use]
    pub fn does(self, kind: CollectiveKind) -> bool {
        use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        match self {
            Self::Auto | Self::Greedy => true,
            Self::Forest | Self::Exact => {
                matches!(kind, AllGather | ReduceScatter | Broadcast | Reduce | AllReduce)
            }
            Self::Packing => kind == AllReduce,
            Self::Symmetric => matches!(kind, AllGather | ReduceScatter | AllReduce),
            Self::Exchange => {
                !matches!(kind, AllGather | ReduceScatter | Broadcast | Reduce | AllReduce)
            }
            Self::Classic(it) => it.collectives.contains(&kind),
        }
    }
}

impl FromStr for Method {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::all().find(|it| it.name() == text).ok_or_else(|| UnknownName {
            what: "method",
            name: text.to_owned(),
            known: Self::all().map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}
