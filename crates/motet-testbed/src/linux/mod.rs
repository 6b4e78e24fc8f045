//! The testbed itself: namespaces, devices, routes, and the process that holds them.
//!
//! [`keeper`] is that process; it makes everything by [`build`], which speaks to the kernel through [`netlink`] and [`sys`], or to routers that have FRR by [`frr`]. [`process`] finds a testbed that is up, enters its
//! hosts and ends what runs there.

pub mod build;
pub mod frr;
pub mod keeper;
pub mod netlink;
pub mod process;
mod sys;
