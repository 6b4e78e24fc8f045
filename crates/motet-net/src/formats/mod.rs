//! Readers and writers of network files.

pub mod error;

pub use error::{Position, ReadError};
