//! Optical rails.

pub mod alone;
pub mod electrical;
mod levels;
pub mod machine;
mod table;

pub use alone::AloneError;
pub use electrical::Electrical;
pub use machine::{Machine, Wire};
