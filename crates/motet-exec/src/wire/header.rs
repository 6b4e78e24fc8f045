//! The header of a frame.
//!
//! | bytes | |
//! | --- | --- |
//! | 2 | `MX` |
//! | 1 | version, [`VERSION`] |
//! | 1 | kind; the highest bit says that the payload has a checksum |
//! | 4 | number: 0 for the first frame of a connection and direction, then one more each time |
//! | 4 | operation |
//! | 4 | slice |
//! | 4 | transfer, or what the kind says |
//! | 4 | length of the payload, at most [`MAX_PAYLOAD`] |
//! | 8 | offset, or what the kind says |
//! | 4 | CRC-32C of the payload, 0 without a checksum |
//! | 4 | CRC-32C of the 36 bytes before |
//!
//! Why frames are numbered: TCP delivers everything or nothing, but what is between two ranks (a
//! proxy, a load balancer, a tunnel) may not. A frame that is lost, doubled or cut must end in an
//! error and never in a wrong sum. The header's checksum costs nothing beside the payload; the
//! payload's is an option.

/// The version of the format that this code speaks.
pub const VERSION: u8 = 2;
/// Bytes of a header.
pub const HEADER: usize = 40;
/// The longest payload; a frame that announces a longer one is refused.
pub const MAX_PAYLOAD: usize = 4 << 20;
/// The longest piece of data in a frame.
pub(crate) const MAX_PIECE: usize = 1 << 20;
/// The least that [`Config::piece`](crate::Config::piece) comes to: shorter pieces are sent only where chunks or messages end.
pub(crate) const MIN_PIECE: usize = 1 << 10;
/// What a frame counts for beside its data, so that frames with little or no data are limited too.
pub(crate) const FRAME_COST: usize = 64;
/// The longest reason in a frame that refuses a connection or ends a group.
pub(crate) const MAX_REASON: usize = 4 << 10;
/// More than any registration takes: its digest, its title and the list of its memory.
const MAX_REGISTRATION: usize = 2 << 10;

pub(crate) const MAGIC: [u8; 2] = *b"MX";
/// The bit of the kind that says that the payload has a checksum.
const CHECKED: u8 = 0x80;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Part of a transfer's data, from `offset` on.
    Data,
    /// A transfer's data lies ready in memory that the receiver can read.
    Offer,
    /// The sender has read what it was offered.
    Taken,
    /// The event in `transfer` has happened, for which the receiver waits.
    Notice,
    /// The sender has called the operation, with the registration in `transfer`.
    Started,
    /// A sign of life.
    Ping,
    /// The group has failed: `offset` is the rank at fault, if below [`NOBODY`], the payload says why.
    Abort,
    /// The last frame on a connection: the sender leaves. With `offset` 1: all of the receiver's have come.
    Bye,
    /// What the sender registers under the number in `operation`.
    Register,
    /// First frame of a connection: 16 random bytes.
    Hello,
    /// The answer: 16 random bytes of the other side.
    Challenge,
    /// Who connects, and the proof that it knows the token.
    Intro,
    /// The connection is accepted; the payload is the proof of the accepting side.
    Welcome,
    /// The connection is refused; the payload says why.
    Refused,
    /// From the store: the ranks that are to connect to one another.
    Roster,
    /// To the store: whether the sender could connect to all of them.
    Met,
    /// From the store: all ranks could, and the group stands.
    Go,
}

/// The `offset` of an Abort that names no rank.
pub const NOBODY: u64 = u32::MAX as u64;

impl Kind {
    const ALL: [(u8, Self); 17] = [
        (1, Self::Data),
        (2, Self::Offer),
        (3, Self::Taken),
        (4, Self::Notice),
        (5, Self::Started),
        (6, Self::Ping),
        (7, Self::Abort),
        (8, Self::Bye),
        (9, Self::Register),
        (32, Self::Hello),
        (33, Self::Challenge),
        (34, Self::Intro),
        (35, Self::Welcome),
        (36, Self::Refused),
        (38, Self::Roster),
        (39, Self::Met),
        (40, Self::Go),
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|it| it.1 == self).map_or(0, |it| it.0)
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|it| it.0 == code).map(|it| it.1)
    }

    /// The longest payload that a frame of this kind may have between ranks that have met; `None` if none of this kind may come
    /// there. Each connection keeps a buffer as long as the longest payload that came, and there may be thousands of connections.
    pub(crate) const fn longest_in_group(self) -> Option<usize> {
        match self {
            Self::Data => Some(MAX_PIECE),
            Self::Abort => Some(MAX_REASON),
            Self::Register => Some(MAX_REGISTRATION),
            Self::Offer | Self::Taken | Self::Notice | Self::Started | Self::Ping | Self::Bye => {
                Some(0)
            }
            Self::Hello
            | Self::Challenge
            | Self::Intro
            | Self::Welcome
            | Self::Refused
            | Self::Roster
            | Self::Met
            | Self::Go => None,
        }
    }
}

/// The head of a frame; the module says what is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// The number of the frame among those of its connection and direction.
    pub number: u32,
    pub operation: u32,
    pub slice: u32,
    pub transfer: u32,
    /// Bytes of payload.
    pub length: u32,
    pub offset: u64,
    /// CRC-32C of the payload, if it has one.
    pub checksum: Option<u32>,
}

/// Why bytes are no frame, or not the one that was due.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    #[error("it does not speak Motet's protocol; is another program using that port?")]
    NotOurs,
    #[error(
        "it speaks version {0} of the protocol and this is version {VERSION}; use the same motet on all hosts"
    )]
    Version(u8),
    #[error("the header of a frame was changed on the way (its checksum is wrong)")]
    Header,
    #[error("it sent a frame of unknown kind {0}")]
    Kind(u8),
    #[error("it sent a frame of {0} bytes, more than any has")]
    TooLong(u32),
    #[error(
        "frame {came} came where frame {due} was due: something between the ranks loses or doubles data"
    )]
    Number { came: u32, due: u32 },
    #[error("data was changed on the way (the checksum of a frame is wrong)")]
    Payload,
    #[error("it sent a broken {0:?} frame")]
    Broken(Kind),
}

impl Header {
    /// A header whose other fields are 0.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            number: 0,
            operation: 0,
            slice: 0,
            transfer: 0,
            length: 0,
            offset: 0,
            checksum: None,
        }
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let kind = self.kind.code() | if self.checksum.is_some() { CHECKED } else { 0 };
        let fields: [&[u8]; 9] = [
            &[MAGIC[0], MAGIC[1], VERSION, kind],
            &self.number.to_be_bytes(),
            &self.operation.to_be_bytes(),
            &self.slice.to_be_bytes(),
            &self.transfer.to_be_bytes(),
            &self.length.to_be_bytes(),
            &self.offset.to_be_bytes(),
            &self.checksum.unwrap_or(0).to_be_bytes(),
            &[0; 4],
        ];
        let mut at = 0;
        for field in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        let check = crc32c::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// The header that the bytes are.
    pub fn decode(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        if bytes[..2] != MAGIC {
            return Err(FrameError::NotOurs);
        }
        if bytes[2] != VERSION {
            return Err(FrameError::Version(bytes[2]));
        }
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if word(36) != crc32c::crc32c(&bytes[..HEADER - 4]) {
            return Err(FrameError::Header);
        }
        let code = bytes[3] & !CHECKED;
        let kind = Kind::of(code).ok_or(FrameError::Kind(code))?;
        let length = word(20);
        if length as usize > MAX_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let checked = bytes[3] & CHECKED != 0;
        if !checked && word(32) != 0 {
            return Err(FrameError::Broken(kind));
        }
        Ok(Self {
            kind,
            number: word(4),
            operation: word(8),
            slice: word(12),
            transfer: word(16),
            length,
            offset: u64::from(word(24)) << 32 | u64::from(word(28)),
            checksum: checked.then(|| word(32)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let good = Header { operation: 7, ..Header::new(Kind::Data) }.encode();
        let mut http = [b' '; HEADER];
        http[..8].copy_from_slice(b"GET / HT");
        assert_eq!(Header::decode(&http), Err(FrameError::NotOurs));
        let changed = |at: usize, to: u8| {
            let mut bytes = good;
            bytes[at] = to;
            Header::decode(&bytes)
        };
        assert_eq!(changed(2, 9), Err(FrameError::Version(9)));
        assert_eq!(changed(11, 8), Err(FrameError::Header));
        let long = Header { length: u32::MAX, ..Header::new(Kind::Data) }.encode();
        assert_eq!(Header::decode(&long), Err(FrameError::TooLong(u32::MAX)));
        let mut unknown = good;
        unknown[3] = 99;
        let check = crc32c::crc32c(&unknown[..36]);
        unknown[36..].copy_from_slice(&check.to_be_bytes());
        assert_eq!(Header::decode(&unknown), Err(FrameError::Kind(99)));
    }

    proptest! {
        #[test]
        fn headers_come_back(
            kind in 0..Kind::ALL.len(),
            words in any::<[u32; 4]>(),
            length in 0..=MAX_PAYLOAD as u32,
            offset: u64,
            checksum: Option<u32>,
        ) {
            let header = Header {
                kind: Kind::ALL[kind].1,
                number: words[0],
                operation: words[1],
                slice: words[2],
                transfer: words[3],
                length,
                offset,
                checksum,
            };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn one_changed_bit_is_noticed(bit in 0..HEADER * 8) {
            let mut bytes = Header { offset: 1 << 40, ..Header::new(Kind::Offer) }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes).is_err());
        }
    }
}
