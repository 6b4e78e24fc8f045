//! [`Device`] and [`Session`]: what a protocol must implement. [`crate::managed::Managed`] does everything else.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::driver::{Pending, PortState};
use crate::error::Problem;
use crate::layout::Cross;

/// A device that one can connect to.
pub trait Device: Send + Sync + std::fmt::Debug + 'static {
    /// A new session: connected, logged in, ready.
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>>;

    /// Notifies `nudge` whenever the device reports a change on its own. The future ends when the device can
    /// no longer be listened to, and is then started again. `None` for protocols without notifications; such
    /// a device is read at intervals.
    fn listen(&self, nudge: Arc<Notify>) -> Option<Pending<'static, Fault>> {
        let _ = nudge;
        None
    }
}

/// A connection to a device. It is not used again after a [`Fault`] that leaves it unknown what the device
/// has done.
pub trait Session: Send {
    /// Reads all cross-connections and port states.
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>>;

    /// Removes, then adds cross-connections. The steps were checked: no input and no output is in two
    /// cross-connections afterwards. The device may still be working after its answer; a reading then shows
    /// cross-connections as [`Status::Moving`].
    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>>;
}

/// A change to be made on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The cross-connections to remove, with the device's key for them where it has keys.
    pub remove: Vec<Seen>,
    pub add: Vec<Cross>,
}

impl Steps {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }
}

/// The state of a device as read from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readout {
    pub crosses: Vec<Seen>,
    /// The ports that are not up, in any order.
    pub ports: Vec<(u32, PortState)>,
}

/// A cross-connection as the device has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub cross: Cross,
    pub status: Status,
    /// The device's key for it, if the device does not identify it by its ports alone.
    pub key: Option<String>,
}

impl Seen {
    #[must_use]
    pub const fn made(input: u32, output: u32) -> Self {
        Self { cross: Cross { input, output }, status: Status::Made, key: None }
    }
}

/// The state of a cross-connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Light passes.
    Made,
    /// The device is still making or removing it.
    Moving,
    /// It is in the device's configuration, but the device does not or cannot make it.
    Broken(String),
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub asked: String,
    pub problem: Problem,
}

impl Fault {
    #[must_use]
    pub fn new(asked: impl Into<String>, problem: Problem) -> Self {
        Self { asked: asked.into(), problem }
    }
}
