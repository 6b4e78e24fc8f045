//! [`Slot`]: one collective that is under way.
//!
//! Several of NCCL's threads touch a slot. What they must agree on is one word: which use of the slot it is, whether
//! the collective has been enqueued, how many channels its kernel has, have started and have stopped. Every change
//! is a compare-and-swap that fails if the slot is in another use by then, and the one that completes the word is
//! who reports the collective.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use motet_runtime::{Algorithm, Collective, Protocol, Source};

/// What is known of a collective when it is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enqueued {
    pub(crate) sequence: u64,
    pub(crate) collective: Collective,
    pub(crate) bytes: u64,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) channels: u8,
    /// How many operations the communicator's tuner had begun then, modulo 2³²; 0 if that is not known.
    pub(crate) position: u32,
}

/// A collective that is done, with what was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) context: u16,
    /// Which communicator of the context it was.
    pub(crate) incarnation: u32,
    pub(crate) enqueued: Enqueued,
    /// How many channels of its kernel were seen to stop.
    pub(crate) finished: u8,
    pub(crate) source: Source,
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
}

/// The word: bit 0 in use, 1 enqueued, bytes 1 to 3 channels expected, started, stopped; upper half the use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

const IN_USE: u64 = 1;
const STOPPED: u64 = 1 << 1;

impl State {
    const fn reuse(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn channels(self, byte: u32) -> u8 {
        (self.0 >> (8 * byte)) as u8
    }

    const fn expected(self) -> u8 {
        self.channels(1)
    }

    const fn started(self) -> u8 {
        self.channels(2)
    }

    const fn done(self) -> u8 {
        self.channels(3)
    }

    const fn one_more(self, byte: u32) -> Self {
        if self.channels(byte) == u8::MAX { self } else { Self(self.0 + (1 << (8 * byte))) }
    }

    /// Whether nothing more is to come: NCCL has said how many channels there are, and as many have stopped.
    const fn is_complete(self) -> bool {
        let known = self.expected() != 0 && self.done() >= self.expected();
        self.0 & STOPPED != 0 && known
    }

    /// Whether nothing is under way, though channels may be missing.
    const fn is_quiet(self) -> bool {
        self.0 & STOPPED != 0 && self.done() > 0 && self.started() == self.done()
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    state: AtomicU64,
    first_start: AtomicU64,
    last_stop: AtomicU64,
    /// Not 0 if one of the two times is of the host's clock.
    host_clock: AtomicU64,
    sequence: AtomicU64,
    bytes: AtomicU64,
    /// Collective, algorithm + 1, protocol + 1, channels: a byte each; then the position.
    about: AtomicU64,
    /// The state that the worker saw when it last looked.
    looked_at: AtomicU64,
}

impl Default for Slot {
    fn default() -> Self {
        let [state, first_start, last_stop, host_clock, sequence, bytes, about, looked_at] =
            [const { AtomicU64::new(0) }; 8];
        Self { state, first_start, last_stop, host_clock, sequence, bytes, about, looked_at }
    }
}

/// When something happened, and by which clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) ns: u64,
    pub(super) by_host: bool,
}

impl Slot {
    /// Puts a collective into the slot, whatever was in it. Returns the number of this use, and whether a collective was lost.
    pub(super) fn put(&self, it: &Enqueued) -> (u32, bool) {
        let old = State(self.state.load(Relaxed));
        let reuse = old.reuse().wrapping_add(1);
        // From here on, handles of what was in it are ignored.
        self.state.store(u64::from(reuse) << 32, Relaxed);
        self.first_start.store(u64::MAX, Relaxed);
        self.last_stop.store(0, Relaxed);
        self.host_clock.store(0, Relaxed);
        self.sequence.store(it.sequence, Relaxed);
        self.bytes.store(it.bytes, Relaxed);
        let algorithm = it.algorithm.map_or(0, |it| it.index() as u64 + 1);
        let protocol = it.protocol.map_or(0, |it| it.index() as u64 + 1);
        let about = it.collective.index() as u64
            | algorithm << 8
            | protocol << 16
            | u64::from(it.channels) << 24
            | u64::from(it.position) << 32;
        self.about.store(about, Relaxed);
        let state = u64::from(reuse) << 32 | u64::from(it.channels) << 8 | IN_USE;
        self.state.store(state, std::sync::atomic::Ordering::Release);
        (reuse, old.0 & IN_USE != 0)
    }

    /// Changes the state of a use; `None` if it is over.
    fn change(&self, reuse: u32, change: impl Fn(State) -> State) -> Option<State> {
        let step = |word: u64| {
            let state = State(word);
            (state.reuse() == reuse && word & IN_USE != 0).then(|| change(state).0)
        };
        let before = self.state.fetch_update(AcqRel, Acquire, step).ok()?;
        Some(change(State(before)))
    }

    /// Whether the slot is still in this use.
    pub(super) fn is(&self, reuse: u32) -> bool {
        let state = State(self.state.load(Acquire));
        state.reuse() == reuse && state.0 & IN_USE != 0
    }

    /// The collective's own event has stopped: its kernel is enqueued.
    pub(super) fn enqueued(&self, reuse: u32) -> Option<Done> {
        self.completed(self.change(reuse, |it| State(it.0 | STOPPED))?)
    }

    /// A channel starts; `when` is `None` if NCCL has no time for it. False if the slot is in another use by now.
    pub(super) fn started(&self, reuse: u32, when: Option<When>) -> bool {
        if !self.is(reuse) {
            return false;
        }
        // Before it is counted, so that who completes the word sees it. That the slot is taken over in between needs
        // 256 collectives to be enqueued meanwhile.
        if let Some(when) = when {
            self.first_start.fetch_min(when.ns, Relaxed);
            self.host_clock.fetch_or(u64::from(when.by_host), Relaxed);
        }
        self.change(reuse, |it| it.one_more(2)).is_some()
    }

    /// Notes when a channel stopped. It counts as stopped only with [`stopped`](Self::stopped).
    pub(super) fn stop_at(&self, reuse: u32, when: When) {
        if self.is(reuse) {
            self.last_stop.fetch_max(when.ns, Relaxed);
            self.host_clock.fetch_or(u64::from(when.by_host), Relaxed);
        }
    }

    /// A channel has stopped.
    pub(super) fn stopped(&self, reuse: u32) -> Option<Done> {
        self.completed(self.change(reuse, |it| it.one_more(3))?)
    }

    fn completed(&self, state: State) -> Option<Done> {
        if state.is_complete() { self.take(state) } else { None }
    }

    /// Ends the use if the state is still the same. So of several threads that see it complete only one gets the collective.
    fn take(&self, state: State) -> Option<Done> {
        let (first, last) = (self.first_start.load(Relaxed), self.last_stop.load(Relaxed));
        let by_host = self.host_clock.load(Relaxed) != 0;
        let (sequence, bytes) = (self.sequence.load(Relaxed), self.bytes.load(Relaxed));
        let about = self.about.load(Relaxed);
        let over = u64::from(state.reuse()) << 32;
        self.state.compare_exchange(state.0, over, AcqRel, Relaxed).ok()?;
        // Written by `put` from these types.
        let byte = |it: u32| (about >> (8 * it)) as u8;
        let named = |it: u8| usize::from(it).checked_sub(1);
        let enqueued = Enqueued {
            sequence,
            collective: *Collective::ALL.get(usize::from(byte(0)))?,
            bytes,
            algorithm: named(byte(1)).and_then(|it| Algorithm::ALL.get(it).copied()),
            protocol: named(byte(2)).and_then(|it| Protocol::ALL.get(it).copied()),
            channels: byte(3),
            position: (about >> 32) as u32,
        };
        let timed = first != u64::MAX && last >= first;
        Some(Done {
            enqueued,
            finished: state.done(),
            source: match (timed, by_host) {
                (false, _) => Source::Unknown,
                (true, true) => Source::Host,
                (true, false) => Source::Gpu,
            },
            start_ns: if timed { first } else { 0 },
            duration_ns: if timed { last - first } else { 0 },
        })
    }

    /// Ends the use without times: for versions of NCCL whose kernels have no events.
    pub(super) fn take_untimed(&self, reuse: u32) -> Option<Done> {
        let state = State(self.state.load(Acquire));
        if state.reuse() == reuse && state.0 & IN_USE != 0 { self.take(state) } else { None }
    }

    /// Ends the use if it is quiet and has not changed since the last look: then NCCL has announced channels that it does not report.
    pub(super) fn look(&self) -> Option<Done> {
        let state = State(self.state.load(Acquire));
        let before = self.looked_at.swap(state.0, Relaxed);
        if before == state.0 && state.is_quiet() { self.take(state) } else { None }
    }

    /// The communicator ends. Returns the collective if enough is known of it, and whether one was lost.
    pub(super) fn clear(&self) -> (Option<Done>, bool) {
        let state = State(self.state.load(Acquire));
        if state.0 & IN_USE == 0 {
            return (None, false);
        }
        match self.take(state) {
            Some(done) if state.is_quiet() => (Some(done), false),
            _ => (None, true),
        }
    }
}

/// A [`Finished`] that does not know its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    enqueued: Enqueued,
    finished: u8,
    source: Source,
    start_ns: u64,
    duration_ns: u64,
}

impl Done {
    pub(super) const fn of(self, context: u16, incarnation: u32) -> Finished {
        let Self { enqueued, finished, source, start_ns, duration_ns } = self;
        Finished { context, incarnation, enqueued, finished, source, start_ns, duration_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Enqueued = Enqueued {
        sequence: 7,
        collective: Collective::AllReduce,
        bytes: 1 << 20,
        algorithm: Some(Algorithm::Ring),
        protocol: None,
        channels: 2,
        position: 7,
    };

    const fn gpu(ns: u64) -> When {
        When { ns, by_host: false }
    }

    const fn start(ns: u64) -> Option<When> {
        Some(gpu(ns))
    }

    #[test]
    fn the_last_of_all_events_completes_it_whichever_that_is() {
        let slot = Slot::default();
        // Channels after the collective's own stop, as NCCL has it.
        let (first, lost) = slot.put(&RING);
        assert!(!lost && slot.enqueued(first).is_none());
        for ns in [100, 90] {
            assert!(slot.started(first, start(ns)));
            slot.stop_at(first, gpu(ns + 500));
        }
        assert_eq!(slot.stopped(first), None);
        let done = slot.stopped(first).unwrap();
        assert_eq!((done.start_ns, done.duration_ns, done.finished), (90, 510, 2));
        assert_eq!((done.enqueued, done.source), (RING, Source::Gpu));
        // And before it.
        let (second, lost) = slot.put(&RING);
        assert!(!lost && first != second);
        for _ in 0..2 {
            slot.started(second, start(5));
            slot.stop_at(second, gpu(6));
            assert_eq!(slot.stopped(second), None);
        }
        assert_eq!(slot.enqueued(second).unwrap().duration_ns, 1);
        assert_eq!(slot.enqueued(second), None, "only once");
    }

    #[test]
    fn a_use_that_is_over_is_ignored() {
        let slot = Slot::default();
        let (old, _) = slot.put(&RING);
        slot.started(old, start(1));
        let (new, lost) = slot.put(&RING);
        assert!(lost && !slot.started(old, start(0)));
        slot.stop_at(old, gpu(u64::MAX));
        assert_eq!((slot.stopped(old), slot.enqueued(old)), (None, None));
        slot.started(new, start(10));
        slot.stop_at(new, gpu(30));
        slot.enqueued(new);
        assert_eq!(slot.stopped(new), None);
        assert_eq!((slot.look(), slot.look().unwrap().finished), (None, 1), "one of two channels");
    }

    #[test]
    fn what_is_under_way_is_not_taken_for_done() {
        let slot = Slot::default();
        let (it, _) = slot.put(&RING);
        slot.enqueued(it);
        assert_eq!((slot.look(), slot.look()), (None, None), "nothing has started");
        slot.started(it, start(1));
        assert_eq!((slot.look(), slot.look()), (None, None), "a channel is running");
        assert_eq!(slot.clear(), (None, true));
        assert_eq!(slot.clear(), (None, false));
    }

    #[test]
    fn times_that_make_no_sense_are_none() {
        let slot = Slot::default();
        let (it, _) = slot.put(&Enqueued { channels: 1, ..RING });
        slot.enqueued(it);
        slot.started(it, start(1000));
        slot.stop_at(it, gpu(10));
        let done = slot.stopped(it).unwrap();
        assert_eq!((done.source, done.duration_ns), (Source::Unknown, 0));
    }
}
