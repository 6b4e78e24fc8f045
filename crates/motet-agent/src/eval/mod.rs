//! Judging policies: all of them on scenarios that none was trained on.
pub mod run;
pub use run::{Pace, Record, run};
