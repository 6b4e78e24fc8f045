//! Datacenters out of network namespaces on one machine, joined by WAN links whose rate, delay, queue and loss are
//! emulated, for programs and routes live.
//!
//! A testbed is made of the same scenario that `motet wan` simulates. Every rank is a host with a namespace of its own, every
//! datacenter a bridge, every node that a WAN link ends at a router, and every WAN link a pair of TUN devices between which one
//! process, the *keeper*, passes packets no faster than the link's rate, or, if the scenario says so, veth devices that the kernel shapes. The
//! keeper holds everything: namespaces and devices live as long as it does, so that nothing is left behind when it is killed.
//!
//! **Where to start reading.** [`layout`] is what a network comes to: hosts, routers, lines, addresses. [`line`](mod@line) is one direction
//! of a WAN link as plain data without a clock, [`ways`] what routers must know so that a flow takes given links. Then
//! `linux`, which makes it real: `linux::keeper` is the process, `linux::build` how it makes the namespaces.
//!
//! - [`order`]: what a controller tells the keeper, as lines of text;
//! - [`state`]: the file by which `up`, `run` and `down` find a testbed, and how they know that it is still there;
//! - [`packet`]: how many bytes a packet takes on a line;
//! - [`schedule`]: how links change by the clock while a testbed is up;
//! - [`live`]: the modes of `motet wan` on a testbed: the same hands, real collectives;
//! - [`error`]: why something could not be done, and what to do.
//!
//! Everything but `linux` builds everywhere; without Linux there are no namespaces and the commands say so.

pub mod error;
pub mod layout;
pub mod line;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod live;
pub mod order;
pub mod packet;
pub mod schedule;
pub mod state;
pub mod ways;

pub use error::TestbedError;
pub use layout::Layout;
pub use line::{Line, Shape};
