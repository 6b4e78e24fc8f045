//! [`Stream`]: one of the TCP connections to a rank, which never blocks, with the frame that is being
//! received and the frames that are being sent.
//!
//! Data that is copied is received straight into its destination, and sent straight from its source; only
//! headers, small frames and data that is to be reduced or kept pass through a buffer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use motet_units::{Duration, Instant};

use crate::error::ExecError;
use crate::flow::{Flow, Piece, Sink};
use crate::inbox::Inbox;
use crate::memory::Aligned;
#[cfg(target_os = "linux")]
use crate::mesh::UNSENT;
use crate::pace::Pace;
use crate::socket::{Socket, Written};
use crate::trial::{LITTLE, Trial};
use crate::wire::{FrameError, HEADER, Header, Kind};

/// Small frames are written in batches of about this size.
const BATCH: usize = 32 << 10;
/// Frames, or batches of small ones, that are given to the system at once, at most. Each frame by itself would end in a short packet,
/// and a packet costs the system as much whether it is short or long.
const AT_ONCE: usize = 16;
/// How many bytes a stream sends or receives before another has its turn. So few that received data, what it is reduced with and the
/// result are still in the second-level cache when they are sent on.
pub(crate) const TURN: usize = 256 << 10;
/// How much unsent data a socket buffer may hold, in seconds at the connection's rate: enough to keep a link busy until this thread
/// has its turn again, and no more, because no other connection can carry what a socket buffer holds.
#[cfg(target_os = "linux")]
const QUEUE: f64 = 0.02;
/// The least that [`QUEUE`] comes to, in bytes.
#[cfg(target_os = "linux")]
const LEAST_UNSENT: u32 = 32 << 10;
/// How much data one of several streams takes at a time at least, in seconds at its rate. Pieces may be so short because no other stream
/// can carry what one has taken, and all should end at about the same time.
const PIECE: f64 = 0.004;
/// The least size of a piece, because each costs a header and a turn.
const LEAST_PIECE: usize = 16 << 10;
/// A piece is no smaller than the stream's share in all that is left to send, divided by this: only pieces at the end need to be small.
const PARTS: f64 = 4.0;
/// A stream counts as slow if the fastest one to the same rank is more than this many times as fast. Connections that share
/// one path differ by less.
pub(crate) const SLOW: f64 = 6.0;
/// While the others need more than this many seconds for what is left to send, a piece on a slow stream does not make the call longer.
const AMPLE: f64 = 0.1;
/// A stream that is not slow takes no piece while its backlog takes longer than this many times what the others need for the rest, plus
/// [`LATE`] seconds. The margin is there because rates of connections that share a path differ, and change.
const LATER: f64 = 2.0;
/// See [`LATER`].
const LATE: f64 = 0.02;
/// After this long without a piece a slow stream is tried again: one that paused for a moment seems slow, and only
/// sending shows that it is not.
const TRIED_AGAIN: Duration = Duration::from_ms(200);

/// Frames that are not about calls: the engine's business.
pub(crate) type Mail = Vec<(Header, Vec<u8>)>;

/// What a stream may send at present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    /// The first stream of a rank: all frames but data, so that none waits behind data.
    Controls,
    /// One at work or on trial: data.
    Data(Share),
    /// One in reserve: signs of life, its last frame, and the rest of frames that it had begun.
    Nothing,
}

#[derive(Debug)]
enum Inbound {
    Header,
    Payload { header: Header, sink: Sink, got: usize },
}

#[derive(Debug)]
struct Outbound {
    /// A header, or several small frames.
    head: Vec<u8>,
    piece: Option<Piece>,
    /// Bytes written of head and piece together.
    done: usize,
}

impl Outbound {
    /// What has not been written of head and piece.
    fn rest<'a>(&'a self, flow: &'a Flow) -> [&'a [u8]; 2] {
        let body = self.piece.as_ref().map_or(&[][..], |it| flow.bytes_of(it));
        let in_body = self.done.saturating_sub(self.head.len());
        [self.head.get(self.done..).unwrap_or_default(), body.get(in_body..).unwrap_or_default()]
    }

    fn left(&self, flow: &Flow) -> usize {
        self.rest(flow).iter().map(|it| it.len()).sum()
    }
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) socket: Socket,
    /// The rank at the other end.
    rank: u32,
    pub(crate) can_read: bool,
    pub(crate) can_write: bool,
    inbox: Inbox,
    /// The last frame was large, so the next is likely to be. Then only its header is read into the inbox, so that its payload goes straight
    /// to its destination.
    large: bool,
    inbound: Inbound,
    /// The payload that is being received, unless it goes straight to its destination.
    buffer: Aligned,
    /// The number of the next frame in and out.
    next_in: u32,
    next_out: u32,
    /// Frames that are going out, in order; part of the first may have been written.
    outbound: VecDeque<Outbound>,
    /// When something was last received.
    pub(crate) heard: Instant,
    /// When something was last sent.
    pub(crate) spoke: Instant,
    /// A Ping is due.
    pub(crate) ping: bool,
    /// A Bye is due, behind everything else.
    pub(crate) bye: bool,
    /// The connection is over: the other side has closed it, or it broke after its rank had left.
    pub(crate) ended: bool,
    checksums: bool,
    pub(crate) pace: Pace,
    /// When it last took a piece of data.
    took: Instant,
    trial: Trial,
    /// How many unsent bytes the socket buffer may hold at present.
    #[cfg(target_os = "linux")]
    unsent: u32,
}

/// Whether the others have so much left to send that a piece on a slow stream does not make the call longer.
fn is_ample(share: &Share, left: usize) -> bool {
    left as f64 > AMPLE * share.rate
}

/// What decides whether a stream takes another piece: how fast it and the others to the same rank are, and
/// what they still have to deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    /// Of the other streams together: bytes per second.
    pub(crate) rate: f64,
    /// Of the other streams together: bytes that are not acknowledged.
    pub(crate) backlog: f64,
    /// The rate of the fastest of them.
    pub(crate) best: f64,
    /// How many they are.
    pub(crate) others: usize,
    /// Whether this stream is from the reserve, on trial beside them.
    pub(crate) on_trial: bool,
}

impl Stream {
    pub(crate) fn new(socket: Socket, rank: u32, checksums: bool, now: Instant) -> Self {
        Self {
            socket,
            rank,
            can_read: true,
            can_write: true,
            inbox: Inbox::new(),
            large: false,
            inbound: Inbound::Header,
            buffer: Aligned::default(),
            next_in: 0,
            next_out: 0,
            outbound: VecDeque::new(),
            heard: now,
            spoke: now,
            ping: false,
            bye: false,
            ended: false,
            checksums,
            pace: Pace::default(),
            took: now,
            trial: Trial::new(),
            #[cfg(target_os = "linux")]
            unsent: UNSENT,
        }
    }

    fn lost(&self, error: &io::Error) -> ExecError {
        ExecError::Lost { rank: self.rank, why: format!("the connection broke: {error}") }
    }

    fn frame(&self, error: FrameError) -> ExecError {
        ExecError::Frame { rank: self.rank, error }
    }

    /// Brings up to date how fast it delivers, and how many unsent bytes its socket buffer may hold.
    pub(crate) fn look(&mut self, now: Instant) {
        self.pace.look(self.socket.raw(), !self.can_write, now);
        #[cfg(target_os = "linux")]
        self.limit_queue();
    }

    /// How many bytes of a message it takes at once, with `left` bytes to be sent to the rank. A slow stream takes no more than [`LITTLE`],
    /// so that it does not hold for long what another could carry.
    fn piece(&self, share: &Share, most: usize, left: usize) -> usize {
        let usual = self.pace.rate().filter(|_| !self.is_slow(share));
        piece_of(usual, share, most, left)
    }

    /// Adapts the number of unsent bytes that the socket buffer may hold to the rate.
    #[cfg(target_os = "linux")]
    fn limit_queue(&mut self) {
        let queue = self.pace.rate().map_or(UNSENT, |it| (it * QUEUE) as u32);
        let unsent = queue.clamp(LEAST_UNSENT, UNSENT);
        // Not for every little change.
        if unsent.abs_diff(self.unsent) > self.unsent / 4 {
            self.unsent = unsent;
            // A system that has not this option sends as well.
            let _ = socket2::SockRef::from(self.socket.raw()).set_tcp_notsent_lowat(unsent);
        }
    }

    /// Whether it has something to send beside new data: frames that it has begun, a Ping, a Bye, or what TLS holds.
    pub(crate) fn has_to_send(&self) -> bool {
        !self.outbound.is_empty() || self.ping || self.bye || self.socket.holds()
    }

    fn is_slow(&self, share: &Share) -> bool {
        self.pace.rate().is_some_and(|it| it * SLOW < share.best)
    }

    /// Whether it gets as much data as it takes, if it is on trial: unless it is slow and the call would wait for it.
    pub(crate) fn is_fed(&self, share: &Share, left: usize) -> bool {
        !self.is_slow(share) || is_ample(share, left)
    }

    /// Whether this stream may take a piece of the `left` bytes: whether the call does not end later for it, or it is worth a try.
    fn pays(&mut self, share: &Share, piece: usize, left: usize, now: Instant) -> bool {
        let Some(rate) = self.pace.rate() else { return true };
        let own = self.pace.backlog() / rate;
        let rest = (left as f64 + share.backlog) / share.rate;
        // Every connection begins slowly, and becomes faster only while it has more to send than it delivers.
        if share.on_trial && self.is_fed(share, left) {
            return true;
        }
        if !self.is_slow(share) {
            // The stream that is first to have delivered its backlog needs no longer than the rest, so one always goes on.
            return share.rate == 0.0 || own <= LATER * rest + LATE;
        }
        let ample = is_ample(share, left);
        // One that has nothing to deliver may have become faster, which only sending shows.
        let due = ample || now.since(self.took) >= TRIED_AGAIN;
        if self.pace.backlog() == 0.0 && due {
            self.trial.begin(self.pace.burst(), ample);
        }
        self.trial.goes_on(ample) || own + piece as f64 / rate <= rest
    }

    /// Receives what there is, up to a turn's worth.
    pub(crate) fn receive(
        &mut self,
        flow: &mut Flow,
        now: Instant,
        mail: &mut Mail,
    ) -> Result<(), ExecError> {
        let mut turn = 0;
        while turn < TURN && !self.ended {
            turn += match self.inbound {
                Inbound::Header if self.inbox.unread().len() >= HEADER => {
                    self.begin(flow, mail)?;
                    HEADER
                }
                Inbound::Header => match self.fill(now)? {
                    0 => return Ok(()),
                    came => came,
                },
                Inbound::Payload { header, sink, got } => {
                    match self.payload(flow, &header, sink, got, now)? {
                        0 => return Ok(()),
                        came => {
                            let got = got + came;
                            if got == header.length as usize {
                                self.inbound = Inbound::Header;
                                self.complete(flow, &header, sink, mail)?;
                            } else {
                                self.inbound = Inbound::Payload { header, sink, got };
                            }
                            came
                        }
                    }
                }
            };
        }
        Ok(())
    }

    /// Reads into the inbox; 0 if there is nothing now, or nothing more.
    fn fill(&mut self, now: Instant) -> Result<usize, ExecError> {
        let missing = HEADER.saturating_sub(self.inbox.unread().len());
        let mut room = self.inbox.room();
        if self.large {
            room = room.get_mut(..missing).unwrap_or_default();
        }
        let came = self.socket.read(room, &mut []);
        let came = self.noted(came, now)?;
        self.inbox.came(came);
        Ok(came)
    }

    /// Notes the result of a read (bytes, nothing now, or the end) and returns how many bytes came.
    fn noted(&mut self, came: io::Result<Option<usize>>, now: Instant) -> Result<usize, ExecError> {
        match came {
            Ok(Some(0)) => {
                self.ended = true;
                Ok(0)
            }
            Ok(Some(bytes)) => {
                self.heard = now;
                Ok(bytes)
            }
            Ok(None) => {
                self.can_read = false;
                Ok(0)
            }
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// A header has come.
    fn begin(&mut self, flow: &mut Flow, mail: &mut Mail) -> Result<(), ExecError> {
        let Some(bytes) = self.inbox.unread().first_chunk::<HEADER>() else { return Ok(()) };
        let header = Header::decode(bytes).map_err(|it| self.frame(it))?;
        self.inbox.looked_at(HEADER);
        self.large = self.inbox.is_exceeded_by(header.length as usize);
        if header.number != self.next_in {
            let (came, due) = (header.number, self.next_in);
            return Err(self.frame(FrameError::Number { came, due }));
        }
        self.next_in = self.next_in.wrapping_add(1);
        flow.check_left(self.rank, header.kind)?;
        let sink = flow.sink(self.rank, &header)?;
        if header.length == 0 {
            self.buffer.set_len(0);
            return self.complete(flow, &header, sink, mail);
        }
        if sink == Sink::Buffer {
            self.buffer.set_len(header.length as usize);
        }
        self.inbound = Inbound::Payload { header, sink, got: 0 };
        Ok(())
    }

    /// Receives some of a payload: first what lies in the inbox, then straight from the socket.
    fn payload(
        &mut self,
        flow: &mut Flow,
        header: &Header,
        sink: Sink,
        got: usize,
        now: Instant,
    ) -> Result<usize, ExecError> {
        let room = match sink {
            Sink::Buffer => self.buffer.bytes_mut().get_mut(got..),
            Sink::Place => flow.place(header, got),
        };
        let room = room.filter(|it| !it.is_empty());
        // There is no place any more once all of the transfer has come over other connections.
        let twice =
            || ExecError::Protocol { rank: self.rank, why: "data of a transfer twice".to_owned() };
        let room = room.ok_or_else(twice)?;
        let read = self.inbox.unread();
        if !read.is_empty() {
            let count = room.len().min(read.len());
            room[..count].copy_from_slice(&read[..count]);
            self.inbox.looked_at(count);
            return Ok(count);
        }
        // The next header comes along if it is there already.
        let mut behind = self.inbox.room();
        if self.large {
            behind = behind.get_mut(..HEADER).unwrap_or_default();
        }
        if room.len() < header.length as usize - got {
            behind = &mut [];
        }
        let payload = room.len();
        let came = self.socket.read(room, behind);
        let came = self.noted(came, now)?;
        self.inbox.came(came.saturating_sub(payload));
        Ok(came.min(payload))
    }

    /// A frame has come whole.
    fn complete(
        &mut self,
        flow: &mut Flow,
        header: &Header,
        sink: Sink,
        mail: &mut Mail,
    ) -> Result<(), ExecError> {
        if let Some(expected) = header.checksum {
            let found = match sink {
                Sink::Buffer => crc32c::crc32c(self.buffer.bytes()),
                Sink::Place => placed_checksum(flow, header),
            };
            if found != expected {
                return Err(self.frame(FrameError::Payload));
            }
        }
        match header.kind {
            Kind::Data | Kind::Offer | Kind::Taken | Kind::Notice => {
                flow.came(self.rank, header, sink, &mut self.buffer)
            }
            Kind::Started => flow.peer_started(self.rank, header),
            Kind::Ping => Ok(()),
            _ => {
                mail.push((*header, self.buffer.bytes().to_vec()));
                Ok(())
            }
        }
    }

    /// Sends what there is to send, `most` bytes and the rest of the frame that they end in; true if that was not all and the
    /// socket has room.
    pub(crate) fn send(
        &mut self,
        flow: &mut Flow,
        takes: Takes,
        most: usize,
        now: Instant,
    ) -> Result<bool, ExecError> {
        let mut turn = 0;
        while turn < most {
            self.gather(flow, takes, most - turn, now);
            if self.outbound.is_empty() {
                return self.flush(now).map(|()| false);
            }
            match self.write(flow) {
                Ok(written) => {
                    turn += written.taken;
                    self.spoke = now;
                    self.pace.wrote(written.went, now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_write = false;
                    return Ok(false);
                }
                Err(error) => return Err(self.lost(&error)),
            }
            if self.socket.holds() {
                // With TLS it is taken, but would be lost if this process ended, as it may after its last call.
                self.can_write = false;
                return Ok(false);
            }
            while self.outbound.front().is_some_and(|it| it.left(flow) == 0) {
                if let Some(Outbound { piece: Some(piece), .. }) = self.outbound.pop_front() {
                    flow.went(&piece)?;
                }
            }
        }
        Ok(true)
    }

    /// Takes what is to be sent next, until there are `most` bytes of it.
    fn gather(&mut self, flow: &mut Flow, takes: Takes, most: usize, now: Instant) {
        let mut left: usize = self.outbound.iter().map(|it| it.left(flow)).sum();
        while left < most && self.outbound.len() < AT_ONCE {
            let Some(next) = self.next(flow, takes, now) else { return };
            left += next.left(flow);
            self.outbound.push_back(next);
        }
    }

    /// Gives the system the frames that have been gathered or, if TLS has taken them all, what it still holds of them.
    fn write(&mut self, flow: &Flow) -> io::Result<Written> {
        let mut slices = [IoSlice::new(&[]); 2 * AT_ONCE];
        let rest = self.outbound.iter().flat_map(|it| it.rest(flow)).filter(|it| !it.is_empty());
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip(rest) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        if count == 0 {
            return self.socket.flush().map(|went| Written { taken: 0, went });
        }
        let written = self.socket.write(&slices[..count])?;
        let mut taken = written.taken;
        for it in &mut self.outbound {
            let more = it.left(flow).min(taken);
            it.done += more;
            taken -= more;
        }
        Ok(written)
    }

    /// Sends what TLS holds, so that it does not wait for the next frame.
    fn flush(&mut self, now: Instant) -> Result<(), ExecError> {
        if !self.socket.holds() {
            return Ok(());
        }
        let went = self.socket.flush().map_err(|it| self.lost(&it))?;
        if went > 0 {
            self.spoke = now;
            self.pace.wrote(went, now);
        }
        self.can_write = !self.socket.holds();
        Ok(())
    }

    /// The next frame to send, or several small ones, if there is any that this stream may send.
    fn next(&mut self, flow: &mut Flow, takes: Takes, now: Instant) -> Option<Outbound> {
        let mut head = Vec::new();
        let line = flow.lines.get_mut(self.rank as usize)?;
        while takes == Takes::Controls && head.len() < BATCH {
            let Some((header, payload)) = line.controls.pop_front() else { break };
            self.append(&mut head, header, &payload);
        }
        if self.ping && head.is_empty() {
            self.append(&mut head, Header::new(Kind::Ping), &[]);
        }
        self.ping = false;
        if !head.is_empty() {
            return Some(Outbound { head, piece: None, done: 0 });
        }
        let shared = line.shared;
        let piece = match takes {
            Takes::Data(share) if !shared => {
                let left = flow.lines.get(self.rank as usize)?.owed;
                let most = self.piece(&share, flow.piece, left);
                let pays = self.pays(&share, most.min(left), left, now);
                pays.then(|| flow.next_piece(self.rank, most))
            }
            _ => None,
        };
        let Some(piece) = piece.flatten() else {
            if !std::mem::take(&mut self.bye) {
                return None;
            }
            self.append(&mut head, Header::new(Kind::Bye), &[]);
            return Some(Outbound { head, piece: None, done: 0 });
        };
        self.took = now;
        let bytes = flow.bytes_of(&piece);
        self.trial.took(bytes.len());
        let header = Header {
            operation: piece.message.operation,
            slice: piece.message.slice,
            transfer: piece.message.transfer,
            offset: piece.offset as u64,
            length: bytes.len() as u32,
            checksum: self.checksums.then(|| crc32c::crc32c(bytes)),
            ..Header::new(Kind::Data)
        };
        let number = self.number();
        let head = Header { number, ..header }.encode().to_vec();
        Some(Outbound { head, piece: Some(piece), done: 0 })
    }

    fn append(&mut self, head: &mut Vec<u8>, header: Header, payload: &[u8]) {
        let (number, length) = (self.number(), payload.len() as u32);
        head.extend(Header { number, length, ..header }.encode());
        head.extend(payload);
    }

    fn number(&mut self) -> u32 {
        let number = self.next_out;
        self.next_out = number.wrapping_add(1);
        number
    }
}

/// How many of the `left` bytes a stream takes at once beside others; `rate` is its own, `None` if that is unknown or it is slow.
fn piece_of(rate: Option<f64>, share: &Share, most: usize, left: usize) -> usize {
    let piece = match rate {
        _ if share.others == 0 => return most,
        Some(rate) => {
            let part = left as f64 * rate / (rate + share.rate) / PARTS;
            (part.max(rate * PIECE) as usize).max(LEAST_PIECE)
        }
        None => LITTLE,
    };
    // Elements are not cut.
    most.min(piece / LEAST_PIECE * LEAST_PIECE)
}

/// The checksum of a payload that is in its place.
fn placed_checksum(flow: &mut Flow, header: &Header) -> u32 {
    let (mut done, mut sum) = (0, 0);
    while let Some(bytes) = flow.place(header, done).filter(|it| !it.is_empty()) {
        sum = crc32c::crc32c_append(sum, bytes);
        done += bytes.len();
    }
    sum
}

#[cfg(test)]
mod tests;
