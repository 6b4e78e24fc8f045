//! The gRPC API: [`v1`] is generated from the protos, [`convert`] converts its messages to the core's types
//! and back, and [`service`] answers calls.

pub mod convert;
pub mod service;
#[allow(
    clippy::all,
    clippy::pedantic,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
pub mod v1;
