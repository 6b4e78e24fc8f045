//! [`Stream`]: one of the TCP connections to a rank, which never blocks: how far the frame is that is
//! coming in, and the one that is going out.
//!
//! Data that is copied is received straight into its place, and sent straight from its source; only
//! headers and small frames pass through a buffer.

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
/// Bytes in one direction before another stream has its turn, or, of several to one rank, before another rank has. What has come, what it
/// is reduced with and the result should still be in the processor's second cache when they are sent on.
pub(crate) const TURN: usize = 256 << 10;
/// Seconds for which the system has data to send, at the connection's rate: enough to keep a link busy until this thread has its
/// turn again, and no more, because what a socket has taken no other connection can carry.
#[cfg(target_os = "linux")]
const QUEUE: f64 = 0.02;
/// But no less than so many bytes.
#[cfg(target_os = "linux")]
const LEAST_UNSENT: u32 = 32 << 10;
/// Of several streams each takes pieces of so many seconds at its rate, so that all end at about the same time; a piece that one has taken
/// no other can carry.
const PIECE: f64 = 0.004;
/// But no smaller ones: each has a header and a turn of its own.
const LEAST_PIECE: usize = 16 << 10;
/// Nor smaller ones than this part of each stream's share in all that is left: only those at the end need to be small.
const PARTS: f64 = 4.0;
/// How many times slower than the best a stream is that is treated with care. Connections that share one way
/// differ by less.
pub(crate) const SLOW: f64 = 6.0;
/// While the others have at least so many seconds to do, what a slow stream takes does not make the call longer.
const AMPLE: f64 = 0.1;
/// One that is not so slow takes no more while it has to deliver for longer than so many times what the others still have to do, and so many
/// seconds: rates of connections that share a way differ, and change.
const LATER: f64 = 2.0;
const LATE: f64 = 0.02;
/// After so long without a piece a slow stream is tried again: what stood still for a moment seems slow, and only
/// sending shows that it is not.
const TRIED_AGAIN: Duration = Duration::from_ms(200);

/// Frames that are not about calls: the engine's business.
pub(crate) type Mail = Vec<(Header, Vec<u8>)>;

/// What a stream is for, now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    /// The first stream of a rank: all frames but data, so that none waits behind data.
    Controls,
    /// Those at work.
    Data(Share),
    /// Those in reserve: signs of life, and the rest of what they had begun.
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
    /// The last frame was large, and the next is likely to be: of that only the header is read into the inbox, and the payload straight
    /// into its place.
    large: bool,
    inbound: Inbound,
    buffer: Aligned,
    /// The number of the next frame in and out.
    next_in: u32,
    next_out: u32,
    /// What goes out, in order; of the first some may have been written.
    outbound: VecDeque<Outbound>,
    pub(crate) heard: Instant,
    pub(crate) spoke: Instant,
    /// A sign of life is due.
    pub(crate) ping: bool,
    /// The last frame is due.
    pub(crate) bye: bool,
    pub(crate) ended: bool,
    checksums: bool,
    pub(crate) pace: Pace,
    /// When it last took a piece of data.
    took: Instant,
    trial: Trial,
    /// What the system takes before it has sent what it has.
    #[cfg(target_os = "linux")]
    unsent: u32,
}

/// Whether the others have so much to do that what a slow stream takes does not make the call longer.
fn is_ample(share: &Share, left: usize) -> bool {
    left as f64 > AMPLE * share.rate
}

/// What decides whether a stream takes another piece: how fast it and the others to the same rank are, and
/// what they still have to deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    /// Of the other streams together: bytes per second, and bytes on the way.
    pub(crate) rate: f64,
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

    /// Looks how fast it delivers and what it still has to.
    pub(crate) fn look(&mut self, now: Instant) {
        self.pace.look(self.socket.raw(), !self.can_write, now);
        #[cfg(target_os = "linux")]
        self.limit_queue();
    }

    /// How much of a message it takes at once, with `left` bytes to be sent to the rank: one whose way is much slower than the best no more
    /// than a little, so that it has not long what another could carry.
    fn piece(&self, share: &Share, most: usize, left: usize) -> usize {
        let usual = self.pace.rate().filter(|_| !self.is_slow(share));
        piece_of(usual, share, most, left)
    }

    /// Tells the system how much it may take before it has sent what it has, now that the rate is known.
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

    /// Whether it has something to send that is no data, or that it has begun.
    pub(crate) fn has_to_send(&self) -> bool {
        !self.outbound.is_empty() || self.ping || self.bye || self.socket.holds()
    }

    fn is_slow(&self, share: &Share) -> bool {
        self.pace.rate().is_some_and(|it| it * SLOW < share.best)
    }

    /// Whether it takes as much as it can, if it is on trial: unless it is slow and the call would wait for it.
    pub(crate) fn is_fed(&self, share: &Share, left: usize) -> bool {
        !self.is_slow(share) || is_ample(share, left)
    }

    /// Whether the end comes no later if this stream takes a piece of what is left to be sent.
    fn pays(&mut self, share: &Share, piece: usize, left: usize, now: Instant) -> bool {
        let Some(rate) = self.pace.rate() else { return true };
        let own = self.pace.backlog() / rate;
        let rest = (left as f64 + share.backlog) / share.rate;
        // Every connection begins slowly, and becomes faster only while it has more to send than it delivers.
        if share.on_trial && self.is_fed(share, left) {
            return true;
        }
        if !self.is_slow(share) {
            // Of all the one that has the least to deliver has no more than the rest, so there is always one that goes on.
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

    /// What a read came to: bytes, nothing now, or the end.
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
        let room = room.ok_or(ExecError::Internal("a payload without a place"))?;
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

    /// Gives the system what has been gathered, or what it has taken of that and not sent.
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

    /// Sends what the socket has taken and not sent, so that it does not wait for the next frame.
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

    /// What to send next.
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

/// How much of what is `left` a stream takes at once beside others; `rate` is its own unless that is unknown or much slower than theirs.
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
