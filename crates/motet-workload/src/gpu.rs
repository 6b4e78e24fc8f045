//! [`Gpu`]: how fast a rank computes.
//!
//! Compute is timed by one figure, the share of the peak that training reaches (MFU, model FLOP/s
//! utilization), because that is what people measure and publish. The optimizer's step is bound by memory, so
//! it is timed by the memory's bandwidth. Neither includes waiting for the network, which the simulation
//! adds. So an MFU from a whole run, which includes that waiting, would count it twice.

use motet_units::rounding::div;
use motet_units::{Bytes, Duration, Rounding};

/// A GPU, by peak dense BF16 rate, memory bandwidth and the share of the peak that compute reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub name: String,
    /// Operations per second, dense BF16.
    pub peak: u64,
    /// Bytes per second.
    pub memory: u64,
    /// Share of the peak, in thousandths.
    pub mfu: u32,
}

/// The default share of the peak: Megatron-LM reports 41 to 48 % on H100.
pub const USUAL_MFU: u32 = 400;

/// The GPUs that Motet knows: name, peak TFLOP/s (dense BF16), memory in GB/s, as in NVIDIA's data
/// sheets of the SXM modules.
const KNOWN: [(&str, u64, u64); 4] =
    [("a100", 312, 2039), ("h100", 989, 3350), ("h200", 989, 4800), ("b200", 2250, 8000)];

impl Gpu {
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (name, tera, giga) = KNOWN.into_iter().find(|it| it.0 == name)?;
        Some(Self {
            name: name.to_owned(),
            peak: tera * 1_000_000_000_000,
            memory: giga * 1_000_000_000,
            mfu: USUAL_MFU,
        })
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.into_iter().map(|it| it.0)
    }

    /// The time of so many operations and then so many bytes read or written. A GPU figure that is zero gives
    /// the longest time that can be represented.
    #[must_use]
    pub fn time(&self, flops: u64, memory: Bytes) -> Duration {
        let rate = u128::from(self.peak) * u128::from(self.mfu);
        let compute = at_rate(u128::from(flops) * 1000, rate);
        compute + at_rate(u128::from(memory.get()), u128::from(self.memory))
    }
}

/// Duration of `amount` at `rate` per second, rounded up to picoseconds.
fn at_rate(amount: u128, rate: u128) -> Duration {
    const PS_PER_S: u128 = 1_000_000_000_000;
    if amount == 0 {
        return Duration::ZERO;
    }
    let ps = div(amount * PS_PER_S, rate, Rounding::Up).and_then(|it| u64::try_from(it).ok());
    Duration::from_ps(ps.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compute_takes_operations_over_rate() {
        let gpu = Gpu { mfu: 500, ..Gpu::named("a100").unwrap() };
        // 156 TFLOP/s for 156 · 10⁹ operations; 2039 GB/s for 2039 · 10⁶ bytes.
        assert_eq!(gpu.time(156_000_000_000, Bytes::ZERO), Duration::from_ms(1));
        assert_eq!(gpu.time(0, Bytes::new(2_039_000_000)), Duration::from_ms(1));
        let slow = Gpu { mfu: 0, ..gpu };
        assert_eq!(slow.time(1, Bytes::ZERO), Duration::from_ps(u64::MAX));
        assert_eq!(slow.time(0, Bytes::ZERO), Duration::ZERO);
    }
}
