//! The cluster file: Motet's own network format, TOML with an explicit graph (`[[node]]`,
//! `[[link]]`), templates (`[[server]]`, `[[fabric]]`, `[[wan]]`), or both.
//!
//! The reference for users is `docs/cluster-file.md`. [`read()`] is in `read.rs`, on top of the
//! checked tables of `table.rs`; [`write()`] in `write.rs` writes the explicit graph, which reads
//! back as an equal network. What templates make is in [`builders`](crate::builders).

mod read;
pub(crate) mod table;
mod write;

pub use read::read;
pub(crate) use read::tables;
pub use write::{write, write_commented};

#[cfg(test)]
mod tests;
