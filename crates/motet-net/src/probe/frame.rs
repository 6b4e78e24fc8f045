//! What agents say to each other: small frames with magic, version, kind and length; the data of a
//! bandwidth probe goes between them, as many bytes as a frame announced.
//!
//! All numbers are big-endian. A frame is
//!
//! | bytes | |
//! | --- | --- |
//! | 4 | `MTPR` |
//! | 2 | version, 1 |
//! | 2 | kind |
//! | 4 | length of the rest, at most [`MAX_PAYLOAD`] |
//! | … | the fields of the kind, in order; texts as two bytes of length and UTF-8 |

const MAGIC: [u8; 4] = *b"MTPR";
/// The version of the protocol that this code speaks.
pub const VERSION: u16 = 1;
/// Bytes of a header.
pub const HEADER: usize = 12;
/// Longer than any frame that makes sense.
pub const MAX_PAYLOAD: usize = 4096;

/// What one probe measures between two agents: how many round trips for the latency, how many bytes
/// for the bandwidth. An agent refuses what is beyond the limits here ([`ProbePlan::check`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Round trips that count, and those before them that do not.
    pub pings: u32,
    /// Round trips before those that count, which do not.
    pub warm_up: u32,
    /// Bytes of a stream each way, all connections together.
    pub bytes: u64,
    /// Connections at once.
    pub streams: u32,
    /// After so long the agent gives up.
    pub deadline_ms: u64,
}

impl Default for ProbePlan {
    fn default() -> Self {
        Self { pings: 200, warm_up: 20, bytes: 64 << 20, streams: 1, deadline_ms: 30_000 }
    }
}

impl ProbePlan {
    /// Most round trips of a probe.
    pub const MAX_PINGS: u32 = 10_000;
    /// Most bytes of a stream.
    pub const MAX_BYTES: u64 = 8 << 30;
    /// Most connections at once.
    pub const MAX_STREAMS: u32 = 16;
    /// Longest that a probe may take.
    pub const MAX_DEADLINE_MS: u64 = 600_000;
    /// Less than this a stream would be over before it is a stream.
    pub const MIN_STREAM: u64 = 1 << 20;

    /// Why an agent would not do it.
    pub fn check(&self) -> Result<(), String> {
        let streams = u64::from(self.streams);
        for (what, value, least, most) in [
            ("pings", u64::from(self.pings), 1, u64::from(Self::MAX_PINGS)),
            ("warm-up round trips", u64::from(self.warm_up), 0, u64::from(Self::MAX_PINGS)),
            ("streams", streams, 1, u64::from(Self::MAX_STREAMS)),
            ("bytes", self.bytes, Self::MIN_STREAM.saturating_mul(streams), Self::MAX_BYTES),
            ("milliseconds", self.deadline_ms, 1, Self::MAX_DEADLINE_MS),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!("{value} {what} are not from {least} to {most}"));
            }
        }
        Ok(())
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first thing said; the token keeps strangers' agents apart.
    Hello {
        token: String,
    },
    Welcome,
    Ping {
        number: u32,
    },
    Pong {
        number: u32,
    },
    /// So many bytes of data follow.
    Send {
        bytes: u64,
    },
    /// Asks for so many bytes of data.
    Fetch {
        bytes: u64,
    },
    /// The data of a `Send` has come: how much after the first piece, and when that and the last
    /// piece came, in picoseconds of the receiver's clock.
    Took {
        bytes: u64,
        first: u64,
        last: u64,
    },
    /// Asks the agent to measure the way to another.
    Probe {
        target: String,
        plan: ProbePlan,
    },
    /// What it measured: the median round trip, and bits per second there and back.
    Result {
        round_trip_ps: u64,
        there: u64,
        back: u64,
    },
    Failed {
        why: String,
    },
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("it does not speak the probe protocol; is another program listening there?")]
    NotOurs,
    #[error(
        "it speaks version {0} of the probe protocol and this is version {VERSION}; use the same motet on all hosts"
    )]
    Version(u16),
    #[error("it sent a frame of {0} bytes, more than any has")]
    TooLong(u32),
    #[error("it sent a broken frame of kind {0}")]
    Broken(u16),
}

/// The kind and payload length of a header.
pub fn decode_header(bytes: &[u8; HEADER]) -> Result<(u16, usize), FrameError> {
    let (magic, rest) = bytes.split_at(4);
    if magic != MAGIC {
        return Err(FrameError::NotOurs);
    }
    let version = u16::from_be_bytes([rest[0], rest[1]]);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let kind = u16::from_be_bytes([rest[2], rest[3]]);
    let length = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
    match usize::try_from(length) {
        Ok(length) if length <= MAX_PAYLOAD => Ok((kind, length)),
        _ => Err(FrameError::TooLong(length)),
    }
}

/// The frame of a kind and its payload, all of which it must use.
pub fn decode(kind: u16, payload: &[u8]) -> Result<Frame, FrameError> {
    let mut fields = Fields(payload);
    let frame = fields.frame(kind).filter(|_| fields.0.is_empty());
    frame.ok_or(FrameError::Broken(kind))
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn frame(&mut self, kind: u16) -> Option<Frame> {
        Some(match kind {
            1 => Frame::Hello { token: self.text()? },
            2 => Frame::Welcome,
            3 => Frame::Ping { number: self.u32()? },
            4 => Frame::Pong { number: self.u32()? },
            5 => Frame::Send { bytes: self.u64()? },
            6 => Frame::Fetch { bytes: self.u64()? },
            7 => Frame::Took { bytes: self.u64()?, first: self.u64()?, last: self.u64()? },
            8 => Frame::Probe {
                target: self.text()?,
                plan: ProbePlan {
                    pings: self.u32()?,
                    warm_up: self.u32()?,
                    bytes: self.u64()?,
                    streams: self.u32()?,
                    deadline_ms: self.u64()?,
                },
            },
            9 => {
                Frame::Result { round_trip_ps: self.u64()?, there: self.u64()?, back: self.u64()? }
            }
            10 => Frame::Failed { why: self.text()? },
            _ => return None,
        })
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = u16::from_be_bytes(self.take(2)?.try_into().ok()?);
        let bytes = self.take(usize::from(length))?;
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }
}

/// The bytes of a frame. Texts too long for one are cut.
#[must_use]
pub fn encode(frame: &Frame) -> Vec<u8> {
    let mut payload = Vec::new();
    let kind: u16 = match frame {
        Frame::Hello { token } => text(&mut payload, token, 1),
        Frame::Welcome => 2,
        Frame::Ping { number } => numbers(&mut payload, &[&number.to_be_bytes()], 3),
        Frame::Pong { number } => numbers(&mut payload, &[&number.to_be_bytes()], 4),
        Frame::Send { bytes } => numbers(&mut payload, &[&bytes.to_be_bytes()], 5),
        Frame::Fetch { bytes } => numbers(&mut payload, &[&bytes.to_be_bytes()], 6),
        Frame::Took { bytes, first, last } => {
            let fields = [bytes.to_be_bytes(), first.to_be_bytes(), last.to_be_bytes()];
            numbers(&mut payload, &[&fields[0], &fields[1], &fields[2]], 7)
        }
        Frame::Probe { target, plan } => {
            text(&mut payload, target, 8);
            numbers(&mut payload, &[&plan.pings.to_be_bytes(), &plan.warm_up.to_be_bytes()], 8);
            numbers(&mut payload, &[&plan.bytes.to_be_bytes(), &plan.streams.to_be_bytes()], 8);
            numbers(&mut payload, &[&plan.deadline_ms.to_be_bytes()], 8)
        }
        Frame::Result { round_trip_ps, there, back } => {
            let fields = [round_trip_ps.to_be_bytes(), there.to_be_bytes(), back.to_be_bytes()];
            numbers(&mut payload, &[&fields[0], &fields[1], &fields[2]], 9)
        }
        Frame::Failed { why } => text(&mut payload, why, 10),
    };
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Adds fields and gives the kind back.
fn numbers(payload: &mut Vec<u8>, fields: &[&[u8]], kind: u16) -> u16 {
    fields.iter().for_each(|it| payload.extend_from_slice(it));
    kind
}

const MAX_TEXT: usize = 1024;

fn text(payload: &mut Vec<u8>, text: &str, kind: u16) -> u16 {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    payload.extend((end as u16).to_be_bytes());
    payload.extend_from_slice(&text.as_bytes()[..end]);
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let text = "\\PC{0,40}";
        prop_oneof![
            text.prop_map(|token| Frame::Hello { token }),
            Just(Frame::Welcome),
            any::<u32>().prop_map(|number| Frame::Ping { number }),
            any::<u32>().prop_map(|number| Frame::Pong { number }),
            any::<u64>().prop_map(|bytes| Frame::Send { bytes }),
            any::<u64>().prop_map(|bytes| Frame::Fetch { bytes }),
            any::<(u64, u64, u64)>().prop_map(|(bytes, first, last)| Frame::Took {
                bytes,
                first,
                last
            }),
            (text, any::<(u32, u32, u64, u32, u64)>()).prop_map(|(target, it)| {
                let plan = ProbePlan {
                    pings: it.0,
                    warm_up: it.1,
                    bytes: it.2,
                    streams: it.3,
                    deadline_ms: it.4,
                };
                Frame::Probe { target, plan }
            }),
            any::<(u64, u64, u64)>().prop_map(|(round_trip_ps, there, back)| Frame::Result {
                round_trip_ps,
                there,
                back
            }),
            text.prop_map(|why| Frame::Failed { why }),
        ]
    }

    fn back(bytes: &[u8]) -> Result<Frame, FrameError> {
        let (kind, length) = decode_header(bytes[..HEADER].try_into().unwrap())?;
        assert_eq!(length, bytes.len() - HEADER);
        decode(kind, &bytes[HEADER..])
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let mut bytes = encode(&Frame::Welcome);
        assert_eq!(decode_header(b"HTTP/1.1 400"), Err(FrameError::NotOurs));
        bytes[5] = 2;
        assert_eq!(back(&bytes), Err(FrameError::Version(2)));
        bytes[5] = 1;
        bytes[7] = 99;
        assert_eq!(back(&bytes), Err(FrameError::Broken(99)));
        bytes[8] = 1;
        let header = bytes[..HEADER].try_into().unwrap();
        assert_eq!(decode_header(header), Err(FrameError::TooLong(1 << 24)));
        // Too much and too little.
        assert_eq!(decode(2, &[0]), Err(FrameError::Broken(2)));
        assert_eq!(decode(3, &[0, 0, 0]), Err(FrameError::Broken(3)));
        assert_eq!(decode(1, &[0, 9, b'x']), Err(FrameError::Broken(1)));
        let long = Frame::Failed { why: "é".repeat(4000) };
        assert!(encode(&long).len() < HEADER + MAX_PAYLOAD);
    }

    #[test]
    fn plans_have_limits() {
        let plan = ProbePlan::default();
        assert_eq!(plan.check(), Ok(()));
        for bad in [
            ProbePlan { pings: 0, ..plan },
            ProbePlan { pings: 1 << 20, ..plan },
            ProbePlan { bytes: 1, ..plan },
            ProbePlan { bytes: u64::MAX, ..plan },
            ProbePlan { streams: 17, ..plan },
            ProbePlan { bytes: 1 << 20, streams: 2, ..plan },
            ProbePlan { deadline_ms: u64::MAX, ..plan },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn frames_come_back(frame in frames()) {
            prop_assert_eq!(back(&encode(&frame)), Ok(frame));
        }

        #[test]
        fn any_bytes_are_read_or_refused(kind: u16, payload in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(frame) = decode(kind % 12, &payload) {
                prop_assert_eq!(&encode(&frame)[HEADER..], &payload[..]);
            }
        }
    }
}
