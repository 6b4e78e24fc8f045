//! The gRPC API: [`v1`] is made from the protos, [`convert`] makes the core's types of its messages and back, and
//! [`service`] answers.

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
