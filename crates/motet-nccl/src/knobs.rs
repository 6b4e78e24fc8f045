//! [`KnobModel`]: what protocol, channels, threads and buffer size mean for a program that is not
//! NCCL's own (an MSCCL program, say), which NCCL's kernels run transfer by transfer.
//!
//! A connection is a FIFO of a few places that a thread block fills and another empties. From
//! that follow [`Terms`]: what starting costs, how much of a wire is payload, what one block
//! carries, how much goes into a place. [`crate::knobbed`] runs a program under them;
//! docs/nccl-model.md says where each term comes from and how sure we are of it.

use motet_net::Network;
use motet_units::{Bandwidth, Bytes, Duration};

use super::choice::STEPS;
use super::constants::{Constants, Generation};
use super::drawing;
use super::kinds::{Algorithm, Protocol};
use super::options::{Buffers, NcclOptions};

/// The knobs of one collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub protocol: Protocol,
    /// Channels in all, each with thread blocks and FIFOs of its own; `None`: as many as the
    /// program has itself.
    pub channels: Option<u32>,
    /// Threads of a block; `None`: the protocol's most.
    pub threads: Option<u32>,
    /// The FIFO; `None`: NCCL's default for the protocol.
    pub buffer: Option<Bytes>,
}

impl Knobs {
    #[must_use]
    pub const fn new(protocol: Protocol) -> Self {
        Self { protocol, channels: None, threads: None, buffer: None }
    }
}

/// Why knobs cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    #[error(
        "{threads} threads cannot run {protocol}; use a multiple of 32 from {least} to {}",
        KnobModel::MOST_THREADS
    )]
    Threads { threads: u32, protocol: Protocol, least: u32 },
    #[error(
        "a buffer of {buffer} is too small for {protocol} with {threads} threads, which write {grain} bytes \
         each at a time; use at least {least}, or fewer threads"
    )]
    Buffer { buffer: Bytes, protocol: Protocol, threads: u32, grain: u64, least: Bytes },
}

/// What a protocol writes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub payload: u64,
    /// Payload and flags.
    pub wire: u64,
}

impl Line {
    /// What `bytes` of payload are on a wire. Saturates.
    #[must_use]
    pub const fn on_wire(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.payload).saturating_mul(self.wire)
    }

    /// How much payload fits into so much of a FIFO.
    const fn within(self, wire: u64) -> u64 {
        wire / self.wire * self.payload
    }
}

/// What knobs mean for every transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub protocol: Protocol,
    /// Of a block.
    pub threads: u32,
    pub buffer: Bytes,
    /// Once per collective: launching the kernel and starting its first step.
    pub launch: Duration,
    pub line: Line,
    /// The most payload that one block sends.
    pub block_rate: Bandwidth,
    /// The most that one block copies or reduces within its GPU.
    pub copy_rate: Bandwidth,
    /// Payload that one place of a FIFO holds: what a block passes on as a whole.
    pub place: Bytes,
    /// Places of a FIFO.
    pub places: u32,
    /// Added to each transfer over each [`Hardware`]: what blocks and flags take to pass data on.
    pub latency: [Duration; 3],
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
    /// The most threads of a block.
    pub const MOST_THREADS: u32 = 640;

    /// For the oldest GPUs of a network.
    #[must_use]
    pub fn new(network: &Network, options: &NcclOptions) -> Self {
        let sms = network.ranks().iter().map(|it| drawing::sm(network, *it, options));
        Self {
            constants: options.version.constants(),
            generation: Generation::of(sms.min().unwrap_or(0)),
            buffers: options.buffers,
        }
    }

    /// Blocks that can be resident at a time: one per multiprocessor of the generation's largest
    /// data-centre GPU.
    #[must_use]
    pub const fn resident_blocks(&self) -> u32 {
        match self.generation {
            Generation::Volta => 80,
            Generation::Ampere => 108,
            Generation::Hopper => 132,
            Generation::Blackwell => 148,
        }
    }

    /// What `knobs` mean; channels are the program's matter.
    pub fn terms(&self, knobs: &Knobs) -> Result<Terms, TermsError> {
        let protocol = knobs.protocol;
        let (ring, index) = (Algorithm::Ring.index(), protocol.index());
        let threads = knobs.threads.unwrap_or_else(|| most_threads(protocol));
        let least = least_threads(protocol);
        if !threads.is_multiple_of(32) || !(least..=Self::MOST_THREADS).contains(&threads) {
            return Err(TermsError::Threads { threads, protocol, least });
        }
        let buffer = knobs.buffer.unwrap_or_else(|| self.buffers.of(protocol));
        let (line, steps) = (line(protocol), steps(protocol));
        let place = line.within(buffer.get() / STEPS * steps);
        let grain = grain(protocol);
        let needed = u64::from(threads) * grain;
        if place < needed {
            let least = Bytes::new(line.on_wire(needed).div_ceil(steps) * STEPS);
            return Err(TermsError::Buffer { buffer, protocol, threads, grain, least });
        }
        let micros = |us: f64| Duration::from_ps((us * 1e6).round() as u64);
        let rate = |protocol| self.block_rate(protocol, threads);
        Ok(Terms {
            protocol,
            threads,
            buffer,
            launch: micros(self.constants.base_latency[ring][index]),
            line,
            block_rate: rate(protocol),
            copy_rate: rate(Protocol::Simple),
            place: Bytes::new(place),
            places: (STEPS / steps) as u32,
            latency: self.constants.hardware_latency.each_ref().map(|it| micros(it[ring][index])),
        })
    }

    /// The most that one block sends: NCCL's per-channel figures on one server, in proportion
    /// where it has fewer threads than the protocol's most.
    fn block_rate(&self, protocol: Protocol, threads: u32) -> Bandwidth {
        let row = self.generation as usize;
        let gbps = match protocol {
            Protocol::Ll => self.constants.ll_max_bandwidth[row][0] / LL_CHANNELS,
            Protocol::Ll128 => self.constants.ring_ll128_max[row][0],
            Protocol::Simple => self.constants.tree_max[row][0],
        };
        let most = most_threads(protocol);
        let share = f64::from(threads.min(most)) / f64::from(most);
        Bandwidth::from_bits_per_s((gbps * share * 8e9).round() as u64)
    }
}

const fn most_threads(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 512,
        Protocol::Ll128 => 640,
    }
}

const fn least_threads(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 64,
        Protocol::Ll128 => 160,
    }
}

/// Eight bytes of sixteen are flags under LL, eight of 128 under LL128.
const fn line(protocol: Protocol) -> Line {
    match protocol {
        Protocol::Ll => Line { payload: 8, wire: 16 },
        Protocol::Ll128 => Line { payload: 120, wire: 128 },
        Protocol::Simple => Line { payload: 1, wire: 1 },
    }
}

/// Of the FIFO's eight steps, how many a place takes: what MSCCL's executor sends at a time.
const fn steps(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Ll | Protocol::Ll128 => 1,
        Protocol::Simple => 4,
    }
}

/// What a thread writes at a time, in bytes of payload.
const fn grain(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 8,
        Protocol::Ll128 => 60,
    }
}

#[cfg(test)]
mod tests {
    use crate::constants::Hardware;
    use motet_net::builders::{Params, find};

    use motet_collective::program::Protocol as Hint;

    use super::*;

    fn hopper() -> KnobModel {
        let params = Params::from_words(["count=1"]).unwrap();
        let network = find("dgx-h100").unwrap().build(&params).unwrap();
        KnobModel::new(&network, &NcclOptions::default())
    }

    #[test]
    fn terms_of_the_protocols() {
        let of = |protocol| hopper().terms(&Knobs::new(protocol)).unwrap();
        let simple = of(Protocol::Simple);
        assert_eq!((simple.place, simple.places), (Bytes::mib(2), 2));
        assert_eq!(simple.latency[Hardware::NvLink as usize], Duration::from_ns(3400));
        assert!((simple.block_rate.as_gb_per_s_f64() - 38.7).abs() < 1e-6);
        let ll = of(Protocol::Ll);
        assert_eq!((ll.place, ll.places), (Bytes::kib(32), 8));
        assert_eq!(ll.launch, Duration::from_ns(6600));
        let ll128 = of(Protocol::Ll128);
        assert_eq!((ll128.place, ll128.places), (Bytes::new(576_000), 8));
        assert_eq!(ll128.latency[Hardware::Net as usize], Duration::from_us(4));
        assert_eq!(ll128.copy_rate, simple.block_rate);
    }

    /// The verifier and the exporters count on the same places.
    #[test]
    fn places_are_those_of_the_program_format() {
        for hint in Hint::ALL {
            let terms = hopper().terms(&Knobs::new(hint.into())).unwrap();
            assert_eq!(terms.place, hint.place_bytes());
            assert_eq!(terms.places as usize, hint.fifo_depth());
        }
    }

    #[test]
    fn lines_on_a_wire() {
        assert_eq!(line(Protocol::Ll).on_wire(8), 16);
        assert_eq!(line(Protocol::Ll).on_wire(9), 32);
        assert_eq!(line(Protocol::Ll128).on_wire(240), 256);
        assert_eq!(line(Protocol::Simple).on_wire(u64::MAX), u64::MAX);
    }

    #[test]
    fn fewer_threads_carry_less() {
        let rate = |threads| {
            let knobs = Knobs { threads: Some(threads), ..Knobs::new(Protocol::Simple) };
            hopper().terms(&knobs).unwrap().block_rate.bits_per_s()
        };
        assert_eq!(rate(256) * 2, rate(512));
        assert_eq!(rate(640), rate(512));
    }

    #[test]
    fn knobs_that_cannot_be() {
        let terms = |knobs: Knobs| hopper().terms(&knobs).unwrap_err().to_string();
        let ll128 = Knobs::new(Protocol::Ll128);
        assert_eq!(
            terms(Knobs { threads: Some(100), ..ll128 }),
            "100 threads cannot run LL128; use a multiple of 32 from 160 to 640"
        );
        assert_eq!(
            terms(Knobs { threads: Some(0), ..Knobs::new(Protocol::Simple) }),
            "0 threads cannot run Simple; use a multiple of 32 from 64 to 640"
        );
        assert_eq!(
            terms(Knobs { buffer: Some(Bytes::kib(16)), ..Knobs::new(Protocol::Ll) }),
            "a buffer of 16 KiB is too small for LL with 512 threads, which write 8 bytes each at a \
             time; use at least 64 KiB, or fewer threads"
        );
        // What the error names is enough, and a byte less is not.
        for protocol in Protocol::ALL {
            let buffer = |bytes| Knobs { buffer: Some(Bytes::new(bytes)), ..Knobs::new(protocol) };
            let TermsError::Buffer { least, .. } = hopper().terms(&buffer(0)).unwrap_err() else {
                panic!("{protocol}: an empty buffer")
            };
            hopper().terms(&buffer(least.get())).unwrap();
            hopper().terms(&buffer(least.get() - 1)).unwrap_err();
        }
    }
}
