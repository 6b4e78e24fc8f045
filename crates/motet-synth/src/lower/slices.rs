//! [`Lowering::best`]: into how many slices to cut.
//!
//! Scheduling is most of the work, so few numbers are tried: one slice and four. If time is about
//! a + b ÷ slices, those two tell how many slices should be enough; that number is tried next, then twice as
//! many as long as that helps, and then fewer if links are still idle.

use super::{Lowered, Lowering, Order, Sliced, Trees};
use crate::task::SynthError;

/// How many slices are tried after one.
const FEW: u32 = 4;

/// The number of slices is chosen so that the time is within this share of what infinitely many would take.
const MARGIN: f64 = 0.006;

/// More slices must shorten the program by at least one part in so many to be worth their transfers.
const GAIN: u64 = 1000;

/// The estimate of the time with infinitely many slices is multiplied by this before more slices are given up
/// as hopeless, because it may be too high.
const HOPE: f64 = 0.9;

/// A number of slices is tried only if this many times the work of scheduling it once is left: it is
/// scheduled with and without queues, and other numbers should be tried after it.
const AT_ONCE: u64 = 6;

impl Lowering<'_> {
    /// The fastest program found, of at most `most_transfers` transfers. How long it takes with one slice and
    /// with a few says how many slices should be enough.
    pub fn best(&self, most_transfers: u64) -> Result<Lowered, SynthError> {
        let mut trial = Trial { lowering: self, most_transfers, best: None, order: self.order };
        let Some(one) = trial.with(1)? else { return self.with_slices(1) };
        let few = if one.is_full { None } else { trial.with(FEW)? };
        if let Some(few) = few.as_ref().filter(|it| !it.is_full) {
            if few.is_better && trial.is_hopeless(&one, few) {
                return trial.finish();
            } else if few.is_better {
                trial.with_more(enough(&one, few))?;
                trial.with_fewer()?;
            } else {
                trial.with(FEW / 2)?;
            }
        }
        if matches!(self.trees, Trees::Both(_)) {
            trial.in_the_other_order()?;
        }
        trial.finish()
    }
}

/// The outcome of scheduling with some number of slices.
struct Tried {
    makespan: u64,
    busiest: u64,
    is_full: bool,
    /// Whether it is enough faster ([`GAIN`]) than the best before it.
    is_better: bool,
}

/// Numbers of slices that were tried, and the best of them.
struct Trial<'a, 'b> {
    lowering: &'b Lowering<'a>,
    most_transfers: u64,
    best: Option<Sliced>,
    order: Order,
}

impl Trial<'_, '_> {
    /// The program of the best.
    fn finish(self) -> Result<Lowered, SynthError> {
        match self.best {
            Some(best) => Ok(self.lowering.emit(best)),
            None => self.lowering.with_slices(1),
        }
    }

    /// Whether no number of slices is likely to beat the time that the task asks to beat: if time goes as
    /// a + b ÷ slices, even `a` alone, less what it may be wrong by, is too long.
    fn is_hopeless(&self, one: &Tried, few: &Tried) -> bool {
        let to_beat = self.lowering.task.to_beat.map_or(u64::MAX, motet_units::Duration::as_ps);
        least(one, few) * HOPE >= to_beat as f64
    }

    /// Schedules with this many slices (if the task asks for even parts, rounded down to a power of two);
    /// `None` if they are beyond the limits or more work than the watch allows.
    fn with(&mut self, slices: u32) -> Result<Option<Tried>, SynthError> {
        let lowering = self.lowering;
        let even = lowering.task.even && slices > 0;
        let slices = if even { 1 << slices.ilog2() } else { slices };
        let fits = lowering.transfers(slices) <= self.most_transfers && lowering.fits(slices);
        let affords = || lowering.task.watch.affords(lowering.crossings(slices));
        if slices > 1 && !(fits && affords()) {
            return Ok(None);
        }
        let sliced = match lowering.scheduled(slices, self.order) {
            Err(SynthError::OutOfTime { .. }) if self.best.is_some() => return Ok(None),
            other => other?,
        };
        let schedule = &sliced.schedule;
        let makespan = schedule.makespan.as_ps();
        let old = self.best.as_ref().map_or(u64::MAX, |it| it.schedule.makespan.as_ps());
        let tried = Tried {
            makespan,
            busiest: schedule.busiest.as_ps(),
            is_full: schedule.is_full(),
            is_better: makespan < old - old / GAIN,
        };
        if tried.is_better {
            self.best = Some(sliced);
        }
        Ok(Some(tried))
    }

    /// Tries the best number of slices so far with the other [`Order`], then twice as many and so on while
    /// that gains.
    fn in_the_other_order(&mut self) -> Result<(), SynthError> {
        let Some(Sliced { schedule, slices, .. }) = &self.best else { return Ok(()) };
        if schedule.is_full() {
            return Ok(());
        }
        let mut slices = *slices;
        self.order = Order::Ahead;
        while self.with(slices)?.is_some_and(|it| it.is_better && !it.is_full) {
            slices = slices.saturating_mul(2);
        }
        Ok(())
    }

    /// Tries `slices`, then twice as many and so on while that gains. If `slices` themselves gain nothing, time
    /// does not go as a + b ÷ slices, and the search starts again from a small number.
    fn with_more(&mut self, slices: u32) -> Result<(), SynthError> {
        let mut slices = slices.min(self.most_slices());
        let mut next = self.with(slices)?;
        if next.as_ref().is_some_and(|it| !it.is_better) {
            slices = 2 * FEW;
            next = self.with(slices)?;
        }
        while next.is_some_and(|it| it.is_better && !it.is_full) {
            slices = slices.saturating_mul(2);
            next = self.with(slices)?;
        }
        Ok(())
    }

    /// While the best so far leaves links idle, tries powers of two below its number of slices: where jobs
    /// delay each other on several links, more slices can be worse.
    fn with_fewer(&mut self) -> Result<(), SynthError> {
        let mut slices = 2 * FEW;
        while self.best.as_ref().is_some_and(|it| slices < it.slices && !it.schedule.is_full()) {
            self.with(slices)?;
            slices *= 2;
        }
        Ok(())
    }

    /// The most slices that are within the limits.
    fn most_slices(&self) -> u32 {
        let lowering = self.lowering;
        let fits = |slices: u32| {
            lowering.transfers(slices) <= self.most_transfers
                && lowering.fits(slices)
                && lowering.task.watch.affords(AT_ONCE * lowering.crossings(slices))
        };
        let (mut most, mut step) = (1u32, 1u32 << 30);
        while step > 0 {
            if most.checked_add(step).is_some_and(fits) {
                most += step;
            }
            step /= 2;
        }
        most
    }
}

/// The estimated time with infinitely many slices: `a`, if time goes as a + b ÷ slices.
fn least(one: &Tried, few: &Tried) -> f64 {
    one.makespan as f64 - per_slice(one, few)
}

/// `b`, if time goes as a + b ÷ slices.
fn per_slice(one: &Tried, few: &Tried) -> f64 {
    (one.makespan - few.makespan) as f64 / (1.0 - 1.0 / f64::from(FEW))
}

/// How many slices should be enough, if time goes as a + b ÷ slices.
fn enough(one: &Tried, few: &Tried) -> u32 {
    let (per_slice, least) = (per_slice(one, few), least(one, few));
    let goal = least.max(few.busiest as f64) * (1.0 + MARGIN);
    let slices = (per_slice / (goal - least)).ceil().max(f64::from(2 * FEW)) as u32;
    // Rounded up to few bits, so that sizes with many factors two stay even.
    let step = 1 << slices.ilog2().saturating_sub(3);
    slices.checked_next_multiple_of(step).unwrap_or(slices)
}
