//! [`CallState`]: the call that is to be decided, and what came before it (s_collective of Fig. 14, the
//! rhythm of §13.5).
//!
//! The LSTM's hidden state, which Fig. 14 lists too, is the policy's own and no part of the encoding: a
//! policy without memory has none. **Everything here must be the same on all ranks.** Intervals are therefore
//! not what one rank's clock says but what the leader has published of them (`motet_runtime::agreement`), or
//! they are left out. Next: [`anomaly`](super::anomaly).

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration};

use super::encoding::Row;

/// How the previous call was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastKnobs {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    pub channels: u32,
    pub threads: u32,
}

/// The intervals between calls of this communicator, in the form that all ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// From the start of the call before the last to that of the last.
    pub last: Duration,
    /// A moving average of these intervals.
    pub mean: Duration,
}

/// The call to be decided, and its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallState {
    pub kind: CollectiveKind,
    /// The size as the caller gave it, in nccl-tests' sense.
    pub bytes: Bytes,
    /// `None` before the first call, and if NCCL decided and its choice was not observed.
    pub last: Option<LastKnobs>,
    pub rhythm: Option<Rhythm>,
}

impl CallState {
    /// A first call.
    #[must_use]
    pub const fn first(kind: CollectiveKind, bytes: Bytes) -> Self {
        Self { kind, bytes, last: None, rhythm: None }
    }

    pub(super) fn encode(&self, row: &mut Row) {
        let kinds = CollectiveKind::ALL;
        let kind = kinds.iter().position(|it| *it == self.kind).unwrap_or(kinds.len());
        row.one_hot("call.kind", kind, &kinds, |it| it.name());
        row.log2("call.bytes", self.bytes.get(), 44);
        row.flag("call.has_last", self.last.is_some());
        let algorithm = self.last.map_or(Algorithm::COUNT, |it| it.algorithm.index());
        row.one_hot("call.last_algorithm", algorithm, &Algorithm::ALL, |it| it.name());
        let protocol = self.last.map_or(Protocol::COUNT, |it| it.protocol.index());
        row.one_hot("call.last_protocol", protocol, &Protocol::ALL, |it| it.name());
        let channels = self.last.map_or(0, |it| it.channels);
        row.share("call.last_channels", f64::from(channels) / 64.0);
        let threads = self.last.map_or(0, |it| it.threads);
        row.share("call.last_threads", f64::from(threads) / 1024.0);
        row.flag("call.has_rhythm", self.rhythm.is_some());
        // Nanoseconds, up to five hours.
        let ns = |it: Option<Duration>| it.map_or(0, |it| it.as_ps() / 1000);
        row.log2("call.interval", ns(self.rhythm.map(|it| it.last)), 44);
        row.log2("call.mean_interval", ns(self.rhythm.map(|it| it.mean)), 44);
    }
}
