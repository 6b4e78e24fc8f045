//! Prior knowledge from the survey and DynamICCL's reading of it (§7 to §10), used before anything is measured: where a policy
//! starts, what a training curriculum draws from, and what choices are compared with.
//!
//! - [`tiers`]: bandwidth and latency of each tier, and how long it takes to bring a large model together;
//! - [`tables`]: which ways to synchronize and to compress are plausible at which tier, and where knobs matter;
//! - [`bias`]: which algorithms and protocols suit which overlap of computing and sending, and which topology;
//! - [`paths`]: when NCCL is the path to take, and when another.
//!
//! None of it was measured by us: table cells have the text's words, and where numbers are needed we chose them.

pub mod bias;
pub mod paths;
pub mod tables;
pub mod tiers;

pub use bias::{Bias, Overlap};
pub use paths::Need;
pub use tables::{Heat, Packed, Suit};
pub use tiers::{SyncRound, TierPrior};
