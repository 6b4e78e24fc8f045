//! Optical rails.

pub mod alone;
pub mod cost;
pub mod electrical;
pub mod formats;
mod levels;
pub mod machine;
pub mod scale;
mod table;

pub use alone::AloneError;
pub use electrical::Electrical;
pub use machine::{Machine, Wire};
