//! The engine: one thread for each group and rank, which alone touches sockets and the memory of calls
//! under way. It waits for sockets, moves what can be moved, and watches the time.
//!
//! What ends a group: a connection that breaks, a frame that is not in order, a rank that is silent for
//! longer than [`Settings::silence`], a call that takes longer than [`Settings::deadline`], or a rank
//! that says that one of these happened to it. Whoever notices first tells all others, so that every
//! rank ends with the same cause; no rank waits longer than those two times.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration as Wall;

use mio::{Events, Interest, Poll, Token};
use motet_net::probe::Clock;
use motet_units::{Duration, Instant};

use crate::error::ExecError;
use crate::flow::Flow;
use crate::remote::Health;
use crate::reserve::{Reserve, Sending};
use crate::run::{Outcome, Regions, Registered, Run};
use crate::stream::{Mail, Share, Stream, TURN, Takes};
use crate::wire::header::{MAX_REASON, NOBODY};
use crate::wire::payload::beginning;
use crate::wire::{Header, Kind, Registration};

/// How an engine behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// When nothing was sent on a connection for this long, a Ping is.
    pub(crate) heartbeat: Duration,
    /// When nothing was received on a connection for this long, the rank at its other end counts as lost.
    pub(crate) silence: Duration,
    /// The longest that a call may take, and that a registration may wait for the other ranks.
    pub(crate) deadline: Duration,
    /// How many connections to a rank carry data at once, at most, beside one on trial.
    pub(crate) at_work: usize,
}

/// What the group's owner asks of the engine.
pub(crate) enum Command {
    Register { registration: Registration, reply: Sender<Result<Vec<Registration>, ExecError>> },
    Start { registered: Arc<Registered>, memory: Regions, reply: Sender<Outcome> },
    Leave,
}

/// The waker's token among the poll's tokens; those of the streams count up from 0.
pub(crate) const WAKER: Token = Token(usize::MAX);
/// How long the connections of a group that has failed stay open, for the Abort frames to get out.
const LINGER: Duration = Duration::from_ms(500);
/// Bounds the thread's sleep while it closes, or while something may become due that no socket reports.
const SOON: Duration = Duration::from_ms(5);
/// The least time between two checks of heartbeats, silence and deadlines.
const WATCH: Duration = Duration::from_ms(1);
/// How many copies and reductions within this host are done between two rounds of sending and receiving.
const WORK: usize = 4;
/// How many registrations a rank may be ahead of another.
const MAX_REGISTRATIONS_AHEAD: usize = 256;

/// An own registration that waits for the other ranks to register the same.
struct Waiting {
    own: Registration,
    reply: Sender<Result<Vec<Registration>, ExecError>>,
    since: Instant,
}

pub(crate) struct Engine {
    rank: u32,
    poll: Poll,
    commands: Receiver<Command>,
    clock: Arc<dyn Clock + Send>,
    settings: Settings,
    flow: Flow,
    /// The connections to each rank, none to this rank itself. The first of each rank carries all frames but data.
    streams: Vec<Vec<Stream>>,
    /// For each rank: which of its connections are at work, in reserve or on trial.
    reserves: Vec<Reserve>,
    /// For each rank: the connections that carry data at present.
    carriers: Vec<Vec<usize>>,
    /// The rank and the index of the stream that each poll token stands for.
    tokens: Vec<(usize, usize)>,
    /// How many registrations this rank has made, which is the next one's number.
    registrations: u32,
    waiting: BTreeMap<u32, Waiting>,
    /// Registrations of each rank that are not compared yet, by number.
    theirs: Vec<BTreeMap<u32, Registration>>,
    failed: Option<ExecError>,
    /// The same for other threads, and who has left.
    pub(crate) health: Health,
    /// Something is left to send and its socket has room, so the thread must not sleep.
    more: bool,
    /// Ranks and streams whose sockets may have something to read.
    readable: Vec<(usize, usize)>,
    /// Ranks whose connections have neither frames left to send nor unacknowledged bytes to measure. Sending skips them, which saves
    /// time, because most ranks are quiet most of the time.
    quiet: Vec<bool>,
    /// When signs of life and deadlines were last looked at.
    watched: Instant,
    /// When the connections close at the latest, once the group has failed or is being left.
    closing: Option<Instant>,
    leaving: bool,
    /// How many of each rank's streams have delivered their Bye.
    byes: Vec<usize>,
    /// Whether each rank has confirmed that all Byes of this rank have come.
    known: Vec<bool>,
}

impl Engine {
    #[allow(clippy::too_many_arguments, reason = "made in one place")]
    pub(crate) fn new(
        rank: u32,
        poll: Poll,
        commands: Receiver<Command>,
        clock: Arc<dyn Clock + Send>,
        settings: Settings,
        flow: Flow,
        mut streams: Vec<Vec<Stream>>,
    ) -> io::Result<Self> {
        let mut tokens = Vec::new();
        for (peer, streams) in streams.iter_mut().enumerate() {
            for (index, stream) in streams.iter_mut().enumerate() {
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut stream.socket, Token(tokens.len()), interest)?;
                tokens.push((peer, index));
            }
        }
        let (ranks, readable) = (streams.len(), tokens.clone());
        let now = clock.now();
        let reserves: Vec<Reserve> =
            streams.iter().map(|it| Reserve::new(it.len(), settings.at_work, now)).collect();
        let carriers = reserves.iter().map(|it| it.carriers(usize::MAX, |_| None)).collect();
        Ok(Self {
            rank,
            poll,
            commands,
            clock,
            settings,
            flow,
            streams,
            reserves,
            carriers,
            tokens,
            registrations: 0,
            waiting: BTreeMap::new(),
            theirs: vec![BTreeMap::new(); ranks],
            failed: None,
            health: Health::default(),
            more: false,
            readable,
            quiet: vec![false; ranks],
            watched: now,
            closing: None,
            leaving: false,
            byes: vec![0; ranks],
            known: vec![false; ranks],
        })
    }

    /// Runs until the group is left.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            let wait = self.wait();
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.fail(ExecError::Group(format!("cannot wait for sockets: {error}")));
            }
            for event in &events {
                if let Some((peer, index)) = self.tokens.get(event.token().0)
                    && let Some(stream) = self.streams[*peer].get_mut(*index)
                {
                    let reads = event.is_readable() || event.is_read_closed() || event.is_error();
                    if reads && !stream.can_read {
                        stream.can_read = true;
                        self.readable.push((*peer, *index));
                    }
                    stream.can_write |= event.is_writable() || event.is_error();
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command);
            }
            let now = self.clock.now();
            if self.failed.is_none()
                && let Err(error) = self.step(now)
            {
                self.fail(error);
            }
            if self.failed.is_some() {
                self.flush(now);
            }
            if self.leaving && (self.has_left() || self.closing.is_some_and(|it| now >= it)) {
                return;
            }
        }
    }

    /// How long to wait for sockets.
    fn wait(&self) -> Option<Wall> {
        let busy =
            self.flow.has_work() || self.flow.fresh || self.more || !self.readable.is_empty();
        if self.failed.is_none() && busy {
            return Some(Wall::ZERO);
        }
        let closing =
            self.leaving || (self.failed.is_some() && !self.streams.iter().all(Vec::is_empty));
        let most = match closing || self.is_declined() {
            true => SOON,
            false => self.settings.heartbeat,
        };
        let most = most.as_ps().min(Duration::from_ms(500).as_ps()) / 2;
        Some(Wall::from_micros((most / 1_000_000).max(1)))
    }

    /// Whether there is data for a rank that connections with room have declined because others deliver it sooner. The sockets of
    /// those others may stay full for long, and no other event would wake this thread to ask again.
    fn is_declined(&self) -> bool {
        let has_room = |peer: usize| {
            let mut carriers = self.carriers[peer].iter();
            carriers.any(|it| self.streams[peer].get(*it).is_some_and(|it| it.can_write))
        };
        let lines = self.flow.lines.iter().enumerate();
        self.failed.is_none() && lines.into_iter().any(|(peer, it)| it.has_data() && has_room(peer))
    }

    /// One round: receives, sends, does a little work that needs no socket, and now and then checks the time limits.
    fn step(&mut self, now: Instant) -> Result<(), ExecError> {
        let mut readable = std::mem::take(&mut self.readable);
        readable.sort_unstable();
        for of_one in readable.chunk_by(|a, b| a.0 == b.0) {
            self.receive(of_one[0].0, of_one, now)?;
        }
        self.more = false;
        self.send_all(now)?;
        // After sending, so that links are not idle while memory is copied; what follows from it goes at once.
        for _ in 0..WORK {
            self.flow.work()?;
        }
        if self.flow.fresh {
            self.send_all(now)?;
        }
        self.flow.answer();
        if now.since(self.watched) < WATCH {
            return Ok(());
        }
        self.watched = now;
        self.watch(now)
    }

    /// Receives from one rank, on its sockets that may have something.
    fn receive(
        &mut self,
        peer: usize,
        of_one: &[(usize, usize)],
        now: Instant,
    ) -> Result<(), ExecError> {
        let mut mail = Mail::new();
        for place in of_one {
            let Some(stream) = self.streams[peer].get_mut(place.1) else { continue };
            if !stream.can_read || stream.ended {
                continue;
            }
            match stream.receive(&mut self.flow, now, &mut mail) {
                // A rank that has left has closed what we may still have been writing to, for which
                // systems answer with a reset. All that it sent is in.
                Err(ExecError::Lost { .. }) if self.flow.lines[peer].left => stream.ended = true,
                received => received?,
            }
            if stream.can_read && !stream.ended {
                self.readable.push(*place);
            }
        }
        for (header, payload) in mail {
            self.read(peer as u32, &header, &payload)?;
        }
        if self.streams[peer].iter().any(|it| it.ended) && !self.flow.lines[peer].left {
            let why = "it closed the connection".to_owned();
            return Err(ExecError::Lost { rank: peer as u32, why });
        }
        Ok(())
    }

    fn send_all(&mut self, now: Instant) -> Result<(), ExecError> {
        self.flow.fresh = false;
        (0..self.streams.len()).try_for_each(|peer| self.send(peer, now))
    }

    fn send(&mut self, peer: usize, now: Instant) -> Result<(), ExecError> {
        if self.flow.lines[peer].shared {
            self.flow.offer_all(peer as u32);
        }
        if self.quiet[peer] && self.flow.lines[peer].is_empty() {
            return Ok(());
        }
        if self.streams[peer].len() > 2 {
            self.streams[peer].iter_mut().skip(1).for_each(|it| it.look(now));
            let sending = self.sending(peer);
            let (streams, reserve) = (&self.streams[peer], &mut self.reserves[peer]);
            let owed = self.flow.lines[peer].owed_at_first;
            let rate = |it: usize| streams[it].pace.rate();
            reserve.look(owed, sending, |it| streams[it].pace.delivered(), rate, now);
            self.carriers[peer] = reserve.carriers(owed, rate);
        }
        self.more |= self.send_on(peer, 0, TURN, now)?;
        self.more |= self.send_data(peer, now)?;
        for index in 1..self.streams[peer].len() {
            let idle = !self.carriers[peer].contains(&index);
            if idle && self.streams[peer][index].has_to_send() {
                self.more |= self.send_on(peer, index, TURN, now)?;
            }
        }
        let streams = &self.streams[peer];
        self.quiet[peer] = !streams.iter().any(Stream::has_to_send)
            && (streams.len() <= 2 || streams.iter().skip(1).all(|it| it.pace.backlog() == 0.0));
        Ok(())
    }

    /// Sends data to a rank, up to [`TURN`] bytes for each connection that carries data; true if that was not all and a socket has room.
    ///
    /// Of several connections the one that will be first to have delivered its backlog takes the next frame. If each filled its socket
    /// buffer in turn, the first would take everything whenever there is too little for all, and links that only the others go over
    /// would be idle.
    fn send_data(&mut self, peer: usize, now: Instant) -> Result<bool, ExecError> {
        let mut open = self.carriers[peer].clone();
        let (turn, most) = (open.len() * TURN, if open.len() > 1 { 1 } else { TURN });
        let owed = self.flow.lines[peer].owed;
        // A connection without a measured rate counts as fast as the average of the others. One on trial counts as no slower than that,
        // so that it gets enough data to show how fast it is.
        let known = open.iter().filter_map(|it| self.streams[peer][*it].pace.rate());
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), it| (sum + it, count + 1.0));
        let usual = if count > 0.0 { sum / count } else { 1.0 };
        let on_trial = self.reserves[peer].on_trial();
        loop {
            let wait = |it: &usize| {
                let pace = &self.streams[peer][*it].pace;
                let least = if on_trial == Some(*it) { usual } else { 0.0 };
                pace.backlog() / pace.rate().map_or(usual, |it| it.max(least))
            };
            let least = open.iter().copied().min_by(|a, b| wait(a).total_cmp(&wait(b)));
            let Some(index) = least else { return Ok(false) };
            if !self.send_on(peer, index, most, now)? {
                open.retain(|it| *it != index);
            } else if owed.saturating_sub(self.flow.lines[peer].owed) >= turn {
                return Ok(true);
            }
        }
    }

    /// Whether there is data to send to a rank, and whether the connection on trial may take as much of it as it can.
    fn sending(&self, peer: usize) -> Sending {
        let owed = self.flow.lines[peer].owed;
        let fed = |it: usize| self.streams[peer][it].is_fed(&self.share(peer, it), owed);
        match self.reserves[peer].on_trial() {
            _ if owed == 0 => Sending::Nothing,
            Some(it) if fed(it) => Sending::Fed,
            _ => Sending::Unfed,
        }
    }

    /// Sends about `most` bytes on one stream; true if there is more to send on it and its socket has room.
    fn send_on(
        &mut self,
        peer: usize,
        index: usize,
        most: usize,
        now: Instant,
    ) -> Result<bool, ExecError> {
        if !self.streams[peer].get(index).is_some_and(|it| it.can_write && !it.ended) {
            return Ok(false);
        }
        let takes = match index {
            0 => Takes::Controls,
            _ if self.carriers[peer].contains(&index) => Takes::Data(self.share(peer, index)),
            _ => Takes::Nothing,
        };
        let stream = &mut self.streams[peer][index];
        match stream.send(&mut self.flow, takes, most, now) {
            // A rank that has left needs nothing any more.
            Err(_) if self.flow.lines[peer].left => {
                stream.ended = true;
                Ok(false)
            }
            sent => sent,
        }
    }

    /// The rates and backlogs of the connections that carry data to a rank, other than stream `own`.
    fn share(&self, peer: usize, own: usize) -> Share {
        let others = self.carriers[peer].len().saturating_sub(1);
        let on_trial = self.reserves[peer].on_trial() == Some(own);
        let mut share = Share { others, on_trial, ..Share::default() };
        for index in &self.carriers[peer] {
            let Some(pace) = self.streams[peer].get(*index).map(|it| &it.pace) else { continue };
            let Some(rate) = pace.rate().filter(|_| *index != own) else { continue };
            share.rate += rate;
            share.backlog += pace.backlog();
            share.best = share.best.max(rate);
        }
        share
    }

    /// Checks heartbeats, silence and deadlines.
    fn watch(&mut self, now: Instant) -> Result<(), ExecError> {
        for (peer, streams) in self.streams.iter_mut().enumerate() {
            if self.flow.lines[peer].left {
                continue;
            }
            for stream in streams {
                if now.since(stream.spoke) >= self.settings.heartbeat {
                    stream.ping = true;
                    self.quiet[peer] = false;
                }
                if now.since(stream.heard) >= self.settings.silence {
                    let limit = self.settings.silence;
                    return Err(ExecError::Silent { rank: peer as u32, limit });
                }
            }
        }
        let seconds = self.settings.deadline.as_ps() / 1_000_000_000_000;
        if let Some((operation, run)) = self.flow.late(now) {
            let waiting = run.waiting();
            return Err(ExecError::Deadline { operation, seconds, waiting });
        }
        let late = self.waiting.iter().find(|it| now.since(it.1.since) >= self.settings.deadline);
        if let Some((number, _)) = late {
            let missing = self.missing(*number);
            return Err(ExecError::Unregistered {
                rank: missing as u32,
                operation: *number,
                seconds,
            });
        }
        Ok(())
    }

    /// A rank that has left without making registration `number`, which this rank has made and waits for.
    fn left_without(&self, number: u32) -> Option<u32> {
        let waits = self.waiting.contains_key(&number);
        let lacks =
            |it: &usize| self.flow.lines[*it].left && !self.theirs[*it].contains_key(&number);
        (0..self.theirs.len()).filter(|_| waits).find(lacks).map(|it| it as u32)
    }

    /// The first rank that has not made registration `number`.
    fn missing(&self, number: u32) -> usize {
        let others = (0..self.theirs.len()).filter(|it| *it != self.rank as usize);
        others.into_iter().find(|it| !self.theirs[*it].contains_key(&number)).unwrap_or(0)
    }

    /// Handles a frame that is not about a call.
    fn read(&mut self, from: u32, header: &Header, payload: &[u8]) -> Result<(), ExecError> {
        let broken =
            || ExecError::Protocol { rank: from, why: format!("a broken {:?} frame", header.kind) };
        match header.kind {
            Kind::Register => {
                let registration = Registration::decode(payload).map_err(|_| broken())?;
                let theirs = &mut self.theirs[from as usize];
                let ahead = theirs.len() >= MAX_REGISTRATIONS_AHEAD;
                if ahead || theirs.insert(header.operation, registration).is_some() {
                    return Err(broken());
                }
                self.compare(header.operation);
                Ok(())
            }
            Kind::Abort => {
                // What stands in for bytes that are no UTF-8 is longer than they are, and the text is passed on to all others.
                let why = String::from_utf8_lossy(payload);
                let why = beginning(&why, MAX_REASON).to_owned();
                let culprit = (header.offset < NOBODY).then_some(header.offset as u32);
                Err(ExecError::Told { teller: from, culprit, why })
            }
            Kind::Bye => self.bye(from, header),
            _ => Err(broken()),
        }
    }

    /// A rank leaves, or (if `offset` is 1) confirms that all Byes of this rank have come. A rank that leaves sends
    /// one on every stream, behind all data there; this rank confirms when the last is in, and only then may the other close.
    fn bye(&mut self, from: u32, header: &Header) -> Result<(), ExecError> {
        let peer = from as usize;
        let due = match header.offset {
            0 => self.byes[peer] < self.streams[peer].len(),
            1 => self.leaving && !self.known[peer],
            _ => false,
        };
        if !due {
            let why = "a farewell that was not due".to_owned();
            return Err(ExecError::Protocol { rank: from, why });
        }
        if header.offset == 1 {
            self.known[peer] = true;
            return Ok(());
        }
        self.byes[peer] += 1;
        if self.byes[peer] < self.streams[peer].len() {
            return Ok(());
        }
        let line = &mut self.flow.lines[peer];
        line.controls.push_back((Header { offset: 1, ..Header::new(Kind::Bye) }, Vec::new()));
        line.left = true;
        self.health.leave(from);
        let lacks = self.flow.is_missing_in(peer);
        // What it registered and called before it left still counts.
        let theirs = &self.theirs[peer];
        if lacks || self.waiting.keys().any(|it| !theirs.contains_key(it)) {
            return Err(ExecError::Lost { rank: from, why: "it has left the group".to_owned() });
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) {
        let now = self.clock.now();
        // Nothing begins any more while the group is being left, or its last frames would not be the last.
        let over = self.failed.clone().or_else(|| self.leaving.then_some(ExecError::Left));
        match (command, over) {
            (Command::Register { reply, .. }, Some(error)) => {
                // Nobody may be waiting any more.
                let _ = reply.send(Err(error));
            }
            (Command::Start { memory, reply, .. }, Some(error)) => {
                let _ = reply.send(Outcome { memory, result: Err(error) });
            }
            (Command::Register { registration, reply }, None) => {
                let operation = self.registrations;
                self.registrations += 1;
                let header = Header { operation, ..Header::new(Kind::Register) };
                self.flow.tell_all(header, &registration.encode());
                let waiting = Waiting { own: registration, reply, since: now };
                self.waiting.insert(operation, waiting);
                self.compare(operation);
                if let Some(rank) = self.left_without(operation) {
                    let why = "it has left the group".to_owned();
                    self.fail(ExecError::Lost { rank, why });
                }
            }
            (Command::Start { registered, memory, reply }, None) => {
                let run = Run::new(registered, memory, reply, now + self.settings.deadline);
                if let Err(error) = self.flow.start(run) {
                    self.fail(error);
                }
            }
            // Whoever shares the group may have been first.
            (Command::Leave, _) if self.leaving => {}
            (Command::Leave, failed) => {
                self.leaving = true;
                if failed.is_none() && !self.flow.has_calls() && self.waiting.is_empty() {
                    self.streams.iter_mut().flatten().for_each(|it| it.bye = true);
                    self.quiet.fill(false);
                    self.closing = Some(now + self.settings.silence);
                } else if failed.is_none() {
                    self.fail(ExecError::Left);
                }
            }
        }
    }

    /// Once all ranks have made registration `number`: compares their digests, and answers the caller who waits for it.
    fn compare(&mut self, number: u32) {
        let others: Vec<usize> =
            (0..self.theirs.len()).filter(|it| *it != self.rank as usize).collect();
        let all = others.iter().all(|it| self.theirs[*it].contains_key(&number));
        if !all || !self.waiting.contains_key(&number) {
            return;
        }
        let Some(Waiting { own, reply, .. }) = self.waiting.remove(&number) else { return };
        let mut all = Vec::new();
        let mut result = Ok(());
        for rank in 0..self.theirs.len() {
            let theirs = self.theirs[rank].remove(&number).unwrap_or_else(|| own.clone());
            if theirs.digest != own.digest && result.is_ok() {
                result = Err(ExecError::Mismatch {
                    rank: rank as u32,
                    theirs: theirs.title.clone(),
                    ours: own.title.clone(),
                });
            }
            all.push(theirs);
        }
        // Nobody may be waiting any more.
        let _ = reply.send(result.map(|()| all));
    }

    /// Ends all calls and registrations with an error, and sends the reason to all ranks that are still there.
    fn fail(&mut self, error: ExecError) {
        if self.failed.is_some() {
            return;
        }
        // Before anybody hears of it, so that whoever does finds it noticed.
        self.health.fail(&error);
        self.flow.fail(&error);
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            let _ = waiting.reply.send(Err(error.clone()));
        }
        // Who was told tells the others too: our connections are about to close, and a rank that the
        // first teller has not reached by then would take us for the one at fault.
        // A rank that gives up for a reason of its own is the one that is gone. When a call or a registration took too long, nobody
        // is: each rank still answers, and there is none to leave out.
        let own = || (!error.is_too_late()).then_some(self.rank);
        let culprit = match &error {
            ExecError::Told { culprit, .. } => *culprit,
            error => error.culprit().or_else(own),
        };
        let offset = culprit.map_or(NOBODY, u64::from);
        let why = match &error {
            ExecError::Told { why, .. } => why.clone(),
            error => error.to_string(),
        };
        let why = beginning(&why, MAX_REASON);
        self.flow.tell_all(Header { offset, ..Header::new(Kind::Abort) }, why.as_bytes());
        self.failed = Some(error);
        let now = self.clock.now();
        self.closing = Some(now + LINGER);
        self.flush(now);
    }

    /// Sends the last frames of a group that has failed, and closes its streams a little later: a rank
    /// that saw them close first would take us for the one at fault.
    fn flush(&mut self, now: Instant) {
        for stream in self.streams.iter_mut().filter_map(|it| it.first_mut()) {
            // It is the end either way.
            let _ = stream.send(&mut self.flow, Takes::Controls, TURN, now);
        }
        if self.closing.is_some_and(|it| now >= it) {
            self.streams.iter_mut().for_each(Vec::clear);
        }
    }

    /// When leaving in order: whether every other rank has all that we sent.
    fn has_left(&self) -> bool {
        let gone = |peer: usize| {
            let streams = &self.streams[peer];
            self.known[peer] || streams.iter().any(|it| it.ended) || streams.is_empty()
        };
        self.failed.is_none() && (0..self.streams.len()).all(gone)
    }
}

#[cfg(test)]
mod tests;
