//! [`Flow`]: decides what happens next. It holds the calls under way and, for each other rank, what is
//! to be sent to it; it knows nothing of sockets and reads no clock. The engine tells it which frames
//! have come and which were sent, and asks it for the next frame when a socket has room.
//!
//! Each call is run as a graph of events, slice by slice ([`crate::layout`]), and whatever can
//! happen does: stages over slow and fast links overlap because nothing waits for a step to end. Where
//! several messages could go to one rank, the earlier call goes first, then the earlier slice, then
//! the transfer with the lower number, which is the program's own order.
//!
//! A rank may make a call before another does. The other must keep what comes for that call until it has
//! made it too, so no more than about [`EAGER`] bytes go to a rank whose [`Kind::Started`] has not come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use motet_collective::{Action, Event};
use motet_units::Instant;

use crate::error::ExecError;
use crate::layout::Span;
use crate::memory::{Aligned, Spare};
use crate::run::{Message, Run};
use crate::wire::header::{FRAME_COST, MAX_PIECE, MIN_PIECE};
use crate::wire::{Header, Kind};

mod line;

use line::EAGER;
pub(crate) use line::Line;

/// The size at which messages are cut into pieces is a multiple of this, so that no element of any type is cut.
const GRAIN: usize = 64;
/// How many calls a rank may be ahead of another. Further calls are held back until the slowest rank has made more of its own.
const MAX_AHEAD: u32 = 1024;

/// Part of a message that is ready to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) message: Message,
    pub(crate) offset: usize,
    pub(crate) span: Span,
}

/// Where the data of a frame goes while it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Straight to its destination in the call's memory.
    Place,
    /// Into a receive buffer, because it is to be reduced, or may not be written yet, or is of a call that we have not made yet.
    Buffer,
}

/// Work that needs no socket: a transfer within this rank, or one that is read from the memory of a rank of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    message: Message,
    /// The rank whose memory it is read from; our own for a transfer within the rank.
    from: u32,
}

/// What is to be done about an event.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// It waits for no other event any more.
    Enabled,
    /// It has happened: events that wait for it may go on.
    Happened,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Flow {
    rank: u32,
    pub(crate) lines: Vec<Line>,
    pub(crate) runs: BTreeMap<u32, Run>,
    /// Calls made here that do not begin yet, because this rank is [`MAX_AHEAD`] calls ahead of the slowest.
    held_back: VecDeque<Run>,
    /// Calls that are done, but whose callers have not been told yet.
    done: Vec<Run>,
    /// The last call that was made here.
    pub(crate) started: u32,
    /// The registration number of each call made here, until all other ranks have made that call: theirs must be the same.
    called: BTreeMap<u32, u32>,
    /// Work that is ready to be done.
    work: BinaryHeap<Reverse<Work>>,
    /// Events that [`settle`](Self::settle) must still handle: the call, and the event's index in its run.
    agenda: Vec<(u32, usize, Next)>,
    /// Empty receive buffers, to replace those whose data must be kept because it came before it may be written.
    spare: Spare,
    /// Bytes of data in a frame, at most.
    pub(crate) piece: usize,
    /// Something new is to be sent. Set here, cleared by the engine before it looks for frames to send.
    pub(crate) fresh: bool,
}

fn protocol(rank: u32, why: &str) -> ExecError {
    ExecError::Protocol { rank, why: why.to_owned() }
}

fn other_call(rank: u32, operation: u32, theirs: u32, ours: u32) -> ExecError {
    let why = format!(
        "call {operation} is of its registration {theirs}, and here of registration {ours}"
    );
    ExecError::Protocol { rank, why }
}

impl Flow {
    pub(crate) fn new(rank: u32, ranks: u32, piece: usize) -> Self {
        Self {
            rank,
            lines: (0..ranks).map(|_| Line::default()).collect(),
            runs: BTreeMap::new(),
            held_back: VecDeque::new(),
            done: Vec::new(),
            started: 0,
            called: BTreeMap::new(),
            work: BinaryHeap::new(),
            agenda: Vec::new(),
            spare: Spare::default(),

            piece: piece.clamp(MIN_PIECE, MAX_PIECE) / GRAIN * GRAIN,
            fresh: false,
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.rank as usize;
        (0..self.lines.len()).filter(move |it| *it != own)
    }

    /// Queues a frame for every other rank that is still there.
    pub(crate) fn tell_all(&mut self, header: Header, payload: &[u8]) {
        self.fresh = true;
        for it in self.others() {
            let line = &mut self.lines[it];
            if !line.left {
                line.controls.push_back((header, payload.to_vec()));
            }
        }
    }

    /// A call is made; it begins at once unless this rank is too many calls ahead of another.
    pub(crate) fn start(&mut self, run: Run) -> Result<(), ExecError> {
        if self.may_begin() && self.held_back.is_empty() {
            return self.begin(run);
        }
        self.held_back.push_back(run);
        Ok(())
    }

    /// Whether one more call may begin: every other rank has to remember the calls that it has not made itself.
    fn may_begin(&self) -> bool {
        self.started.saturating_sub(self.slowest()) < MAX_AHEAD
    }

    /// The last call that all other ranks have made.
    fn slowest(&self) -> u32 {
        self.others().map(|it| self.lines[it].started).min().unwrap_or(u32::MAX)
    }

    /// Whether calls are under way or wait to begin.
    pub(crate) fn has_calls(&self) -> bool {
        !self.runs.is_empty() || !self.held_back.is_empty()
    }

    /// A call whose deadline has passed, if there is one. Calls that are held back have no number yet, and get the next one here.
    pub(crate) fn late(&self, now: Instant) -> Option<(u32, &Run)> {
        let begun = self.runs.iter().map(|(operation, run)| (*operation, run));
        let held_back = self.held_back.iter().map(|run| (self.started.saturating_add(1), run));
        begun.chain(held_back).find(|it| now >= it.1.deadline)
    }

    /// Whether a rank that leaves has not made all calls that are under way or held back here.
    pub(crate) fn is_missing_in(&self, rank: usize) -> bool {
        let last = self.runs.keys().next_back();
        last.is_some_and(|it| *it > self.lines[rank].started) || !self.held_back.is_empty()
    }

    fn begin(&mut self, run: Run) -> Result<(), ExecError> {
        // A rank that has made this call and left has done its part.
        let gone = |it: &usize| self.lines[*it].left && self.lines[*it].started <= self.started;
        if let Some(rank) = self.others().find(gone) {
            let why = "it has left the group".to_owned();
            run.end(Err(ExecError::Lost { rank: rank as u32, why: why.clone() }));
            return Err(ExecError::Lost { rank: rank as u32, why });
        }
        let Some(operation) = self.started.checked_add(1) else {
            let error =
                ExecError::Group("a group makes no more than 4 billion calls; join anew".into());
            run.end(Err(error.clone()));
            return Err(error);
        };
        self.started = operation;
        let transfer = run.registered.number;
        for rank in self.others() {
            let theirs = self.lines[rank].announced.remove(&operation);
            if let Some(theirs) = theirs.filter(|it| *it != transfer) {
                let error = other_call(rank as u32, operation, theirs, transfer);
                run.end(Err(error.clone()));
                return Err(error);
            }
        }
        self.called.insert(operation, transfer);
        self.tell_all(Header { operation, transfer, ..Header::new(Kind::Started) }, &[]);
        for (to, bytes) in run.to_send() {
            let line = &mut self.lines[to];
            line.owed += bytes;
            line.owed_at_first = line.owed;
        }
        let at_once = run.at_once();
        self.runs.insert(operation, run);
        self.agenda.extend(at_once.into_iter().rev().map(|it| (operation, it, Next::Enabled)));
        self.settle()?;
        for rank in self.others() {
            let line = &mut self.lines[rank];
            let (now, later): (Vec<_>, Vec<_>) =
                line.early.drain(..).partition(|it| it.0.operation == operation);
            line.early = later;
            line.early_bytes -=
                now.iter().map(|it| it.0.length as usize + FRAME_COST).sum::<usize>();
            for (header, mut bytes) in now {
                self.came(rank as u32, &header, Sink::Buffer, &mut bytes)?;
            }
        }
        self.finish_if_done(operation);
        Ok(())
    }

    /// An error if a rank has left, and so may not send such a frame any more. While its connections are open it shows that it is there,
    /// and may fail.
    pub(crate) fn check_left(&self, from: u32, kind: Kind) -> Result<(), ExecError> {
        let may_follow = matches!(kind, Kind::Ping | Kind::Bye | Kind::Abort);
        if self.lines[from as usize].left && !may_follow {
            return Err(protocol(from, &format!("a {kind:?} frame after its farewell")));
        }
        Ok(())
    }

    /// Where the payload of a frame is to be received; an error if such a frame may not come now.
    pub(crate) fn sink(&self, from: u32, header: &Header) -> Result<Sink, ExecError> {
        let (kind, length) = (header.kind, header.length);
        let Some(longest) = kind.longest_in_group() else {
            return Err(protocol(from, &format!("a {kind:?} frame, which belongs to a handshake")));
        };
        if length as usize > longest {
            let why = format!("a {kind:?} frame of {length} bytes, which has at most {longest}");
            return Err(protocol(from, &why));
        }
        if kind != Kind::Data {
            return Ok(Sink::Buffer);
        }
        if length == 0 {
            return Err(protocol(from, "a piece of data without data"));
        }
        if header.operation > self.started {
            self.check_early(from, header)?;
            return Ok(Sink::Buffer);
        }
        let (run, message, index) = self.arrival(from, header)?;
        let end = usize::try_from(header.offset)
            .ok()
            .and_then(|it| it.checked_add(header.length as usize));
        if end.is_none_or(|it| it > run.message_bytes(message)) {
            return Err(protocol(from, "data beyond the end of its transfer"));
        }
        let element = run.registered.element.bytes() as u64;
        let whole = |bytes: u64| bytes.is_multiple_of(element);
        if !whole(header.offset) || !whole(u64::from(length)) {
            return Err(protocol(from, "data that is no whole number of elements"));
        }
        let copied = run.transfer(message.transfer).is_some_and(|it| it.action == Action::Copy);
        Ok(if copied && run.is_enabled(index) { Sink::Place } else { Sink::Buffer })
    }

    /// The run, the message and the index of the arrival that a frame is about; an error if its sender has no such transfer to us.
    fn arrival(&self, from: u32, header: &Header) -> Result<(&Run, Message, usize), ExecError> {
        let (operation, slice, transfer) = (header.operation, header.slice, header.transfer);
        let run = self.runs.get(&operation);
        let run = run.ok_or_else(|| protocol(from, "data of a call that has ended"))?;
        let message = Message { operation, slice, transfer };
        let sender = run.transfer(transfer).is_some_and(|it| it.src.rank.0 == from);
        let index = run.arrival(message).filter(|_| sender);
        let index =
            index.ok_or_else(|| protocol(from, "data of a transfer that is not its to send"))?;
        Ok((run, message, index))
    }

    /// Whether a rank keeps to the limit of what may be sent for calls that are not made here yet.
    fn check_early(&self, from: u32, header: &Header) -> Result<(), ExecError> {
        let line = &self.lines[from as usize];
        let most = EAGER + MAX_PIECE + 2 * FRAME_COST;
        if line.early_bytes + header.length as usize + FRAME_COST > most {
            return Err(protocol(from, "more data than may be sent before a call is made here"));
        }
        Ok(())
    }

    /// Of a piece that is received straight into its destination: where its bytes from `done` on go, as far as that is contiguous.
    pub(crate) fn place(&mut self, header: &Header, done: usize) -> Option<&mut [u8]> {
        let (operation, slice, transfer) = (header.operation, header.slice, header.transfer);
        let run = self.runs.get_mut(&operation)?;
        let offset = usize::try_from(header.offset).ok()? + done;
        let message = Message { operation, slice, transfer };
        let span = run.target(message, offset, (header.length as usize).checked_sub(done)?)?;
        Some(run.bytes_at_mut(span))
    }

    /// A frame about a call has come whole. `bytes` is its payload, unless that went straight to its destination. A payload that must be
    /// kept is copied, or taken with its buffer, for which an empty one is left.
    pub(crate) fn came(
        &mut self,
        from: u32,
        header: &Header,
        sink: Sink,
        bytes: &mut Aligned,
    ) -> Result<(), ExecError> {
        let operation = header.operation;
        if operation > self.started {
            self.check_early(from, header)?;
            let line = &mut self.lines[from as usize];
            line.early_bytes += header.length as usize + FRAME_COST;
            line.early.push((*header, Aligned::from_bytes(bytes.bytes())));
            return Ok(());
        }
        match header.kind {
            Kind::Data => self.data(from, header, sink, bytes)?,
            Kind::Offer => self.offer(from, header)?,
            Kind::Taken => self.taken(from, header)?,
            Kind::Notice => self.notice(from, header)?,
            _ => return Err(protocol(from, "a frame that is not about a call")),
        }
        self.settle()?;
        self.finish_if_done(operation);
        Ok(())
    }

    fn data(
        &mut self,
        from: u32,
        header: &Header,
        sink: Sink,
        bytes: &mut Aligned,
    ) -> Result<(), ExecError> {
        // Data that came early is only now seen to be in order.
        self.sink(from, header)?;
        let (_, message, index) = self.arrival(from, header)?;
        let Some(run) = self.runs.get_mut(&message.operation) else { return Ok(()) };
        let (offset, length) = (header.offset as usize, header.length as usize);
        let whole = run.piece_came(index, offset, length, message);
        let whole = whole.ok_or_else(|| protocol(from, "data of a transfer twice"))?;
        if sink == Sink::Buffer {
            if run.is_enabled(index) {
                run.write(message, offset, bytes.bytes())?;
            } else if !run.may_keep(index, message) {
                return Err(protocol(from, "data in smaller pieces than any rank sends"));
            } else {
                run.keep(index, offset, self.spare.instead_of(bytes));
            }
        }
        if whole && run.is_enabled(index) {
            self.agenda.push((message.operation, index, Next::Happened));
        }
        Ok(())
    }

    fn offer(&mut self, from: u32, header: &Header) -> Result<(), ExecError> {
        let (_, message, index) = self.arrival(from, header)?;
        let Some(run) = self.runs.get_mut(&message.operation) else { return Ok(()) };
        if run.counted(index) > 0 || !run.note_offer(index) {
            return Err(protocol(from, "the same data twice"));
        }
        let waits = !run.is_enabled(index);
        if waits && !run.registered.plan.may_wait_for_receiver {
            // The sender may need to go on before we can write.
            run.take_offer(index);
            if run.pull(from, message, true)? {
                self.has_taken(from, message, index)?;
            }
        } else if !waits {
            self.work.push(Reverse(Work { message, from }));
        }
        Ok(())
    }

    /// A message was read from the memory of rank `from`: lets that rank know, and counts the message as received.
    fn has_taken(&mut self, from: u32, message: Message, index: usize) -> Result<(), ExecError> {
        let Message { operation, slice, transfer } = message;
        let header = Header { operation, slice, transfer, ..Header::new(Kind::Taken) };
        self.lines[from as usize].controls.push_back((header, Vec::new()));
        self.fresh = true;
        let Some(run) = self.runs.get_mut(&operation) else { return Ok(()) };
        run.count(index, run.message_bytes(message), message)
            .ok_or_else(|| protocol(from, "the same data twice"))?;
        if run.is_enabled(index) {
            self.agenda.push((operation, index, Next::Happened));
        }
        Ok(())
    }

    fn taken(&mut self, from: u32, header: &Header) -> Result<(), ExecError> {
        let (operation, slice, transfer) = (header.operation, header.slice, header.transfer);
        let message = Message { operation, slice, transfer };
        let wrong = || protocol(from, "it has taken what it was not offered");
        // To others data is sent, and part of it may be on its way.
        let line = self.lines.get(from as usize).filter(|it| it.shared);
        line.ok_or_else(wrong)?;
        let run = self.runs.get_mut(&operation).ok_or_else(wrong)?;
        let receiver = run.transfer(transfer).is_some_and(|it| it.dst.rank.0 == from);
        let index = run.sending(message).filter(|_| receiver).ok_or_else(wrong)?;
        if !run.is_enabled(index) || run.counted(index) > 0 {
            return Err(wrong());
        }
        run.count(index, run.message_bytes(message), message).ok_or_else(wrong)?;
        self.agenda.push((operation, index, Next::Happened));
        Ok(())
    }

    fn notice(&mut self, from: u32, header: &Header) -> Result<(), ExecError> {
        let wrong = || protocol(from, "notice of an event that nobody waits for");
        let run = self.runs.get_mut(&header.operation).ok_or_else(wrong)?;
        let registered = Arc::clone(&run.registered);
        let event = Event::from_index(header.transfer as usize);
        let transfer = run.transfer(event.transfer().0).ok_or_else(wrong)?;
        let home = if event.is_sent() { transfer.src.rank } else { transfer.dst.rank };
        if home.0 != from || header.slice as usize >= registered.layout.slices.len() {
            return Err(wrong());
        }
        for (wait, local) in registered.plan.behind_remote(header.transfer) {
            let index = run.index(header.slice, local);
            if !run.hear(header.slice, wait) {
                return Err(protocol(from, "the same notice twice"));
            }
            if run.one_less(index).map_err(|_| wrong())? {
                self.agenda.push((header.operation, index, Next::Enabled));
            }
        }
        Ok(())
    }

    /// A rank has made a call.
    pub(crate) fn peer_started(&mut self, from: u32, header: &Header) -> Result<(), ExecError> {
        let line = &mut self.lines[from as usize];
        if Some(header.operation) != line.started.checked_add(1) {
            return Err(protocol(from, "it makes calls out of order"));
        }
        line.started = header.operation;
        self.fresh = true;
        line.ahead.remove(&header.operation);
        match self.called.get(&header.operation) {
            Some(ours) if *ours != header.transfer => {
                return Err(other_call(from, header.operation, header.transfer, *ours));
            }
            Some(_) => {}
            None if line.announced.len() < MAX_AHEAD as usize => {
                line.announced.insert(header.operation, header.transfer);
            }
            None => return Err(protocol(from, "too many calls that are not made here")),
        }
        let (now, later): (VecDeque<_>, VecDeque<_>) =
            line.held.drain(..).partition(|it| it.operation <= header.operation);
        line.held = later;
        line.controls.extend(now.into_iter().map(|it| (it, Vec::new())));
        self.called = self.called.split_off(&self.slowest().saturating_add(1));
        while self.may_begin() {
            let Some(run) = self.held_back.pop_front() else { break };
            self.begin(run)?;
        }
        Ok(())
    }

    /// Handles the events on the agenda, and those that follow from them, until none is left.
    fn settle(&mut self) -> Result<(), ExecError> {
        while let Some((operation, index, next)) = self.agenda.pop() {
            match next {
                Next::Enabled => self.enabled(operation, index)?,
                Next::Happened => self.happened(operation, index)?,
            }
        }
        Ok(())
    }

    /// An event waits for no other any more: a sending gets in line to be sent, and of an arrival what has come is written.
    fn enabled(&mut self, operation: u32, index: usize) -> Result<(), ExecError> {
        let Some(run) = self.runs.get_mut(&operation) else { return Ok(()) };
        let (slice, local) = run.of_index(index);
        let event = run.registered.plan.events[local];
        let message = Message { operation, slice, transfer: event.transfer().0 };
        let transfer = run.registered.plan.transfers[event.transfer().index()];
        if event.is_sent() {
            let to = transfer.dst.rank.0;
            if to == self.rank {
                self.work.push(Reverse(Work { message, from: to }));
            } else {
                self.lines[to as usize].ready.push(Reverse(message));
                self.fresh = true;
            }
            return Ok(());
        }
        if run.take_offer(index) {
            self.work.push(Reverse(Work { message, from: transfer.src.rank.0 }));
            return Ok(());
        }
        run.write_kept(index, message, &mut self.spare)?;
        if run.counted(index) == run.message_bytes(message) {
            self.agenda.push((operation, index, Next::Happened));
        }
        Ok(())
    }

    /// An event has happened: counts it off for the events of this rank that wait for it, and notifies ranks where others do.
    fn happened(&mut self, operation: u32, index: usize) -> Result<(), ExecError> {
        let Some(run) = self.runs.get_mut(&operation) else { return Ok(()) };
        run.left -= 1;
        let (slice, local) = run.of_index(index);
        let registered = Arc::clone(&run.registered);
        for next in registered.plan.behind(local) {
            let next = run.index(slice, *next as usize);
            if run.one_less(next)? {
                self.agenda.push((operation, next, Next::Enabled));
            }
        }
        let transfer = registered.plan.events[local].index() as u32;
        let header = Header { operation, slice, transfer, ..Header::new(Kind::Notice) };
        self.fresh |= !registered.plan.told(local).is_empty();
        for to in registered.plan.told(local) {
            let line = &mut self.lines[*to as usize];
            if line.started >= operation {
                line.controls.push_back((header, Vec::new()));
            } else {
                line.held.push_back(header);
            }
        }
        Ok(())
    }

    /// Whether there is work that needs no socket.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Does one piece of such work.
    pub(crate) fn work(&mut self) -> Result<(), ExecError> {
        let Some(Reverse(Work { message, from })) = self.work.pop() else { return Ok(()) };
        let operation = message.operation;
        let Some(run) = self.runs.get_mut(&operation) else { return Ok(()) };
        let index = run.arrival(message).ok_or(ExecError::Internal("work for another rank"))?;
        if from == self.rank {
            self.within(message, index)?;
        } else {
            run.take_offer(index);
            if !run.pull(from, message, false)? {
                return Ok(());
            }
            self.has_taken(from, message, index)?;
        }
        self.settle()?;
        self.finish_if_done(operation);
        Ok(())
    }

    /// Makes a transfer within this rank. If its destination may not be written yet, the data is copied aside, so that at least
    /// the sending has happened and its source may change.
    fn within(&mut self, message: Message, index: usize) -> Result<(), ExecError> {
        let Some(run) = self.runs.get_mut(&message.operation) else { return Ok(()) };
        let sending = run.sending(message).ok_or(ExecError::Internal("work for another rank"))?;
        let enabled = run.is_enabled(index);
        if enabled {
            run.move_within(message)?;
        } else if !run.registered.merged.is_left_out(message.transfer) {
            let bytes = run.gathered(message);
            run.keep(index, 0, bytes);
        }
        let total = run.message_bytes(message);
        for event in [sending, index] {
            run.count(event, total, message).ok_or(ExecError::Internal("a transfer made twice"))?;
        }
        self.agenda.push((message.operation, sending, Next::Happened));
        if enabled {
            self.agenda.push((message.operation, index, Next::Happened));
        }
        Ok(())
    }

    /// Queues an Offer for each message that is ready for a rank that reads our memory.
    pub(crate) fn offer_all(&mut self, to: u32) {
        let line = &mut self.lines[to as usize];
        while let Some(Reverse(message)) = line.ready.peek().copied() {
            if !line.may_send(message.operation) {
                return;
            }
            line.ready.pop();
            line.sent(message.operation, 0);
            let Message { operation, slice, transfer } = message;
            let header = Header { operation, slice, transfer, ..Header::new(Kind::Offer) };
            line.controls.push_back((header, Vec::new()));
        }
    }

    /// The next piece of data for a rank, of at most `most` bytes, if there is any that may be sent.
    pub(crate) fn next_piece(&mut self, to: u32, most: usize) -> Option<Piece> {
        let line = &mut self.lines[to as usize];
        let (message, offset) = line.next_message()?;
        let run = self.runs.get(&message.operation)?;
        let span = run.source(message, offset, self.piece.min(most))?;
        let taken = offset + span.len;
        line.current = (taken < run.message_bytes(message)).then_some((message, taken));
        line.sent(message.operation, span.len);
        line.owed = line.owed.saturating_sub(span.len);
        Some(Piece { message, offset, span })
    }

    /// The bytes of a piece.
    pub(crate) fn bytes_of(&self, piece: &Piece) -> &[u8] {
        self.runs.get(&piece.message.operation).map_or(&[], |it| it.bytes_at(piece.span))
    }

    /// A piece was given to its socket, so its source may change.
    pub(crate) fn went(&mut self, piece: &Piece) -> Result<(), ExecError> {
        let message = piece.message;
        let Some(run) = self.runs.get_mut(&message.operation) else { return Ok(()) };
        let index = run.sending(message).ok_or(ExecError::Internal("sent for another rank"))?;
        let whole = run.count(index, piece.span.len, message);
        if whole.ok_or(ExecError::Internal("a piece sent twice"))? {
            self.agenda.push((message.operation, index, Next::Happened));
            self.settle()?;
            self.finish_if_done(message.operation);
        }
        Ok(())
    }

    fn finish_if_done(&mut self, operation: u32) {
        if self.runs.get(&operation).is_some_and(|it| it.left == 0)
            && let Some(run) = self.runs.remove(&operation)
        {
            self.done.push(run);
        }
    }

    /// Tells the callers of calls that are done. The engine must have sent all frames of those calls before: a caller may be
    /// a process that ends with its last call, and then nothing more is sent.
    pub(crate) fn answer(&mut self) {
        for run in self.done.drain(..) {
            run.end(Ok(()));
        }
    }

    /// Ends every call under way.
    pub(crate) fn fail(&mut self, error: &ExecError) {
        self.answer();
        let held_back = std::mem::take(&mut self.held_back);
        for run in std::mem::take(&mut self.runs).into_values().chain(held_back) {
            run.end(Err(error.clone()));
        }
        for line in &mut self.lines {
            // Register frames still go out. The other rank may be waiting for one, and a registration that all ranks made counts,
            // whatever fails after it.
            let mut controls = std::mem::take(&mut line.controls);
            controls.retain(|(header, _)| header.kind == Kind::Register);
            *line = Line { left: line.left, controls, ..Line::default() };
        }
        self.work.clear();
        self.agenda.clear();
    }
}

#[cfg(test)]
mod tests;
