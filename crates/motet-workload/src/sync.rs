//! [`SyncMode`] and [`Compression`]: how often replicas are synchronized, and how the data is compressed.
//!
//! Both come from the survey that DynamICCL's design-space analysis stands on (Liang et al., §III and
//! §IV). They change only what data parallelism sends: how often, how much, and for top-k which
//! collective. What they do to the convergence of training is not modelled.

use motet_collective::CollectiveKind;
use motet_units::Bytes;

/// When data-parallel replicas are synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Gradients are summed in every step (BSP).
    EveryStep,
    /// Local SGD: replicas train independently for `period` steps (τ), then parameters are averaged.
    Local { period: u32 },
}

impl SyncMode {
    /// Whether parameters are averaged at the end of step number `step`, counted from 0.
    #[must_use]
    pub fn averages(self, step: u32) -> bool {
        match self {
            Self::EveryStep => false,
            Self::Local { period } => (u64::from(step) + 1).is_multiple_of(period.into()),
        }
    }
}

/// How gradients (or averaged parameters) are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Fp16,
    /// One byte a number, and one fp32 scale per `block` numbers.
    Int8 {
        block: u32,
    },
    /// Each rank sends its largest `per_million` numbers of a million, as fp16 with 32-bit positions. Ranks
    /// choose different positions, so their sum would have ever more numbers. Therefore an AllGather replaces
    /// the AllReduce, and the volume grows with the number of ranks.
    TopK {
        per_million: u32,
    },
}

impl Compression {
    /// The collective that takes the place of `kind` among `ranks` ranks, and its size in nccl-tests'
    /// sense, for so many numbers of `width` bytes each.
    #[must_use]
    pub fn apply(
        self,
        kind: CollectiveKind,
        numbers: u64,
        width: u64,
        ranks: u32,
    ) -> (CollectiveKind, Bytes) {
        let bytes = match self {
            Self::None => numbers * width,
            Self::Fp16 => numbers * width.min(2),
            Self::Int8 { block } => numbers + 4 * numbers.div_ceil(u64::from(block.max(1))),
            Self::TopK { per_million } => {
                let kept = u128::from(numbers) * u128::from(per_million);
                let kept = u64::try_from(kept.div_ceil(1_000_000)).unwrap_or(u64::MAX);
                let all = kept.saturating_mul(6).saturating_mul(u64::from(ranks));
                return (CollectiveKind::AllGather, Bytes::new(all));
            }
        };
        (kind, Bytes::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_packing() {
        let of = |it: Compression| it.apply(CollectiveKind::AllReduce, 1_000_000, 4, 8);
        let plain = |bytes| (CollectiveKind::AllReduce, Bytes::new(bytes));
        assert_eq!(of(Compression::None), plain(4_000_000));
        assert_eq!(of(Compression::Fp16), plain(2_000_000));
        assert_eq!(of(Compression::Int8 { block: 1000 }), plain(1_004_000));
        // A thousand numbers of six bytes from each of eight ranks.
        let sparse = (CollectiveKind::AllGather, Bytes::new(48_000));
        assert_eq!(of(Compression::TopK { per_million: 1000 }), sparse);
    }
}
