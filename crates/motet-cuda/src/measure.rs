//! How fast data moves: host to GPU, GPU to host, GPU to GPU, each pair alone, timed by events
//! that the GPU notes between copies.
//!
//! The bandwidth is that of large copies by the copy engines. The latency is the time that a copy
//! of a few bytes occupies the engine when many are queued: it has the engine's own set-up in it
//! (about a microsecond), so it is an upper limit of what a kernel sees that reads or writes the
//! other memory directly.

use std::rc::Rc;

use motet_units::{Bandwidth, Bytes, Duration};

use super::owned::{Context, Copy, DeviceMemory, HostMemory, Stream};
use super::{Cuda, CudaError};

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Host,
    /// By index among [`Cuda::gpus`].
    Gpu(usize),
}

/// What was measured between two places, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    pub from: Place,
    pub to: Place,
    pub bandwidth: Bandwidth,
    pub latency: Duration,
    /// Whether the copy went without passing through host memory.
    pub direct: bool,
}

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The size of a large copy.
    pub bytes: Bytes,
    /// Large copies in one sample.
    pub copies: u32,
    /// Small copies in one sample.
    pub pings: u32,
    /// Samples of each figure, whose median counts.
    pub samples: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes: Bytes::new(64 << 20), copies: 8, pings: 256, samples: 5 }
    }
}

const SMALL: usize = 8;
const MOST_BYTES: u64 = 4 << 30;

impl Cuda {
    /// All figures: each GPU with the host both ways, then every ordered pair of GPUs. `each` is
    /// told of every one as it comes.
    pub fn measure(
        &self,
        options: &Options,
        each: &mut dyn FnMut(&Figure),
    ) -> Result<Vec<Figure>, CudaError> {
        let bytes = options.bytes.get().clamp(SMALL as u64, MOST_BYTES) as usize;
        let mut sides = Vec::new();
        for index in 0..self.driver.device_count()? {
            sides.push(Side::new(self, index, bytes)?);
        }
        let mut figures = Vec::new();
        let mut add = |figure: Figure| {
            each(&figure);
            figures.push(figure);
        };
        for (index, side) in sides.iter().enumerate() {
            let gpu = Place::Gpu(index);
            let host = HostMemory::new(&side.context, bytes)?;
            let down = Copy::Down(&host, &side.from);
            add(side.figure(Place::Host, gpu, down, bytes, options, true)?);
            let up = Copy::Up(&side.from, &host);
            add(side.figure(gpu, Place::Host, up, bytes, options, true)?);
        }
        for (a, from) in sides.iter().enumerate() {
            for (b, to) in sides.iter().enumerate().filter(|(b, _)| *b != a) {
                let direct = from.context.reach(&to.context)?;
                let copy = Copy::Across(&from.from, &to.to);
                add(from.figure(Place::Gpu(a), Place::Gpu(b), copy, bytes, options, direct)?);
            }
        }
        Ok(figures)
    }
}

/// A GPU with what copies from and to it need.
struct Side {
    context: Rc<Context>,
    stream: Stream,
    from: DeviceMemory,
    to: DeviceMemory,
}

impl Side {
    fn new(cuda: &Cuda, index: usize, bytes: usize) -> Result<Self, CudaError> {
        let context = Context::retain(cuda.driver, cuda.driver.device(index)?)?;
        let stream = Stream::new(&context)?;
        let from = DeviceMemory::new(&context, bytes)?;
        let to = DeviceMemory::new(&context, bytes)?;
        Ok(Self { context, stream, from, to })
    }

    fn figure(
        &self,
        from: Place,
        to: Place,
        copy: Copy<'_>,
        bytes: usize,
        options: &Options,
        direct: bool,
    ) -> Result<Figure, CudaError> {
        let (copies, pings) = (options.copies.max(1), options.pings.max(1));
        // The first copies pay for page tables and for links that wake up.
        self.stream.time(copy, bytes, 1)?;
        self.stream.time(copy, SMALL, pings.min(16))?;
        let large = self.median(copy, bytes, copies, options.samples)?;
        let small = self.median(copy, SMALL, pings, options.samples)?;
        let moved = (bytes as u64).saturating_mul(u64::from(copies));
        Ok(Figure {
            from,
            to,
            bandwidth: rate(moved, large),
            // In whole nanoseconds: the events are no finer.
            latency: Duration::from_ps(small.as_ps() / u64::from(pings) / 1000 * 1000),
            direct,
        })
    }

    fn median(
        &self,
        copy: Copy<'_>,
        bytes: usize,
        times: u32,
        samples: u32,
    ) -> Result<Duration, CudaError> {
        let samples = 0..samples.max(1);
        let mut took: Vec<Duration> =
            samples.map(|_| self.stream.time(copy, bytes, times)).collect::<Result<_, _>>()?;
        took.sort_unstable();
        Ok(took[took.len() / 2])
    }
}

/// `bytes` in `time` as a rate, rounded down to four digits of bytes: no measurement has more.
fn rate(bytes: u64, time: Duration) -> Bandwidth {
    let bits = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(time.as_ps().max(1));
    let mut step = 8;
    while bits / step >= 10_000 {
        step *= 10;
    }
    Bandwidth::from_bits_per_s(u64::try_from(bits / step * step).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate(1_000, Duration::from_us(1)), Bandwidth::gb_per_s(1));
        assert_eq!(rate(55_280_585, Duration::from_ms(1)).to_string(), "55.28 GB/s");
        assert_eq!(rate(u64::MAX, Duration::ZERO), Bandwidth::from_bits_per_s(u64::MAX));
    }
}
