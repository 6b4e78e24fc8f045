//! The interface between training and simulated jobs: [`World`] makes episodes ([`Life`]), one [`Stage`] of the curriculum at a time.
//!
//! [`Scenarios`](super::Scenarios) is the world that policies are trained in. The interface is a trait so
//! that tests can train in worlds whose best policy is known.

use std::sync::Arc;

use motet_units::Seed;

use crate::lstm::{Catalogue, Nominal, Seen};
use crate::state::State;
use crate::words::category;

category! {
    /// The stages of the curriculum, from easy to hard (§13.7).
    Stage {
        /// One NVLink domain, bulk synchronous, nothing compressed, data parallel.
        One = "S1",
        /// Racks too, Local SGD, half precision, one pipeline.
        Two = "S2",
        /// Datacenters and between them, all parallelisms, strong compression, in-network aggregation, faults.
        Three = "S3",
    }
}

/// A source of episodes.
pub trait World: Sync {
    type Life: Life;

    /// A job of a stage; the same seed is the same job.
    fn begin(&self, stage: Stage, seed: Seed) -> Self::Life;
}

/// An episode: a job's calls, one after the other.
pub trait Life {
    /// The next call that the policy must decide; `None` at the end. Calls that the gate settles are carried
    /// out without being shown.
    fn face(&mut self) -> Option<Scene>;

    /// Carries out the call that [`face`](Self::face) returned last; `None` if there is none. `drawn` says
    /// whether the action was drawn in order to learn.
    fn act(&mut self, action: usize, drawn: bool) -> Option<Lived>;
}

/// A call that is to be decided.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The number of the communicator; each has a memory of its own.
    pub group: usize,
    pub state: State,
    pub catalogue: Arc<Catalogue>,
    pub nominal: Arc<Nominal>,
    /// What each action would cost, as the simulator knows and no policy does: the logarithm of its time over the
    /// call's least nominal time, and the reward's other terms that depend on the action.
    pub costs: Vec<f32>,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub struct Lived {
    /// The reward, with the logarithm of time in the place of time: see [`train`](super).
    pub reward: f32,
    pub seen: Seen,
}
