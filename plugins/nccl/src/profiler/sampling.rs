//! Which groups of calls are profiled: one in `MOTET_PROFILE_EVERY`.
//!
//! Not every n-th: a training step repeats itself, and the same few layers would be seen for ever. The multiples of the
//! golden ratio, modulo 1, are spread evenly over every residue; a group is profiled if its multiple is below 1/n.
//!
//! NCCL's mask of events is one number for the process. Between samples only groups are reported, which costs one
//! call of ours per group; that call counts, and switches the mask for the next group.
//!
//! **CUDA graphs end the switching.** NCCL counts kernels on the host and on the GPU, to find a kernel's times by its number. A
//! call that is captured unprofiled counts once on the host and at every replay on the GPU (`incWorkCounter` in
//! NCCL's `proxy.cc`, 2.26 to 2.30; not any more in 2.31.2 and 2.32.3): from then on a profiled call looks for its times in the wrong place, may never find
//! them, and the end of the communicator waits for it for ever. Captured calls that are all profiled, or never
//! a profiled call after them, are safe. So the mask stays as it is from the first captured group on ([`group`]).
//!
//! Whether that group was itself profiled is not known when it begins, for another thread may have switched the mask
//! since NCCL read it. But a call that is profiled is reported a second time, by its own event, before NCCL goes on
//! ([`captured_profiled`]): that is the truth, and the mask follows it.
//!
//! Profiling every call of a graph is slow, so it should be rare that a first captured group is a profiled one by chance:
//! one more reason to profile few. NCCL tells of captures since the profiler's version 5; before that, nothing is
//! profiled unless the user says so ([`every`]).

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `ncclProfile…` bits.
pub(super) const GROUP: c_int = 1;
pub(super) const COLLECTIVE: c_int = 2;
pub(super) const CHANNEL: c_int = 64;
pub(super) const GROUP_API: c_int = 256;
pub(super) const COLLECTIVE_API: c_int = 512;
pub(super) const SEND_API: c_int = 1024;

/// One group in so many is profiled where the user says nothing. Where calls are short, a profiled one takes twice as long (128 KiB
/// on four ranks that share an H200: NCCL wakes a thread for it), and one in 64 cost a percent. The cost of one in 256 cannot be told
/// from noise there.
const DEFAULT_EVERY: u64 = 256;

/// NCCL's own mask of events; null until a communicator is profiled.
static MASK: AtomicPtr<c_int> = AtomicPtr::new(std::ptr::null_mut());
/// The mask between samples, with groups of calls only.
static IDLE: AtomicI32 = AtomicI32::new(0);
/// One group in so many is profiled.
static EVERY: AtomicU64 = AtomicU64::new(DEFAULT_EVERY);
static PAUSED: AtomicBool = AtomicBool::new(false);
/// Whoever holds it may set the mask.
static STATE: Mutex<State> = Mutex::new(State { groups: 0, captured: None });

#[derive(Debug)]
struct State {
    groups: u64,
    /// Something was captured: the mask stays.
    captured: Option<Captured>,
}

/// How profiling goes on after calls were captured in a CUDA graph, which ends the sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// Every call is profiled from then on.
    Profiled,
    /// None is.
    Unprofiled,
}

/// How often to profile, and what to tell the user about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// 1 for every group, 0 for none.
    pub(super) every: u64,
    pub(super) warning: Option<String>,
}

/// How often to profile, by the text of `MOTET_PROFILE_EVERY` where it is set. `tells` says whether this NCCL reports captures:
/// only then is anything profiled without being asked for.
pub(super) fn every(said: Option<&str>, tells: bool) -> Wish {
    let usual = if tells { DEFAULT_EVERY } else { 0 };
    let parsed = said.map(|text| text.trim().parse::<u64>());
    let warning = match (&parsed, said) {
        (Some(Err(_)), Some(text)) => Some(format!(
            "MOTET_PROFILE_EVERY={text} is not a number; it is taken as {usual}, as if it were not set"
        )),
        (Some(Ok(2..)), _) if !tells => Some(
            "MOTET_PROFILE_EVERY leaves out calls: with this NCCL, a job that captures them in CUDA graphs may hang \
             when it ends; set it to 1 or 0 then, or use NCCL 2.28 or later"
                .to_owned(),
        ),
        (None, _) if !tells => Some(
            "nothing is profiled, because this NCCL does not tell whether calls are captured in CUDA graphs; set \
             MOTET_PROFILE_EVERY to 256 for a job that captures none, to 1 for one that does, or use NCCL 2.28 or later"
                .to_owned(),
        ),
        _ => None,
    };
    Wish { every: parsed.and_then(Result::ok).unwrap_or(usual), warning }
}

/// Begins to sample: the first group is profiled. `group` is the event that this NCCL has for groups.
pub(super) fn begin(mask: &mut c_int, every: u64, group: c_int) {
    let idle = if every == 0 { 0 } else { group };
    EVERY.store(every.max(1), Relaxed);
    IDLE.store(idle, Relaxed);
    // Kernels are counted by communicator, and those before have all ended.
    state().captured = None;
    *mask = if every == 0 { 0 } else { full(idle) };
    MASK.store(mask, Relaxed);
}

const fn full(idle: c_int) -> c_int {
    idle | COLLECTIVE | CHANNEL
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group of calls begins. NCCL has read the mask for it before, so what is set here is for the next group. Once a group was
/// `captured` in a CUDA graph the mask stays, because all groups that are captured must have the mask of the first.
pub(super) fn group(captured: bool) {
    let (idle, every) = (IDLE.load(Relaxed), EVERY.load(Relaxed));
    if every <= 1 {
        return;
    }
    if captured {
        let mut state = state();
        if state.captured.is_none() {
            state.captured = Some(Captured::Unprofiled);
            set(idle, idle);
        }
    } else if let Ok(mut state) = STATE.try_lock()
        && state.captured.is_none()
        && !PAUSED.load(Relaxed)
    {
        state.groups += 1;
        set(idle, if is_sampled(state.groups, every) { full(idle) } else { idle });
    }
}

/// A call is both captured and profiled, so all calls must be profiled from now on.
pub(super) fn captured_profiled() {
    let idle = IDLE.load(Relaxed);
    if EVERY.load(Relaxed) > 1 {
        let mut state = state();
        state.captured = Some(Captured::Profiled);
        set(idle, full(idle));
    }
}

/// Pauses profiling, or goes on with it. In a pause groups are still reported, so that captures are noticed.
pub(crate) fn pause(paused: bool) {
    if PAUSED.swap(paused, Relaxed) == paused {
        return;
    }
    let state = state();
    if state.captured.is_none() {
        let (idle, every) = (IDLE.load(Relaxed), EVERY.load(Relaxed));
        set(idle, if every <= 1 && !paused { full(idle) } else { idle });
    }
}

/// How profiling goes on since calls were captured; `None` if none were, or if all are profiled because the user wants it.
pub(crate) fn captured() -> Option<Captured> {
    state().captured
}

const fn is_sampled(group: u64, every: u64) -> bool {
    // 2⁶⁴ over the golden ratio, made odd.
    group.wrapping_mul(0x9e37_79b9_7f4a_7c15) < u64::MAX / every
}

/// Sets the mask, unless someone else has: since 2.31 an operator can, for the whole job.
fn set(idle: c_int, wanted: c_int) {
    let Some(mask) = mask() else { return };
    let now = mask.load(Relaxed);
    if now != wanted && is_ours(now, idle) {
        mask.store(wanted, Relaxed);
    }
}

/// Whether a mask is one that we have set.
const fn is_ours(mask: c_int, idle: c_int) -> bool {
    mask == idle || mask == full(idle)
}

#[allow(unsafe_code, reason = "the mask is NCCL's")]
fn mask() -> Option<&'static AtomicI32> {
    let mask = MASK.load(Relaxed);
    if mask.is_null() {
        return None;
    }
    // SAFETY: a static of NCCL, which reads it atomically and is loaded, as it is calling us.
    Some(unsafe { AtomicI32::from_ptr(mask) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_loop_is_profiled_as_often() {
        for (every, period) in [(16, 16), (16, 48), (10, 7), (64, 12)] {
            let mut seen = vec![0u64; period];
            let turns = 2000 * every as usize;
            (0..turns)
                .filter(|it| is_sampled(*it as u64, every))
                .for_each(|it| seen[it % period] += 1);
            let expected = turns as u64 / every / period as u64;
            let near = |it: &u64| it.abs_diff(expected) * 5 <= expected;
            assert!(seen.iter().all(near), "1 in {every}, {period} calls a step: {seen:?}");
        }
        assert!(is_sampled(0, 16), "the first");
    }

    /// The one test of what is static: they would disturb each other.
    #[test]
    fn one_group_in_so_many_is_profiled() {
        let mut mask = 0;
        begin(&mut mask, 4, GROUP_API);
        let mask: *mut c_int = &raw mut mask;
        let now = || {
            let mask = MASK.load(Relaxed);
            #[allow(unsafe_code, reason = "the variable above")]
            // SAFETY: it lives to the end of the test.
            unsafe {
                mask.read()
            }
        };
        assert_eq!(mask, MASK.load(Relaxed));
        let mut profiled = 0;
        for _ in 0..40 {
            profiled += i32::from(now() == GROUP_API | COLLECTIVE | CHANNEL);
            assert!(now() & GROUP_API != 0, "groups are always counted");
            group(false);
        }
        assert!((9..=12).contains(&profiled), "{profiled}");
        pause(true);
        (0..40).for_each(|_| {
            assert_eq!(now(), GROUP_API, "paused");
            group(false);
        });
        pause(true);
        pause(false);
        let wait = || {
            while now() == GROUP_API {
                group(false);
            }
        };
        assert_eq!(captured(), None);
        wait();
        // As if another thread had switched the mask after NCCL had read it for this group.
        group(true);
        (0..40).for_each(|_| group(false));
        assert_eq!((now(), captured()), (GROUP_API, Some(Captured::Unprofiled)));

        state().captured = None;
        wait();
        group(true);
        captured_profiled();
        pause(true);
        (0..40).for_each(|_| group(false));
        pause(false);
        assert_eq!(now(), full(GROUP_API), "as the first captured group");
        assert_eq!(captured(), Some(Captured::Profiled));
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            mask.write(8);
        }
        state().captured = None;
        group(false);
        assert_eq!(now(), 8, "an operator's mask stays");
        MASK.store(std::ptr::null_mut(), Relaxed);
    }

    #[test]
    fn nothing_is_profiled_unasked_where_captures_are_not_told() {
        let of = |said, tells| every(said, tells).every;
        assert_eq!((of(None, true), of(None, false)), (256, 0));
        assert_eq!((of(Some("4"), true), of(Some(" 4"), false), of(Some("0"), false)), (4, 4, 0));
        assert_eq!((of(Some("x"), true), of(Some("x"), false)), (256, 0));
        let warns = |said, tells| every(said, tells).warning.is_some();
        assert!(warns(Some("x"), true) && warns(Some("4"), false) && warns(None, false));
        assert!(!warns(Some("4"), true) && !warns(Some("1"), false) && !warns(None, true));
    }
}
