//! The testbed itself: namespaces, devices, routes, and the process that holds them.
//!
//! [`keeper`] is that process; it makes everything by [`build`], which speaks to the kernel through [`netlink`] and [`sys`], or to routers that have FRR by [`frr`]. WAN links are [`wires`], which [`own`] passes
//! packets over or which are the [`kernel`]'s by [`qdisc`]. [`process`] finds a testbed that is up, enters its hosts and ends what runs there.

pub mod build;
pub mod frr;
pub mod keeper;
mod kernel;
pub mod netlink;
mod own;
pub mod process;
pub mod qdisc;
mod sys;
mod wires;
