//! [`Plan`]: for every task of a job, the program or NCCL algorithm to use.
//!
//! A task is a collective and a size on one network. For each collective there are some [`CandidateProgram`]s that
//! do it ([`candidates`]): the textbook, and what the synthesizer makes under the sketches of the network,
//! each laid out as the file that a runtime loads ([`layouts`](crate::layouts)). For each task
//! [`tune`] takes the fastest layout and protocol, and beside it NCCL: by itself, and at the best
//! setting that a tuner can choose for that call ([`baseline`]). All of them are priced by one model
//! ([`motet_nccl::kernel`]), and nothing below the bound of the network is believed.
//!
//! NCCL keeps a task unless a program beats NCCL's best by the margin. What needs another communicator
//! (threads, buffers) is settled once for the whole plan ([`communicator`]).
//!
//! [`make()`] does all of it, by models ([`measure`](crate::measure) makes plans from measurements); a [`Journal`] lets
//! it go on where it was stopped ([`journal`] is the text of one). [`workload`] says for which networks and tasks a
//! training job needs plans. [`folder`] is a plan on disk ([`files`] and [`env`](mod@env): the parts that runtimes
//! load); [`check`] reads all of it again and proves it.

pub mod baseline;
pub mod candidates;
pub mod check;
pub mod communicator;
pub mod env;
pub mod files;
pub mod folder;
pub mod journal;
pub mod make;
pub(crate) mod one_sided;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tune;
pub mod workload;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Basis, Knobs, Protocol};
use motet_net::Signature;
use motet_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

pub use candidates::{CandidateProgram, MscclppUse, Origin};
pub use communicator::Setup;
pub use make::{Journal, NoJournal, PlanError, PlanEvent, Request, make};

/// The software that runs a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    Nccl,
    Msccl,
    Mscclpp,
}

impl Runtime {
    /// The name as its makers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nccl => "NCCL",
            Self::Msccl => "MSCCL",
            Self::Mscclpp => "MSCCL++",
        }
    }
}

/// One way of doing a task: NCCL with a setting, or a program in a layout; and how long it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pick {
    pub runtime: Runtime,
    /// The name of the program, or of NCCL's algorithm.
    pub way: String,
    /// The algorithm, if NCCL does it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    pub protocol: Protocol,
    /// Channels that data go over.
    pub channels: u32,
    /// Whether a tuner plugin must ask NCCL for that many channels; otherwise it is NCCL's own count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// How many instances of a program run side by side, each on a part of every chunk.
    pub instances: u32,
    /// Whether a program is laid out on as few thread blocks as its peers allow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packed: bool,
    /// Thread blocks on the GPU that has most of them. The job's compute cannot use their
    /// multiprocessors meanwhile.
    pub blocks: u32,
    pub time_ps: u64,
    /// How the time was worked out.
    pub basis: Basis,
}

impl Pick {
    #[must_use]
    pub const fn time(&self) -> Duration {
        Duration::from_ps(self.time_ps)
    }

    /// Whether it is a program rather than NCCL's own.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.runtime != Runtime::Nccl
    }

    /// Algorithm bandwidth as in nccl-tests, in GB/s (10⁹ bytes).
    #[must_use]
    pub fn algbw(&self, size: Bytes) -> f64 {
        algbw(size, self.time())
    }

    /// The knobs of a program.
    #[must_use]
    pub const fn knobs(&self, setup: &Setup) -> Knobs {
        Knobs {
            protocol: self.protocol,
            channels: Some(self.channels),
            threads: setup.threads,
            buffer: match self.protocol {
                Protocol::Simple => setup.buffer,
                Protocol::Ll | Protocol::Ll128 => None,
            },
        }
    }
}

/// Algorithm bandwidth in GB/s.
#[must_use]
pub fn algbw(size: Bytes, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { size.get() as f64 / (time.as_us_f64() * 1e3) }
}

/// The result for one task: what the plan does, and everything it was compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedTask {
    pub collective: CollectiveKind,
    pub size_bytes: u64,
    /// The least time anything could take on this network; with sums and copies in its switches
    /// where NCCL uses them.
    pub bound_ps: u64,
    /// The plan's pick for jobs with NCCL and MSCCL's executor.
    pub pick: Pick,
    /// The plan's pick for MSCCL++, if that is faster than NCCL by the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mscclpp: Option<Pick>,
    /// What NCCL does by itself.
    pub nccl: Option<Pick>,
    /// NCCL at the best setting that a tuner can choose per call.
    pub nccl_best: Option<Pick>,
    /// The best program for MSCCL, picked or not.
    pub program: Option<Pick>,
    /// MSCCL with one setting for everything (Simple, one channel), on a program that sends straight
    /// to everyone.
    pub msccl: Option<Pick>,
    /// The same setting on the best program for it.
    pub sketch_only: Option<Pick>,
    /// The program that sends straight to everyone in its best layout and protocol.
    pub knobs_only: Option<Pick>,
    /// How many layouts and protocols were timed.
    pub trials: u32,
}

impl TunedTask {
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.size_bytes)
    }

    /// Whether the run-time table has an entry for it: not if MSCCL++ alone does it.
    #[must_use]
    pub fn is_in_table(&self) -> bool {
        self.pick.runtime != Runtime::Mscclpp
    }

    /// Whether a pick is NCCL's own choice as measured, so that nothing need be asked of NCCL. A choice that only
    /// the model expects is asked for by name, because NCCL might choose differently.
    #[must_use]
    pub fn leaves_to_nccl(&self, pick: &Pick) -> bool {
        pick.basis == Basis::Measured && self.nccl.as_ref() == Some(pick)
    }

    /// Whether its pick was measured, rather than modelled.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.pick.basis == Basis::Measured
    }

    /// How many times as fast the plan is as `other`.
    #[must_use]
    pub fn gain(&self, other: Option<&Pick>) -> Option<f64> {
        gain(&self.pick, other?)
    }

    /// How many times as fast as `other` the plan's pick for MSCCL++ is.
    #[must_use]
    pub fn mscclpp_gain(&self, other: Option<&Pick>) -> Option<f64> {
        gain(self.mscclpp.as_ref()?, other?)
    }
}

fn gain(pick: &Pick, other: &Pick) -> Option<f64> {
    (pick.time_ps > 0).then(|| other.time_ps as f64 / pick.time_ps as f64)
}

/// A plan for one network.
#[derive(Clone, Debug)]
pub struct Plan {
    pub network: String,
    pub signature: Signature,
    pub ranks: u32,
    /// NCCL's nodes: servers, or NVLink domains.
    pub nodes: u32,
    pub seed: u64,
    /// What a program must gain over NCCL's best to be picked, in percent.
    pub margin_percent: u32,
    /// The most thread blocks that a program may have on a GPU.
    pub most_blocks: u32,
    pub mscclpp: MscclppUse,
    pub setup: Setup,
    /// By collective, then size.
    pub tasks: Vec<TunedTask>,
    /// The candidate programs that some task uses.
    pub candidates: Vec<CandidateProgram>,
    /// Candidates that were made and could not be used, with why.
    pub left_out: Vec<(String, String)>,
}

impl Plan {
    /// The least and the most gain over another pick of each task.
    #[must_use]
    pub fn gains<'a>(
        &'a self,
        over: impl Fn(&'a TunedTask) -> Option<&'a Pick>,
    ) -> Option<(f64, f64)> {
        let all = self.tasks.iter().filter_map(|it| it.gain(over(it)));
        all.fold(None, |span, it| {
            Some(span.map_or((it, it), |(low, high): (f64, f64)| (low.min(it), high.max(it))))
        })
    }

    /// The geometric mean of the gains over another pick of each task.
    #[must_use]
    pub fn mean_gain<'a>(
        &'a self,
        over: impl Fn(&'a TunedTask) -> Option<&'a Pick>,
    ) -> Option<f64> {
        let logs: Vec<f64> =
            self.tasks.iter().filter_map(|it| Some(libm::log(it.gain(over(it))?))).collect();
        (!logs.is_empty()).then(|| libm::exp(logs.iter().sum::<f64>() / logs.len() as f64))
    }

    /// What a tuner makes NCCL do in a task, if NCCL does it: its own choice, unless its best setting gains the
    /// margin. In a plan of measurements it is the pick.
    #[must_use]
    pub fn kept<'a>(&self, task: &'a TunedTask) -> Option<&'a Pick> {
        if self.tasks.iter().any(TunedTask::is_measured) {
            return Some(&task.pick);
        }
        tune::kept(task.nccl.as_ref(), task.nccl_best.as_ref(), self.margin_percent)
    }

    /// The candidate program of this name.
    #[must_use]
    pub fn candidate(&self, name: &str) -> Option<&CandidateProgram> {
        self.candidates.iter().find(|it| it.name == name)
    }
}
