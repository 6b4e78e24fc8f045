//! [`Knobs`]: the run-time configuration of a call, and which values a runtime takes.
//!
//! Protocol and channels are chosen per call; threads and buffers belong to the communicator. How they change
//! the time of a call is in [`kernel`](crate::kernel).

use motet_units::Bytes;

use super::choice::STEPS;
use super::kernel::FifoShape;
use super::kinds::Protocol;
use super::options::Buffers;

/// The knobs of one collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    pub protocol: Protocol,
    /// The number of channels, each with thread blocks and FIFOs of its own; `None`: as many as the
    /// program itself has.
    pub channels: Option<u32>,
    /// Threads of a thread block; `None`: the most that the protocol's kernels use.
    pub threads: Option<u32>,
    /// Bytes of the FIFO of a connection; `None`: NCCL's default for the protocol.
    pub buffer: Option<Bytes>,
}

/// Why a runtime cannot run under given knobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    #[error(
        "{threads} threads cannot run {protocol}; use a multiple of 32 from {least} to {}",
        Knobs::MOST_THREADS
    )]
    Threads { threads: u32, protocol: Protocol, least: u32 },
    #[error(
        "a buffer of {buffer} is too small for {protocol} with {threads} threads, which write {per_thread} bytes \
         each at a time; use at least {least}, or fewer threads"
    )]
    Buffer { buffer: Bytes, protocol: Protocol, threads: u32, per_thread: u64, least: Bytes },
}

impl Knobs {
    /// The most threads of a block.
    pub const MOST_THREADS: u32 = 640;

    #[must_use]
    pub const fn new(protocol: Protocol) -> Self {
        Self { protocol, channels: None, threads: None, buffer: None }
    }

    /// How MSCCL's executor divides the FIFO of a connection under these knobs.
    ///
    /// # Errors
    /// When the protocol cannot run with so many threads, or not with so small a buffer.
    pub fn fifo(&self, buffers: &Buffers) -> Result<FifoShape, KnobError> {
        let protocol = self.protocol;
        let threads = self.threads.unwrap_or_else(|| most_threads(protocol));
        let least = least_threads(protocol);
        if !threads.is_multiple_of(32) || !(least..=Self::MOST_THREADS).contains(&threads) {
            return Err(KnobError::Threads { threads, protocol, least });
        }
        let buffer = self.buffer.unwrap_or_else(|| buffers.of(protocol));
        let fifo = FifoShape::msccl(protocol, buffer);
        let each = bytes_per_thread(protocol);
        let needed = u64::from(threads) * each;
        if fifo.slot.get() < needed {
            // How much of a step on the wire is payload, and how many steps make a slot.
            let (payload, wire, steps) = match protocol {
                Protocol::Ll => (8, 16, 1),
                Protocol::Ll128 => (120, 128, 1),
                Protocol::Simple => (1, 1, 4),
            };
            let whole = needed.div_ceil(payload) * wire;
            let least = Bytes::new(whole.div_ceil(steps) * STEPS);
            return Err(KnobError::Buffer { buffer, protocol, threads, per_thread: each, least });
        }
        Ok(fifo)
    }
}

/// The most threads that the kernels of a protocol use in a thread block.
#[must_use]
pub const fn most_threads(protocol: Protocol) -> u32 {
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

/// What a thread writes at a time, in bytes of payload.
const fn bytes_per_thread(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 8,
        Protocol::Ll128 => 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verifier and the exporters count on the same slots.
    #[test]
    fn slots_are_those_of_the_program_format() {
        for protocol in Protocol::ALL {
            let fifo = Knobs::new(protocol).fifo(&Buffers::default()).unwrap();
            assert_eq!(fifo.slot, protocol.place_bytes());
            assert_eq!(fifo.slots as usize, protocol.fifo_depth());
        }
    }

    #[test]
    fn knobs_that_cannot_be() {
        let wrong = |knobs: Knobs| knobs.fifo(&Buffers::default()).unwrap_err().to_string();
        let ll128 = Knobs::new(Protocol::Ll128);
        assert_eq!(
            wrong(Knobs { threads: Some(100), ..ll128 }),
            "100 threads cannot run LL128; use a multiple of 32 from 160 to 640"
        );
        assert_eq!(
            wrong(Knobs { threads: Some(0), ..Knobs::new(Protocol::Simple) }),
            "0 threads cannot run Simple; use a multiple of 32 from 64 to 640"
        );
        assert_eq!(
            wrong(Knobs { buffer: Some(Bytes::kib(16)), ..Knobs::new(Protocol::Ll) }),
            "a buffer of 16 KiB is too small for LL with 512 threads, which write 8 bytes each at a \
             time; use at least 64 KiB, or fewer threads"
        );
        // What the error names is enough, and a byte less is not.
        for protocol in Protocol::ALL {
            let buffer = |bytes| Knobs { buffer: Some(Bytes::new(bytes)), ..Knobs::new(protocol) };
            let fifo = |bytes| buffer(bytes).fifo(&Buffers::default());
            let Err(KnobError::Buffer { least, .. }) = fifo(0) else {
                panic!("{protocol}: an empty buffer")
            };
            fifo(least.get()).unwrap();
            fifo(least.get() - 1).unwrap_err();
        }
    }
}
