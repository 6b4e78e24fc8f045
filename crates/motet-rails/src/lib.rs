//! Optical rails: what switching circuits during a training step costs it.
//!
//! A rail connects the GPUs of one place in all scale-up domains. Opus proposes to make it of optical circuit switches, which
//! connect one port to one other, and to change circuits between the phases of a step in which different parallelisms communicate.
//! Here a step runs on such rails, and on those it is compared with.
//!
//! **Where to start reading.** [`electrical`] is the baseline and shows how a fabric is made; [`optical`] is what this crate is for.
//!
//! - [`machine`]: what GPUs are connected by.
//! - [`alone`]: how long collectives take on a rail or a ring of circuits, by programs in the simulator; `levels`: what a job's
//!   communications take, from that; `table`: for a whole step.
//! - [`electrical`]: packet switches. [`optical`]: circuits that change, and circuits that stay.
//! - [`step`]: a job, its step and a machine together; [`opus`]: the paper's job and experiments.
//! - [`knobs`]: which AllReduces go by trees, chosen by a hand beside the one that moves circuits.
//! - [`scale`]: how many GPUs optical switches reach; [`cost`]: what they cost, by the prices of a file ([`formats`]).
//!
//! Windows, in which circuits can change for free, are `motet_workload::windows`.

pub mod alone;
pub mod cost;
pub mod electrical;
pub mod error;
pub mod formats;
pub mod knobs;
mod levels;
pub mod machine;
pub mod optical;
pub mod opus;
pub mod scale;
pub mod step;
mod table;

pub use alone::AloneError;
pub use electrical::Electrical;
pub use error::RailsError;
pub use machine::{Machine, Wire};
pub use step::TrainingStep;
