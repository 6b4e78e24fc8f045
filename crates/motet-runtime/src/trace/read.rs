//! [`Trace::read`]. The format is described [one level up](super).
//!
//! Memory is bounded by the input: a record takes at least ten bytes of it.

use motet_units::Bytes;

use super::{
    BLOCK_HEAD, CALL, COMMUNICATOR, Communicator, HEAD, MAGIC, MOST_NAME, MOST_PAYLOAD, Source,
    TracedCall, VERSION,
};
use crate::checksum::Checksum;
use crate::key::{Algorithm, Collective, Protocol};

/// The calls of a process, as read from its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub communicators: Vec<Communicator>,
    /// The calls, in the order in which they were seen to finish.
    pub calls: Vec<TracedCall>,
    /// Where the file breaks off within a block, if it does.
    pub cut_at: Option<usize>,
}

/// Why a trace is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("it does not begin as a trace does; give a file that the NCCL plugin wrote")]
    NotATrace,
    #[error(
        "the trace has version {0}, and this Motet reads {VERSION}; use the Motet that wrote it"
    )]
    Version(u32),
    #[error("byte {at}: the block there is damaged ({problem}); copy the trace again")]
    Damaged { at: usize, problem: &'static str },
}

/// The checksum of a block: of the first eight bytes of its head, and of its payload.
pub(super) fn seal(block: &[u8]) -> Checksum {
    let whole: Vec<u8> = block[..8].iter().chain(&block[BLOCK_HEAD..]).copied().collect();
    Checksum::of(&whole)
}

impl Trace {
    /// The trace in a file's bytes.
    ///
    /// # Errors
    /// When it is not a trace, or a block that is all there is damaged. A file that ends within a block is read
    /// as far as it goes, see [`cut_at`](Self::cut_at).
    pub fn read(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let head = bytes.get(..HEAD).filter(|it| it.starts_with(MAGIC));
        let head = head.ok_or(TraceError::NotATrace)?;
        let version = u32_at(head, 8);
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let mut at = HEAD;
        while at < bytes.len() {
            let damaged = |problem| TraceError::Damaged { at, problem };
            let Some(head) = bytes.get(at..at + BLOCK_HEAD) else {
                trace.cut_at = Some(at);
                break;
            };
            let length = u32_at(head, 0) as usize;
            if length > MOST_PAYLOAD {
                return Err(damaged("it is longer than any block"));
            }
            let Some(block) = bytes.get(at..at + BLOCK_HEAD + length) else {
                trace.cut_at = Some(at);
                break;
            };
            if block[8..BLOCK_HEAD] != seal(block).0.to_le_bytes() {
                return Err(damaged("its contents do not have its checksum"));
            }
            let mut payload = Payload { rest: &block[BLOCK_HEAD..], last_start: 0 };
            for _ in 0..u32_at(head, 4) {
                payload.record(&mut trace).ok_or_else(|| damaged("it is whole, but no record"))?;
            }
            if !payload.rest.is_empty() {
                return Err(damaged("it has more than its records"));
            }
            at += block.len();
        }
        Ok(trace)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

struct Payload<'a> {
    rest: &'a [u8],
    last_start: u64,
}

impl<'a> Payload<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|it| it[0])
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number().and_then(|it| u32::try_from(it).ok())
    }

    fn record(&mut self, trace: &mut Trace) -> Option<()> {
        match self.byte()? {
            COMMUNICATOR => {
                let it = self.communicator()?;
                trace.communicators.push(it);
            }
            CALL => {
                let it = self.call()?;
                trace.communicators.get(it.communicator as usize)?;
                trace.calls.push(it);
            }
            _ => return None,
        }
        Some(())
    }

    fn communicator(&mut self) -> Option<Communicator> {
        let mut id = [0; 8];
        id.copy_from_slice(self.take(8)?);
        let (rank, ranks, nodes) = (self.small()?, self.small()?, self.small()?);
        let length = usize::try_from(self.number()?).ok().filter(|it| *it <= MOST_NAME)?;
        let name = std::str::from_utf8(self.take(length)?).ok()?.to_owned();
        Some(Communicator { id: u64::from_le_bytes(id), rank, ranks, nodes, name })
    }

    fn call(&mut self) -> Option<TracedCall> {
        let communicator = self.small()?;
        let sequence = self.number()?;
        let collective = *Collective::ALL.get(usize::from(self.byte()?))?;
        let setting = self.byte()?;
        let algorithm = indexed(Algorithm::ALL, setting & 0xf)?;
        let protocol = indexed(Protocol::ALL, setting >> 4 & 3)?;
        let source = *Source::ALL.get(usize::from(setting >> 6))?;
        let (channels, finished) = (self.small()?, self.small()?);
        let bytes = Bytes::new(self.number()?);
        let zigzag = self.number()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        let start_ns = self.last_start.wrapping_add(difference);
        self.last_start = start_ns;
        Some(TracedCall {
            communicator,
            sequence,
            collective,
            bytes,
            algorithm,
            protocol,
            channels,
            finished,
            source,
            start_ns,
            duration_ns: self.number()?,
        })
    }
}

/// The item of this number, counted from 1; 0 is `Some(None)`. The outer `None` is an unknown number.
fn indexed<T: Copy>(all: &[T], number: u8) -> Option<Option<T>> {
    match usize::from(number).checked_sub(1) {
        None => Some(None),
        Some(index) => all.get(index).map(|it| Some(*it)),
    }
}
