//! Grid search: every point at full length, one communicator after the other. It always finds the best;
//! what other methods cost is stated as a share of what it costs.

use super::{Ledger, Strategy};
use crate::profile::Request;
use crate::space::Space;

pub(super) struct Grid {
    most: u32,
    /// Groups that are still to come, the next one last.
    groups: Vec<u32>,
}

impl Grid {
    pub(super) fn new(space: &Space, most: u32) -> Self {
        let mut groups: Vec<u32> = (0..space.len()).map(|it| space.group(it)).collect();
        groups.sort_unstable_by(|a, b| b.cmp(a));
        groups.dedup();
        Self { most, groups }
    }
}

impl Strategy for Grid {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        let Some(group) = self.groups.pop() else { return Vec::new() };
        let points = (0..space.len()).filter(|it| space.group(*it) == group);
        points.map(|it| ledger.more(it, self.most)).collect()
    }
}
