//! Tests of the event engine from outside: closed forms, laws, changes, groups, bad input, and
//! what is made of a run to look at.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod changes;
mod closed_forms;
mod groups;
mod in_switch;
mod laws;
mod pictures;
#[path = "../../../motet-collective/tests/support/programs.rs"]
mod programs;
mod published;
mod support;
