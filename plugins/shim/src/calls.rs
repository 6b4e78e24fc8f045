//! A call as it passes through: which flags are put on its stream before and after it.
//!
//! Calls between `ncclGroupStart` and `ncclGroupEnd` start together at the group's end, so what belongs before and after them is put there.
//! Those of one communicator and stream, or messages with one partner, count as one call.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use motet_control::GroupId;
use motet_runtime::Collective;
use motet_units::Bytes;

use crate::abi::{Comm, DataType, Status, Stream, element};
use crate::flags::Slot;
use crate::log;
use crate::state::State;
use crate::worker::{Handed, Ticket};

/// A call as the job makes it.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub(crate) collective: Collective,
    /// Elements, as the function counts them.
    pub(crate) count: usize,
    /// Whether `count` is one rank's part of the data, and not all of it.
    pub(crate) per_rank: bool,
    pub(crate) kind: DataType,
    /// The other end of a message.
    pub(crate) peer: Option<c_int>,
    pub(crate) comm: Comm,
    pub(crate) stream: Stream,
}

/// A call with all that is known of it.
#[derive(Clone, Copy, PartialEq)]
struct Known {
    communicator: u32,
    group: Option<GroupId>,
    collective: Collective,
    bytes: u64,
    stream: Stream,
}

/// A call whose flags were put on its stream.
struct Begun {
    slot: Slot,
    stream: Stream,
}

thread_local! {
    /// How many groups this thread has begun and not ended.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static GROUPED: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
    /// Whether NCCL is working on a call that was passed on: some of its functions call others, which must not count again.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Nothing of ours may break a job: what panics is left undone.
fn guarded<T: Default>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_default()
}

/// Passes something on to NCCL.
pub(crate) fn pass(forward: impl FnOnce() -> Status) -> Status {
    let was = INSIDE.replace(true);
    let status = forward();
    INSIDE.set(was);
    status
}

/// Whether the job itself calls, and not NCCL; and whether it does so outside of groups.
pub(crate) fn is_outermost() -> bool {
    !INSIDE.get() && DEPTH.get() == 0
}

/// Passes a collective or a message on to NCCL, with the flags before and after it.
pub(crate) fn call(called: Called, forward: impl FnOnce() -> Status) -> Status {
    if INSIDE.get() {
        return forward();
    }
    let known = guarded(|| known(&called));
    if DEPTH.get() > 0 {
        if let Some(known) = known {
            guarded(|| GROUPED.with_borrow_mut(|it| join(it, known)));
        }
        return pass(forward);
    }
    let begun = guarded(|| known.map_or_else(Vec::new, |it| begin(&[it])));
    let status = pass(forward);
    guarded(|| end(&begun));
    status
}

pub(crate) fn group_start(forward: impl FnOnce() -> Status) -> Status {
    if !INSIDE.get() {
        DEPTH.set(DEPTH.get() + 1);
    }
    pass(forward)
}

pub(crate) fn group_end(forward: impl FnOnce() -> Status) -> Status {
    if INSIDE.get() {
        return forward();
    }
    DEPTH.set(DEPTH.get().saturating_sub(1));
    if DEPTH.get() > 0 {
        return pass(forward);
    }
    let begun = guarded(|| begin(&GROUPED.take()));
    let status = pass(forward);
    guarded(|| end(&begun));
    status
}

fn known(called: &Called) -> Option<Known> {
    let state = State::get()?;
    let about = state.about(called.comm)?;
    let ranks = if called.per_rank { about.size } else { 1 };
    let bytes = (called.count as u64).saturating_mul(element(called.kind)).saturating_mul(ranks);
    Some(Known {
        communicator: about.number,
        group: state.group(&about, called.peer),
        collective: called.collective,
        bytes,
        stream: called.stream,
    })
}

/// Adds a call to those of an NCCL group, which start together. Those of one communicator, group of ranks and stream become one.
fn join(all: &mut Vec<Known>, known: Known) {
    let same = |it: &&mut Known| {
        (it.communicator, it.group, it.stream) == (known.communicator, known.group, known.stream)
    };
    match all.iter_mut().find(same) {
        Some(it) => it.bytes = it.bytes.saturating_add(known.bytes),
        None => all.push(known),
    }
}

fn begin(all: &[Known]) -> Vec<Begun> {
    let Some(state) = State::get() else { return Vec::new() };
    let shared = &state.shared;
    let mut begun = Vec::new();
    for known in all {
        // A graph runs again and again with the same words; its calls pass.
        if shared.flags.cuda().is_capturing(known.stream) {
            log::info(|| "a call that is captured in a CUDA graph passes unseen".to_owned());
            continue;
        }
        let Some(slot) = shared.flags.take() else { continue };
        let gated = known.group.is_some() && shared.gates.load(Ordering::Acquire);
        let ticket = Ticket {
            slot,
            stream: known.stream as usize,
            communicator: known.communicator,
            group: known.group,
            collective: known.collective,
            bytes: Bytes::new(known.bytes),
            gated,
        };
        shared.hand(Handed::Ticket(ticket));
        if !shared.flags.begin(slot, known.stream, gated) {
            log::warn("CUDA refuses a stream memory operation; calls pass from now on");
            shared.gates.store(false, Ordering::Release);
        }
        begun.push(Begun { slot, stream: known.stream });
    }
    begun
}

fn end(begun: &[Begun]) {
    let Some(state) = State::get() else { return };
    for it in begun {
        if !state.shared.flags.end(it.slot, it.stream) {
            log::warn("CUDA refuses a stream memory operation; a call will seem not to end");
        }
    }
}
