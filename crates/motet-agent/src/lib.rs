//! DynamICCL's agent: before every collective call it chooses NCCL's knobs (algorithm, protocol, channels) from the
//! communicator's topology, the job's properties and recent changes in performance. It follows the design-space analysis that is
//! listed in `docs/papers.md`.
//!
//! **What is here:** the agent's states, actions, gates and rewards; a simulated environment; the change detector (trigger);
//! policies and their evaluation; an LSTM policy, its training, and its decisions distilled into tables; and a pilot by which
//! a policy steers a live job.
//!
//! - [`state`]: the features of Fig. 14, typed, and their encoding as numbers;
//! - [`action`]: paths and knobs; which of them a version of NCCL offers on a communicator, numbered;
//! - [`gate`]: rules that decide some calls before a policy is asked;
//! - [`reward`]: the reward of a call, in eight terms;
//! - [`prior`]: the survey's statements about tiers, topologies and algorithms, used before anything is measured;
//! - [`mod@env`]: the simulated scenarios that policies are trained and judged on;
//! - [`policy`]: the interface of all policies, and the policies;
//! - [`trigger`]: detects that performance has changed;
//! - [`eval`]: evaluates policies on scenarios that are held out of training;
//! - [`lstm`]: the network of the learned policy, and its file;
//! - [`train`]: finds its weights; [`distill`]: makes run-time tables of its decisions;
//! - [`hand`]: a policy as the knobs hand of another simulation, beside circuits, routes and programs;
//! - [`pilot`]: a policy that makes the tables of a live job.
//!
//! **Where to start reading:** [`state`] and [`action`]; a policy is a function from the one to the other.
//!
//! Everything is a pure function of its inputs: no clock, no IO, random choices only from given seeds, and
//! logarithms from `libm`, so that ranks on different machines compute the same bits. Ranks that choose
//! differently hang; the documentation of `motet_runtime` says how they agree.

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
