//! The simulator: how long a verified program takes on a network, and what every link does
//! meanwhile.
//!
//! Two engines, one meaning, which [`model`] defines:
//! - the event engine runs anything: links that change and fail, FIFO and fair sharing,
//!   multicast and reduction in switches, circuits, background traffic;
//! - the replay engine compiles a program once and runs it over many network states at a time.
//!
//! A property test holds them equal to the picosecond where both apply.
//!
//! - [`event`]: the event engine: [`Prepared`], [`Simulation`], [`Outcome`], [`Observer`].
//! - [`changes`]: where changes of the network come from: traces, background traffic, circuits.
//! - [`mod@run_many`]: many runs over all cores.
//! - [`model`]: the rules, in words and as [`SimOptions`].
//! - [`replay`]: the replay engine.
//! - [`route`]: a program with its way through a network settled: [`Routed`], what engines take.
//! - [`timeline`]: what every link and rank did when, for ui.perfetto.dev; [`utilization`]: how
//!   busy links were.

pub mod changes;
pub mod event;
mod group;
pub mod link_rule;
pub mod model;
pub mod names;
#[cfg(test)]
#[path = "../../motet-collective/tests/support/programs.rs"]
mod programs;
pub mod replay;
pub mod route;
pub mod run_many;
pub mod timeline;
pub mod utilization;

pub use event::{Observer, Outcome, Prepared, SimError, Simulation};
pub use model::{Discipline, SimOptions, SwitchForwarding};
pub use replay::Replay;
pub use route::{DefaultRoutes, Hop, RouteError, Routed};
pub use run_many::run_many;
pub use timeline::Timeline;
pub use utilization::Utilization;
