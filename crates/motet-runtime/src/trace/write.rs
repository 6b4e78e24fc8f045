//! [`TraceWriter`]: puts records into blocks. The format is described [one level up](super).

use super::{
    BLOCK_HEAD, CALL, COMMUNICATOR, Communicator, HEAD, MAGIC, MOST_NAME, TracedCall, VERSION,
};
use crate::key::{Algorithm, Protocol};

/// A block is due when it has this many bytes.
const DUE: usize = 1 << 16;

/// Collects records into blocks; the owner of the file writes what [`take`](Self::take) returns.
#[derive(Debug)]
pub struct TraceWriter {
    /// The block so far, with room for its head.
    block: Vec<u8>,
    records: u32,
    last_start: u64,
    communicators: u32,
}

impl Default for TraceWriter {
    fn default() -> Self {
        Self { block: vec![0; BLOCK_HEAD], records: 0, last_start: 0, communicators: 0 }
    }
}

impl TraceWriter {
    /// The head that a trace file begins with.
    #[must_use]
    pub fn head() -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head
    }

    /// Adds a communicator, and returns the number by which its calls refer to it.
    pub fn communicator(&mut self, it: &Communicator) -> u32 {
        let mut end = it.name.len().min(MOST_NAME);
        while !it.name.is_char_boundary(end) {
            end -= 1;
        }
        self.block.push(COMMUNICATOR);
        self.block.extend(it.id.to_le_bytes());
        for value in [u64::from(it.rank), u64::from(it.ranks), u64::from(it.nodes), end as u64] {
            self.number(value);
        }
        self.block.extend(&it.name.as_bytes()[..end]);
        self.records += 1;
        self.communicators += 1;
        self.communicators - 1
    }

    pub fn call(&mut self, it: &TracedCall) {
        self.block.push(CALL);
        self.number(it.communicator.into());
        self.number(it.sequence);
        // Ten collectives, seven algorithms, three protocols, three sources.
        self.block.push(it.collective.index() as u8);
        let algorithm = it.algorithm.map_or(0, |it| Algorithm::index(it) as u8 + 1);
        let protocol = it.protocol.map_or(0, |it| Protocol::index(it) as u8 + 1);
        self.block.push(algorithm | protocol << 4 | (it.source as u8) << 6);
        for value in [it.channels.into(), it.finished.into(), it.bytes.get()] {
            self.number(value);
        }
        let difference = it.start_ns.wrapping_sub(self.last_start) as i64;
        self.number((difference << 1 ^ difference >> 63) as u64);
        self.number(it.duration_ns);
        self.last_start = it.start_ns;
        self.records += 1;
    }

    /// Whether there is a block's worth of records.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.block.len() >= DUE
    }

    /// The block of all records since the last block, to be appended to the file; `None` if there are none.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.records == 0 {
            return None;
        }
        let mut block = std::mem::replace(&mut self.block, vec![0; BLOCK_HEAD]);
        // A block is taken when it is due, long before its length needs more bits.
        let length = (block.len() - BLOCK_HEAD) as u32;
        block[..4].copy_from_slice(&length.to_le_bytes());
        block[4..8].copy_from_slice(&self.records.to_le_bytes());
        let checksum = super::read::seal(&block);
        block[8..BLOCK_HEAD].copy_from_slice(&checksum.0.to_le_bytes());
        (self.records, self.last_start) = (0, 0);
        Some(block)
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.block.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.block.push(value as u8);
    }
}
