//! The program files that Motet reads and writes.

pub mod imported;

pub use imported::{Imported, Origin, Origins, Place};
