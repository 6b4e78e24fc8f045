//! [`Lowering::best`]: into how many slices to cut.
//!
//! Scheduling is most of the work, so few numbers are tried: one and a few, then the number that
//! should be enough if time goes as a + b ÷ slices, then more while that gains, and then fewer if all
//! of them leave links idle.

use motet_collective::Collective;

use super::{Lowered, Lowering, Order, Trees};
use crate::schedule::Schedule;
use crate::task::SynthError;

/// How many slices are tried after one.
const FEW: u32 = 4;

/// How far above the least time the number of slices is chosen for.
const MARGIN: f64 = 0.006;

/// More slices must gain one part in so many: twice the transfers for less is no bargain.
const GAIN: u64 = 1000;

impl Lowering<'_> {
    /// The program with as many slices as help, and at most `most_transfers`: from how long it
    /// takes with one and with a few follows how many should do.
    pub fn best(&self, most_transfers: u64) -> Result<Lowered, SynthError> {
        let mut trial = Trial { lowering: self, most_transfers, best: None, order: self.order };
        let Some(one) = trial.with(1)? else { return self.with_slices(1) };
        let few = if one.is_full { None } else { trial.with(FEW)? };
        if let Some(few) = few.as_ref().filter(|it| !it.is_full) {
            if few.is_better {
                trial.with_more(enough(&one, few))?;
                trial.with_fewer()?;
            } else {
                trial.with(FEW / 2)?;
            }
        }
        if matches!(self.trees, Trees::Both(_)) {
            trial.in_the_other_order()?;
        }
        match trial.best {
            Some((collective, schedule, slices)) => Ok(self.emit(collective, &schedule, slices)),
            None => self.with_slices(1),
        }
    }
}

/// What a number of slices came to.
struct Tried {
    makespan: u64,
    busiest: u64,
    is_full: bool,
    /// Whether it gains enough on the best before it.
    is_better: bool,
}

/// Numbers of slices that were tried, and the best of them.
struct Trial<'a, 'b> {
    lowering: &'b Lowering<'a>,
    most_transfers: u64,
    best: Option<(Collective, Schedule, u32)>,
    order: Order,
}

impl Trial<'_, '_> {
    /// Tries as many slices; `None` if they would be too many.
    fn with(&mut self, slices: u32) -> Result<Option<Tried>, SynthError> {
        let lowering = self.lowering;
        let even = lowering.task.even && slices > 0;
        let slices = if even { 1 << slices.ilog2() } else { slices };
        let fits = lowering.transfers(slices) <= self.most_transfers && lowering.fits(slices);
        if slices > 1 && !fits {
            return Ok(None);
        }
        let collective = lowering.collective(slices)?;
        let schedule = lowering.schedule(&collective, slices, self.order);
        let makespan = schedule.makespan.as_ps();
        let old = self.best.as_ref().map_or(u64::MAX, |it| it.1.makespan.as_ps());
        let tried = Tried {
            makespan,
            busiest: schedule.busiest.as_ps(),
            is_full: schedule.is_full(),
            is_better: makespan < old - old / GAIN,
        };
        if tried.is_better {
            self.best = Some((collective, schedule, slices));
        }
        Ok(Some(tried))
    }

    /// Tries as many slices as are best in the other order, then more while that gains.
    fn in_the_other_order(&mut self) -> Result<(), SynthError> {
        let Some((_, schedule, slices)) = &self.best else { return Ok(()) };
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

    /// Tries `slices`, then twice as many and so on while that gains. If already `slices` do not,
    /// time does not go as expected, and the numbers below are tried.
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

    /// Tries the numbers between a few and the best so far, while that is not full: where links are
    /// in each other's way, more slices can be worse.
    fn with_fewer(&mut self) -> Result<(), SynthError> {
        let mut slices = 2 * FEW;
        while self.best.as_ref().is_some_and(|it| slices < it.2 && !it.1.is_full()) {
            self.with(slices)?;
            slices *= 2;
        }
        Ok(())
    }

    /// The most slices that are within the limits.
    fn most_slices(&self) -> u32 {
        let fits = |slices: u32| {
            self.lowering.transfers(slices) <= self.most_transfers && self.lowering.fits(slices)
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

/// How many slices should be enough, if time goes as a + b ÷ slices.
fn enough(one: &Tried, few: &Tried) -> u32 {
    let per_slice = (one.makespan - few.makespan) as f64 / (1.0 - 1.0 / f64::from(FEW));
    let least = one.makespan as f64 - per_slice;
    let goal = least.max(few.busiest as f64) * (1.0 + MARGIN);
    let slices = (per_slice / (goal - least)).ceil().max(f64::from(2 * FEW)) as u32;
    // Rounded up to few bits, so that sizes with many factors two stay even.
    let step = 1 << slices.ilog2().saturating_sub(3);
    slices.checked_next_multiple_of(step).unwrap_or(slices)
}
