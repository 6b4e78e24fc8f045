//! [`Laid::price`]: launch, latency and data added up.

use motet_units::{Bytes, Duration, LinkId};

use super::data::{Pace, Run};
use super::error::PriceError;
use super::latency;
use super::layout::Laid;
use super::slicing::Slicing;
use super::terms::{Call, Grain, Terms};

/// Iterations that are run one by one at most; fewer in programs of very many steps.
const MOST_SIMULATED: u32 = 24;
/// The fewest, however many steps there are.
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
    /// How often the program runs one after the other, each on a cut of every chunk.
    pub iterations: u32,
    /// How many of them were run; the others are taken at their pace.
    pub simulated: u32,
}

impl Laid {
    /// How long a collective of `size` bytes (nccl-tests' meaning) takes as MSCCL's executor runs it,
    /// under the protocol that the program says.
    pub fn price(&self, size: Bytes) -> Result<Price, PriceError> {
        let grain = Grain::msccl(self.protocol, &self.kernels.buffers);
        self.price_with(size, Some(grain))
    }

    /// The same with what a connection's buffer holds; without a grain nothing is cut and nothing is
    /// buffered.
    pub fn price_with(&self, size: Bytes, grain: Option<Grain>) -> Result<Price, PriceError> {
        let call = Call {
            collective: self.collective.kind(),
            bytes: size,
            protocol: self.protocol,
            shape: self.shape,
            blocks: self.blocks().1,
        };
        let terms = self.kernels.terms(&call);
        self.price_by(size, terms, grain)
    }

    /// The same by given terms.
    pub(crate) fn price_by(
        &self,
        size: Bytes,
        terms: Terms,
        grain: Option<Grain>,
    ) -> Result<Price, PriceError> {
        if let Some(link) = &self.without_bandwidth {
            return Err(PriceError::NoBandwidth { link: link.clone() });
        }
        let slicing = Slicing::new(self.collective.chunk_bytes(size), grain.as_ref())?;
        let counts = self.counts(slicing.iterations);
        let data = self.data(&terms, &slicing, grain, counts)?;
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
        grain: Option<Grain>,
        (simulated, fewer): (u32, u32),
    ) -> Result<u64, PriceError> {
        let pace = Pace::new(self, terms, slicing, grain);
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

    /// How many iterations to run, and how many for the pace: what is left out and what they differ
    /// by are whole rounds of the buffer's places, if memory allows.
    fn counts(&self, iterations: u32) -> (u32, u32) {
        let fitting = u32::try_from(MOST_STEPS / self.ops.len().max(1)).unwrap_or(u32::MAX);
        let most = fitting.clamp(LEAST_SIMULATED, MOST_SIMULATED);
        let (round, apart) = if most == MOST_SIMULATED { (8, 8) } else { (2, most / 4 * 2) };
        let left = iterations.saturating_sub(most).div_ceil(round) * round;
        let simulated = iterations - left;
        (simulated, simulated.saturating_sub(apart).max(1))
    }

    /// By link of the network: the payload that all transfers bring over it.
    #[must_use]
    pub fn loads(&self, size: Bytes) -> Vec<(LinkId, u64)> {
        let chunk = self.collective.chunk_bytes(size).get();
        let mut loads = vec![0u64; self.links.len()];
        for way in &self.ways {
            for leg in &self.legs[way.first as usize..way.end as usize] {
                let load = &mut loads[leg.link as usize];
                *load = load.saturating_add(u64::from(way.count).saturating_mul(chunk));
            }
        }
        self.links.iter().map(|it| it.id).zip(loads).collect()
    }
}

fn stretched(ps: u64, by: f64) -> u64 {
    if by == 1.0 { ps } else { (ps as f64 * by).round() as u64 }
}
