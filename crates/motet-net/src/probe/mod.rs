//! Latency and bandwidth between hosts, measured over TCP between agents, and the network that
//! follows.
//!
//! Every host runs an agent ([`agent`]). A coordinator ([`coordinator`]) reads the hosts
//! ([`hosts`]), greets them, chooses few pairs that tell much ([`sample()`]), puts those that do not
//! disturb each other into rounds ([`rounds`]), asks one agent of each pair to measure the way to
//! the other ([`session`]), and makes a network of the results ([`resolve()`]), in which pairs that
//! were not probed get the figures of their class. [`frame`] is what goes over the wire.
//!
//! Blocking sockets and threads only. Nothing here reads a clock: whoever calls passes a [`Clock`].
//! The user's page is `docs/discovery.md`.

pub mod agent;
mod connection;
pub mod coordinator;
pub mod frame;
pub mod history;
pub mod hosts;
mod places;
pub mod resolve;
pub mod rounds;
pub mod sample;
pub mod session;
#[cfg(test)]
mod tests;

use motet_units::Instant;

pub use agent::{AgentOptions, serve};
pub use connection::ProbeError;
pub use coordinator::{Probed, RunOptions, greet, run};
pub use frame::{Frame, ProbePlan};
pub use history::History;
pub use hosts::{Host, Hosts};
pub use resolve::{Model, resolve};
pub use sample::{Pair, Sample, SampleOptions, sample};
pub use session::Measurement;

/// Where the port is not given.
pub const DEFAULT_PORT: u16 = 7461;

/// Time that goes on, from any start.
pub trait Clock: Sync {
    fn now(&self) -> Instant;
}

impl<F: Fn() -> Instant + Sync> Clock for F {
    fn now(&self) -> Instant {
        self()
    }
}
