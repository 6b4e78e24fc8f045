//! Traces: which collectives a job called, with which settings, and how long each took. The NCCL plugin
//! writes them; this is the format, without IO.
//!
//! A file is 16 bytes of head, `MOTETTRC`, the version (1) and four zero bytes, and then blocks. All
//! numbers are little-endian. A block is
//!
//! | bytes | hold |
//! | --- | --- |
//! | 4 | length of the payload, at most [`MOST_PAYLOAD`] |
//! | 4 | number of records in it |
//! | 8 | CRC-64/XZ of those eight bytes and the payload |
//! | … | the payload |
//!
//! A record begins with a byte that says what it is. *v* is a number of seven bits to a byte, lowest first,
//! the top bit set in all but the last (LEB128).
//!
//! * **1, a communicator**: eight bytes of id, *v* rank, *v* ranks, *v* nodes, *v* length of the name, the name
//!   in UTF-8. Communicators are numbered in the order in which they appear, from 0.
//! * **2, a call**: *v* number of the communicator, *v* sequence number, a byte with the collective's index, a
//!   byte with the algorithm's index + 1 in its low four bits, the protocol's in the next two (0 for unknown) and
//!   the [`Source`] in the top two, *v* channels, *v* channels that were seen to finish, *v* bytes, *v* start as
//!   the zigzag difference from the call before it in the block (from 0 for the first), *v* duration; both in ns.
//!
//! Every block can be read by itself, but for the communicators. A job that is killed leaves a file whose last
//! block is cut off, or nothing; what comes before is whole, and reading says where it ends.

mod read;
mod summary;
mod write;

use motet_units::Bytes;

use crate::key::{Algorithm, Collective, Protocol};

pub use read::{Trace, TraceError};
pub use summary::{TraceRow, summary};
pub use write::TraceWriter;

const MAGIC: &[u8; 8] = b"MOTETTRC";
const VERSION: u32 = 1;
const HEAD: usize = 16;
const BLOCK_HEAD: usize = 16;
/// The most bytes of a block's payload, which a reader must hold in memory at once.
pub const MOST_PAYLOAD: usize = 1 << 20;
const COMMUNICATOR: u8 = 1;
const CALL: u8 = 2;
/// The most bytes of a communicator's name that are kept.
const MOST_NAME: usize = 256;

/// A communicator of the process that wrote the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// An id that is the same on all its ranks.
    pub id: u64,
    pub rank: u32,
    pub ranks: u32,
    pub nodes: u32,
    pub name: String,
}

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// There is no time: the library said only that the call was enqueued.
    Unknown,
    /// The host's clock when the library noticed; later than it was.
    Host,
    /// The GPU's clock within the kernel.
    Gpu,
}

impl Source {
    const ALL: [Self; 3] = [Self::Unknown, Self::Host, Self::Gpu];
}

/// A collective that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// The number of the communicator in the trace.
    pub communicator: u32,
    /// The number of the call among those of this collective, as the library counts them.
    pub sequence: u64,
    pub collective: Collective,
    pub bytes: Bytes,
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    pub channels: u32,
    /// How many channels were seen to finish. If fewer than `channels`, the duration is a lower limit.
    pub finished: u32,
    pub source: Source,
    /// By the clock that `source` names; clocks of different GPUs cannot be compared.
    pub start_ns: u64,
    pub duration_ns: u64,
}

#[cfg(test)]
mod tests;
