//! [`Workload`]: how often replicas synchronize and how their data is compressed (s_workload of Fig. 14).
//!
//! The agent never changes either. What matters to a call is [`Workload::effective`], the bytes that are left after
//! compression. [`Synchrony`] may change within a run, as hybrid schemes do. Next: [`scheduler`](super::scheduler).

use motet_collective::CollectiveKind;
use motet_units::Bytes;
use motet_workload::{Compression, SyncMode};

use super::encoding::Row;
use crate::words::category;

category! {
    /// When replicas synchronize. `motet-workload` simulates the first and [`Local`](Self::Local).
    Synchrony {
        /// In every step.
        Bsp = "bsp",
        Async = "async",
        /// Within bounded staleness.
        Stale = "stale",
        /// Local SGD: every so many steps.
        Local = "local",
        /// By gossip.
        Decentralized = "decentralized",
        /// Switching between several of these.
        Hybrid = "hybrid",
    }
}

category! {
    /// How gradients are compressed; by how much is in [`Workload::rate`], and for quantization in [`Workload::bits`].
    Packing {
        None = "none",
        /// Fewer bits a number.
        Quantized = "quant_b",
        TopK = "top_k",
        RandomK = "random_k",
        /// One bit a number, with error feedback.
        Sign = "sign",
        /// Matrices as sums of a few atoms.
        Atomo = "atomo",
        /// Several of these, as CocktailSGD does.
        Combined = "combined",
        Other = "other",
    }
}

/// The synchronization and compression of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    pub synchrony: Synchrony,
    /// Training steps between synchronizations (sync_local_tau); 1 if replicas synchronize in every step.
    pub period: u32,
    pub packing: Packing,
    /// Bits of a number on the wire; fewer only where numbers are quantized.
    pub bits: u8,
    /// The compression ratio: bytes before divided by bytes after; 1 without compression.
    pub rate: f64,
    /// Bytes of the call after compression, in nccl-tests' sense of size.
    pub effective: Bytes,
}

impl Workload {
    /// The workload of a collective over `ranks` ranks, of so many numbers of `width` bytes each, under a
    /// job's synchronization and compression. Compression may also turn it into another collective;
    /// [`Compression::apply`] says which.
    #[must_use]
    pub fn of(
        sync: SyncMode,
        compression: Compression,
        kind: CollectiveKind,
        (numbers, width): (u64, u8),
        ranks: u32,
    ) -> Self {
        let width = width.max(1);
        let (_, effective) = compression.apply(kind, numbers, u64::from(width), ranks);
        let whole = numbers.saturating_mul(u64::from(width));
        let (synchrony, period) = match sync {
            SyncMode::EveryStep => (Synchrony::Bsp, 1),
            SyncMode::Local { period } => (Synchrony::Local, period),
        };
        let (packing, bits) = match compression {
            Compression::None => (Packing::None, width.saturating_mul(8)),
            Compression::Fp16 => (Packing::Quantized, 16.min(width.saturating_mul(8))),
            Compression::Int8 { .. } => (Packing::Quantized, 8),
            // Sent as fp16.
            Compression::TopK { .. } => (Packing::TopK, 16),
        };
        let rate = whole as f64 / effective.get().max(1) as f64;
        Self { synchrony, period, packing, bits, rate, effective }
    }

    pub(super) fn encode(&self, row: &mut Row) {
        row.one_hot("workload.sync", self.synchrony.index(), Synchrony::ALL, |it| it.name());
        row.log2("workload.sync_period", u64::from(self.period), 16);
        row.one_hot("workload.packing", self.packing.index(), Packing::ALL, |it| it.name());
        row.share("workload.bits", f64::from(self.bits) / 64.0);
        // From a volume that grows tenfold to one that shrinks a hundred thousand times.
        row.share("workload.rate", (libm::log10(self.rate.max(0.1)) + 1.0) / 6.0);
        row.log2("workload.effective_bytes", self.effective.get(), 44);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_seen_in_the_effective_size() {
        let of = |compression| {
            let kind = CollectiveKind::AllReduce;
            Workload::of(SyncMode::Local { period: 8 }, compression, kind, (1_000_000, 4), 8)
        };
        let plain = of(Compression::None);
        assert_eq!((plain.synchrony, plain.period, plain.bits), (Synchrony::Local, 8, 32));
        assert_eq!((plain.rate, plain.effective), (1.0, Bytes::new(4_000_000)));
        let half = of(Compression::Fp16);
        assert_eq!((half.packing, half.bits, half.rate), (Packing::Quantized, 16, 2.0));
        let sparse = of(Compression::TopK { per_million: 1000 });
        assert_eq!((sparse.packing, sparse.effective), (Packing::TopK, Bytes::new(48_000)));
        assert!((sparse.rate - 83.33).abs() < 0.01);
    }
}
