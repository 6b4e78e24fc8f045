//! [`AllToAll`]: what NCCL does for an AllToAll, and an estimate of how long that takes.
//!
//! NCCL has no algorithm for it and no cost model: `ncclAlltoAll` is a group of sends and receives, one
//! of each for every peer. *Which* channels and protocol they get is read in NCCL's source
//! (`addP2pToPlan` in `src/enqueue.cc`, `ncclTopoComputeP2pChannels` in `src/graph/paths.cc`, v2.30.7-1):
//!
//! - every send is cut over a power of two of channels, fewer where there are many peers;
//! - LL up to 16 KiB for each channel of a send, Simple above, never LL128;
//! - a thread block works on 8 sends at a time; what is more waits for the next batch.
//!
//! *How long* that takes is our estimate, from the terms that NCCL counts for its rings: the launch, a
//! hop for every batch, and the time of the busiest link, of which LL leaves half. What thread blocks
//! and proxies cannot carry is not in it, so that large calls may take longer than it says.

use std::collections::BTreeMap;

use motet_net::Network;
use motet_units::{Bytes, Duration, Rank};

use crate::constants::{Hardware, MAX_CHANNELS};
use crate::fluid::Load;
use crate::kinds::{Algorithm, PathKind, Protocol};
use crate::model::NcclModel;

/// `NCCL_P2P_LL_THRESHOLD`: the most bytes that each channel of a send carries under LL.
const LL_THRESHOLD: u64 = 16_384;
/// `NCCL_MAX_DEV_WORK_P2P_PER_BATCH`: sends that a thread block works on at a time.
const SENDS_PER_BATCH: u64 = 8;
/// `NCCL_P2P_NVL_CHUNKSIZE`, and `NCCL_P2P_NET_CHUNKSIZE` and `NCCL_P2P_PCI_CHUNKSIZE`.
const NVLINK_CHUNK: u64 = 1 << 19;
const OTHER_CHUNK: u64 = 1 << 17;
/// Channels of a send to another node, and over PCIe. NCCL takes more where a GPU has NICs of more
/// than 28 GB/s together, which is not modelled.
const FEW_CHANNELS: u64 = 2;

/// AllToAll on one network, whatever its size.
#[derive(Clone, Debug)]
pub struct AllToAll<'a> {
    model: &'a NcclModel,
    load: Load,
}

/// What NCCL does for one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRecvChoice {
    pub protocol: Protocol,
    /// Channels that the data of one peer are cut over.
    pub channels_per_peer: u64,
    /// Channels in use altogether: thread blocks of a GPU.
    pub channels: u64,
    /// How many batches of sends every block works through.
    pub batches: u64,
    /// Our estimate of the time.
    pub time: Duration,
}

impl<'a> AllToAll<'a> {
    /// The threads of a thread block that sends and receives.
    pub const THREADS: u32 = 640;

    /// AllToAll among all ranks of a network; `None` if two of them do not reach one another.
    #[must_use]
    pub fn new(network: &Network, model: &'a NcclModel) -> Option<Self> {
        let ranks = u32::try_from(model.communicator().ranks).ok()?;
        let share = 1.0 / f64::from(ranks.max(1));
        let mut flows = BTreeMap::new();
        for from in (0..ranks).map(Rank) {
            let others = (0..ranks).map(Rank).filter(|it| *it != from);
            flows.extend(others.map(|to| ((from, to), share)));
        }
        Some(Self { model, load: Load::of(network, flows)? })
    }

    /// What NCCL does for a call whose buffer has `size` bytes on every rank.
    #[must_use]
    pub fn choose(&self, size: Bytes) -> SendRecvChoice {
        let comm = self.model.communicator();
        let ranks = comm.ranks.max(1) as u64;
        let several = comm.nodes > 1;
        let nvlink = comm.ring.type_intra <= PathKind::NvLinkBridged;
        let all = comm.channels.next_power_of_two().min(MAX_CHANNELS) as u64;
        // At most so many channels for a peer: over NVLink two for each lane, which is never fewer
        // than all channels can give to 2 ranks or more.
        let mut most = if several || !nvlink { FEW_CHANNELS.min(all) } else { all };
        while several && most * ranks.div_ceil(SENDS_PER_BATCH) > all && most > 1 {
            most /= 2;
        }
        let mut least = most;
        while least * ranks > all && least > 1 {
            least /= 2;
        }
        let chunk = if several || !nvlink { OTHER_CHUNK } else { NVLINK_CHUNK };
        let (least_part, most_part) =
            if several { (chunk / 2, chunk) } else { (chunk / 8, chunk * 32) };
        let bytes = size.get() / ranks;
        let mut per_peer = least.min(bytes.div_ceil(least_part)).max(1);
        while least_part.max(bytes.div_ceil(per_peer)) > most_part && per_peer <= most / 2 {
            per_peer *= 2;
        }
        let ll = bytes <= per_peer * LL_THRESHOLD;
        let protocol = if ll { Protocol::Ll } else { Protocol::Simple };
        let sends = ranks - 1;
        let at_a_time = (all / most).max(1) * SENDS_PER_BATCH;
        let batches = sends.div_ceil(at_a_time).max(1);
        let channels = all.min((sends * per_peer).max(1));
        let time = self.time(size, protocol, batches);
        SendRecvChoice { protocol, channels_per_peer: per_peer, channels, batches, time }
    }

    fn time(&self, size: Bytes, protocol: Protocol, batches: u64) -> Duration {
        let (comm, constants) =
            (self.model.communicator(), self.model.options().version.constants());
        let over = match comm.ring.type_intra {
            _ if comm.nodes > 1 => Hardware::Net,
            PathKind::NvLink => Hardware::NvLink,
            _ => Hardware::Pci,
        };
        let (ring, protocol_index) = (Algorithm::Ring.index(), protocol.index());
        let launch = constants.base_latency[ring][protocol_index];
        let hop = constants.hardware_latency[over as usize][ring][protocol_index];
        let steps = Duration::from_ps(((launch + batches as f64 * hop) * 1e6) as u64);
        // Of what LL sends, half are flags.
        let wire = if protocol == Protocol::Ll { size.get().saturating_mul(2) } else { size.get() };
        let data = self.load.time(Bytes::new(wire), 1);
        Duration::from_ps(steps.as_ps().saturating_add(data.as_ps()))
    }
}

#[cfg(test)]
mod tests {
    use motet_net::Network;

    use super::*;
    use crate::options::NcclOptions;
    use crate::testing::build;

    fn on(network: &Network, size: Bytes) -> SendRecvChoice {
        let model = NcclModel::new(network, NcclOptions::default()).unwrap();
        AllToAll::new(network, &model).unwrap().choose(size)
    }

    #[test]
    fn little_goes_by_ll_and_much_is_bound_by_the_busiest_link() {
        let network = build("dgx-a100", &["count=2"]);
        let small = on(&network, Bytes::kib(16));
        assert_eq!((small.protocol, small.channels_per_peer), (Protocol::Ll, 1));
        // Launch and one hop over the network are the least that it takes.
        assert!(small.time >= Duration::from_ns(9_300), "{}", small.time);
        let large = on(&network, Bytes::gib(1));
        assert_eq!(large.protocol, Protocol::Simple);
        // Half of every rank's data leave its server by its NIC of 25 GB/s.
        let least = Duration::from_ps((1 << 29) * 40);
        assert!(
            large.time >= least && large.time < least.saturating_mul(2),
            "{} {least}",
            large.time
        );
    }

    #[test]
    fn more_takes_no_less_time() {
        for (name, count) in [("dgx-a100", "count=1"), ("dgx-h100", "count=2")] {
            let network = build(name, &[count]);
            let times = (10..=30).map(|it| on(&network, Bytes::new(1 << it)).time);
            let times: Vec<Duration> = times.collect();
            // But for the step from LL to Simple, which halves what is on the wires.
            let falls = times.windows(2).filter(|it| it[1] < it[0]).count();
            assert!(falls <= 1, "{times:?}");
        }
    }
}
