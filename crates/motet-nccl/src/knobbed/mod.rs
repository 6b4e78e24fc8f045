//! A custom program under NCCL's knobs: how long it takes when NCCL's kernels run it as MSCCL's
//! executor does, under a protocol, a number of channels and threads, and a buffer size.
//!
//! The plain model ([`motet_sim::model`]) sends each transfer whole, as fast as its links allow. The
//! executor does not, and [`Knobbed`] follows it:
//!
//! - **Launch.** Nothing moves before the kernel runs.
//! - **Channels.** The channels of the program, and where there are more, *instances*: the program
//!   several times over, each on its part of every chunk. Instances are alike and are taken to run
//!   in step.
//! - **Iterations.** A chunk that does not fit into one place of a connection's buffer is cut, and
//!   every thread block runs all its steps for the first cut, then for the second, and so on: that
//!   is the pipeline. What is in no lane of the program is put into one lane for each connection,
//!   in program order. `slicing` has the arithmetic.
//! - **Places.** A connection's buffer has few places; the next transfer waits until one is free
//!   again, which the sender learns as late as the receiver learns of data.
//! - **Blocks.** One thread block sends, copies and reduces only so fast. It holds a link no longer
//!   than the link itself needs: what comes slowly leaves room for others.
//! - **Protocol.** Flags beside the payload take their part of every link; passing data on costs a
//!   latency beside the links'.
//!
//! Links carry transfers as their heads come (ties by iteration, then by the program's numbers),
//! because thread blocks do not wait for one another's turn. Switches neither copy nor reduce: the
//! executor has no steps for it.
//!
//! Where there are more than [`MOST_SIMULATED`] iterations, that many and a quarter of them are run,
//! and the rest are taken at the pace between the two. A pipeline that is full mostly repeats itself
//! after as many iterations as a buffer has places (2 or 8); what is left out is a multiple of that,
//! and the result then exact. The tests of this module say how far off it is elsewhere.
//!
//! What each term is worth and where it comes from: [`crate::knobbed`] and docs/nccl-model.md.
//! `compile` makes a [`Knobbed`] of a program once; `costs` and `pass` are one evaluation.

mod compile;
mod costs;
mod error;
mod pass;
mod slicing;
#[cfg(test)]
mod tests;

use motet_collective::Collective;
use motet_units::{Bytes, Duration, LinkId, Rank};

use crate::{Hardware, KnobModel, Knobs, Terms};
use costs::Costs;
pub use error::KnobError;
use motet_sim::Routed;
use motet_sim::event::{LinkUse, Outcome};
use pass::Pass;
use slicing::Slicing;

/// Iterations that are run one by one at most; fewer in programs of very many transfers.
pub const MOST_SIMULATED: u32 = 64;
/// The fewest, however many transfers there are.
const LEAST_SIMULATED: u32 = 8;
/// Events of all simulated iterations together, which bounds memory.
const MOST_EVENTS: usize = 1 << 23;
/// MSCCL's channels.
const MOST_CHANNELS: u32 = 32;

/// No connection: what stays at its rank.
const LOCAL: u32 = u32::MAX;

/// A transfer as the pass needs it.
#[derive(Clone, Copy, Debug)]
struct Moved {
    connection: u32,
    count: u32,
    /// Its hops: `hops[first..end]`.
    first: u32,
    end: u32,
}

/// One link of a transfer's way.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Its number among the links used.
    link: u32,
    starts_segment: bool,
    /// Whether it leaves a GPU, whose thread block then feeds it.
    fed: bool,
    /// At a GPU: what the way there since the last one went over.
    over: Option<Hardware>,
}

/// A link that the program uses.
#[derive(Clone, Copy, Debug)]
struct Wire {
    id: LinkId,
    bits_per_s: u64,
    latency: u64,
}

/// Which events wait for each event: `list[starts[e]..starts[e + 1]]`.
#[derive(Clone, Debug)]
struct Followers {
    starts: Vec<u32>,
    list: Vec<u32>,
}

impl Followers {
    fn of(&self, event: usize) -> &[u32] {
        &self.list[self.starts[event] as usize..self.starts[event + 1] as usize]
    }
}

/// A program on a network, compiled once for any sizes and knobs. Holds no reference to either.
#[derive(Clone, Debug)]
pub struct Knobbed {
    model: KnobModel,
    collective: Collective,
    transfers: Vec<Moved>,
    hops: Vec<Hop>,
    links: Vec<Wire>,
    /// How many events of its own iteration each event waits for, and how many of the one before.
    waits: Vec<u32>,
    again: Vec<u32>,
    /// Who waits in the same iteration, and who in the next.
    followers: Followers,
    next_followers: Followers,
    connections: Vec<(Rank, Rank)>,
    channels: u32,
    /// The rank with the most thread blocks, and how many one instance has there.
    blocks: (Rank, u32),
    network_links: usize,
    /// The first link without bandwidth, by name.
    without_bandwidth: Option<String>,
}

/// What one evaluation gives beside the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobOutcome {
    /// As of the plain model. Links are busy with payload and flags; `bytes` are payload.
    pub outcome: Outcome,
    pub terms: Terms,
    pub channels: u32,
    /// How often the program runs side by side.
    pub instances: u32,
    /// Thread blocks of the rank that has most.
    pub blocks: u32,
    /// How often the program runs one after the other, each on a cut of every chunk.
    pub iterations: u32,
    /// How many of them were run; the others are taken at their pace.
    pub simulated: u32,
}

/// Everything that an evaluation settles before it runs.
struct Settled {
    terms: Terms,
    channels: u32,
    slicing: Slicing,
    full: Costs,
    last: Costs,
}

impl Knobbed {
    /// Compiles a program on a network.
    #[must_use]
    pub fn new(routed: &Routed<'_>, model: KnobModel) -> Self {
        compile::compile(routed, model)
    }

    /// The channels that the program has itself; a knob must be a multiple of it.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.channels
    }

    /// How long a collective of `size` bytes (nccl-tests' meaning) takes.
    pub fn time(&self, size: Bytes, knobs: &Knobs) -> Result<Duration, KnobError> {
        let settled = self.settle(size, knobs)?;
        let counts = self.counts(settled.slicing.iterations);
        self.run_settled(&settled, counts).map(|it| it.0)
    }

    /// The same with what links did and how the program was cut.
    pub fn run(&self, size: Bytes, knobs: &Knobs) -> Result<KnobOutcome, KnobError> {
        let settled = self.settle(size, knobs)?;
        let counts = self.counts(settled.slicing.iterations);
        let (time, events) = self.run_settled(&settled, counts)?;
        let Settled { terms, channels, slicing, .. } = &settled;
        let whole = slicing.chunk.checked_mul(u64::from(self.collective.size_chunks()));
        Ok(KnobOutcome {
            outcome: Outcome {
                time,
                chunk: slicing.chunk,
                rounded_up: whole != Some(size),
                transfers: self.transfers.len(),
                events,
                links: self.links(&settled),
            },
            terms: *terms,
            channels: *channels,
            instances: slicing.instances,
            blocks: self.blocks.1.saturating_mul(slicing.instances),
            iterations: slicing.iterations,
            simulated: counts.0,
        })
    }

    fn settle(&self, size: Bytes, knobs: &Knobs) -> Result<Settled, KnobError> {
        let terms = self.model.terms(knobs)?;
        let (channels, own) = (knobs.channels.unwrap_or(self.channels), self.channels);
        if channels == 0 || channels > MOST_CHANNELS {
            return Err(KnobError::Channels { channels, most: MOST_CHANNELS });
        }
        if !channels.is_multiple_of(own) {
            return Err(KnobError::NotInstances { channels, own });
        }
        let instances = channels / own;
        let (rank, each) = self.blocks;
        let (blocks, most) = (each.saturating_mul(instances), self.model.resident_blocks());
        if blocks > most {
            return Err(KnobError::Blocks { rank, blocks, most });
        }
        if let Some(link) = &self.without_bandwidth {
            return Err(KnobError::NoBandwidth { link: link.clone() });
        }
        let chunk = self.collective.chunk_bytes(size);
        let slicing = Slicing::new(chunk, instances, &terms)?;
        let costs = |bytes| Costs::new(self, &terms, &slicing, bytes);
        let last = costs(slicing.last);
        let full = if slicing.iterations > 1 { costs(slicing.full) } else { last.clone() };
        Ok(Settled { terms, channels, slicing, full, last })
    }

    /// The time, and the events worked off, with so many iterations run one by one, and so many
    /// again for the pace.
    fn run_settled(
        &self,
        settled: &Settled,
        (simulated, fewer): (u32, u32),
    ) -> Result<(Duration, u64), KnobError> {
        let pass = |iterations: u32| Pass::new(self, settled, iterations as usize).run();
        let (mut end, mut events) = pass(simulated)?;
        let left = settled.slicing.iterations - simulated;
        if left > 0 {
            let (shorter, more) = pass(fewer)?;
            events += more;
            let pace = u128::from(end.saturating_sub(shorter)) * u128::from(left);
            let rest = pace.div_ceil(u128::from(simulated - fewer));
            end = end.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX));
        }
        match end.saturating_add(settled.terms.launch.as_ps()) {
            u64::MAX => Err(KnobError::TooLong),
            time => Ok((Duration::from_ps(time), events)),
        }
    }

    /// How many iterations to run, and how many for the pace: what is left out and what they
    /// differ by are whole rounds of the buffer's places, if memory allows.
    fn counts(&self, iterations: u32) -> (u32, u32) {
        let fitting = u32::try_from(MOST_EVENTS / self.waits.len().max(1)).unwrap_or(u32::MAX);
        let most = fitting.clamp(LEAST_SIMULATED, MOST_SIMULATED);
        // 48 is whole for rounds of 3, 6 and 12 too.
        let (round, apart) = if most == MOST_SIMULATED { (8, 48) } else { (2, most / 4 * 2) };
        let left = iterations.saturating_sub(most).div_ceil(round) * round;
        let simulated = iterations - left;
        (simulated, simulated.saturating_sub(apart).max(1))
    }

    fn links(&self, settled: &Settled) -> Vec<LinkUse> {
        let Settled { slicing, full, last, .. } = settled;
        let mut links = vec![LinkUse::default(); self.network_links];
        let before = u64::from(slicing.iterations - 1);
        for moved in &self.transfers {
            let bytes = u64::from(moved.count).saturating_mul(slicing.chunk.get());
            for index in moved.first as usize..moved.end as usize {
                let usage = &mut links[self.links[self.hops[index].link as usize].id.index()];
                let busy = full.hops[index].saturating_mul(before).saturating_add(last.hops[index]);
                usage.busy = Duration::from_ps(usage.busy.as_ps().saturating_add(busy));
                usage.bytes = Bytes::new(usage.bytes.get().saturating_add(bytes));
                usage.crossings += u64::from(slicing.iterations) * u64::from(slicing.instances);
            }
        }
        links
    }
}
