//! [`Followers`]: which legs of a plan wait for which.

use super::plan::{ExchangePlan, NONE};

/// Which legs wait for each leg, in compressed rows.
#[derive(Debug)]
pub(super) struct Followers {
    start: Vec<u32>,
    pub(super) legs: Vec<u32>,
}

impl Followers {
    pub(super) fn of(plan: &ExchangePlan) -> Self {
        let mut start = vec![0u32; plan.legs.len() + 1];
        for leg in plan.legs.iter().filter(|it| it.after != NONE) {
            start[leg.after as usize + 1] += 1;
        }
        for leg in 0..plan.legs.len() {
            start[leg + 1] += start[leg];
        }
        let mut next = start.clone();
        let mut legs = vec![0u32; start[plan.legs.len()] as usize];
        for (number, leg) in (0..).zip(&plan.legs).filter(|(_, it)| it.after != NONE) {
            legs[next[leg.after as usize] as usize] = number;
            next[leg.after as usize] += 1;
        }
        Self { start, legs }
    }

    pub(super) fn range(&self, leg: u32) -> std::ops::Range<usize> {
        self.start[leg as usize] as usize..self.start[leg as usize + 1] as usize
    }

    pub(super) fn of_leg(&self, leg: u32) -> &[u32] {
        &self.legs[self.range(leg)]
    }
}
