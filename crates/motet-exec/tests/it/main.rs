//! Ranks as threads of one process, over real sockets and shared memory: right results, and what must happen
//! when something goes wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

mod agreement;
mod ahead;
mod certificates;
mod faults;
mod lent;
mod meeting;
#[path = "../../../motet-collective/tests/support/programs.rs"]
mod programs;
mod proxy;
mod ranks;
mod right;
mod strangers;
mod tls;
