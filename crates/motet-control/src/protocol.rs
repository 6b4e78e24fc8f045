//! The messages between members and the controller.
//!
//! A *member* of a group (usually a [`manager`](crate::manager) that speaks for a whole scale-up domain) numbers the
//! group's calls 1, 2, 3, …; all members make the same calls in the same order, so a number means the same call to
//! all. Toward the controller a member is in one of three [`Stance`]s to each of its groups:
//!
//! - **Away**: it begins no call over the group's circuits. Calls that it has begun may still be under way.
//! - **Asking**: it wants to begin call *n* as soon as the circuits are there; either because the job has made that call, or
//!   because it will (*provisioning*).
//! - **Holding**: it was granted the circuits and begins calls without telling anybody, until it is recalled.
//!
//! A [`Report`] says all that the controller must know of one member and one group: the stance, and how many
//! calls the member has begun and ended. So only the latest report counts, and reports may be lost (they are
//! repeated until there is an answer), doubled (the second changes nothing) or late (each has a version, and
//! an older one is ignored). The controller's [`Reply`] names the version it replies to, so that a late grant
//! cannot make a member hold circuits that it has given up since.
//!
//! **Why members hold circuits until they are recalled.** A phase of traffic has many calls, and a message
//! for each of them could take longer than the call. So circuits are given for as long as nobody else needs
//! their ports.
//!
//! **Why only members that go on alike may hold circuits.** Ranks start a call as soon as they get to it, and
//! then wait inside it for the others. Suppose that one member goes on to the group's next call while another
//! first turns to another group, whose circuits need the same ports. Then that call cannot end before the
//! other group has had its circuits, and these cannot be set before the call has ended. (The first stage of a
//! pipeline does just that: it sends its second activation while the second stage, having received the first,
//! gathers parameters.) So members say how long their [`run`](Report::run) of calls is. If all say the same,
//! circuits are granted; otherwise each call is let through by itself, when all members ask for it.
//!
//! **Why there is no deadlock.** Groups that want the same ports are served in the order in which they became
//! complete (all members asking). Members that hold circuits in the way are recalled and can begin nothing
//! new. But a call that *some* member has already begun must be let through at all others, or it would never
//! end: the others get a [`Reply::Pass`], ahead of the queue, for just those calls that have begun. A group
//! that still cannot be served within the controller's patience is refused, and its traffic takes the host's
//! packet network; all members of a group are refused the same call, and one that missed the refusal is
//! refused when it asks again.
//!
//! **When members may still take different networks for one call.** If the controller vanishes after it has
//! answered some members and before it has answered the others, those who give up waiting
//! ([`Seat::give_up`](crate::seat::Seat::give_up)) take the packet network, and the others send over
//! circuits. No messages through the controller alone can prevent this, because the last message may always
//! be the lost one (the two generals' problem): another round trip before every grant would only shorten the
//! time in which this can happen, and managers that settle it among themselves would need connections of
//! their own.

use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, Port, SwitchId};
use crate::shim::Mode;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $number:ty, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A training job.
    JobId,
    u64,
    "job"
);
id!(
    /// The owner of jobs, to whom quotas apply.
    TenantId,
    u32,
    "tenant"
);
id!(
    /// A communication group of a job.
    GroupId,
    u32,
    "group"
);
id!(
    /// The unit that asks for circuits: a scale-up domain of a job, or a rank where there is no manager.
    Member,
    u32,
    "member"
);

/// What a job tells the controller at its start: the switch ports of its members, and the circuits of its
/// groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registration {
    pub job: JobId,
    pub tenant: TenantId,
    /// The ports of each member.
    pub ports: Vec<(Member, Port)>,
    pub groups: Vec<GroupSpec>,
    /// How its shims ask for circuits, if known. It is only shown to people; the controller treats all modes
    /// alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A communication group: its members, and the circuits that it needs on all switches (rails) together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    pub id: GroupId,
    pub members: Vec<Member>,
    pub circuits: Vec<Circuit>,
}

/// What a member wants of a group's circuits at present; the [module](self) defines the three stances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    Away,
    Asking { call: u64 },
    Holding,
}

/// What a member tells the controller about one of its groups: its whole state, so that only the latest report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Report {
    pub job: JobId,
    pub member: Member,
    pub group: GroupId,
    /// Grows with every change of the fields below; a report with a lower version than one seen before is ignored.
    pub version: u64,
    pub stance: Stance,
    /// How many calls have begun, and how many have ended. A call over the packet network counts as both when it begins.
    pub begun: u64,
    pub ended: u64,
    /// Number of the last call that took the packet network, 0 if none did. Members that make that call later must take the
    /// packet network too.
    pub host: u64,
    /// How many calls of this group the member will make in a row, the one that it asks for included, before one of another
    /// group; 0 if it does not know.
    #[serde(default)]
    pub run: u64,
}

/// What the controller tells a member about one of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Notice {
    pub job: JobId,
    pub member: Member,
    pub group: GroupId,
    pub what: Word,
}

/// What a [`Notice`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Reply {
        version: u64,
        reply: Reply,
    },
    /// Begin no further call without asking again, and report.
    Recall,
    /// The controller has lost its state, by a restart: report, whatever the stance.
    Report,
}

/// The controller's answer to a member that is asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The circuits are set, and may be used for any number of calls until a recall.
    Grant,
    /// The circuits are set, and may be used for the one call that was asked for.
    Pass,
    /// No circuits for that call: take the packet network.
    Refuse(Refusal),
}

/// Why a group is refused circuits.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("{switch} does not answer; the call takes the packet network until it does")]
    SwitchDown { switch: SwitchId },
    #[error("{port} has failed; the call takes the packet network until it is repaired")]
    PortFailed { port: Port },
    #[error("the switches refused the change {attempts} times; see the controller's journal")]
    ChangeFailed { attempts: u32 },
    #[error("other members have taken the packet network for this call")]
    AsOthers,
    #[error("others have kept the ports for longer than the controller waits")]
    Impatient,
}
