//! [`Laid::price`]: launch, latency and data added up.

use motet_sim::event::LinkUse;
use motet_units::{Bytes, Duration};

use super::data::{Pace, Run};
use super::error::PriceError;
use super::latency;
use super::layout::Laid;
use super::slicing::Slicing;
use super::terms::{Call, FifoShape, Terms};
use crate::knobs::Knobs;

/// The most iterations that are simulated; fewer in programs of very many steps.
const MOST_SIMULATED: u32 = 24;
/// The lower end of that limit, however many steps the program has.
const LEAST_SIMULATED: u32 = 8;
/// Steps of all simulated iterations together, which bounds memory.
const MOST_STEPS: usize = 1 << 22;

/// How long a laid-out program takes, and what that is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Launch, latency and data together.
    pub time: Duration,
    pub launch: Duration,
    pub latency: Duration,
    pub data: Duration,
    pub terms: Terms,
    /// How often the program runs, one run after the other, each on a part of every chunk.
    pub iterations: u32,
    /// How many of the iterations were simulated; the others are taken to go on at the same pace.
    pub simulated: u32,
}

impl Laid {
    /// How long a collective of `size` bytes (nccl-tests' meaning) takes as MSCCL's executor runs it,
    /// under the protocol that the program says.
    pub fn price(&self, size: Bytes) -> Result<Price, PriceError> {
        self.price_under(size, &Knobs::new(self.protocol))
    }

    /// The same under other knobs, except their channels: the layout has its own.
    pub fn price_under(&self, size: Bytes, knobs: &Knobs) -> Result<Price, PriceError> {
        let fifo = knobs.fifo(&self.kernels.buffers)?;
        let terms = self.kernels.terms(&self.call(size, knobs));
        self.price_by(size, terms, Some(fifo))
    }

    /// The same with the FIFOs of NCCL's own kernels instead of those of MSCCL's executor.
    pub(crate) fn price_with(&self, size: Bytes, fifo: FifoShape) -> Result<Price, PriceError> {
        let terms = self.kernels.terms(&self.call(size, &Knobs::new(self.protocol)));
        self.price_by(size, terms, Some(fifo))
    }

    /// The call that terms are computed for when this program runs.
    pub(super) const fn call(&self, bytes: Bytes, knobs: &Knobs) -> Call {
        Call {
            collective: self.collective.kind(),
            bytes,
            protocol: knobs.protocol,
            shape: self.shape,
            blocks: self.blocks().1,
            threads: knobs.threads,
        }
    }

    /// The same with given terms and FIFOs; `None`: FIFOs without limits.
    pub(crate) fn price_by(
        &self,
        size: Bytes,
        terms: Terms,
        fifo: Option<FifoShape>,
    ) -> Result<Price, PriceError> {
        if let Some(link) = &self.without_bandwidth {
            return Err(PriceError::NoBandwidth { link: link.clone() });
        }
        let slicing = Slicing::new(self.collective.chunk_bytes(size), fifo.as_ref())?;
        let counts = self.counts(slicing.iterations);
        let data = self.data(&terms, &slicing, fifo, counts)?;
        let latency = stretched(latency::longest(self, &terms), terms.stretch);
        let launch = stretched(terms.launch.as_ps(), terms.stretch);
        match launch.saturating_add(latency).saturating_add(data) {
            u64::MAX => Err(PriceError::TooLong),
            time => Ok(Price {
                time: Duration::from_ps(time),
                launch: Duration::from_ps(launch),
                latency: Duration::from_ps(latency),
                data: Duration::from_ps(data),
                terms,
                iterations: slicing.iterations,
                simulated: counts.0,
            }),
        }
    }

    fn data(
        &self,
        terms: &Terms,
        slicing: &Slicing,
        fifo: Option<FifoShape>,
        (simulated, fewer): (u32, u32),
    ) -> Result<u64, PriceError> {
        let pace = Pace::new(self, terms, slicing, fifo);
        let end = Run::new(self, &pace, simulated as usize).run()?;
        let left = slicing.iterations - simulated;
        if left == 0 {
            return Ok(end);
        }
        let shorter = Run::new(self, &pace, fewer as usize).run()?;
        let rest = u128::from(end.saturating_sub(shorter)) * u128::from(left);
        let rest = rest.div_ceil(u128::from(simulated - fewer));
        Ok(end.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX)))
    }

    /// How many iterations to simulate, and how many in a second, shorter run: the difference between the two is
    /// the pace of the iterations left out. The number left out, and the difference, are multiples of 8, the slots
    /// of a FIFO, or of 2 where memory does not allow that.
    fn counts(&self, iterations: u32) -> (u32, u32) {
        let fitting = u32::try_from(MOST_STEPS / self.ops.len().max(1)).unwrap_or(u32::MAX);
        let most = fitting.clamp(LEAST_SIMULATED, MOST_SIMULATED);
        let (round, apart) = if most == MOST_SIMULATED { (8, 8) } else { (2, most / 4 * 2) };
        let left = iterations.saturating_sub(most).div_ceil(round) * round;
        let simulated = iterations - left;
        (simulated, simulated.saturating_sub(apart).max(1))
    }

    /// A time that [`price_under`](Self::price_under) is never below, without running anything: launch,
    /// latency, and the load of the busiest link, GPU or block.
    pub fn least(&self, size: Bytes, knobs: &Knobs) -> Result<Duration, PriceError> {
        knobs.fifo(&self.kernels.buffers)?;
        Ok(self.least_by(size, &self.kernels.terms(&self.call(size, knobs))))
    }

    pub(super) fn least_by(&self, size: Bytes, terms: &Terms) -> Duration {
        let chunk = self.collective.chunk_bytes(size).get();
        let time = |chunks: u64, rate: f64| {
            let ps = chunks as f64 * chunk as f64 * 8e12 / rate.max(1.0);
            // Rounded down a little, as every step's time is rounded up.
            (ps * (1.0 - 1e-9)) as u64
        };
        let links = self.links.iter().zip(&self.loads.links);
        let links = links.map(|(it, load)| time(*load, it.bits_per_s as f64 * terms.wire)).max();
        let gpu = terms.gpu.map(|it| time(self.loads.rank, it.bits_per_s() as f64));
        let block = time(self.loads.block, terms.block.bits_per_s() as f64);
        let data = links.unwrap_or(0).max(gpu.unwrap_or(0)).max(block);
        let latency = terms.launch.as_ps().saturating_add(latency::longest(self, terms));
        Duration::from_ps(stretched(latency, terms.stretch).saturating_add(data))
    }

    /// By link of the network: how long a run of `size` bytes keeps it busy, and what it carries.
    #[must_use]
    pub fn usage(&self, size: Bytes, knobs: &Knobs) -> Vec<LinkUse> {
        let terms = self.kernels.terms(&self.call(size, knobs));
        let chunk = self.collective.chunk_bytes(size).get();
        let mut all = vec![LinkUse::default(); self.network_links];
        for (link, load) in self.links.iter().zip(&self.loads.links) {
            let bytes = chunk.saturating_mul(*load);
            let rate = (link.bits_per_s as f64 * terms.wire).max(1.0);
            all[link.id.index()] = LinkUse {
                busy: Duration::from_ps((bytes as f64 * 8e12 / rate) as u64),
                bytes: Bytes::new(bytes),
                crossings: *load,
            };
        }
        all
    }
}

fn stretched(ps: u64, by: f64) -> u64 {
    if by == 1.0 { ps } else { (ps as f64 * by).round() as u64 }
}
