//! The model of the network that everything in Motet stands on: which devices there are (GPUs, NICs,
//! switches, routers), which links join them, how fast and how far each link is; and how that model
//! comes about: from files, from templates, from the machine itself, from measurements between
//! hosts.
//!
//! Start reading at [`network`]: [`Network`] is a directed multigraph of [`Node`]s and [`Link`]s that
//! never changes once built. What does change while a job runs (bandwidth left by others, links
//! down) is a [`NetworkState`] beside it, so that thousands of states can share one network. Then
//! read [`builders`] if you want to make networks, [`formats`] if you want to read files, [`path`] if
//! you want to find ways through.
//!
//! The network itself:
//! - [`network`]: the graph and its builder; [`node`] and [`link`] are its parts.
//! - [`tier`]: how far apart two devices are, from 0 (one package) to 4 (two datacenters);
//!   [`tier_mix`]: the same for all ranks of a communicator.
//! - [`state`]: what varies with time, traces of it, and "what if this link fails?"
//!   ([`state::what_if`]).
//!
//! Questions about it:
//! - [`path`]: shortest, k shortest and disjoint paths, and the time data takes along them.
//! - [`signature`]: the identity of a network, whatever its nodes are called.
//! - [`part`]: the network as some of its ranks have it to themselves.
//! - [`summary`] and [`diff`]: one network in a few numbers; what differs between two.
//!
//! Where it comes from:
//! - [`builders`]: templates: servers, fabrics, WANs, from a few parameters.
//! - [`formats`]: readers and writers of files, which take and give text.
//! - [`discover`]: the machine it runs on, from sysfs.
//! - [`probe`]: latency and bandwidth between hosts, measured over TCP.
//! - [`provenance`]: where each figure comes from that was found rather than written.

pub mod builders;
mod components;
pub mod diff;
pub mod discover;
pub mod formats;
mod gpu_model;
pub mod in_network;
pub mod link;
mod link_class;
mod nearest;
pub mod network;
pub mod node;
pub mod part;
pub mod path;
pub mod probe;
pub mod provenance;
pub mod signature;
pub mod state;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod tier;
pub mod tier_mix;
pub mod unknown_name;

pub use diff::NetworkDiff;
pub use in_network::InNetwork;
pub use link::{Link, LinkClass, LinkSpec};
pub use network::{BuildError, Network, NetworkBuilder};
pub use node::{Location, Node, NodeKind};
pub use part::PartError;
pub use path::{Forwarding, Metric, Path, Search, Transit};
pub use provenance::{LinkSources, Provenance, Source, Sourced, Unseen};
pub use signature::Signature;
pub use state::{LinkChange, NetworkState, StateEvent, StateTrace, WhatIf};
pub use summary::Summary;
pub use tier::Tier;
pub use tier_mix::TierMix;
