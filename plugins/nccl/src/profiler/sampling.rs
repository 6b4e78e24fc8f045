//! Which groups of calls are profiled: one in `MOTET_PROFILE_EVERY`.
//!
//! Not every n-th: a training step repeats itself, and the same few layers would be seen for ever. The multiples of the
//! golden ratio, modulo 1, are spread evenly over every residue; a group is profiled if its multiple is below 1/n.
//!
//! NCCL's mask of events is one number for the process. Between samples only groups are reported, which costs one
//! call of ours per group; that call counts, and switches the mask for the next group.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};

/// `ncclProfile…` bits.
pub(super) const GROUP: c_int = 1;
pub(super) const COLLECTIVE: c_int = 2;
pub(super) const CHANNEL: c_int = 64;
pub(super) const GROUP_API: c_int = 256;

/// What is profiled when no one says otherwise: on the safe side of one percent in NCCL 2.31, where a profiled call
/// of 128 KiB to 4 MiB took 4 to 13 percent longer (NVIDIA/nccl issue 2355).
const DEFAULT_EVERY: u64 = 16;

static MASK: AtomicPtr<c_int> = AtomicPtr::new(std::ptr::null_mut());
static IDLE: AtomicI32 = AtomicI32::new(0);
static EVERY: AtomicU64 = AtomicU64::new(DEFAULT_EVERY);
static GROUPS: AtomicU64 = AtomicU64::new(0);
static PAUSED: AtomicBool = AtomicBool::new(false);

/// `MOTET_PROFILE_EVERY`: 1 for every group, 0 for none.
pub(super) fn every() -> Result<u64, String> {
    match std::env::var("MOTET_PROFILE_EVERY") {
        Err(_) => Ok(DEFAULT_EVERY),
        Ok(text) => text.trim().parse().map_err(|_| {
            format!("MOTET_PROFILE_EVERY={text} is not a number; every {DEFAULT_EVERY}th group is profiled")
        }),
    }
}

/// Begins to sample: the first group is profiled. `group` is the event that this NCCL has for groups.
pub(super) fn begin(mask: &mut c_int, every: u64, group: c_int) {
    let idle = if every == 0 { 0 } else { group };
    EVERY.store(every.max(1), Relaxed);
    IDLE.store(idle, Relaxed);
    *mask = if every == 0 { 0 } else { full(idle) };
    MASK.store(mask, Relaxed);
}

const fn full(idle: c_int) -> c_int {
    idle | COLLECTIVE | CHANNEL
}

/// A group of calls begins; its mask was read before. The next one's is set here.
pub(super) fn group() {
    let every = EVERY.load(Relaxed);
    if every <= 1 {
        return;
    }
    let next = GROUPS.fetch_add(1, Relaxed) + 1;
    let idle = IDLE.load(Relaxed);
    let wanted = if is_sampled(next, every) { full(idle) } else { idle };
    set(idle, wanted);
}

/// Reports nothing at all meanwhile, or goes on.
pub(crate) fn pause(paused: bool) {
    if PAUSED.swap(paused, Relaxed) == paused {
        return;
    }
    let (idle, every) = (IDLE.load(Relaxed), EVERY.load(Relaxed));
    let usual = if every <= 1 { full(idle) } else { idle };
    let wanted = if paused { 0 } else { usual };
    if let Some(mask) = mask().filter(|it| !paused || is_ours(it.load(Relaxed), idle)) {
        mask.store(wanted, Relaxed);
    }
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

/// Whether a mask is one that we have set while nothing was paused.
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
            group();
        }
        assert!((9..=12).contains(&profiled), "{profiled}");
        pause(true);
        assert_eq!(now(), 0, "paused");
        pause(true);
        pause(false);
        assert_eq!(now(), GROUP_API, "groups are reported again");
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            mask.write(8);
        }
        group();
        assert_eq!(now(), 8, "an operator's mask stays");
        MASK.store(std::ptr::null_mut(), Relaxed);
    }
}
