//! [`KnobModel`]: what protocol, channels, threads and buffer size do to a program that is not
//! NCCL's own (an MSCCL program, say), which NCCL's kernels run transfer by transfer.
//!
//! A connection is a FIFO of 8 steps that a thread block fills and another empties. From that
//! follow, per transfer: a latency for each hop; the share of a link that is payload; the most
//! that one channel carries; the slice in which it is pipelined; the window that may be under
//! way. A simulation takes them as corrections of its links ([`Terms`]); [`Terms::chain_time`]
//! is the closed form for a chain of equal hops. docs/nccl-model.md says where each term comes
//! from and how sure we are of it.

use motet_net::LinkClass;
use motet_units::{Bandwidth, Bytes, Duration};

use super::choice::STEPS;
use super::constants::{Constants, Generation, Hardware, NcclVersion};
use super::kinds::{Algorithm, Protocol};
use super::options::Buffers;

/// The knobs of one collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub protocol: Protocol,
    /// Thread blocks that work side by side, each with FIFOs of its own.
    pub channels: u32,
    /// Threads of a block; `None`: the protocol's most.
    pub threads: Option<u32>,
    /// The FIFO; `None`: NCCL's default for the protocol.
    pub buffer: Option<Bytes>,
}

impl Knobs {
    #[must_use]
    pub const fn new(protocol: Protocol, channels: u32) -> Self {
        Self { protocol, channels, threads: None, buffer: None }
    }
}

impl Hardware {
    /// What NCCL counts a link of this class as.
    #[must_use]
    pub const fn of_class(class: LinkClass) -> Self {
        match class {
            LinkClass::NvLink | LinkClass::Xgmi | LinkClass::Die => Self::NvLink,
            LinkClass::C2c | LinkClass::Pcie | LinkClass::Smp | LinkClass::Other => Self::Pci,
            LinkClass::InfiniBand
            | LinkClass::Roce
            | LinkClass::Ethernet
            | LinkClass::Optical
            | LinkClass::Wan => Self::Net,
        }
    }
}

/// What knobs do to every transfer over one kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Once per collective: launching the kernel and starting its first step.
    pub launch: Duration,
    /// Added to each transfer: what a block and its flags take to pass data on.
    pub latency: Duration,
    /// Payload of a link's bandwidth, as a fraction.
    pub payload: (u32, u32),
    /// The most that one channel carries of payload.
    pub channel_limit: Bandwidth,
    pub channels: u32,
    /// Payload that is passed on as a whole.
    pub slice: Bytes,
    /// Payload of one channel that may be under way.
    pub window: Bytes,
}

/// How NCCL's kernels treat programs, for one version and GPU generation.
#[derive(Clone, Copy, Debug)]
pub struct KnobModel {
    constants: &'static Constants,
    generation: Generation,
    buffers: Buffers,
}

/// The channels at which NCCL's figures for LL over all channels were taken: two for each of the
/// twelve that the search finds on the NVSwitch boxes of Ampere and Hopper.
const LL_CHANNELS: f64 = 24.0;

impl KnobModel {
    #[must_use]
    pub fn new(version: NcclVersion, sm: u32, buffers: Buffers) -> Self {
        Self { constants: version.constants(), generation: Generation::of(sm), buffers }
    }

    /// What `knobs` do to transfers over `hardware`.
    #[must_use]
    pub fn terms(&self, knobs: Knobs, hardware: Hardware) -> Terms {
        let protocol = knobs.protocol;
        let ring = Algorithm::Ring.index();
        let micros = |us: f64| Duration::from_ps((us * 1e6).round() as u64);
        let buffer = knobs.buffer.unwrap_or_else(|| self.buffers.of(protocol)).get();
        let payload = payload(protocol);
        let carried = |wire: u64| Bytes::new(wire / u64::from(payload.1) * u64::from(payload.0));
        // Simple passes on two steps at a time; the others each line, in steps of the FIFO.
        let steps = if protocol == Protocol::Simple { 2 } else { 1 };
        Terms {
            launch: micros(self.constants.base_latency[ring][protocol.index()]),
            latency: micros(
                self.constants.hardware_latency[hardware as usize][ring][protocol.index()],
            ),
            payload,
            channel_limit: self.channel_limit(knobs),
            channels: knobs.channels.max(1),
            slice: carried(buffer / STEPS * steps).max(Bytes::new(1)),
            window: carried(buffer).max(Bytes::new(1)),
        }
    }

    /// The most that one block carries: NCCL's per-channel figures on one server, in proportion
    /// where it has fewer threads than the most.
    fn channel_limit(&self, knobs: Knobs) -> Bandwidth {
        let row = self.generation as usize;
        let gbps = match knobs.protocol {
            Protocol::Ll => self.constants.ll_max_bandwidth[row][0] / LL_CHANNELS,
            Protocol::Ll128 => self.constants.ring_ll128_max[row][0],
            Protocol::Simple => self.constants.tree_max[row][0],
        };
        let most = most_threads(knobs.protocol);
        let threads = knobs.threads.unwrap_or(most).clamp(32, most);
        let share = f64::from(threads) / f64::from(most);
        Bandwidth::from_bits_per_s((gbps * share * 8e9).round() as u64)
    }
}

const fn most_threads(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 512,
        Protocol::Ll128 => 640,
    }
}

/// Four bytes of eight are flags under LL, eight of 128 under LL128.
const fn payload(protocol: Protocol) -> (u32, u32) {
    match protocol {
        Protocol::Ll => (1, 2),
        Protocol::Ll128 => (120, 128),
        Protocol::Simple => (1, 1),
    }
}

impl Terms {
    /// The rate of payload over a link: its share of the link, what all channels carry, and what
    /// their windows let through at the latency there and back.
    #[must_use]
    pub fn rate(&self, link: Bandwidth, link_latency: Duration) -> Bandwidth {
        let share =
            u128::from(link.bits_per_s()) * u128::from(self.payload.0) / u128::from(self.payload.1);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let blocks = self.channel_limit.saturating_mul(u64::from(self.channels)).bits_per_s();
        let trip = u128::from((self.latency + link_latency).saturating_mul(2).as_ps());
        let bits = u128::from(self.window.get()) * 8 * u128::from(self.channels);
        let windows = (bits * 1_000_000_000_000).checked_div(trip);
        let windows = windows.map_or(u64::MAX, |it| u64::try_from(it).unwrap_or(u64::MAX));
        Bandwidth::from_bits_per_s(share.min(blocks).min(windows).max(1))
    }

    /// How many slices a channel makes of its part of `bytes`.
    #[must_use]
    pub fn slices(&self, bytes: Bytes) -> u64 {
        bytes.div_ceil(u64::from(self.channels)).get().div_ceil(self.slice.get()).max(1)
    }

    /// The time of `bytes` along `hops` equal links in a row, sliced and pipelined: every hop but
    /// the last holds up one slice.
    #[must_use]
    pub fn chain_time(
        &self,
        bytes: Bytes,
        hops: u32,
        link: Bandwidth,
        link_latency: Duration,
    ) -> Duration {
        let rate = self.rate(link, link_latency);
        let time = |bytes: Bytes| {
            rate.transfer_time(bytes, motet_units::Rounding::Up).unwrap_or(Duration::MAX)
        };
        let hops = u64::from(hops.max(1));
        let all = self.slice.get().saturating_mul(u64::from(self.channels)).min(bytes.get());
        self.launch
            + (self.latency + link_latency).saturating_mul(hops)
            + time(Bytes::new(all)).saturating_mul(hops - 1)
            + time(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hopper() -> KnobModel {
        KnobModel::new(NcclVersion::V2_30, 90, Buffers::default())
    }

    const LINK: Bandwidth = Bandwidth::gb_per_s(450);

    #[test]
    fn terms_of_the_protocols() {
        let simple = hopper().terms(Knobs::new(Protocol::Simple, 1), Hardware::NvLink);
        assert_eq!((simple.slice, simple.window), (Bytes::mib(1), Bytes::mib(4)));
        assert_eq!(simple.latency, Duration::from_ns(3400));
        let ll = hopper().terms(Knobs::new(Protocol::Ll, 1), Hardware::NvLink);
        assert_eq!((ll.slice, ll.window), (Bytes::kib(32), Bytes::kib(256)));
        assert_eq!((ll.latency, ll.launch), (Duration::from_ns(600), Duration::from_ns(6600)));
        let ll128 = hopper().terms(Knobs::new(Protocol::Ll128, 1), Hardware::Net);
        assert_eq!(ll128.window, Bytes::new(4_608_000));
        assert_eq!(ll128.latency, Duration::from_us(4));
    }

    #[test]
    fn one_block_does_not_fill_a_link() {
        let rate = |channels| {
            let terms = hopper().terms(Knobs::new(Protocol::Simple, channels), Hardware::NvLink);
            terms.rate(LINK, Duration::ZERO).as_gb_per_s_f64()
        };
        assert!((rate(1) - 38.7).abs() < 1e-6);
        assert!((rate(8) - 309.6).abs() < 1e-6);
        assert!((rate(16) - 450.0).abs() < 1e-6);
    }

    #[test]
    fn small_buffers_hold_long_links_up() {
        let knobs =
            |kib| Knobs { buffer: Some(Bytes::kib(kib)), ..Knobs::new(Protocol::Simple, 1) };
        let far = Duration::from_ms(10);
        let rate = |kib| hopper().terms(knobs(kib), Hardware::Net).rate(LINK, far).bits_per_s();
        assert!(
            rate(64) * 16 <= rate(1024) + 16 && rate(1024) < Bandwidth::gb_per_s(1).bits_per_s()
        );
    }

    #[test]
    fn small_data_prefers_ll_and_large_simple() {
        let time = |protocol, bytes| {
            let terms = hopper().terms(Knobs::new(protocol, 16), Hardware::NvLink);
            terms.chain_time(bytes, 7, LINK, Duration::ZERO)
        };
        assert!(time(Protocol::Ll, Bytes::kib(1)) < time(Protocol::Simple, Bytes::kib(1)));
        assert!(time(Protocol::Simple, Bytes::mib(256)) < time(Protocol::Ll, Bytes::mib(256)));
    }

    proptest! {
        /// More bytes, more hops and fewer threads never take less time.
        #[test]
        fn time_grows(bytes in 1u64..1 << 34, hops in 1u32..64, channels in 1u32..64, p in 0usize..3) {
            let knobs = Knobs::new(Protocol::ALL[p], channels);
            let terms = hopper().terms(knobs, Hardware::NvLink);
            let time = |terms: Terms, bytes, hops| {
                terms.chain_time(Bytes::new(bytes), hops, LINK, Duration::from_ns(300))
            };
            let here = time(terms, bytes, hops);
            prop_assert!(time(terms, bytes + 4096, hops) >= here);
            prop_assert!(time(terms, bytes, hops + 1) > here);
            let slow = hopper().terms(Knobs { threads: Some(96), ..knobs }, Hardware::NvLink);
            prop_assert!(time(slow, bytes, hops) >= here);
        }
    }
}
