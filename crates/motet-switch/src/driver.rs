//! [`Driver`]: the interface to one optical circuit switch, independent of its protocol.

use std::future::Future;
use std::pin::Pin;

use motet_control::{Circuit, SwitchId};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::layout::Cross;

/// A boxed future, because `async fn` is not possible in traits that are used as `dyn Driver`.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An optical circuit switch.
///
/// Calls on one driver are carried out one after the other, in the order in which they are first polled. If a
/// call is dropped before it has answered, the state of the switch is unknown; the driver does nothing more
/// for that call, and the next call reads the switch first.
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// The controller's number for it, which all its circuits have.
    fn id(&self) -> SwitchId;

    /// Its name in messages.
    fn name(&self) -> &str;

    /// Its address, for error messages.
    fn address(&self) -> &str;

    /// How many ports the controller may use, numbered from 0.
    fn ports(&self) -> u32;

    /// All circuits and ports, read from the switch.
    fn read(&self) -> Pending<'_, Result<Snapshot, Error>>;

    /// Checks that [`Self::apply`] could do it: the switch can be reached, the ports work, and none would be
    /// in two circuits. Nothing changes.
    fn prepare<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<(), Error>>;

    /// Deletes and creates circuits, and keeps all others. Deleting a circuit that is not there and creating
    /// one that is are no errors, and change nothing. The answer is the state that was read back after the
    /// change.
    fn apply<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<Snapshot, Failure>>;

    /// Reports changes on the switch that this driver did not make, beginning with the ports that are not up, until the watch is
    /// dropped. Use one watch at a time: each change is reported once, to one of them.
    fn watch(&self) -> Watch;
}

/// Circuits to delete and to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delta {
    pub delete: Vec<Circuit>,
    pub create: Vec<Circuit>,
}

/// The state of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// In ascending order; no port is in two of them.
    pub circuits: Vec<Circuit>,
    /// The state of each port, indexed by its number.
    pub ports: Vec<PortState>,
    /// Cross-connections of the device that are not circuits of the controller.
    pub strays: Vec<Stray>,
}

/// Whether a port can be used.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    #[default]
    Up,
    /// Somebody has switched it off.
    Disabled,
    Failed,
}

impl std::fmt::Display for PortState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Disabled => "disabled",
            Self::Failed => "failed",
        })
    }
}

/// A cross-connection of the device that is not (part of) a circuit of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    pub cross: Cross,
    pub why: String,
}

/// A change that failed or was done only in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    pub error: Error,
    /// The state that was read after the failure; `None` if the switch could not be read, so that its state
    /// is unknown.
    pub now: Option<Snapshot>,
}

/// A change of a switch that this driver did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody else has changed circuits; this is the new state.
    Circuits(Snapshot),
    Port(u32, PortState),
    /// The switch cannot be reached or read any more. The driver keeps trying.
    Lost(Error),
    /// The switch can be read again; this is its state.
    Back(Snapshot),
}

/// A stream of [`Notice`]s, which ends when it is dropped.
#[derive(Debug)]
pub struct Watch {
    notices: mpsc::Receiver<Notice>,
    task: AbortHandle,
}

impl Watch {
    pub(crate) const fn new(notices: mpsc::Receiver<Notice>, task: AbortHandle) -> Self {
        Self { notices, task }
    }

    /// The next notice. `None` when the driver is gone.
    pub async fn next(&mut self) -> Option<Notice> {
        self.notices.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
