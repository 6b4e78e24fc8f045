//! Training jobs: their compute and communication as a DAG, simulated in time or read from recordings.
//!
//! A job is a model, a layout over ranks, a GPU and a batch. One training step of it is a DAG of compute and
//! communication. For every communication the DAG has the parallelism that it serves, the collective, the
//! group and the size, which is what simulation, tuning and the planning of optical rails need.
//!
//! **Where to start reading.** [`job`] has the input, [`check`] refuses inconsistent settings, [`iteration`] has the result.
//!
//! - [`model`] and [`models`]: what is trained; [`gpu`]: how fast ranks compute.
//! - [`layout`]: how a model is spread over ranks, and the groups that follow.
//! - [`sync`]: how often replicas are synchronized, and how gradients are compressed.
//! - [`iteration`]: one step as a DAG; [`build`] makes it.
//! - [`volume`]: calls and bytes of a step, counted; [`closed_form`]: the same by formula.
//! - [`demand`]: the same call by call, for tuning; [`memory`]: what a rank must hold.
//! - [`schedule`]: the order in which pipeline stages process micro-batches.
//! - [`simulate`]: a step run in time over a fabric.
//! - [`windows`]: the time between phases of traffic on a rail.
//! - [`recording`]: a job's communication as recorded by profilers, merged over its ranks.
//! - [`formats`]: jobs and traces as files.
//! - [`refusal`]: why a job is refused, and the nearest choice that works.
//!
//! Nothing here reads a clock or uses randomness, and files are passed as text.

pub mod build;
pub mod check;
pub mod closed_form;
pub mod demand;
pub mod formats;
pub mod gpu;
pub mod iteration;
pub mod job;
pub mod layout;
pub mod memory;
pub mod model;
pub mod models;
pub mod recording;
pub mod refusal;
pub mod schedule;
pub mod simulate;
pub mod sync;
pub mod volume;
pub mod windows;

pub use demand::Demand;
pub use gpu::Gpu;
pub use iteration::{Communication, Iteration, Operation, Phase, Work};
pub use job::{Batch, Draft, Host, Job, Precision};
pub use layout::{Group, Layout, Parallelism, Recompute, Reduction, Schedule, Sharding};
pub use model::{Model, Part};
pub use recording::{Call, Recording};
pub use refusal::{Refusal, Refusals};
pub use simulate::{Fabric, Placement, Run};
pub use sync::{Compression, SyncMode};
pub use volume::{Tally, Volumes};
pub use windows::Windows;
