//! [`Setup`]: what is settled when a communicator is made, once for all calls of a plan: threads of a
//! block (`NCCL_NTHREADS`) and the buffer of a connection (`NCCL_BUFFSIZE`).
//!
//! A tuner can choose algorithm, protocol and channels per call, but neither of these. So they are one
//! choice for all tasks, and NCCL's own unless another gains the margin over all tasks together:
//! [`choose`] decides by some tasks of the plan, each with the program that was best for it.

use motet_nccl::{Knobs, Protocol};
use motet_units::Bytes;
use serde::{Deserialize, Serialize};

use super::tune::Tuning;
use super::{Pick, TunedTask};
use crate::profile::surface::Why;
use crate::profile::{Measured, Surface};
use crate::search::{Budget, Method, Search, Settings};
use crate::space::{Dimension, Space};

/// What a communicator is made with; `None` is NCCL's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The buffer of Simple; those of LL and LL128 stay NCCL's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
}

impl Setup {
    /// The knobs of a call under a protocol.
    #[must_use]
    pub fn knobs(&self, protocol: Protocol) -> Knobs {
        Knobs {
            threads: self.threads,
            buffer: self.buffer.filter(|_| protocol == Protocol::Simple),
            ..Knobs::new(protocol)
        }
    }
}

/// How hard to search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub method: Method,
    /// Settings of the communicator that may be tried.
    pub trials: u32,
}

const THREADS: [u32; 4] = [128, 256, 384, 512];
const BUFFERS: [Bytes; 6] =
    [Bytes::kib(512), Bytes::mib(1), Bytes::mib(2), Bytes::mib(4), Bytes::mib(8), Bytes::mib(16)];

/// One task of a collective with its program.
struct Sample<'a> {
    tuning: &'a Tuning<'a>,
    task: &'a TunedTask,
    pick: &'a Pick,
}

/// How long all samples take under every setting: the geometric mean of their times, in which large calls count no
/// more than small ones.
struct Setups<'a> {
    samples: Vec<Sample<'a>>,
}

impl Setups<'_> {
    fn of(point: usize) -> Setup {
        let (threads, buffer) = (THREADS[point / BUFFERS.len()], BUFFERS[point % BUFFERS.len()]);
        Setup { threads: Some(threads), buffer: Some(buffer) }
    }

    fn mean(&self, setup: Setup) -> Result<f64, Why> {
        let mut logs = 0.0;
        for Sample { tuning, task, pick } in &self.samples {
            let way =
                tuning.candidates.iter().find(|it| it.name == pick.way).ok_or("no such way")?;
            let layout = way.family.find(pick.instances, pick.packed).ok_or("no such layout")?;
            let knobs = setup.knobs(pick.protocol);
            let price =
                layout.laid.price_under(task.size(), &knobs).map_err(|it| it.to_string())?;
            logs += libm::log(price.time.as_ps().max(1) as f64);
        }
        Ok(libm::exp(logs / self.samples.len().max(1) as f64))
    }
}

impl Surface for Setups<'_> {
    fn time(&self, point: usize) -> Result<motet_units::Duration, Why> {
        self.mean(Self::of(point)).map(|it| motet_units::Duration::from_ps(it as u64))
    }
}

/// The setting for all tasks together: NCCL's own unless another gains the margin. It is decided by every fourth size
/// of each collective, with its best program for MSCCL; the times of NCCL's own algorithms do not count.
#[must_use]
pub fn choose(
    tasks: &[(&Tuning<'_>, &[TunedTask])],
    effort: Effort,
    seed: u64,
    margin_percent: u32,
) -> Setup {
    let mut samples = Vec::new();
    for (tuning, tuned) in tasks {
        let spread = tuned.iter().step_by(4);
        samples.extend(spread.filter_map(|task| {
            let pick = task.program.as_ref()?;
            Some(Sample { tuning, task, pick })
        }));
    }
    let setups = Setups { samples };
    if setups.samples.is_empty() || effort.trials == 0 {
        return Setup::default();
    }
    let Ok(own) = setups.mean(Setup::default()) else { return Setup::default() };
    let dimensions = vec![
        Dimension::logarithmic("threads", THREADS.iter().map(|it| u64::from(*it))),
        Dimension::logarithmic("buffer", BUFFERS.iter().map(|it| it.get())),
    ];
    let Ok(space) = Space::new(dimensions, |_| true) else { return Setup::default() };
    let settings = Settings {
        method: effort.method,
        seed,
        budget: Some(Budget { trials: effort.trials, iterations: u64::from(effort.trials) }),
        ..Settings::exact()
    };
    let mut profiler = Measured::exactly(&setups);
    let mut search = Search::new(&space, settings);
    // The model does not fail; what cannot run it says of a point.
    while search.step(&mut profiler).unwrap_or(false) {}
    let best = search.outcome().best.map(Setups::of);
    let gains = |it: &Setup| {
        setups.mean(*it).is_ok_and(|time| time * f64::from(100 + margin_percent) < own * 100.0)
    };
    best.filter(gains).unwrap_or_default()
}
