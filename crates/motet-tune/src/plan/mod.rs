//! [`Plan`]: for every task of a job, the program or NCCL algorithm to use and its knobs.
//!
//! A task is a collective and a size on one network. For each collective there are some [`Way`]s of
//! doing it ([`ways`]): what NCCL builds itself, the textbook, and what the synthesizer makes under the
//! sketches of the network. For each task a search finds the best way together with its knobs
//! ([`tune`]), beside what NCCL would choose alone and what MSCCL does with the same settings for
//! everything ([`baseline`]). All of them are timed by the same simulator. [`folder`] is what a plan
//! looks like on disk.
//!
//! [`make()`] does all of it; a [`Journal`] lets it go on where it was stopped ([`journal`] is its text).

pub mod baseline;
pub mod folder;
pub mod journal;
pub mod make;
pub mod table;
pub mod tune;
pub mod ways;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Knobs, Protocol};
use motet_net::Signature;
use motet_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

pub use make::{Journal, NoJournal, PlanError, Request, Step, make};
pub use ways::{Origin, Way};

/// A setting that was timed: a way of doing the collective, and its knobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pick {
    /// The name of the way.
    pub way: String,
    /// The algorithm, if NCCL does it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    pub protocol: String,
    /// What is `None` is left to the library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
    pub time_ps: u64,
    /// Whether the time is what NCCL's own cost model expects, because the simulator cannot run
    /// it (NVLS, CollNet).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_model: bool,
}

impl Pick {
    pub(crate) fn new(way: &Way, knobs: &Knobs, time: Duration) -> Self {
        let algorithm = match way.origin {
            Origin::Nccl(algorithm) => Some(algorithm.name().to_owned()),
            _ => None,
        };
        Self {
            way: way.name.clone(),
            algorithm,
            protocol: knobs.protocol.name().to_owned(),
            channels: knobs.channels,
            threads: knobs.threads,
            buffer_bytes: knobs.buffer.map(Bytes::get),
            time_ps: time.as_ps(),
            by_model: false,
        }
    }

    #[must_use]
    pub const fn time(&self) -> Duration {
        Duration::from_ps(self.time_ps)
    }

    /// The knobs, if the protocol is one.
    #[must_use]
    pub fn knobs(&self) -> Option<Knobs> {
        let protocol = Protocol::ALL.into_iter().find(|it| it.name() == self.protocol)?;
        Some(Knobs {
            channels: self.channels,
            threads: self.threads,
            buffer: self.buffer_bytes.map(Bytes::new),
            ..Knobs::new(protocol)
        })
    }

    /// NCCL's algorithm, if it does it itself.
    #[must_use]
    pub fn nccl_algorithm(&self) -> Option<Algorithm> {
        let name = self.algorithm.as_deref()?;
        Algorithm::ALL.into_iter().find(|it| it.name() == name)
    }

    /// In GB/s, GB = 10⁹ bytes, as nccl-tests counts algorithm bandwidth.
    #[must_use]
    pub fn algbw(&self, size: Bytes) -> f64 {
        algbw(size, self.time())
    }
}

/// Algorithm bandwidth in GB/s.
#[must_use]
pub fn algbw(size: Bytes, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { size.get() as f64 / (time.as_us_f64() * 1e3) }
}

/// What came of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    pub collective: String,
    pub size_bytes: u64,
    /// The least time any program could take.
    pub bound_ps: u64,
    /// What to do, the best first.
    pub picks: Vec<Pick>,
    /// What NCCL would choose.
    pub nccl: Option<Pick>,
    /// MSCCL with one setting for everything, on a program that sends straight to everyone.
    pub msccl: Option<Pick>,
    /// The same setting on the best program for it.
    pub sketch_only: Option<Pick>,
    /// The program that sends straight to everyone under its best knobs.
    pub knobs_only: Option<Pick>,
    /// How many settings were timed.
    pub trials: u32,
    /// The best time after so many trials, where it got better.
    pub progress: Vec<(u32, u64)>,
}

impl Tuned {
    #[must_use]
    pub fn kind(&self) -> Option<CollectiveKind> {
        self.collective.parse().ok()
    }

    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.size_bytes)
    }

    #[must_use]
    pub fn best(&self) -> Option<&Pick> {
        self.picks.first()
    }

    /// How many times as fast the plan is as `other`.
    #[must_use]
    pub fn gain(&self, other: Option<&Pick>) -> Option<f64> {
        let (best, other) = (self.best()?, other?);
        (best.time_ps > 0).then(|| other.time_ps as f64 / best.time_ps as f64)
    }
}

/// A plan for one network.
#[derive(Clone, Debug)]
pub struct Plan {
    pub network: String,
    pub signature: Signature,
    pub ranks: u32,
    pub seed: u64,
    /// By collective, then size.
    pub tasks: Vec<Tuned>,
    /// The ways that are not NCCL's own and that some task uses.
    pub programs: Vec<Way>,
    /// Ways that were made and could not be used, with why.
    pub left_out: Vec<(String, String)>,
}
