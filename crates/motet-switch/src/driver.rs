//! [`Driver`]: one optical circuit switch, whatever it speaks.

use std::future::Future;
use std::pin::Pin;

use motet_control::{Circuit, SwitchId};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::layout::Cross;

/// An answer that will come: what `async fn` would give in a trait that is used as `dyn Driver`.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An optical circuit switch.
///
/// Calls on one driver are carried out one after the other, in the order in which they come to be polled first. A call that is
/// dropped before it has answered leaves the switch in an unknown state, which the next call finds out by reading; a
/// driver does not act on it any more.
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// The controller's number for it, which all its circuits have.
    fn id(&self) -> SwitchId;

    /// What people call it.
    fn name(&self) -> &str;

    /// Where it is, as it stands in error messages.
    fn address(&self) -> &str;

    /// How many ports it has for us, numbered from 0.
    fn ports(&self) -> u32;

    /// All circuits and ports, read from the switch.
    fn read(&self) -> Pending<'_, Result<Snapshot, Error>>;

    /// Whether [`Self::apply`] could do it: the switch can be reached, ports work, and none would be in two circuits.
    /// Nothing changes.
    fn prepare<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<(), Error>>;

    /// Deletes and creates circuits, and keeps all others. What is already as wanted is not touched: deleting what is not
    /// there and creating what is there are no errors. The answer is what is now there, read back after the change.
    fn apply<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<Snapshot, Failure>>;

    /// Tells what changes on the switch without us, first of all which ports are not up. It goes on until the watch is
    /// dropped. Have one watch at a time: what one has told, another does not tell again.
    fn watch(&self) -> Watch;
}

/// What is to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delta {
    pub delete: Vec<Circuit>,
    pub create: Vec<Circuit>,
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// In ascending order; no port is in two of them.
    pub circuits: Vec<Circuit>,
    /// Of each port, by its number.
    pub ports: Vec<PortState>,
    /// What the device has that is none of our circuits.
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

/// A cross-connection of the device that makes no circuit of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    pub cross: Cross,
    pub why: String,
}

/// A change that was not done as asked. What the switch did of it is in `now`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    pub error: Error,
    /// What is there now, read after the failure; nothing if the switch could not be read, and then nothing is known of it.
    pub now: Option<Snapshot>,
}

/// Something happened to a switch that this driver has not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody else has changed circuits; these are the ones now.
    Circuits(Snapshot),
    Port(u32, PortState),
    /// It cannot be reached or read any more. It is tried again and again.
    Lost(Error),
    /// It can be read again, with these circuits.
    Back(Snapshot),
}

/// [`Notice`]s, until it is dropped.
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
