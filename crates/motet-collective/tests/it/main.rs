//! Integration tests of motet-collective, one binary.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests may fail, and say so"
)]

mod bounded_work;
mod by_ports;
mod instances;
mod interpreter;
mod msccl_xml;
mod msccl_xml_wrong;
mod mscclpp_json;
mod mscclpp_json_equal;
mod mscclpp_json_switch;
mod mscclpp_json_wrong;
mod mutation;
mod program_json;
#[path = "../support/programs.rs"]
mod programs;
mod right_programs;
