//! From a cluster to tuned programs and knobs: sketches, the knob space, the search over it, and the
//! plan that holds the result.
//!
//! - [`layouts`]: programs as a runtime would run them: what is timed is what is written.
//! - [`plan`]: for every task of a job what to use, beside NCCL at its best.
//! - [`space`], [`profile`], [`search`]: settings, what times them, and methods that look for the best.
//! - [`mod@within`]: programs within a runtime's limits.
//! - [`sketch`]: which links and peers a program may use, from the network alone.
//! - [`clusters`]: the clusters that seed 002 was evaluated on.

pub mod clusters;
pub mod layouts;
pub mod plan;
pub mod profile;
pub mod search;
pub mod sketch;
pub mod space;
pub mod within;
