//! [`Context`]: the collectives of one communicator that are being followed. Contexts are numbered, made when needed and never
//! freed, but used again when their communicator has ended. So an event that comes late finds valid memory, and is ignored.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use motet_runtime::Communicator;

use super::handle::{Handle, Kind};
use super::slot::{Done, Enqueued, Slot, When};
use crate::{registry, worker};

/// The most communicators that are profiled at a time; the number of a context must fit a [`Handle`].
const MOST: usize = 4096;
const SLOTS: usize = 256;

static CONTEXTS: [OnceLock<Context>; MOST] = [const { OnceLock::new() }; MOST];
static LOST: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct Context {
    number: u16,
    in_use: AtomicBool,
    /// How many communicators have used it.
    incarnation: AtomicU32,
    ranks: AtomicU32,
    about: Mutex<Option<Communicator>>,
    /// The slot for the next collective.
    next: AtomicU32,
    slots: Box<[Slot]>,
}

/// How many collectives were lost, so that nothing is known of how they ended.
pub(crate) fn lost() -> u64 {
    LOST.load(Relaxed)
}

pub(crate) fn by_index(number: u16) -> Option<&'static Context> {
    CONTEXTS.get(usize::from(number))?.get()
}

pub(crate) fn all_in_use() -> impl Iterator<Item = &'static Context> {
    // They are made in order, so the first that is not made is the end.
    let made = CONTEXTS.iter().map_while(OnceLock::get);
    made.filter(|it| it.in_use.load(Relaxed))
}

/// A context for a communicator; none if there are too many.
pub(super) fn begin(about: Communicator) -> Option<&'static Context> {
    for (number, place) in CONTEXTS.iter().enumerate() {
        // Below 4096.
        let context = place.get_or_init(|| Context::new(number as u16));
        if context.in_use.compare_exchange(false, true, AcqRel, Relaxed).is_ok() {
            context.incarnation.fetch_add(1, Relaxed);
            context.ranks.store(about.ranks, Relaxed);
            *context.about.lock().unwrap_or_else(PoisonError::into_inner) = Some(about);
            return Some(context);
        }
    }
    None
}

impl Context {
    fn new(number: u16) -> Self {
        Self {
            number,
            in_use: AtomicBool::new(false),
            incarnation: AtomicU32::new(0),
            ranks: AtomicU32::new(0),
            about: Mutex::default(),
            next: AtomicU32::new(0),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
        }
    }

    /// What NCCL holds as the context: its number + 1, which is no address.
    pub(super) fn pack(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(usize::from(self.number) + 1)
    }

    pub(super) fn unpack(pointer: *mut c_void) -> Option<&'static Self> {
        by_index(u16::try_from(pointer.addr().checked_sub(1)?).ok()?)
    }

    pub(super) fn ranks(&self) -> u32 {
        self.ranks.load(Relaxed)
    }

    /// The communicator of a collective, if the context has not been used for another since.
    pub(crate) fn about(&self, incarnation: u32) -> Option<Communicator> {
        let about = self.about.lock().unwrap_or_else(PoisonError::into_inner).clone();
        about.filter(|_| self.incarnation.load(Relaxed) == incarnation)
    }

    /// The id of its communicator, and the rank in that.
    pub(super) fn who(&self) -> Option<(u64, u32)> {
        let about = self.about.lock().unwrap_or_else(PoisonError::into_inner);
        about.as_ref().map(|it| (it.id, it.rank))
    }

    /// How many operations the communicator's tuner has begun, modulo 2³²; 0 if that cannot be said without waiting.
    pub(super) fn position(&self) -> u32 {
        let id = self.about.try_lock().ok().and_then(|it| it.as_ref().map(|it| it.id));
        id.and_then(registry::position).map_or(0, |it| it as u32)
    }

    pub(super) fn enqueue(&self, it: &Enqueued) -> Handle {
        // 256 slots, so the remainder fits.
        let slot = (self.next.fetch_add(1, Relaxed) % SLOTS as u32) as u8;
        let (reuse, lost) = self.slots[usize::from(slot)].put(it);
        LOST.fetch_add(lost.into(), Relaxed);
        Handle { kind: Kind::Collective, context: self.number, slot, reuse }
    }

    pub(super) fn channel_started(&self, collective: Handle, when: Option<When>) -> Option<Handle> {
        let goes_on = self.slot(collective).started(collective.reuse, when);
        goes_on.then_some(Handle { kind: Kind::Channel, ..collective })
    }

    pub(super) fn slot(&self, handle: Handle) -> &Slot {
        &self.slots[usize::from(handle.slot)]
    }

    /// Hands a collective to the worker.
    pub(super) fn finish(&self, done: Option<Done>) {
        let Some(done) = done else { return };
        let sent = worker::send(done.of(self.number, self.incarnation.load(Relaxed)));
        LOST.fetch_add((!sent).into(), Relaxed);
    }

    /// For the worker: finishes collectives of which some channels were never reported, and nothing has happened for a while.
    pub(crate) fn look(&self) {
        self.slots.iter().for_each(|it| self.finish(it.look()));
    }

    pub(super) fn end(&self) {
        for slot in &self.slots {
            let (done, lost) = slot.clear();
            self.finish(done);
            LOST.fetch_add(lost.into(), Relaxed);
        }
    }

    /// Lets another communicator use it from now on.
    pub(super) fn release(&self) {
        self.in_use.store(false, Relaxed);
    }
}
