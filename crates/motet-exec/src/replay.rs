//! [`replay`]: bytes as what other ranks send in the middle of a call, for the fuzzer and its corpus.
//!
//! The bytes are records. Most say what frame comes next, because random bytes hardly ever are a header with its checksum; a
//! record may also have the bytes that come. They go over real sockets, in parts, so that [`Stream`] reads them as it does in a
//! group, and what it makes of them changes a [`Flow`] with a call under way.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;

use motet_collective::{Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer};
use motet_units::{Instant, Rank};
use socket2::{Domain, Type};

use crate::element::{Element, Reduction};
use crate::error::ExecError;
use crate::flow::Flow;
use crate::layout::{Layout, REGIONS};
use crate::memory::Memory;
use crate::merged::Merged;
use crate::plan::Plan;
use crate::run::{Registered, Run};
use crate::socket::Socket;
use crate::stream::{Mail, Stream};
use crate::uses::Uses;
use crate::wire::{Header, Kind};

/// Ranks of the group; the call is rank 0's.
const RANKS: u32 = 3;
/// Connections to each other rank.
const STREAMS: usize = 2;
/// Bytes of a record, without those that it may bring along.
const RECORD: usize = 9;
/// What the first byte of a record says, beside the connection in its lowest two bits.
const WRONG_NUMBER: u8 = 4;
const CHECKED: u8 = 8;
const WRONG_CHECKSUM: u8 = 16;
const IN_PARTS: u8 = 32;
/// What the second byte chooses from. Beyond the last one the record brings bytes along.
const KINDS: [Kind; 11] = [
    Kind::Data,
    Kind::Offer,
    Kind::Taken,
    Kind::Notice,
    Kind::Started,
    Kind::Ping,
    Kind::Abort,
    Kind::Bye,
    Kind::Register,
    Kind::Hello,
    Kind::Refused,
];

/// Sums that go round a ring of three (transfers 0 to 2), and copies of them (3 to 5): the first waits for rank 1 to have sent the
/// second, and the third may come to rank 0 before it can be written.
fn program() -> Option<Program> {
    let collective = Collective::new(CollectiveKind::AllReduce, RANKS, 3).ok()?;
    let mut b = ProgramBuilder::new("replayed", collective);
    let mut before = Vec::new();
    let next = |rank: u32| Rank((rank + 1) % RANKS);
    for rank in 0..RANKS {
        let (from, to) = (Slot::input(Rank(rank), 0), Slot::input(next(rank), 0));
        before = vec![b.add_after(Transfer::reduce(from, to, 2), &before)];
    }
    let mut copies = Vec::new();
    for rank in 0..RANKS {
        let (from, to) = (Slot::input(Rank(rank), 0), Slot::output(next(rank), 0));
        copies.push(b.add_after(Transfer::copy(from, to, 2), &before));
    }
    b.wait(copies.first()?.sent(), copies.get(1)?.sent());
    b.wait(copies.get(2)?.arrived(), copies.first()?.sent());
    Some(b.build())
}

/// Rank 0 in the middle of a call of that program.
fn started() -> Option<Flow> {
    let program = program()?;
    let layout = Layout::new(&program, Rank(0), Element::F32, 100, false, 64).ok()?;
    let [first, second, work] = layout.regions.map(|it| Memory::private(it).ok());
    let registered = Registered {
        number: 0,
        plan: Plan::new(&program, Rank(0)),
        layout,
        merged: Merged::default(),
        uses: Uses { shown: [false; REGIONS], writes_input: true, overlap: None },
        element: Element::F32,
        reduction: Reduction::Sum,
        output_is_sum: true,
        ranks: RANKS,
        foreign: BTreeMap::new(),
    };
    // Nobody waits for the call's end.
    let (reply, _) = channel();
    let memory = [first?, second?, work?];
    let run = Run::new(Arc::new(registered), memory, reply, Instant::NEVER);
    let mut flow = Flow::new(0, RANKS, 1 << 10);
    flow.start(run).ok()?;
    Some(flow)
}

/// One end of each connection for the other ranks, and the streams at rank 0's end.
fn connections() -> std::io::Result<(Vec<std::net::TcpStream>, Vec<Stream>)> {
    let (mut far, mut near) = (Vec::new(), Vec::new());
    for it in 0..(RANKS as usize - 1) * STREAMS {
        // Not over the network: there each pair would keep its ports for a while, and the fuzzer makes thousands every second.
        let (one, other) = socket2::Socket::pair(Domain::UNIX, Type::STREAM, None)?;
        other.set_nonblocking(true)?;
        let other = std::net::TcpStream::from(OwnedFd::from(other));
        let socket = Socket::new(mio::net::TcpStream::from_std(other), None);
        far.push(std::net::TcpStream::from(OwnedFd::from(one)));
        near.push(Stream::new(socket, (1 + it / STREAMS) as u32, false, Instant::START));
    }
    Ok((far, near))
}

/// The bytes of the frame that a record is about. `number` is the next of its connection.
fn frame(record: [u8; RECORD], number: u32) -> Vec<u8> {
    let [flags, kind, operation, slice, transfer, offset @ .., high, low] = record;
    let kind = KINDS.get(usize::from(kind)).copied().unwrap_or(Kind::Ping);
    let payload = vec![operation; usize::from(u16::from_be_bytes([high, low]))];
    let is = |flag| flags & flag != 0;
    let checksum = crc32c::crc32c(&payload).wrapping_add(u32::from(is(WRONG_CHECKSUM)));
    let header = Header {
        number: number.wrapping_add(u32::from(is(WRONG_NUMBER))),
        operation: u32::from(operation),
        slice: u32::from(slice),
        transfer: u32::from(transfer),
        length: payload.len() as u32,
        offset: u64::from(u16::from_be_bytes(offset)),
        checksum: is(CHECKED).then_some(checksum),
        ..Header::new(kind)
    };
    [&header.encode()[..], &payload].concat()
}

/// Receives what has come, and does what follows from it.
fn step(flow: &mut Flow, stream: &mut Stream) -> Result<(), ExecError> {
    let mut mail = Mail::new();
    stream.can_read = true;
    while stream.can_read && !stream.ended {
        stream.receive(flow, Instant::START, &mut mail)?;
    }
    while flow.has_work() {
        flow.work()?;
    }
    for to in 1..RANKS {
        while let Some(piece) = flow.next_piece(to, usize::MAX) {
            flow.went(&piece)?;
        }
    }
    flow.lines.iter_mut().for_each(|it| it.controls.clear());
    flow.answer();
    Ok(())
}

/// Reads the bytes as the head of the file says. For the fuzzer and its corpus: it panics where what another rank sends is taken for
/// a fault in Motet.
///
/// # Errors
/// What ended the group.
#[doc(hidden)]
pub fn replay(mut bytes: &[u8]) -> Result<(), ExecError> {
    let (Some(mut flow), Ok((mut far, mut near))) = (started(), connections()) else {
        return Ok(());
    };
    let mut numbers = [0; (RANKS as usize - 1) * STREAMS];
    while let Some((record, rest)) = bytes.split_first_chunk::<RECORD>() {
        bytes = rest;
        let at = usize::from(record[0]) % numbers.len();
        let sent = if usize::from(record[1]) < KINDS.len() {
            numbers[at] += 1;
            frame(*record, numbers[at] - 1)
        } else {
            let length = usize::from(u16::from_be_bytes([record[7], record[8]]));
            let (raw, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            raw.to_vec()
        };
        let cut = if record[0] & IN_PARTS != 0 { sent.len() / 2 } else { 0 };
        for part in [&sent[..cut], &sent[cut..]] {
            if far[at].write_all(part).is_err() {
                return Ok(());
            }
            if let Err(error) = step(&mut flow, &mut near[at]) {
                assert!(!matches!(error, ExecError::Internal(_)), "{error}");
                assert_eq!(error.culprit(), Some((1 + at / STREAMS) as u32), "{error}");
                flow.fail(&error);
                return Err(error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HEADER;

    /// What the corpus has, by name, and how each ends. Files that the fuzzer finds may be added; they are read too.
    fn corpus() -> Vec<(&'static str, Vec<u8>, &'static str)> {
        let data = |from: u8, transfer: u8, offset: u8, length: u8| {
            vec![from, 0, 1, 1, transfer, 0, offset, 0, length]
        };
        let other = |from: u8, kind: u8, transfer: u8| vec![from, kind, 1, 1, transfer, 0, 0, 0, 0];
        let (rank_1, rank_2) = (1, 3);
        let raw = |at: u8, bytes: &[u8]| {
            [&[at, 255, 0, 0, 0, 0, 0, 0, bytes.len() as u8], bytes].concat()
        };
        // All that the call waits for, but for the last copy. Of that comes half a frame, then all of it over another connection,
        // which ends the call, and then the other half.
        let mut ended = Vec::new();
        for (slice, length) in [(0, 8), (1, 128), (2, 128), (3, 8)] {
            ended.extend([2, 0, 1, slice, 2, 0, 0, 0, length]);
            ended.extend([0, 3, 1, slice, 8, 0, 0, 0, 0]);
            let copy = [2, 0, 1, slice, 5, 0, 0, 0, length];
            let coming = frame(copy, 0);
            let (half, rest) = coming.split_at(HEADER + 4);
            match slice {
                3 => ended.extend([raw(rank_2, half), copy.to_vec(), raw(rank_2, rest)].concat()),
                _ => ended.extend(copy),
            }
        }
        vec![
            ("in-order", [data(rank_2, 2, 64, 64), data(2, 2, 0, 64)].concat(), ""),
            ("in-parts", [data(32 + 3, 2, 0, 4), data(32 + 3, 2, 4, 124)].concat(), ""),
            ("half-twice", [data(rank_2, 2, 0, 64), data(2, 2, 0, 64)].concat(), "twice"),
            ("unaligned-offset", data(rank_2, 2, 2, 64), "no whole number of elements"),
            ("unaligned-length", data(rank_2, 2, 0, 63), "no whole number of elements"),
            ("ended-while-coming", ended, "twice"),
            ("many-pieces", (0..32).flat_map(|it| data(3, 5, 4 * it, 4)).collect(), "smaller"),
            ("taken", other(rank_1, 2, 0), "was not offered"),
            ("notice-twice", [other(0, 3, 8), other(0, 3, 8)].concat(), "notice twice"),
            ("long-abort", vec![0, 6, 0, 0, 0, 0, 0, 255, 255], "at most 4096"),
            ("long-ping", vec![0, 5, 0, 0, 0, 0, 0, 0, 1], "at most 0"),
            ("handshake", vec![0, 9, 0, 0, 0, 0, 0, 0, 16], "belongs to a handshake"),
            ("early", vec![0, 0, 2, 0, 0, 0, 0, 1, 0], ""),
            ("lost", vec![4, 5, 0, 0, 0, 0, 0, 0, 0], "frame 1 came where frame 0 was due"),
            ("changed", vec![8 + 16 + 3, 0, 1, 1, 2, 0, 0, 0, 64], "data was changed on the way"),
            (
                "not-ours",
                raw(0, b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n"),
                "does not speak",
            ),
        ]
    }

    fn folder() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/exec_streams")
    }

    /// With `MOTET_WRITE_CORPUS` set the files are written first.
    #[test]
    fn the_corpus_ends_as_it_must() {
        for (name, bytes, ends) in corpus() {
            let file = folder().join(name);
            if std::env::var_os("MOTET_WRITE_CORPUS").is_some() {
                std::fs::create_dir_all(folder()).unwrap();
                std::fs::write(&file, &bytes).unwrap();
            }
            assert_eq!(std::fs::read(&file).unwrap(), bytes, "{name}");
            let ended = replay(&bytes).map_or_else(|it| it.to_string(), |()| String::new());
            assert!(ended.contains(ends) && ended.is_empty() == ends.is_empty(), "{name}: {ended}");
        }
    }

    #[test]
    fn whatever_the_corpus_is_changed_to_is_no_fault_in_motet() {
        for entry in std::fs::read_dir(folder()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let _ = replay(&bytes);
            for at in 0..bytes.len().min(60) {
                let _ = replay(&bytes[..at]);
                for change in [1, 0x40] {
                    let mut other = bytes.clone();
                    other[at] ^= change;
                    let _ = replay(&other);
                }
            }
        }
    }
}
