//! [`Predictor`]: what a job does next, from what it did before.
//!
//! Training repeats itself, but nobody says where an iteration begins. So the predictor looks for the place in what it
//! has seen that is most like the present: the one with the longest run of equal calls before it. What came then
//! comes next. Within an iteration layers and micro-batches repeat, too, and a short run would mistake one for
//! another; the longest one tells them apart as soon as they differ.
//!
//! What a rank does on two streams at once comes in an order that depends on who had circuits when, and so on what was
//! foreseen: whoever acts on an order that was seen once only may well bring about another one, which is then seen once. So
//! the predictor also says whether it was right at that place [the last time](Predictor::is_sure).

use std::collections::BTreeMap;

use super::Call;
use crate::protocol::GroupId;

/// Calls that are remembered: several iterations of a large job, and little memory.
const MOST: usize = 1 << 16;
/// So many equal calls are enough to tell places apart; more are not compared.
const LONGEST: usize = 1 << 12;
/// Places that are compared at most, the latest first.
const PLACES: usize = 64;
/// Fewer equal calls than that say nothing.
const LEAST: usize = 2;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    seen: Vec<Call>,
    /// Whether each of them came as expected.
    expected: Vec<bool>,
    /// Where each call was seen.
    places: BTreeMap<Call, Vec<usize>>,
    /// The place in `seen` that is expected to be repeated next.
    at: Option<usize>,
}

impl Predictor {
    /// The call that is expected next, if anything like the present was seen before.
    #[must_use]
    pub fn next(&self) -> Option<Call> {
        self.seen.get(self.at?).copied()
    }

    /// Whether the call that is expected next was expected, too, when it came at that place before. An order that has come once is no more than one that is
    /// possible; one that has come again is what the job does.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.at.and_then(|at| self.expected.get(at)).copied().unwrap_or(false)
    }

    /// How many of the calls that are expected next are of that group, before one of another. `None` if nothing is expected; more than
    /// there ever are if no other group is.
    #[must_use]
    pub fn run_of(&self, group: GroupId) -> Option<u32> {
        let rest = self.seen.get(self.at?..)?;
        let run = rest.iter().take(LONGEST).position(|it| it.group != group);
        Some(run.map_or(u32::MAX, |it| u32::try_from(it).unwrap_or(u32::MAX)))
    }

    /// The job has made a call.
    pub fn saw(&mut self, call: Call) {
        let hit = self.next() == Some(call);
        if self.seen.len() >= MOST {
            self.forget();
        }
        self.seen.push(call);
        self.expected.push(hit);
        self.places.entry(call).or_default().push(self.seen.len() - 1);
        self.at = match self.at {
            Some(at) if hit => Some(at + 1),
            _ => self.find(),
        };
    }

    /// The place after the longest run that equals the end of what was seen.
    fn find(&self) -> Option<usize> {
        let last = self.seen.last()?;
        let before = self.places.get(last)?.iter().rev().skip(1).take(PLACES);
        let runs = before.map(|place| (self.run(*place), *place));
        // Of equally long runs the latest: `max_by_key` takes the last of equals, so the order is turned round.
        let runs: Vec<(usize, usize)> = runs.collect();
        let best = runs.into_iter().rev().max_by_key(|it| it.0)?;
        (best.0 >= LEAST).then_some(best.1 + 1)
    }

    /// How many calls before `place`, itself included, equal those at the end.
    fn run(&self, place: usize) -> usize {
        let end = self.seen.len();
        let most = (place + 1).min(LONGEST);
        (0..most).take_while(|it| self.seen[place - it] == self.seen[end - 1 - it]).count()
    }

    /// Drops the older half.
    fn forget(&mut self) {
        let dropped = self.seen.len() / 2;
        self.seen.drain(..dropped);
        self.expected.drain(..dropped);
        self.places.clear();
        for (place, call) in self.seen.iter().enumerate() {
            self.places.entry(*call).or_default().push(place);
        }
        self.at = self.at.and_then(|it| it.checked_sub(dropped));
    }
}

#[cfg(test)]
mod tests {
    use motet_runtime::Collective;
    use motet_units::Bytes;

    use super::*;

    fn call(group: u32) -> Call {
        Call { group: GroupId(group), collective: Collective::AllReduce, bytes: Bytes::new(1) }
    }

    /// How many of the calls of the last iterations were not foreseen.
    fn misses(iteration: &[u32], times: usize, last: usize) -> usize {
        let mut predictor = Predictor::default();
        let mut missed = 0;
        for number in 0..times {
            for it in iteration {
                if number >= times - last && predictor.next() != Some(call(*it)) {
                    missed += 1;
                }
                predictor.saw(call(*it));
            }
        }
        missed
    }

    #[test]
    fn an_iteration_with_repeats_inside_is_foreseen() {
        // Twelve layers twice, of which only what follows tells one time from the other.
        let mut iteration = vec![0; 12];
        iteration.push(1);
        iteration.extend([0; 12]);
        iteration.push(2);
        assert_eq!(misses(&iteration, 12, 4), 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_dropped_is_not_missed() {
        let iteration: Vec<u32> = (0..3000).map(|it| it % 7 + it / 100).collect();
        assert_eq!(misses(&iteration, 60, 2), 0);
    }

    #[test]
    fn what_has_come_twice_is_sure() {
        let mut predictor = Predictor::default();
        let mut sure = Vec::new();
        for it in [0, 1, 2].into_iter().cycle().take(15) {
            sure.push(predictor.is_sure());
            predictor.saw(call(it));
        }
        // The second iteration is the first that can be expected, and the third the first that has been.
        assert_eq!(sure.iter().position(|it| *it), Some(8), "{sure:?}");
        assert!(sure.iter().skip(8).all(|it| *it));
        // Another order is not, until it has come twice.
        for it in [1, 0, 2, 1, 0] {
            predictor.saw(call(it));
        }
        assert!(predictor.next() == Some(call(2)) && !predictor.is_sure());
    }

    #[test]
    fn nothing_is_foreseen_before_anything_repeats() {
        let mut predictor = Predictor::default();
        for it in 0..10 {
            predictor.saw(call(it));
            assert_eq!(predictor.next(), None);
        }
    }
}
