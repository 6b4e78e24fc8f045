//! From a cluster to tuned programs and knobs: sketches, the knob space, the search over it, and the
//! plan that holds the result.
//!
//! - [`sketch`]: which links and peers a program may use, from the network alone.
//! - [`clusters`]: the clusters that seed 002 was evaluated on.

pub mod clusters;
pub mod plan;
pub mod profile;
pub mod search;
pub mod sketch;
pub mod space;
