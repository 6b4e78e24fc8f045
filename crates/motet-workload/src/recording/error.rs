//! [`JoinError`]: why the logs of ranks cannot be merged, and what to do.

use motet_units::{Rank, brief};

/// Why logs cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("there is no rank's log")]
    Nothing,
    #[error("two of the logs are of rank {0}")]
    Twice(Rank),
    #[error("ranks are missing: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Missing(Vec<Missing>),
    #[error(
        "rank {} has {} calls in group `{group}` and rank {} has {}",
        one.0, one.1, other.0, other.1
    )]
    Counts { group: String, one: (Rank, usize), other: (Rank, usize) },
    #[error(
        "call {place} of group `{group}` is {} on rank {} and {} on rank {}",
        one.1, one.0, other.1, other.0
    )]
    Unlike { group: String, place: usize, one: (Rank, String), other: (Rank, String) },
    #[error("no call of group `{0}` was seen on all its ranks")]
    Apart(String),
    #[error("the logs' times lie further apart than the 213 days of Motet's clock")]
    FarApart,
}

impl JoinError {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Nothing => "give one trace per rank",
            Self::Twice(_) => "give each rank's trace once, all of the same run",
            Self::Missing(_) => {
                "give the traces of these ranks too; if they were not recorded, record again with the \
                 profiler on every rank"
            }
            Self::Counts { .. } | Self::Unlike { .. } | Self::Apart(_) => {
                "record the same steps on all ranks, beginning and ending between steps, and give traces of \
                 one run only"
            }
            Self::FarApart => "give traces of one run only",
        }
    }
}

/// Ranks of a group of which there is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub group: String,
    /// How many ranks the group has.
    pub size: usize,
    /// Which are missing; empty if the logs do not say who is in the group.
    pub ranks: Vec<Rank>,
    /// How many are missing.
    pub count: usize,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 16;
        let group = brief(&self.group);
        if self.ranks.is_empty() {
            return write!(f, "{} of the {} in group `{group}`", self.count, self.size);
        }
        let shown: Vec<String> = self.ranks.iter().take(SHOWN).map(|it| it.0.to_string()).collect();
        write!(f, "{}", shown.join(", "))?;
        if self.ranks.len() > SHOWN {
            write!(f, " and {} more", self.ranks.len() - SHOWN)?;
        }
        write!(f, " (group `{group}` of {})", self.size)
    }
}
