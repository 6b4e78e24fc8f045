//! The testbed itself: namespaces, devices, routes, and the process that holds them.
//!
//! [`keeper`] is that process; it makes everything by [`build`], which speaks to the kernel through [`netlink`] and [`sys`]. [`process`] finds a testbed that is up, enters its
//! hosts and ends what runs there.

pub mod build;
pub mod keeper;
pub mod netlink;
pub mod process;
mod sys;
