//! [`Watch`]: how methods notice, in the middle of their work, that they should stop.
//!
//! There are two limits, and they are kept apart because one of them makes results depend on the
//! machine:
//!
//! - **Work** is counted, not timed: scheduling one transfer over one link is one unit, and other
//!   loops charge what takes about as long. The same task with the same work gives the same program on
//!   any machine, so this is the limit that is on by default. Methods ask *before* they begin something
//!   long whether they can still pay for it ([`Watch::affords`]).
//! - **Time** is whatever the caller's clock says. Methods ask it every few thousand turns of their
//!   inner loops ([`Watch::out_of_time`]) and then give up what they are at.
//!
//! Either way a method returns the best that it has, or [`SynthError::OutOfTime`] if it has nothing.
//!
//! [`SynthError::OutOfTime`]: crate::SynthError::OutOfTime

use std::sync::atomic::{AtomicU64, Ordering};

/// An allowance of work, if there is a limit, and what is left of it.
#[derive(Debug, Default)]
pub(crate) struct Work(Option<(u64, AtomicU64)>);

impl Work {
    pub(crate) fn new(units: Option<u64>) -> Self {
        Self(units.map(|it| (it, AtomicU64::new(it))))
    }

    /// How much of it was spent; at most all.
    pub(crate) fn spent(&self) -> u64 {
        self.0.as_ref().map_or(0, |(units, left)| units - left.load(Ordering::Relaxed))
    }

    fn left(&self) -> Option<&AtomicU64> {
        self.0.as_ref().map(|it| &it.1)
    }
}

/// How a method notices that it should stop. The default never says so.
///
/// Work must be charged and asked for by one thread at a time, after parallel parts have joined:
/// otherwise the result would depend on how threads happened to run.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a> {
    clock: Option<&'a (dyn Fn() -> bool + Sync)>,
    work: Option<&'a Work>,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("work", &self.work).finish_non_exhaustive()
    }
}

impl<'a> Watch<'a> {
    pub(crate) const fn new(clock: &'a (dyn Fn() -> bool + Sync), work: &'a Work) -> Self {
        Self { clock: Some(clock), work: Some(work) }
    }

    /// For work that must be done even after the limits are reached: without a clock, and with the least allowance of work.
    #[must_use]
    pub fn in_a_hurry() -> Watch<'static> {
        static NO_WORK: Work = Work(Some((0, AtomicU64::new(0))));
        Watch { clock: None, work: Some(&NO_WORK) }
    }

    /// Whether the caller's clock says that time is up.
    #[must_use]
    pub fn out_of_time(&self) -> bool {
        self.clock.is_some_and(|it| it())
    }

    /// The same for one turn of a tight loop: asks the clock only every few thousand turns.
    #[must_use]
    pub(crate) fn out_of_time_at(&self, turn: usize) -> bool {
        turn.is_multiple_of(4096) && self.out_of_time()
    }

    /// Whether there is time and work left to begin something that costs so much.
    #[must_use]
    pub fn affords(&self, work: u64) -> bool {
        let left = self.work.and_then(Work::left);
        left.is_none_or(|it| it.load(Ordering::Relaxed) >= work) && !self.out_of_time()
    }

    /// Charges work that was done, or is about to be.
    pub fn spend(&self, work: u64) {
        if let Some(left) = self.work.and_then(Work::left) {
            let after = left.load(Ordering::Relaxed).saturating_sub(work);
            left.store(after, Ordering::Relaxed);
        }
    }
}
