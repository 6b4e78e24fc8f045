//! What ranks and the leader of a communicator send one another while a job runs, as bytes: [`Frame`]s on a stream,
//! without IO.
//!
//! A frame is four bytes of length (of what follows), a byte that says what it is, and the rest. All numbers are
//! little-endian.
//!
//! | byte | frame | holds |
//! | --- | --- | --- |
//! | 1 | hello | the first of a connection, from a rank: `MOTETAG2`, communicator (8), rank (4), ranks (4), port (2), token (text) |
//! | 2 | standing | from a rank, now and then: number of its next operation (8), table, other network, times |
//! | 3 | table | a table to hold ready: signature (16), the table's text |
//! | 4 | agreement | a [`Message`] |
//! | 5 | peers | from the leader, once all are there: where each rank can be asked, in their order (text, a line each, empty where it cannot) |
//!
//! A frame that is longer than [`MOST`], or has bytes left over, is refused, and its connection should be closed:
//! the other side is not Motet.

use motet_units::{Duration, Rank};

use crate::agreement::{Message, Refusal, Target};
use crate::checksum::Checksum;
use crate::key::Signature;
use crate::report::{Measured, Report};
use crate::runtime::{Operation, Retuning};

/// The most bytes of a frame: a table of ten thousand entries has about one million.
pub const MOST: usize = 16 << 20;
const MAGIC: u64 = u64::from_le_bytes(*b"MOTETAG2");
const LENGTH: usize = 4;
/// The most bytes of a token.
pub const MOST_TOKEN: usize = 256;

/// A message between a rank and its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Hello(Hello),
    Standing {
        /// The number of the rank's next operation.
        position: Operation,
        report: Report,
    },
    Table {
        signature: Signature,
        text: String,
    },
    Agreement(Message),
    /// Where each rank can be asked when the leader is lost, in their order; empty where it cannot.
    Peers(Vec<String>),
}

/// Who speaks on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The communicator's id, the same on all its ranks.
    pub communicator: u64,
    pub rank: Rank,
    pub ranks: u32,
    /// The port at which other ranks may ask this one, at the address that the connection comes from; 0 if at none.
    pub port: u16,
    /// A secret of the job, by which strangers are told from its ranks.
    pub token: String,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("a frame of {0} bytes is too long; the other side is no Motet, or of another version")]
    Long(usize),
    #[error("a frame cannot be read; the other side is no Motet, or of another version")]
    Unknown,
}

/// Appends a frame.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; LENGTH]);
    match frame {
        Frame::Hello(Hello { communicator, rank, ranks, port, token }) => {
            out.push(1);
            number(out, MAGIC);
            number(out, *communicator);
            short(out, rank.0);
            short(out, *ranks);
            out.extend(port.to_le_bytes());
            out.extend(token.as_bytes());
        }
        Frame::Standing { position, report } => {
            out.push(2);
            number(out, *position);
            short(out, report.rank.0);
            option(out, report.table, |out, it| number(out, it.0));
            option(out, report.retuning, |out, it| {
                network(out, it.planned);
                network(out, it.observed);
            });
            for it in &report.times {
                short(out, it.entry);
                short(out, it.candidate);
                number(out, it.samples);
                number(out, it.median.as_ps());
            }
        }
        Frame::Table { signature, text } => {
            out.push(3);
            network(out, *signature);
            out.extend(text.as_bytes());
        }
        Frame::Agreement(message) => {
            out.push(4);
            write_message(out, *message);
        }
        Frame::Peers(places) => {
            out.push(5);
            out.extend(places.join("\n").as_bytes());
        }
    }
    let length = u32::try_from(out.len() - start - LENGTH).unwrap_or(u32::MAX);
    out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
}

/// The first frame of the bytes received so far, and how many bytes it takes; `None` if it is not complete yet.
///
/// # Errors
/// If it is no frame.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MOST {
        return Err(WireError::Long(length));
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let mut reader = Reader(payload);
    let frame = reader.frame().filter(|_| reader.0.is_empty()).ok_or(WireError::Unknown)?;
    Ok(Some((frame, LENGTH + length)))
}

fn number(out: &mut Vec<u8>, it: u64) {
    out.extend(it.to_le_bytes());
}

fn short(out: &mut Vec<u8>, it: u32) {
    out.extend(it.to_le_bytes());
}

fn network(out: &mut Vec<u8>, it: Signature) {
    out.extend(it.0.to_le_bytes());
}

/// Writes a flag that says whether there is a value, and then the value, if there is one.
fn option<T>(out: &mut Vec<u8>, it: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(it.is_some().into());
    if let Some(it) = it {
        write(out, it);
    }
}

fn write_message(out: &mut Vec<u8>, message: Message) {
    match message {
        Message::Propose { round, at, until, target } => {
            out.push(1);
            number(out, round);
            number(out, at);
            option(out, until, number);
            let table = match target {
                Target::Table { checksum, signature } => Some((checksum, signature)),
                Target::Library => None,
            };
            option(out, table, |out, (checksum, signature)| {
                number(out, checksum.0);
                network(out, signature);
            });
        }
        Message::Accept { round, rank } => {
            out.push(2);
            number(out, round);
            short(out, rank.0);
        }
        Message::Refuse { round, rank, refusal } => {
            out.push(3);
            number(out, round);
            short(out, rank.0);
            write_refusal(out, refusal);
        }
        Message::Ask { round, rank } => {
            out.push(4);
            number(out, round);
            short(out, rank.0);
        }
        Message::Verdict { round, commit } => {
            out.push(5);
            number(out, round);
            out.push(commit.into());
        }
        Message::Lost { round, rank } => {
            out.push(6);
            number(out, round);
            short(out, rank.0);
        }
    }
}

fn write_refusal(out: &mut Vec<u8>, refusal: Refusal) {
    match refusal {
        Refusal::Late { position } => {
            out.push(1);
            number(out, position);
        }
        Refusal::NotPrepared { held } => {
            out.push(2);
            option(out, held, |out, it| number(out, it.0));
        }
        Refusal::OtherNetwork { observed } => {
            out.push(3);
            network(out, observed);
        }
        Refusal::Busy => out.push(4),
        Refusal::Refused => out.push(5),
    }
}

/// What is left of a frame.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u16> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*first))
    }

    fn short(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn network(&mut self) -> Option<Signature> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Signature(u128::from_le_bytes(*first)))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Reads a flag, and then a value, if the flag says that there is one.
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    /// All that is left, as text.
    fn text(&mut self, most: usize) -> Option<String> {
        let text = std::str::from_utf8(self.0).ok().filter(|it| it.len() <= most)?;
        self.0 = &[];
        Some(text.to_owned())
    }

    fn frame(&mut self) -> Option<Frame> {
        match self.byte()? {
            1 => {
                let magic = self.number()?;
                let hello = Hello {
                    communicator: self.number()?,
                    rank: Rank(self.short()?),
                    ranks: self.short()?,
                    port: self.half()?,
                    token: self.text(MOST_TOKEN)?,
                };
                (magic == MAGIC && hello.rank.0 < hello.ranks).then_some(Frame::Hello(hello))
            }
            2 => {
                let position = self.number()?;
                let rank = Rank(self.short()?);
                let table = self.option(|it| it.number().map(Checksum))?;
                let retuning = self.option(|it| {
                    let (planned, observed) = (it.network()?, it.network()?);
                    Some(Retuning { planned, observed })
                })?;
                let mut times = Vec::new();
                while !self.0.is_empty() {
                    times.push(Measured {
                        entry: self.short()?,
                        candidate: self.short()?,
                        samples: self.number()?,
                        median: Duration::from_ps(self.number()?),
                    });
                }
                Some(Frame::Standing { position, report: Report { rank, table, retuning, times } })
            }
            3 => {
                let signature = self.network()?;
                Some(Frame::Table { signature, text: self.text(MOST)? })
            }
            4 => self.message().map(Frame::Agreement),
            5 => {
                let text = self.text(MOST)?;
                Some(Frame::Peers(text.split('\n').map(str::to_owned).collect()))
            }
            _ => None,
        }
    }

    fn message(&mut self) -> Option<Message> {
        let kind = self.byte()?;
        let round = self.number()?;
        Some(match kind {
            1 => {
                let at = self.number()?;
                let until = self.option(Self::number)?;
                let target = self.option(|it| {
                    let checksum = Checksum(it.number()?);
                    Some(Target::Table { checksum, signature: it.network()? })
                })?;
                let target = target.unwrap_or(Target::Library);
                Message::Propose { round, at, until, target }
            }
            2 => Message::Accept { round, rank: Rank(self.short()?) },
            3 => {
                let rank = Rank(self.short()?);
                Message::Refuse { round, rank, refusal: self.refusal()? }
            }
            4 => Message::Ask { round, rank: Rank(self.short()?) },
            5 => Message::Verdict { round, commit: self.flag()? },
            6 => Message::Lost { round, rank: Rank(self.short()?) },
            _ => return None,
        })
    }

    fn refusal(&mut self) -> Option<Refusal> {
        Some(match self.byte()? {
            1 => Refusal::Late { position: self.number()? },
            2 => Refusal::NotPrepared { held: self.option(|it| it.number().map(Checksum))? },
            3 => Refusal::OtherNetwork { observed: self.network()? },
            4 => Refusal::Busy,
            5 => Refusal::Refused,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranks() -> impl Strategy<Value = Rank> {
        any::<u32>().prop_map(Rank)
    }

    fn refusals() -> impl Strategy<Value = Refusal> {
        prop_oneof![
            any::<u64>().prop_map(|position| Refusal::Late { position }),
            any::<Option<u64>>().prop_map(|it| Refusal::NotPrepared { held: it.map(Checksum) }),
            any::<u128>().prop_map(|it| Refusal::OtherNetwork { observed: Signature(it) }),
            Just(Refusal::Busy),
            Just(Refusal::Refused),
        ]
    }

    fn messages() -> impl Strategy<Value = Message> {
        let target = any::<Option<(u64, u128)>>().prop_map(|it| match it {
            Some((checksum, signature)) => {
                Target::Table { checksum: Checksum(checksum), signature: Signature(signature) }
            }
            None => Target::Library,
        });
        prop_oneof![
            (any::<u64>(), any::<u64>(), any::<Option<u64>>(), target).prop_map(
                |(round, at, until, target)| Message::Propose { round, at, until, target }
            ),
            (any::<u64>(), ranks()).prop_map(|(round, rank)| Message::Lost { round, rank }),
            (any::<u64>(), ranks()).prop_map(|(round, rank)| Message::Accept { round, rank }),
            (any::<u64>(), ranks(), refusals())
                .prop_map(|(round, rank, refusal)| Message::Refuse { round, rank, refusal }),
            (any::<u64>(), ranks()).prop_map(|(round, rank)| Message::Ask { round, rank }),
            (any::<u64>(), any::<bool>())
                .prop_map(|(round, commit)| Message::Verdict { round, commit }),
        ]
    }

    fn reports() -> impl Strategy<Value = Report> {
        let times = any::<(u32, u32, u64, u64)>().prop_map(|it| Measured {
            entry: it.0,
            candidate: it.1,
            samples: it.2,
            median: Duration::from_ps(it.3),
        });
        let retuning = any::<Option<(u128, u128)>>().prop_map(|it| {
            it.map(|it| Retuning { planned: Signature(it.0), observed: Signature(it.1) })
        });
        let table = any::<Option<u64>>().prop_map(|it| it.map(Checksum));
        (ranks(), table, retuning, prop::collection::vec(times, 0..5))
            .prop_map(|(rank, table, retuning, times)| Report { rank, table, retuning, times })
    }

    fn frames() -> impl Strategy<Value = Frame> {
        prop_oneof![
            (any::<u64>(), 0u32..7, 7u32.., any::<u16>(), "[a-zä]{0,20}").prop_map(
                |(communicator, rank, ranks, port, token)| {
                    Frame::Hello(Hello { communicator, rank: Rank(rank), ranks, port, token })
                }
            ),
            (any::<u64>(), reports())
                .prop_map(|(position, report)| Frame::Standing { position, report }),
            (any::<u128>(), ".{0,40}")
                .prop_map(|(it, text)| Frame::Table { signature: Signature(it), text }),
            messages().prop_map(Frame::Agreement),
            prop::collection::vec("[0-9.:]{0,20}", 1..5).prop_map(Frame::Peers),
        ]
    }

    proptest! {
        #[test]
        fn frames_are_read_as_written_and_none_before_it_is_whole(
            first in frames(), second in frames(),
        ) {
            let mut bytes = Vec::new();
            encode(&first, &mut bytes);
            let length = bytes.len();
            encode(&second, &mut bytes);
            for cut in 0..length {
                prop_assert_eq!(decode(&bytes[..cut]), Ok(None));
            }
            prop_assert_eq!(decode(&bytes), Ok(Some((first, length))));
            prop_assert_eq!(decode(&bytes[length..]), Ok(Some((second, bytes.len() - length))));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend(&bytes);
            if let Ok(Some((frame, length))) = decode(&framed) {
                let mut again = Vec::new();
                encode(&frame, &mut again);
                prop_assert_eq!(&again, &framed[..length]);
            }
        }
    }

    #[test]
    fn strangers_are_refused() {
        let long = [0xff; 8];
        assert_eq!(decode(&long), Err(WireError::Long(u32::MAX as usize)));
        let mut bytes = Vec::new();
        let hello =
            Hello { communicator: 1, rank: Rank(2), ranks: 2, port: 0, token: String::new() };
        encode(&Frame::Hello(hello), &mut bytes);
        assert_eq!(decode(&bytes), Err(WireError::Unknown), "no such rank");
    }
}
