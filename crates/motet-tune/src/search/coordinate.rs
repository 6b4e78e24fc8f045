//! Coordinate descent, AutoCCL's way: every combination of categorical values is a subspace of
//! its own, in which one ordinal knob after the other goes up or down as long as that helps.
//!
//! It relies on times that have a single minimum along every knob. All subspaces take their steps
//! at the same time; every point is run at full length.

use std::collections::BTreeMap;

use super::{Ledger, Strategy};
use crate::profile::Request;
use crate::space::{Kind, Space};

/// The descent in one subspace.
struct Descent {
    at: usize,
    /// Which ordinal dimension is tried, and how many in a row have brought no gain.
    tried: usize,
    without_gain: usize,
}

pub(super) struct Coordinate {
    most: u32,
    ordinal: Vec<usize>,
    descents: Vec<Descent>,
}

impl Coordinate {
    pub(super) fn new(space: &Space, most: u32) -> Self {
        let is_ordinal = |it: &usize| matches!(space.dimensions()[*it].kind, Kind::Ordinal { .. });
        let (ordinal, categorical): (Vec<usize>, Vec<usize>) =
            (0..space.dimensions().len()).partition(is_ordinal);
        let mut subspaces: BTreeMap<Vec<u16>, Vec<usize>> = BTreeMap::new();
        for number in 0..space.len() {
            let point = space.point(number);
            let key = categorical.iter().map(|it| point[*it]).collect();
            subspaces.entry(key).or_default().push(number);
        }
        let start = |points: &Vec<usize>| middle(space, points, &ordinal);
        let descents =
            subspaces.values().map(|it| Descent { at: start(it), tried: 0, without_gain: 0 });
        Self { most, descents: descents.collect(), ordinal }
    }

    /// The points one step up and down along the dimension that is tried.
    fn neighbours(&self, space: &Space, descent: &Descent) -> Vec<usize> {
        let Some(dimension) = self.ordinal.get(descent.tried).copied() else { return Vec::new() };
        let step = |by: i32| {
            let mut point = space.point(descent.at).to_vec();
            point[dimension] = u16::try_from(i32::from(point[dimension]) + by).ok()?;
            space.number(&point)
        };
        [step(-1), step(1)].into_iter().flatten().collect()
    }
}

/// The point nearest to the middle of all ordinal dimensions, where a descent starts.
fn middle(space: &Space, points: &[usize], ordinal: &[usize]) -> usize {
    let off = |number: &usize| -> usize {
        let point = space.point(*number);
        let off = |it: &usize| {
            let values = space.dimensions()[*it].values();
            (usize::from(point[*it]) * 2).abs_diff(values) * 1000 / values.max(1)
        };
        ordinal.iter().map(off).sum()
    };
    points.iter().copied().min_by_key(|it| (off(it), *it)).unwrap_or(0)
}

impl Strategy for Coordinate {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        let mut requests = Vec::new();
        let mean = |it: usize| ledger.record(it).mean().unwrap_or(f64::INFINITY);
        for index in 0..self.descents.len() {
            let at = self.descents[index].at;
            if let Some(request) = ledger.up_to(at, self.most) {
                requests.push(request);
                continue;
            }
            while self.descents[index].without_gain < self.ordinal.len() {
                let neighbours = self.neighbours(space, &self.descents[index]);
                let missing = neighbours.iter().filter_map(|it| ledger.up_to(*it, self.most));
                let before = requests.len();
                requests.extend(missing);
                if requests.len() > before {
                    break;
                }
                let best = neighbours.into_iter().min_by(|a, b| mean(*a).total_cmp(&mean(*b)));
                let descent = &mut self.descents[index];
                match best {
                    Some(best) if mean(best) < mean(descent.at) => {
                        descent.at = best;
                        descent.without_gain = 0;
                    }
                    _ => {
                        descent.tried = (descent.tried + 1) % self.ordinal.len();
                        descent.without_gain += 1;
                    }
                }
            }
        }
        requests
    }
}
