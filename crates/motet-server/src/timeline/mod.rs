//! What a job did with its circuits, for people: phases of its groups, changes of circuits, and the windows between phases.
//!
//! A [`Phase`] is one turn of a group: its members ask for circuits, hold them, and let them go. [`History`]
//! derives phases from what the engine handles; [`windows`](windows()) finds the windows between them. Both
//! depend only on their inputs, times included.
//!
//! Times ([`Moment`]) are microseconds since the service started, by a clock that never jumps. They are the
//! controller's: a member's action counts from when it was reported. A member that holds circuits begins and
//! ends calls without telling anybody, so when calls really went over a group's circuits ([`Traffic`]) is
//! known only from members that say so afterwards, as `motet manager` does. Nothing here outlives the
//! process; the journal does, with the host's times.

mod cdf;
mod history;
mod windows;

use motet_control::controller::ChangeId;
use motet_control::protocol::GroupId;
use serde::Serialize;
use utoipa::ToSchema;

pub use cdf::{Cdf, cdf, quantile};
pub use history::{History, Kept, Seen};
pub use windows::{Window, windows};

/// Microseconds since the service started.
pub type Moment = u64;

/// When calls went over a group's circuits. A call begins when its last member joins, as everywhere in Motet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Traffic {
    /// The first call began.
    pub began_us: Moment,
    /// The last one ended.
    pub ended_us: Moment,
}

/// When members asked for circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ask {
    /// The first of them.
    pub first_us: Moment,
    /// The last of them: from here on the group waited for its circuits, not for its own members.
    pub last_us: Moment,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has circuits, or waits for them.
    Open,
    /// It had circuits and has let them go.
    Held,
    /// It was sent to the packet network.
    Refused,
    /// Its members no longer wanted them.
    Withdrawn,
}

/// One turn of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Phase {
    #[serde(serialize_with = "group")]
    #[schema(value_type = u32)]
    pub group: GroupId,
    /// Not there if members held the circuits before the service started, or were let in to a call of others.
    pub asked: Option<Ask>,
    /// From when on members could send.
    pub held_us: Option<Moment>,
    /// When nobody could any more.
    pub ended_us: Option<Moment>,
    pub traffic: Option<Traffic>,
    pub outcome: Outcome,
}

fn group<S: serde::Serializer>(it: &GroupId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(it.0)
}

/// How a change of circuits went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Went {
    UnderWay,
    Done,
    Failed,
    RolledBack,
}

/// Circuits of a job's groups were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Change {
    #[schema(value_type = u64)]
    pub change: ChangeId,
    #[schema(value_type = Vec<u32>)]
    pub groups: Vec<GroupId>,
    /// The switches that take part.
    pub switches: Vec<u32>,
    pub deleted: usize,
    pub created: usize,
    pub begun_us: Moment,
    pub ended_us: Option<Moment>,
    pub went: Went,
}
