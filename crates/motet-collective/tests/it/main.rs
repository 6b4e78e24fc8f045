//! Integration tests of motet-collective, one binary.

mod interpreter;
mod mutation;
#[path = "../support/programs.rs"]
mod programs;
mod right_programs;
