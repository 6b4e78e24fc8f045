//! The network: a directed multigraph of devices and links, what varies of it with time, the
//! ways through it, and every file format it is read from and written to.
//!
//! - [`network`]: the fixed graph and its builder; [`node`] and [`link`] its parts.
//! - [`tier`]: how far apart ranks are, 0 (one package) to 4 (two datacenters).
//! - [`formats`]: readers and writers, the only place here that knows about files.

pub mod formats;
pub mod link;
pub mod network;
pub mod node;
pub mod tier;

pub use link::{Link, LinkClass, LinkSpec};
pub use network::{BuildError, Network, NetworkBuilder};
pub use node::{Location, Node, NodeKind};
pub use tier::{Tier, TierMix};
