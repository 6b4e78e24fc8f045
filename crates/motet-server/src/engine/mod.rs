//! [`Engine`]: the one thread that owns the controller.
//!
//! It takes all messages from the inbox, lets the controller handle them, writes the resulting events to the
//! store in one batch, and only then carries out the controller's outputs. So one write to disk serves all
//! messages that came in during the previous write (*group commit*), and nothing is carried out that is not
//! in the store.
//!
//! If the store fails, the engine holds what it was about to do and tries again until the store works: nothing is granted
//! meanwhile, and nothing is taken away.
//!
//! - `inbox`: the engine's message queue;
//! - `seats`: which member uses which connection, and which jobs have been abandoned;
//! - `timers`: the timers that the controller has set.

mod inbox;
mod seats;
mod timers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use motet_control::controller::{Order, RegisterError};
use motet_control::journal::Event;
use motet_control::protocol::{JobId, Notice, Reply, Report, Stance, Word};
use motet_control::{Controller, Input, Output, SwitchId, Timer};
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tracing::{debug, error, info, warn};

pub use inbox::{Ago, ConnectionId, Inbox, JoinError, Message, Sight, Told};
pub use seats::{Limits, Presence};

use crate::metrics::Metrics;
use crate::record::{Entry, Record, Service};
use crate::store::{Batch, Saved, Store};
use crate::timeline::{History, Moment, Seen, Traffic};
use seats::Seats;
use timers::Timers;

/// About how many reports are handled before the store is written, so that a client with many reports does
/// not delay others for longer.
const MOST: usize = 4096;
/// When nothing has happened for this long, records that are only in the log are synced to the disk.
const FLUSH: Duration = Duration::from_millis(500);
/// How often jobs without connected members are checked.
const LOOK: Duration = Duration::from_secs(1);

/// Milliseconds since 1970, for the journal only.
pub type Wall = Box<dyn Fn() -> u64 + Send>;

/// The engine's health, shared with the HTTP handlers that report it.
#[derive(Debug, Default)]
pub struct Health {
    /// Whether the store has failed and not worked since.
    pub store_failing: AtomicBool,
    pub stopping: AtomicBool,
}

/// The parts from which an engine is built.
pub struct Parts {
    pub policy: motet_control::controller::Policy,
    /// The switches with their numbers of ports, and the channels for their orders.
    pub switches: Vec<(SwitchId, u32, mpsc::UnboundedSender<Order>)>,
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub wall: Wall,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The engine.
pub struct Engine {
    controller: Controller,
    store: Arc<dyn Store>,
    inbox: Receiver<Message>,
    /// Messages of clients that were not handled yet. Everything else is handled before them, because answers
    /// of switches and timers must not wait for clients that send many reports.
    said: VecDeque<Said>,
    /// The channels for the switches' orders.
    lines: BTreeMap<SwitchId, mpsc::UnboundedSender<Order>>,
    seats: Seats,
    timers: Timers,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    wall: Wall,
    /// The number of the journal's next record.
    next: u64,
    after: After,
    /// The clients that wait for an answer to their registration, in the order in which they asked, because
    /// two clients may try to register different jobs under one number.
    registering: BTreeMap<JobId, VecDeque<oneshot::Sender<Result<(), RegisterError>>>>,
    /// When members began to ask for circuits, to measure how long they wait.
    asking: FxHashMap<(JobId, u32, u32), Instant>,
    /// When records were last written that may not have reached the disk.
    unflushed: Option<Instant>,
    /// When it was last checked for abandoned jobs.
    looked: Instant,
    /// What jobs did, for the dashboard; times count from the engine's start.
    history: History,
    began: Instant,
    /// When the present messages were taken from the inbox.
    now: Instant,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A message of a client that waits to be handled.
enum Said {
    Reports(ConnectionId, Vec<Told>, OwnedSemaphorePermit),
    /// The connection has ended. This is in the same queue as reports, because reports sent before the end
    /// still count.
    Gone(ConnectionId),
}

/// The outputs to carry out once the batch is written.
#[derive(Default)]
struct After {
    batch: Batch,
    notices: Vec<Notice>,
    orders: Vec<(SwitchId, Order)>,
    /// Timers, which start only when they are carried out, so that a switch is not late if a slow store has
    /// delayed its order.
    timers: Vec<(Timer, Duration)>,
    registered: Vec<(JobId, Result<(), RegisterError>)>,
    left: Vec<oneshot::Sender<()>>,
    /// The permits of reports that were handled.
    permits: Vec<OwnedSemaphorePermit>,
}

impl Engine {
    /// An engine that continues from the state in the store, and its inbox. Nothing happens before
    /// [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn new(parts: Parts) -> Result<(Self, Inbox), crate::store::StoreError> {
        let Saved { jobs, next, change, unfinished } = parts.store.load()?;
        let switches: Vec<(SwitchId, u32)> = parts.switches.iter().map(|it| (it.0, it.1)).collect();
        let (mut controller, out) = Controller::new(parts.policy, &switches, &jobs);
        controller.number_changes_from(change);
        let (inbox, receiver) = inbox::channel();
        let now = Instant::now();
        let mut engine = Self {
            controller,
            store: parts.store,
            inbox: receiver,
            said: VecDeque::new(),
            lines: parts.switches.into_iter().map(|it| (it.0, it.2)).collect(),
            seats: Seats::new(parts.limits),
            timers: Timers::default(),
            metrics: parts.metrics,
            health: parts.health,
            wall: parts.wall,
            next,
            after: After::default(),
            registering: BTreeMap::new(),
            asking: FxHashMap::default(),
            unflushed: None,
            looked: now,
            history: History::default(),
            began: now,
            now,
        };
        for job in &jobs {
            engine.seats.expect(job, true, now);
        }
        engine.metrics.jobs.set(i64::try_from(jobs.len()).unwrap_or(i64::MAX));
        let (version, jobs) = (env!("CARGO_PKG_VERSION").to_owned(), jobs.len() as u64);
        engine.write(Entry::Service(Service::Started { version, jobs, unfinished }));
        engine.after.batch.durable = true;
        engine.take(out);
        Ok((engine, inbox))
    }

    /// Runs until it is told to stop, all senders are gone, or another controller has taken its place.
    pub fn run(mut self) {
        if !self.settle() {
            return;
        }
        loop {
            let (messages, open) = self.receive();
            let now = Instant::now();
            self.now = now;
            let mut stop = None;
            for message in messages {
                if let Message::Stop(done) = message {
                    stop = Some(done);
                } else {
                    self.handle(message, now);
                }
            }
            self.hear(now);
            for timer in self.timers.due(now) {
                if self.controller.minds(&timer) {
                    let out = self.controller.handle(Input::Timer(timer));
                    self.take(out);
                }
            }
            self.look_for_the_lost(now);
            if stop.is_some() || !open {
                self.write(Entry::Service(Service::Stopped));
                self.after.batch.durable = true;
            }
            if !self.settle() {
                return;
            }
            if let Some(done) = stop {
                // The client that asked for the stop may be gone.
                let _ = done.send(());
                return;
            }
            if !open {
                return;
            }
        }
    }

    /// Waits until there is something to do, and returns all messages. The second value is `false` if no
    /// sender is left.
    fn receive(&mut self) -> (Vec<Message>, bool) {
        let now = Instant::now();
        let mut until = if self.said.is_empty() { self.looked + LOOK } else { now };
        if let Some(written) = self.unflushed {
            until = until.min(written + FLUSH);
        }
        if let Some(timer) = self.timers.next() {
            until = until.min(timer);
        }
        let wait = until.saturating_duration_since(now);
        let mut messages = Vec::new();
        let first = match self.inbox.recv_timeout(wait) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => {
                // It was quiet for long enough, not just until the next timer: sync records to the disk that
                // were not yet.
                let long = self.unflushed.is_some_and(|it| it.elapsed() >= FLUSH);
                self.after.batch.durable |= long && self.said.is_empty();
                None
            }
            Err(RecvTimeoutError::Disconnected) => return (messages, false),
        };
        for message in first.into_iter().chain(self.inbox.try_iter()) {
            match message {
                Message::Reports(id, reports, permit) => {
                    self.said.push_back(Said::Reports(id, reports, permit));
                }
                Message::Gone(id) => self.said.push_back(Said::Gone(id)),
                other => messages.push(other),
            }
        }
        (messages, true)
    }

    /// Handles messages of clients, about [`MOST`] reports at a time.
    fn hear(&mut self, now: Instant) {
        let mut count = 0;
        while count < MOST
            && let Some(said) = self.said.pop_front()
        {
            let (id, reports, permit) = match said {
                Said::Reports(id, reports, permit) => (id, reports, permit),
                Said::Gone(id) => {
                    self.seats.gone(id, now);
                    self.metrics.members.set(self.seats.joined());
                    continue;
                }
            };
            count += reports.len();
            for told in reports {
                let report = told.report;
                if self.seats.speaks(id, report.job, report.member) {
                    self.report(told, now);
                } else {
                    self.turn_away(id, &report, now);
                    break;
                }
            }
            self.after.permits.push(permit);
        }
        self.metrics.reports.inc_by(count as u64);
    }

    fn handle(&mut self, message: Message, now: Instant) {
        match message {
            Message::Register(it, reply) => {
                self.registering.entry(it.job).or_default().push_back(reply);
                let job = it.job;
                let known = self.controller.registration(job).is_some();
                let out = self.controller.handle(Input::Register(it));
                self.take(out);
                if !known && let Some(it) = self.controller.registration(job) {
                    // If the job has left and is registered again in one batch, the store must end up with it
                    // registered.
                    self.after.batch.remove.retain(|it| *it != job);
                    self.after.batch.put.push(it.clone());
                    self.seats.expect(it, false, now);
                }
            }
            Message::Leave(job, reply) => {
                self.leave(job);
                self.after.left.push(reply);
            }
            Message::Connect(id, sender, open) => self.seats.connect(id, sender, open),
            Message::Join { connection, seats, tenant, reply } => {
                let result = self.seats.join(&self.controller, connection, &seats, tenant);
                self.metrics.members.set(self.seats.joined());
                let _ = reply.send(result);
            }
            Message::Switch(switch, answer) => {
                let out = self.controller.handle(Input::Switch(switch, answer));
                self.take(out);
            }
            Message::Look(look) => {
                let (controller, history, seats) = (&self.controller, &self.history, &self.seats);
                look(&Sight { controller, history, seats, now: self.moment(now) });
            }
            // These were handled where the inbox was read.
            Message::Reports(..) | Message::Gone(_) | Message::Stop(_) => {}
        }
    }

    /// A report came on a connection that its member no longer uses. The connection is closed: a member that
    /// is meant to be here connects again, and registers its job if that has ended meanwhile.
    fn turn_away(&mut self, id: ConnectionId, report: &Report, now: Instant) {
        if !self.seats.gone(id, now) {
            // The connection was closed before, and this report was sent until then.
            return;
        }
        let (job, member) = (report.job, report.member);
        self.metrics.refuse("not_joined");
        self.metrics.members.set(self.seats.joined());
        warn!(connection = id.0, %job, %member, "refused: the member does not speak here any more");
    }

    fn report(&mut self, told: Told, now: Instant) {
        let report = told.report;
        let key = (report.job, report.group.0, report.member.0);
        match report.stance {
            Stance::Asking { .. } => {
                self.asking.entry(key).or_insert(now);
            }
            Stance::Away | Stance::Holding => {
                self.asking.remove(&key);
            }
        }
        if self.controller.is_news(&report) {
            self.note(told, now);
        }
        let out = self.controller.handle(Input::Report(report));
        self.take(out);
    }

    fn moment(&self, at: Instant) -> Moment {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    /// Records a report in the history for the dashboard.
    fn note(&mut self, Told { report, traffic }: Told, now: Instant) {
        let at = self.moment(now);
        if let Some(ago) = traffic {
            let began_us = at.saturating_sub(ago.began);
            let ended_us = at.saturating_sub(ago.ended).max(began_us);
            self.history.traffic(report.job, report.group, Traffic { began_us, ended_us });
        }
        let asks = matches!(report.stance, Stance::Asking { .. });
        let sends = report.stance == Stance::Holding || report.begun > report.ended;
        let seat = (report.job, report.group, report.member);
        self.history.member(at, seat, Seen { asks, sends }, false);
    }

    fn leave(&mut self, job: JobId) {
        if self.controller.registration(job).is_some() {
            self.after.batch.remove.push(job);
            // If the job was registered and has left in one batch, the store must end up without it.
            self.after.batch.put.retain(|it| it.job != job);
        }
        self.seats.forget(job);
        self.asking.retain(|it, _| it.0 != job);
        let out = self.controller.handle(Input::Leave(job));
        self.take(out);
        self.history.forget(job);
    }

    /// Ends jobs whose members have been disconnected for too long.
    fn look_for_the_lost(&mut self, now: Instant) {
        if now.duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        for job in self.seats.abandoned(now) {
            warn!(%job, "members are gone for too long; the job counts as ended");
            self.write(Entry::Service(Service::Abandoned { job }));
            self.leave(job);
        }
    }

    /// Collects the controller's outputs, to be carried out when the batch is written.
    fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Registered(job, result) => self.after.registered.push((job, result)),
                Output::Notice(it) => self.after.notices.push(it),
                Output::Order(switch, order) => self.after.orders.push((switch, order)),
                Output::Timer(timer, after) => {
                    let after = Duration::from_nanos(after.as_ps().div_ceil(1000));
                    self.after.timers.push((timer, after));
                }
                Output::Journal(event) => {
                    self.after.batch.durable |= must_survive(&event);
                    self.metrics.count(&event);
                    self.history.event(self.moment(self.now), &event);
                    self.write(Entry::Controller(event));
                }
            }
        }
    }

    fn write(&mut self, entry: Entry) {
        match &entry {
            Entry::Controller(Event::Granted { .. }) => debug!(number = self.next, "{entry}"),
            Entry::Controller(Event::Failed { .. } | Event::SwitchLost { .. }) => {
                warn!(number = self.next, "{entry}");
            }
            Entry::Controller(
                Event::Begun { .. } | Event::Committed { .. } | Event::Done { .. },
            ) => debug!(number = self.next, "{entry}"),
            _ => info!(number = self.next, "{entry}"),
        }
        let record = Record { number: self.next, time: (self.wall)(), entry };
        self.next += 1;
        self.after.batch.records.push(record);
    }

    /// Writes the batch and carries out the outputs. Returns `false` if the batch cannot be written any more, and the engine must end.
    fn settle(&mut self) -> bool {
        let after = std::mem::take(&mut self.after);
        if !after.batch.is_empty() {
            if !self.commit(&after.batch) {
                return false;
            }
            self.unflushed = (!after.batch.durable).then(Instant::now);
        }
        for (job, result) in after.registered {
            let Some(waiting) = self.registering.get_mut(&job) else { continue };
            if let Some(reply) = waiting.pop_front() {
                let _ = reply.send(result);
            }
            if waiting.is_empty() {
                self.registering.remove(&job);
            }
        }
        for reply in after.left {
            let _ = reply.send(());
        }
        for (switch, order) in after.orders {
            if let Some(line) = self.lines.get(&switch) {
                // The channel is open as long as the service runs.
                let _ = line.send(order);
            }
        }
        let now = Instant::now();
        for (timer, time) in after.timers {
            self.timers.add(now + time, timer);
        }
        for notice in &after.notices {
            if let Word::Reply { reply, .. } = notice.what {
                let key = (notice.job, notice.group.0, notice.member.0);
                if let Some(since) = self.asking.remove(&key) {
                    let waited = now.duration_since(since);
                    self.metrics.asked.observe(waited.as_secs_f64());
                    self.history.waited(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
                }
                // The member may have given up its request since; then it does not hold the circuits now.
                let (job, group, member) = (notice.job, notice.group, notice.member);
                if matches!(reply, Reply::Refuse(_)) || self.controller.may_send(job, group, member)
                {
                    self.history.answered(self.moment(now), (job, group, member), reply);
                }
            }
            self.metrics.word(notice.what);
        }
        for slow in self.seats.tell(after.notices) {
            self.metrics.slow_readers.inc();
            warn!(
                connection = slow.0,
                "a client does not read what it is told; its connection is closed"
            );
            self.seats.gone(slow, now);
        }
        drop(after.permits);
        let (queued, changing) = self.controller.pending();
        self.metrics.queue.set(i64::try_from(queued).unwrap_or(i64::MAX));
        self.metrics.changing.set(i64::try_from(changing).unwrap_or(i64::MAX));
        true
    }

    /// Writes a batch, trying again until it succeeds. Returns `false` if it never will, or if the service is
    /// told to stop meanwhile.
    fn commit(&mut self, batch: &Batch) -> bool {
        let mut pause = Duration::from_millis(10);
        loop {
            let began = Instant::now();
            match self.store.commit(batch) {
                Ok(()) => {
                    self.metrics.committed.observe(began.elapsed().as_secs_f64());
                    if self.health.store_failing.swap(false, Ordering::Relaxed) {
                        info!("the store works again");
                    }
                    return true;
                }
                Err(problem) => {
                    self.metrics.store_failures.inc();
                    if !self.health.store_failing.swap(true, Ordering::Relaxed) {
                        error!("{problem}; nothing is granted until it works");
                    }
                    if problem.lost {
                        error!("{problem}");
                        return false;
                    }
                    if self.health.stopping.load(Ordering::Relaxed) {
                        error!("stops without having written {} records", batch.records.len());
                        return false;
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
            }
        }
    }
}

/// Whether an event must be on the disk before anything follows from it. That is so for registrations,
/// because clients rely on them. Changes of circuits need to survive this process only: if the machine
/// crashes, the switches say what has become of them, and the last second of the journal may be missing.
const fn must_survive(event: &Event) -> bool {
    matches!(event, Event::Registered { .. } | Event::Left { .. })
}
