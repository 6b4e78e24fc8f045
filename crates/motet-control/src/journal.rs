//! [`Event`]: a record of what the controller did and why. A service writes each event to its journal before it carries out the
//! orders that follow from it (write-ahead), so that after a crash the journal says what was under way. People read the journal to
//! understand what happened.

use serde::{Deserialize, Serialize};

use crate::circuit::{Circuit, Port, SwitchId};
use crate::controller::ChangeId;
use crate::protocol::{GroupId, JobId, Refusal, TenantId};

/// One record of the journal: something that the controller has done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    Registered {
        job: JobId,
        tenant: TenantId,
    },
    Left {
        job: JobId,
    },
    /// A change of circuits begins. After a crash before its end the circuits are in an unknown state, which is then read from the
    /// switches.
    Begun {
        change: ChangeId,
        job: Option<JobId>,
        groups: Vec<GroupId>,
        delete: Vec<Circuit>,
        create: Vec<Circuit>,
    },
    /// All switches have prepared the change and are now told to apply it.
    Committed {
        change: ChangeId,
    },
    Done {
        change: ChangeId,
    },
    /// The change has failed, because a switch could not do its part.
    Failed {
        change: ChangeId,
        switch: SwitchId,
        why: Failure,
    },
    /// After a failed change, the switches that had applied their part have undone it.
    RolledBack {
        change: ChangeId,
    },
    Granted {
        job: JobId,
        group: GroupId,
    },
    Refused {
        job: JobId,
        group: GroupId,
        why: Refusal,
    },
    SwitchLost {
        switch: SwitchId,
    },
    SwitchRead {
        switch: SwitchId,
        circuits: u32,
    },
    /// A switch reports one port in several circuits, which cannot be; only the first of them is taken as true.
    PortTwice {
        port: Port,
    },
    PortFailed {
        port: Port,
    },
    PortRepaired {
        port: Port,
    },
}

/// Why a switch did not do its part of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// It answered that it cannot.
    Rejected,
    /// It cannot be reached.
    Lost,
    /// It did not answer in time, and counts as lost.
    Silent,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Registered { job, tenant } => write!(f, "{job} of {tenant} begins"),
            Self::Left { job } => write!(f, "{job} has ended; its circuits are taken down"),
            Self::Begun { change, job, groups, delete, create } => {
                write!(f, "{change}: {} circuits go, {} come", delete.len(), create.len())?;
                match job {
                    Some(job) => write!(f, ", for {} groups of {job}", groups.len()),
                    None => write!(f, ", to clean up"),
                }
            }
            Self::Committed { change } => write!(f, "{change}: all switches are ready, go"),
            Self::Done { change } => write!(f, "{change}: done"),
            Self::Failed { change, switch, why } => {
                let why = match why {
                    Failure::Rejected => "refuses its part",
                    Failure::Lost => "cannot be reached",
                    Failure::Silent => "did not answer in time",
                };
                write!(f, "{change}: {switch} {why}")
            }
            Self::RolledBack { change } => write!(f, "{change}: undone"),
            Self::Granted { job, group } => write!(f, "{group} of {job} may send"),
            Self::Refused { job, group, why } => {
                write!(f, "{group} of {job} gets no circuits: {why}")
            }
            Self::SwitchLost { switch } => write!(f, "{switch} is lost"),
            Self::SwitchRead { switch, circuits } => write!(f, "{switch} has {circuits} circuits"),
            Self::PortTwice { port } => {
                write!(f, "{port} is in two circuits, says the switch; one of them is ignored")
            }
            Self::PortFailed { port } => write!(f, "{port} has failed"),
            Self::PortRepaired { port } => write!(f, "{port} works again"),
        }
    }
}
