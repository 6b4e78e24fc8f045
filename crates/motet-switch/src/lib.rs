//! Drivers of optical circuit switches: how the controller's orders reach real devices.
//!
//! ```text
//!  controller's orders      Driver            Device / Session
//!  ─── orders::carry_out ──► Managed ─────────► sim │ gnmi │ netconf │ restconf │ scpi │ tl1 ──► the switch
//!       circuits of numbered ports    cross-connections of the device's own ports
//! ```
//!
//! **Where to start reading.** [`Driver`] is what users of this crate see: read all circuits and ports, apply
//! a delta, watch. All drivers are one [`Managed`] around a [`device::Device`], which implements a protocol
//! and nothing else. So the rules are written once: circuits that are already there are kept, then circuits
//! are deleted, then created; before anything is sent it is checked that no port would be in two circuits;
//! what the switch says it did is read back; a change that was done only in part is never reported as done.
//!
//! - [`config`]: a `[[switch]]` table of a configuration file, and [`config::open`], which makes a driver
//!   from it.
//! - [`layout`]: how numbered ports are wired to the device's own ports; `plan`: which cross-connections a
//!   change removes and adds.
//! - [`orders`]: the controller's orders, carried out by a driver.
//! - [`sim`]: a simulated switch, with delays and faults. [`gnmi`], [`netconf`], [`restconf`], [`scpi`],
//!   [`tl1`]: real ones.

pub mod config;
pub mod device;
pub mod driver;
pub mod error;
pub mod gnmi;
pub mod layout;
pub mod managed;
pub mod netconf;
pub mod orders;
mod plan;
pub mod restconf;
pub mod scpi;
pub mod sim;
pub mod tl1;
pub mod tls;
mod wire;

pub use config::{SwitchConfig, open};
pub use driver::{Delta, Driver, Failure, Notice, Pending, PortState, Snapshot, Watch};
pub use error::{Error, Problem};
pub use layout::{Cross, Layout, Wiring};
pub use managed::Managed;
pub use orders::Operator;
