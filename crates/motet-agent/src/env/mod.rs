//! The agent's environment: simulated communicators, their calls, and the load on them, in which policies are trained and judged.
//!
//! - [`site`]: networks from a handful of numbers;
//! - [`place`]: a communicator on a network, every action priced by the model that plans use;
//! - [`load`], [`timeline`]: congestion, neighbours and faults over time, and how they slow calls; [`trouble`]: slowdowns that
//!   follow laws which no policy assumes;
//! - [`scenario`]: a job, call by call; [`family`], [`weather`], [`atlas`]: how they are drawn, and what is held out;
//! - [`environment`]: a scenario being run.
//!
//! Everything random comes from the scenario's seed and does not depend on what a policy does, so that all policies meet the same
//! loads and the same noise.

pub mod atlas;
pub mod environment;
pub mod family;
mod fresh;
pub mod load;
pub mod place;
pub mod scenario;
pub mod site;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod trouble;
pub mod weather;

pub use atlas::{Atlas, Split};
pub use environment::{EnvStep, Environment, Observation, Truth};
pub use family::Family;
pub use load::{Load, Where};
pub use place::{Brief, Place, PlaceError};
pub use scenario::{Group, Noise, PerKernel, Scenario, Task};
pub use site::Site;
pub use timeline::{Episode, Pattern, Timeline};
pub use trouble::{Law, Trouble};
