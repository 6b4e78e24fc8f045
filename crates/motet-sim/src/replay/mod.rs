//! The replay engine: compiles a verified program once, then runs it very often.
//!
//! [`FlowReplay`] runs it over routes that are given with each run; `motet-wan` times every
//! collective with it. [`Replay`] runs it over many network states, sixteen per pass of the kernel;
//! no product code calls it, because the WAN changes routes as often as states. It stays for three
//! reasons: the property tests use it to hold this engine equal to the event engine on every kind
//! of program, it is the API for users who judge one program over thousands of recorded states
//! (`BENCHMARKS.md` has its speed), and it costs little, since both share [`compile`] and
//! [`kernel`].
//!
//! The engine handles [`Discipline::ProgramOrder`](crate::Discipline) and states that do not change
//! during a run. In that case the order in which a link carries transfers follows from the program
//! alone ([`crate::model`]), so one pass over the events in program order gives every time: no
//! queue, no comparison of times to decide what comes next, and the same instructions for every
//! state. Everything else, including switches that copy or reduce, needs the event engine; a
//! property test holds the two equal.
//!
//! - [`compile`]: from [`Routed`] to [`code`], with [`waits`] reduced to those that matter.
//! - [`kernel`]: the pass itself, over many states at once; links by [`crate::link_rule`].
//! - [`flows`]: routes that are given with each run.
//! - [`times`]: a network state in the kernel's form.
//! - [`usage`] and [`critical`]: what links and ranks did, and which chain of transfers set the
//!   end, for one state and on demand.
//!
//! **Limits.** A time of 2⁶⁴ − 1 picoseconds or more is [`RunError::TooLong`]. A link that a
//! transfer uses and that is down or has no bandwidth is [`RunError::NoBandwidth`], even if the
//! transfer carries no bytes.

mod code;
mod compile;
pub mod critical;
mod error;
pub mod flows;
mod kernel;
#[cfg(test)]
mod tests;
mod times;
pub mod usage;
mod waits;

use motet_collective::TransferId;
use motet_net::NetworkState;
use motet_units::{Bytes, Duration, LinkId, Rank};
use rayon::prelude::*;

use crate::model::SimOptions;
use crate::route::Routed;
use code::Code;
use kernel::{Blind, EXACT, Memory, Tick, execute};

pub use critical::{CriticalPath, CriticalStep, Reason};
pub use error::{CompileError, RunError};
pub use flows::{FlowMemory, FlowReplay, FlowRoute, FlowTimes, RankFlow};
pub use usage::Usage;

/// States per pass: two cache lines of times.
const LANES: usize = 16;

/// A link together with a transfer size: what a transmission time β is computed for.
#[derive(Clone, Copy, Debug)]
struct Channel {
    link: LinkId,
    bytes: Bytes,
    /// The first transfer in program order that uses this channel; an error names it.
    first: TransferId,
}

/// A program compiled for one network, size and set of options. Borrows nothing.
#[derive(Clone, Debug)]
pub struct Replay {
    code: Code,
    /// The links used, in the order of the code's numbers, and their α in picoseconds.
    links: Vec<LinkId>,
    latencies: Vec<u64>,
    channels: Vec<Channel>,
    /// Durations of transfers within a rank, in picoseconds.
    delays: Vec<u64>,
    launch: u64,
    network_links: usize,
    /// The source and destination of each transfer.
    transfer_ranks: Vec<(Rank, Rank)>,
    ranks: u32,
}

impl Replay {
    /// Compiles a program for a collective of `size` bytes. How switches forward was decided when
    /// the program was routed; the other options apply here.
    pub fn compile(
        routed: &Routed<'_>,
        size: Bytes,
        options: &SimOptions,
    ) -> Result<Self, CompileError> {
        compile::compile(routed, size, options)
    }

    /// The number of transfers in one run.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.transfer_ranks.len()
    }

    /// The links that the program uses.
    #[must_use]
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// When the program ends in `state`.
    pub fn run(&self, state: &NetworkState) -> Result<Duration, RunError> {
        let (table, [refused]) = self.table::<u64, 1>(std::slice::from_ref(state));
        if let Some(error) = refused {
            return Err(error);
        }
        let [end] = execute(&self.code, &table, &[], &mut Memory::new(), &mut Blind);
        finite(end)
    }

    /// When the program ends in each of `states`, computed on all cores. A state in which it cannot
    /// end gives an error for itself only.
    #[must_use]
    pub fn run_many(&self, states: &[NetworkState]) -> Vec<Result<Duration, RunError>> {
        let batches = states.par_chunks(LANES).map_init(Memory::new, |memory, batch| {
            // The last few states are cheaper one by one than in a pass that is mostly empty.
            if batch.len() < LANES / 4 {
                return batch.iter().map(|it| self.run(it)).collect();
            }
            self.batch(batch, memory)
        });
        let ends: Vec<Vec<_>> = batches.collect();
        ends.into_iter().flatten().collect()
    }

    /// Up to [`LANES`] states in one pass.
    fn batch(
        &self,
        states: &[NetworkState],
        memory: &mut Memory<f64, LANES>,
    ) -> Vec<Result<Duration, RunError>> {
        let (table, refused) = self.table::<f64, LANES>(states);
        let ends = execute(&self.code, &table, &[], memory, &mut Blind);
        let each = states.iter().zip(refused).zip(ends);
        each.map(|((state, refused), end)| match refused {
            Some(error) => Err(error),
            None if end < f64::from_ps(EXACT) => Ok(Duration::from_ps(end as u64)),
            None => self.run(state),
        })
        .collect()
    }
}

/// An end as a result. Times saturate at `u64::MAX`, so that value means too long.
fn finite(end: u64) -> Result<Duration, RunError> {
    if end == u64::MAX { Err(RunError::TooLong) } else { Ok(Duration::from_ps(end)) }
}
