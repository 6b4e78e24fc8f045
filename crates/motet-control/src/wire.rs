//! The messages between a rank's shim and the manager of its scale-up domain, as bytes on a local socket:
//! [`Frame`]s, without IO.
//!
//! A frame is a byte with the number of bytes that follow, a byte with the kind of frame, and its contents.
//! All numbers are little-endian.
//!
//! | byte | frame | from | holds |
//! | --- | --- | --- | --- |
//! | 1 | hello | rank | the first of a connection: `MOTETMG2`, job (8), rank (4) |
//! | 2 | call | rank | group (4), collective (1), bytes (8), run (4): the rank makes this call, and waits for `go`; it is the first of so many of its group in a row (0: not known) |
//! | 3 | ended | rank | group (4): a call of that group has ended |
//! | 4 | next | rank | the same of the call that will be next, and the group (4) that has no more calls for now |
//! | 5 | bye | rank | the rank ends; when all ranks of a domain have said so, the job leaves |
//! | 17 | welcome | manager | mode (1): 0 observe, 1 on demand, 2 provisioned |
//! | 18 | go | manager | group (4), network (1): 0 scale-up, 1 rails, 2 host |
//! | 19 | pass | manager | the controller is gone: calls need not wait until `resume`; the manager says `go` to each of them at once |
//! | 20 | resume | manager | it is back |
//!
//! Collectives are numbered in the order of [`Collective::ALL`]. If anything else is received, the other end
//! does not speak this protocol, and the connection should be closed.

use motet_runtime::Collective;
use motet_units::{Bytes, Rank};

use crate::manager::Network;
use crate::protocol::{GroupId, JobId};
use crate::shim::{Call, Mode, Tell};

const MAGIC: [u8; 8] = *b"MOTETMG2";
/// The most bytes of a frame, its length included.
pub const MOST: usize = 64;

/// One message between a shim and its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    Hello { job: JobId, rank: Rank },
    Tell(Tell),
    Bye,
    Welcome(Mode),
    Go { group: GroupId, network: Network },
    Pass,
    Resume,
}

/// The bytes received are not a frame of this protocol; the text says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a frame of a rank or a manager: {0}; do shim and manager have the same version?")]
pub struct Stranger(pub &'static str);

impl Frame {
    /// Appends the encoded frame to `to`.
    pub fn write(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.push(0);
        match self {
            Self::Hello { job, rank } => {
                to.push(1);
                to.extend(MAGIC);
                to.extend(job.0.to_le_bytes());
                to.extend(rank.0.to_le_bytes());
            }
            Self::Tell(Tell::Call { call, run }) => {
                to.push(2);
                write_call(call, *run, to);
            }
            Self::Tell(Tell::Ended(group)) => {
                to.push(3);
                to.extend(group.0.to_le_bytes());
            }
            Self::Tell(Tell::Next { call, after, run }) => {
                to.push(4);
                write_call(call, *run, to);
                to.extend(after.0.to_le_bytes());
            }
            Self::Bye => to.push(5),
            Self::Welcome(mode) => {
                let mode = match mode {
                    Mode::Observe => 0,
                    Mode::OnDemand => 1,
                    Mode::Provisioned => 2,
                };
                to.extend([17, mode]);
            }
            Self::Go { group, network } => {
                to.push(18);
                to.extend(group.0.to_le_bytes());
                to.push(match network {
                    Network::ScaleUp => 0,
                    Network::Rails => 1,
                    Network::Host => 2,
                });
            }
            Self::Pass => to.push(19),
            Self::Resume => to.push(20),
        }
        // No frame is longer than `MOST`.
        let length = u8::try_from(to.len() - start - 1).unwrap_or(u8::MAX);
        if let Some(first) = to.get_mut(start) {
            *first = length;
        }
    }

    /// Decodes the first frame of `bytes`: the frame and the number of bytes it takes, or `None` if it has not been received in full.
    ///
    /// # Errors
    ///
    /// If the bytes are neither a frame nor the beginning of one.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Stranger> {
        let Some(length) = bytes.first().copied().map(usize::from) else { return Ok(None) };
        if length == 0 || length >= MOST {
            return Err(Stranger("a length that no frame has"));
        }
        let Some(body) = bytes.get(1..=length) else { return Ok(None) };
        let mut rest = Rest(body);
        let frame = rest.frame()?;
        if !rest.0.is_empty() {
            return Err(Stranger("something is left over"));
        }
        Ok(Some((frame, length + 1)))
    }
}

fn write_call(call: &Call, run: u32, to: &mut Vec<u8>) {
    to.extend(call.group.0.to_le_bytes());
    let number = Collective::ALL.iter().position(|it| *it == call.collective);
    to.push(number.and_then(|it| u8::try_from(it).ok()).unwrap_or(u8::MAX));
    to.extend(call.bytes.get().to_le_bytes());
    to.extend(run.to_le_bytes());
}

/// The bytes of a frame that are still to be decoded.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Stranger> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Stranger("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn frame(&mut self) -> Result<Frame, Stranger> {
        let [kind] = self.take()?;
        Ok(match kind {
            1 => {
                if self.take::<8>()? != MAGIC {
                    return Err(Stranger("another greeting"));
                }
                let job = JobId(u64::from_le_bytes(self.take()?));
                Frame::Hello { job, rank: Rank(u32::from_le_bytes(self.take()?)) }
            }
            2 => {
                let (call, run) = self.call()?;
                Frame::Tell(Tell::Call { call, run })
            }
            3 => Frame::Tell(Tell::Ended(self.group()?)),
            4 => {
                let (call, run) = self.call()?;
                Frame::Tell(Tell::Next { call, after: self.group()?, run })
            }
            5 => Frame::Bye,
            17 => Frame::Welcome(match self.take()? {
                [0] => Mode::Observe,
                [1] => Mode::OnDemand,
                [2] => Mode::Provisioned,
                _ => return Err(Stranger("a mode that there is not")),
            }),
            18 => {
                let group = self.group()?;
                let network = match self.take()? {
                    [0] => Network::ScaleUp,
                    [1] => Network::Rails,
                    [2] => Network::Host,
                    _ => return Err(Stranger("a network that there is not")),
                };
                Frame::Go { group, network }
            }
            19 => Frame::Pass,
            20 => Frame::Resume,
            _ => return Err(Stranger("a kind that there is not")),
        })
    }

    fn group(&mut self) -> Result<GroupId, Stranger> {
        Ok(GroupId(u32::from_le_bytes(self.take()?)))
    }

    fn call(&mut self) -> Result<(Call, u32), Stranger> {
        let group = self.group()?;
        let [number] = self.take()?;
        let collective = Collective::ALL.get(usize::from(number)).copied();
        let collective = collective.ok_or(Stranger("a collective that there is not"))?;
        let bytes = Bytes::new(u64::from_le_bytes(self.take()?));
        Ok((Call { group, collective, bytes }, u32::from_le_bytes(self.take()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_through_whole_and_in_pieces() {
        let call = Call {
            group: GroupId(7),
            collective: Collective::AllToAll,
            bytes: Bytes::new(1 << 40),
        };
        let frames = [
            Frame::Hello { job: JobId(u64::MAX), rank: Rank(3) },
            Frame::Tell(Tell::Call { call, run: 3 }),
            Frame::Tell(Tell::Ended(GroupId(7))),
            Frame::Tell(Tell::Next { call, after: GroupId(9), run: u32::MAX }),
            Frame::Bye,
            Frame::Welcome(Mode::Provisioned),
            Frame::Go { group: GroupId(7), network: Network::Rails },
            Frame::Pass,
            Frame::Resume,
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|it| it.write(&mut bytes));
        let mut rest = bytes.as_slice();
        for frame in frames {
            let (read, length) = Frame::read(rest).unwrap().unwrap();
            assert_eq!(read, frame);
            for short in 0..length {
                assert_eq!(Frame::read(&rest[..short]), Ok(None));
            }
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn strangers_are_known() {
        for bytes in [&[0, 1][..], &[200, 1], &[1, 99], &[2, 17, 9], &[2, 19, 0], &[3, 3, 0, 0]] {
            assert!(Frame::read(bytes).is_err(), "{bytes:?}");
        }
        let mut hello = Vec::new();
        Frame::Hello { job: JobId(1), rank: Rank(0) }.write(&mut hello);
        hello[2] = b'X';
        assert_eq!(Frame::read(&hello), Err(Stranger("another greeting")));
    }
}
