//! Drivers of optical circuit switches: how the controller's orders reach real devices.
//!
//! ```text
//!  controller's orders      Driver            Device / Session
//!  ─── orders::carry_out ──► Managed ─────────► sim │ gnmi │ netconf │ restconf │ scpi │ tl1 ──► the switch
//!       circuits of numbered ports    cross-connections of the device's own ports
//! ```
//!
//! **Where to start reading.** [`Driver`] is what users of this crate see: read all circuits and ports, apply a delta, watch. All
//! drivers are one [`Managed`] around a [`device::Device`], which knows a protocol and nothing else. So the rules are written
//! once: what is there already is kept, then circuits are deleted, then created; no port is in two circuits, checked
//! before anything is sent; what the switch says it did is read back; what is half done is never called done.
//!
//! - [`config`]: a `[[switch]]` of a file, and [`config::open`], which makes a driver of it.
//! - [`layout`]: how numbered ports are wired to the device's own ports; `plan`: from what is there to what is sent.
//! - [`orders`]: the controller's orders, carried out by a driver.
//! - [`sim`]: a switch that is not there, with delays and faults. [`gnmi`], [`netconf`], [`restconf`], [`scpi`], [`tl1`]: real ones.

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
