//! The replay engine against an independent interpreter of the model, and against the event
//! engine, over random programs, networks, states and sizes; and by hand where it is small.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod by_hand;
mod equality;
mod interpreter;
mod networks;
#[path = "../../../motet-collective/tests/support/programs.rs"]
mod programs;
mod random_programs;
mod rerouted;
