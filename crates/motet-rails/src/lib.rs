//! Optical rails.

pub mod alone;
pub mod electrical;
pub mod error;
mod levels;
pub mod machine;
pub mod optical;
mod table;

pub use alone::AloneError;
pub use electrical::Electrical;
pub use error::RailsError;
pub use machine::{Machine, Wire};
