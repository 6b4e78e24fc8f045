//! The network: a directed multigraph of devices and links, what varies of it with time, the
//! ways through it, and every file format it is read from and written to.
//!
//! - [`network`]: the fixed graph and its builder; [`node`] and [`link`] its parts.
//! - [`tier`]: how far apart ranks are, 0 (one package) to 4 (two datacenters).
//! - [`state`]: what varies with time: bandwidth left, links down, and traces of both.
//! - [`path`]: ways through, shortest and k shortest, and the time data takes along them.
//! - [`signature`]: the identity of a network, whatever its nodes are called.
//! - [`diff`] and [`summary`]: what differs between two networks; one network in a few numbers.
//! - [`builders`]: networks from a few parameters: servers, fabrics, WANs.
//! - [`formats`]: readers and writers of files, which take and give text.
//! - [`discover`]: the network of the machine it runs on, from sysfs.
//! - [`probe`]: latency and bandwidth between hosts, measured over TCP.
//! - [`provenance`]: where the figures of a network come from that was found, not written.

pub mod builders;
mod components;
pub mod diff;
pub mod discover;
pub mod formats;
pub mod link;
mod nearest;
pub mod network;
pub mod node;
pub mod path;
pub mod probe;
pub mod provenance;
pub mod signature;
pub mod state;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod tier;

pub use diff::NetworkDiff;
pub use link::{Link, LinkClass, LinkSpec};
pub use network::{BuildError, Network, NetworkBuilder};
pub use node::{Location, Node, NodeKind};
pub use path::{Forwarding, Metric, Path, Search, Transit};
pub use provenance::{LinkSources, Provenance, Source, Sourced, Unseen};
pub use signature::Signature;
pub use state::{LinkChange, NetworkState, StateEvent, StateTrace, WhatIf};
pub use summary::Summary;
pub use tier::{Tier, TierMix};
