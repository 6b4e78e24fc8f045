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

    /// Notifies whenever the device says by itself that something has changed. It ends when the device can no longer be
    /// listened to, and is then started again. `None` for protocols that do not tell: the device is then read from time to
    /// time.
    fn listen(&self, nudge: Arc<Notify>) -> Option<Pending<'static, Fault>> {
        let _ = nudge;
        None
    }
}

/// A connection to a device. After a [`Fault`] that leaves doubt it is not used again.
pub trait Session: Send {
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>>;

    /// Removes, then adds. Steps were checked: no input and no output is in two cross-connections afterwards. The device may
    /// go on working after its answer; cross-connections are then [`Status::Moving`] in what is read.
    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>>;
}

/// A change to be made on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// With the device's own name for it, where it has one.
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
    /// Of ports that are not up, in any order.
    pub ports: Vec<(u32, PortState)>,
}

/// A cross-connection as the device has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub cross: Cross,
    pub status: Status,
    /// The device's key for it, where ports alone are not.
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
