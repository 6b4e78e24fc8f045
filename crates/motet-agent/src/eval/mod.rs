//! Judging policies: all of them on the same scenarios, none of which any was made with.
//!
//! - [`run`](mod@run): one policy through one scenario, call by call or by published tables;
//! - [`score`]: what came of it.

pub mod run;
pub mod score;

pub use run::{Pace, Record, run};
pub use score::{Score, Trial};
