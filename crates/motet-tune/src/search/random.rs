//! Random search: points at full length in random order, none twice. Ends with the budget or
//! with the space.

use motet_units::{Seed, Stream};
use rand::RngExt;
use rand::seq::SliceRandom;

use super::{Ledger, Strategy};
use crate::profile::Request;
use crate::space::Space;

pub(super) struct Random {
    most: u32,
    /// Points that are still to come, the next one last.
    order: Vec<usize>,
}

impl Random {
    pub(super) fn new(space: &Space, most: u32, seed: Seed) -> Self {
        Self { most, order: shuffled(space, seed) }
    }
}

impl Strategy for Random {
    fn ask(&mut self, _: &Space, ledger: &Ledger) -> Vec<Request> {
        self.order.pop().map(|it| ledger.more(it, self.most)).into_iter().collect()
    }
}

/// All points in random order.
fn shuffled(space: &Space, seed: Seed) -> Vec<usize> {
    let mut order: Vec<usize> = (0..space.len()).collect();
    order.shuffle(&mut seed.stream("random order"));
    order
}

/// `count` different points that have not been profiled, fewer if there are no more.
pub(super) fn draw(
    stream: &mut Stream,
    ledger: &Ledger,
    space: &Space,
    count: usize,
) -> Vec<usize> {
    let mut left: Vec<usize> = (0..space.len()).filter(|it| ledger.is_new(*it)).collect();
    let count = count.min(left.len());
    for at in 0..count {
        let other = stream.random_range(at..left.len());
        left.swap(at, other);
    }
    left.truncate(count);
    left
}
