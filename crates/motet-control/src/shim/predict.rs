//! [`Predictor`]: what a job does next, from what it did before.
//!
//! Training repeats itself, but nothing marks where an iteration begins. So the predictor looks for the earlier place in the
//! history of calls that is most like the present: the one preceded by the longest run of the same calls (longest suffix match). The
//! call that followed there is predicted. Layers and micro-batches repeat within an iteration too, so a short match could
//! confuse them; the longest one tells them apart as soon as they differ.
//!
//! Where a rank uses two streams, the order of its calls depends on which got circuits first, and so on the predictions
//! themselves: acting on an order that was seen only once may bring about a different one. So the predictor also
//! says whether its prediction at that place was right [the last time](Predictor::is_sure).

use std::collections::BTreeMap;

use super::Call;
use crate::protocol::GroupId;

/// The most calls that are kept: enough for several iterations of a large job.
const MOST: usize = 1 << 16;
/// Matches are compared up to this length, which is enough to tell places apart.
const LONGEST: usize = 1 << 12;
/// The most candidate places that are compared, the latest first.
const PLACES: usize = 64;
/// A match shorter than this predicts nothing.
const LEAST: usize = 2;

/// Predicts a rank's next call from its history.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    seen: Vec<Call>,
    /// For each call in `seen`, whether it had been predicted.
    expected: Vec<bool>,
    /// The positions in `seen` of each distinct call.
    places: BTreeMap<Call, Vec<usize>>,
    /// The position in `seen` of the call that is predicted to come next.
    at: Option<usize>,
}

impl Predictor {
    /// The predicted next call, if a long enough match was found.
    #[must_use]
    pub fn next(&self) -> Option<Call> {
        self.seen.get(self.at?).copied()
    }

    /// Whether the prediction has already come true once: the call that is predicted now had also been predicted when it came
    /// at the matching place. An order that was seen only once may be chance; one that has repeated is the job's own.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.at.and_then(|at| self.expected.get(at)).copied().unwrap_or(false)
    }

    /// How many of the predicted calls in a row are of `group` before one of another group. `None` if there is no prediction; a number
    /// larger than any job has calls if no other group follows.
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

    /// The position that follows the longest match with the end of the history.
    fn find(&self) -> Option<usize> {
        let last = self.seen.last()?;
        let before = self.places.get(last)?.iter().rev().skip(1).take(PLACES);
        let runs = before.map(|place| (self.run(*place), *place));
        // Of equally long matches, take the latest. `max_by_key` returns the last of equals, so the candidates are reversed.
        let runs: Vec<(usize, usize)> = runs.collect();
        let best = runs.into_iter().rev().max_by_key(|it| it.0)?;
        (best.0 >= LEAST).then_some(best.1 + 1)
    }

    /// The length of the match: how many calls ending with the one at `place` equal those at the end of the history.
    fn run(&self, place: usize) -> usize {
        let end = self.seen.len();
        let most = (place + 1).min(LONGEST);
        (0..most).take_while(|it| self.seen[place - it] == self.seen[end - 1 - it]).count()
    }

    /// Drops the older half of the history.
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

    /// How many calls of the last iterations were not predicted.
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
