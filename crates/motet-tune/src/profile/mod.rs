//! [`Profiler`]: the one interface to whatever runs a collective under the knobs of a point and
//! says how long it took.
//!
//! The simulator is one: a [`Surface`] (how long every point takes) behind [`Measured`] (seeded
//! measurement noise, none unless asked). What runs on real GPUs or sockets is slower, fails, and
//! pays for every new communicator, and the interface is made for those: every profile may fail,
//! a batch comes ordered so that a communicator is made once for all its points, and time is what
//! the iterations took altogether, for the caller to divide.
//!
//! - [`surface`]: true times, recorded or worked out when asked; [`simulated`]: of programs under
//!   knobs; [`measured`]: a surface seen through noise.

pub mod measured;
pub mod simulated;
pub mod surface;

use motet_units::Duration;
use serde::{Deserialize, Serialize};

pub use measured::Measured;
pub use simulated::Simulated;
pub use surface::{Recorded, Remembered, Surface};

/// What to profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// A point of the space, by number.
    pub point: usize,
    /// How often to run it.
    pub iterations: u32,
    /// How often the point has been run in this search before; its iterations are numbered from here.
    pub before: u32,
}

/// The result of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The time of all iterations together.
    pub total: Duration,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// This point does not work, whatever is tried; others may.
    #[error("this setting cannot run: {0}")]
    Impossible(String),
    /// The backend does not work; the search stops and may be resumed.
    #[error("profiling failed: {0}")]
    Failed(String),
}

/// Runs collectives and takes their time.
pub trait Profiler {
    /// Runs one point.
    fn profile(&mut self, request: Request) -> Result<Profile, ProfileError>;

    /// Runs several points, each of which is in the batch once; one result each. Points that share a communicator
    /// ([`group`](crate::space::Space::group)) follow one another, so that it need not be made again. A profiler
    /// that runs nothing real may work on all of them at the same time.
    fn profile_batch(&mut self, requests: &[Request]) -> Vec<Result<Profile, ProfileError>> {
        requests.iter().map(|it| self.profile(*it)).collect()
    }
}
