//! A hand for every collective call: it sees where a communicator lies, what the job does and what has
//! changed of late, and chooses the knobs of the call: DynamICCL's agent, after the design-space analysis
//! that is listed in `docs/papers.md`.
//!
//! **What is here:** what such an agent sees, may do, must not do, and is rewarded for; a world to try it in; the
//! trigger; policies, and how they are judged; an LSTM, its training, and tables of what it decides; a pilot that has a
//! policy steer a live job.
//!
//! - [`state`]: the features of Fig. 14, typed, and their encoding as numbers;
//! - [`action`]: paths and knobs; which of them a version of NCCL offers on a communicator, numbered;
//! - [`gate`]: what is settled before a policy is asked;
//! - [`reward`]: what a call was worth, in eight terms;
//! - [`prior`]: what is held to be so before anything is measured;
//! - [`mod@env`]: scenarios that policies are trained on and judged by;
//! - [`policy`]: whoever chooses, behind one interface;
//! - [`trigger`]: whether something has changed;
//! - [`eval`]: all policies on scenarios that are held out of training;
//! - [`lstm`]: the network of the learned policy, and its file;
//! - [`hand`]: a policy as the knobs hand of another simulation, beside circuits, routes and programs;
//! - [`pilot`]: a policy as the leader of a live job's ranks;
//! - [`train`]: how its weights are found; [`distill`]: tables of what it decides.
//!
//! **Where to start reading:** [`state`] and [`action`]; a policy is a function from the one to the other.
//!
//! Everything is a pure function of what it is given: no clock, no IO, no chance, and logarithms from `libm`,
//! so that ranks on different machines have the same bits. Ranks that choose differently hang;
//! `motet_runtime`'s head says how they agree.

pub mod action;
mod desk;
pub mod distill;
pub mod env;
pub mod eval;
pub mod gate;
pub mod hand;
pub mod lstm;
pub mod pilot;
pub mod policy;
pub mod prior;
pub mod reward;
pub mod state;
pub mod train;
pub mod trigger;
mod words;

pub use action::{Action, ActionSpace, Masked, SpaceSpec};
pub use env::{Environment, Observation, Scenario};
pub use gate::{Experts, Gate, Verdict};
pub use policy::{Choice, Policy};
pub use reward::{Outcome, Reward, Weights};
pub use state::State;
