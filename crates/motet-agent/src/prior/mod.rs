//! What the survey and DynamICCL's reading of it hold to be so before anything is measured (§7 to §10): where
//! a policy starts, what a curriculum draws from, and what a choice is held against.
//!
//! - [`tiers`]: bandwidth and latency of each tier, and how long it takes to bring a large model together;
//! - [`tables`]: which ways to synchronize and to compress are plausible at which tier, and where knobs matter;
//! - [`bias`]: which algorithms and protocols suit which overlap of computing and sending, and which topology;
//! - [`paths`]: when NCCL is the path to take, and when another.
//!
//! All of it is hearsay until measured: cells are the text's words, in an order of ours where numbers are needed.

pub mod bias;
pub mod paths;
pub mod tables;
pub mod tiers;

pub use bias::{Bias, Overlap};
pub use paths::Need;
pub use tables::{Heat, Packed, Suit};
pub use tiers::{SyncRound, TierPrior};
