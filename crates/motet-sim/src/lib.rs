//! The simulator of Motet: how long a collective takes when a verified program runs on a network,
//! and what every link does meanwhile.
//!
//! A program says which chunk goes from which rank to which, and in which order where order
//! matters. The simulator gives each link its latency and bandwidth and works out, in whole
//! picoseconds, when every transfer starts, is sent and arrives. It knows nothing of how programs
//! are made: bounds, synthesis, plans and the WAN all ask it, and it asks none of them. Times are of
//! ideal links; what a runtime's kernels add to that is `motet-nccl`'s to say.
//!
//! **Where to start reading.** [`model`] has the rules in words. [`link_rule`] is the one rule that
//! everything rests on, in code: when a link takes a transfer and for how long. [`route`] settles
//! which links each transfer takes ([`Routed`]). Then there are two engines with one meaning:
//!
//! - [`event`], for everything: links that change and fail during a run, FIFO and fair sharing,
//!   multicast and reduction in switches. [`Prepared`] is a program made ready, [`Simulation`] one
//!   run of it, [`Outcome`] what comes out, [`Observer`] what is told of every step.
//! - [`replay`], for many runs of one program with links in program order and a state that stays as
//!   it is during a run: over many states at a time ([`Replay`]), or over routes that are given with
//!   each run ([`replay::FlowReplay`]). It does without a queue of events: a hundred times as fast
//!   as the event engine over many states, a few times with routes given (`BENCHMARKS.md`).
//!
//! A property test holds the two equal to the picosecond where both apply.
//!
//! Around them: [`changes`] makes the changes of a network's state that a run takes (traces,
//! background traffic, optical circuits); [`timeline`] writes down what every link and rank did when,
//! for ui.perfetto.dev; [`utilization`] says how busy links were; [`mod@run_many`] runs many
//! simulations on all cores; [`names`] says how messages name a link.

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
