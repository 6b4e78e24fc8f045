//! Tests of programs under knobs from outside: closed forms, laws and bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod closed_forms;
mod laws;
#[path = "../../../motet-collective/tests/support/programs.rs"]
mod programs;
mod support;
