//! The trigger agent: whether something has changed.
pub mod cusum;
pub use cusum::Cusum;
