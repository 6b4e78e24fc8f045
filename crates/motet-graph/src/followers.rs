//! [`Followers`]: who waits for whom, and an order in which all can happen.

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
    }
}
