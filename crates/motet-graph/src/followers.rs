//! [`Followers`]: who waits for whom, and an order in which all can happen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::rows::Rows;

/// Things `0..count` of which some wait for others, seen from what is awaited: for each thing, who
/// may have to be told when it is done.
#[derive(Clone, Debug)]
pub struct Followers {
    rows: Rows,
    /// How many things each one waits for.
    awaited: Vec<u32>,
}

impl Followers {
    /// From pairs of (who waits, what it waits for); a pair that is there twice counts twice.
    pub fn of<I>(count: usize, waits: I) -> Self
    where
        I: IntoIterator<Item = (u32, u32)>,
        I::IntoIter: Clone,
    {
        let waits = waits.into_iter();
        let mut awaited = vec![0u32; count];
        for (waiting, _) in waits.clone() {
            awaited[waiting as usize] += 1;
        }
        let rows = Rows::group(count, waits.map(|(waiting, before)| (before as usize, waiting)));
        Self { rows, awaited }
    }

    /// Who waits for this one.
    #[inline]
    #[must_use]
    pub fn behind(&self, it: u32) -> &[u32] {
        self.rows.row(it as usize)
    }

    /// All who wait, grouped by what they wait for.
    #[must_use]
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// How many things each one waits for.
    #[must_use]
    pub fn awaited(&self) -> &[u32] {
        &self.awaited
    }

    /// Each thing after all that it waits for, first those that wait for nothing, by number. Things
    /// that wait for each other, and all behind them, are left out: the order is shorter than the
    /// number of things exactly if there is a cycle.
    #[must_use]
    pub fn topological(&self) -> Vec<u32> {
        let mut left = self.awaited.clone();
        let mut order: Vec<u32> = Vec::with_capacity(left.len());
        order.extend((0..left.len() as u32).filter(|it| left[*it as usize] == 0));
        let mut next = 0;
        while let Some(done) = order.get(next).copied() {
            next += 1;
            for follower in self.behind(done) {
                left[*follower as usize] -= 1;
                if left[*follower as usize] == 0 {
                    order.push(*follower);
                }
            }
        }
        order
    }

    /// The same, but of the things that can be next it is always the one with the lowest place. Places are numbers
    /// `0..count`, each of one thing: `place` gives that of a thing, and `at` the thing there.
    ///
    /// Where none can be next and some are left, they wait for each other. Then `stuck` is asked which of them goes
    /// all the same, and told of any thing whether it is in the order already; if it names none, the order ends.
    #[must_use]
    pub fn topological_by(
        &self,
        place: impl Fn(u32) -> u32,
        at: impl Fn(u32) -> u32,
        mut stuck: impl FnMut(&dyn Fn(u32) -> bool) -> Option<u32>,
    ) -> Vec<u32> {
        /// Waits for nothing any more: it is in the order.
        const DONE: u32 = u32::MAX;
        let mut left = self.awaited.clone();
        let mut order: Vec<u32> = Vec::with_capacity(left.len());
        let mut open: BinaryHeap<Reverse<u32>> = (0..left.len() as u32)
            .filter(|it| left[*it as usize] == 0)
            .map(|it| Reverse(place(it)))
            .collect();
        while order.len() < left.len() {
            let next = match open.pop() {
                Some(Reverse(place)) => Some(at(place)),
                None => stuck(&|it| left[it as usize] == DONE),
            };
            let Some(next) = next else { break };
            left[next as usize] = DONE;
            order.push(next);
            for follower in self.behind(next) {
                let left = &mut left[*follower as usize];
                if *left == DONE {
                    continue;
                }
                *left -= 1;
                if *left == 0 {
                    open.push(Reverse(place(*follower)));
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn orders_all_but_cycles(waits in prop::collection::vec((0u32..9, 0u32..9), 0..16)) {
            let order = Followers::of(9, waits.iter().copied()).topological();
            let place = |it: u32| order.iter().position(|other| *other == it);
            for it in 0..9 {
                let mut before = waits.iter().filter(|(waiting, _)| *waiting == it);
                // In the order exactly if all that is awaited is, earlier.
                let can = before.all(|(_, before)| place(*before).is_some_and(|at| {
                    place(it).is_none_or(|own| at < own)
                }));
                prop_assert_eq!(place(it).is_some(), can);
            }
        }

        #[test]
        fn the_lowest_place_goes_first_and_whoever_is_named_where_all_wait(
            waits in prop::collection::vec((0u32..9, 0u32..9), 0..16),
            at in Just((0u32..9).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let followers = Followers::of(9, waits.iter().copied());
            let place = |it: u32| at.iter().position(|other| *other == it).unwrap() as u32;
            let thing = |place: u32| at[place as usize];
            let first = |left: &dyn Fn(u32) -> bool| at.iter().copied().find(|it| left(*it));
            // By looking through all that are left at every step.
            let (mut expected, mut until_stuck) = (Vec::new(), None);
            while expected.len() < 9 {
                let is_left = |it: u32| !expected.contains(&it);
                let waits_for = |it: u32| waits.iter().any(|(waiting, before)| *waiting == it && is_left(*before));
                let next = first(&|it| is_left(it) && !waits_for(it));
                if next.is_none() {
                    until_stuck.get_or_insert(expected.len());
                }
                expected.push(next.or_else(|| first(&is_left)).unwrap());
            }
            let all = followers.topological_by(place, thing, |is_done| first(&|it| !is_done(it)));
            prop_assert_eq!(&all, &expected);
            let some = followers.topological_by(place, thing, |_| None);
            prop_assert_eq!(some.as_slice(), &expected[..until_stuck.unwrap_or(9)]);
        }
    }
}
