//! PAT, parallel aggregated trees: a binomial tree from every rank, far ranks first.
//!
//! Every rank uses the same tree, shifted by its own number, so that in each step every rank sends
//! to one rank and receives from one: ⌈log₂ n⌉ steps for any number of ranks. Unlike in Bruck's
//! algorithm, the early steps, in which a rank has little to send, go far, and the last go to
//! neighbours; so the long links carry the least. NCCL has used it for AllGather and ReduceScatter
//! since 2.23. The parts of one step are not consecutive in the buffer and are separate transfers;
//! the simulator charges latency for the first only.

use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::ring;
use super::routes::Routes;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// With ranks in the order of a short ring.
pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let rings = ring::rings(task, fabric, 1).map_err(|it| plan::explained(task, it))?;
    let order = rings.into_iter().next().unwrap_or_default();
    plan::lower(task, fabric, |it| forest(task, it, &order))
}

/// With ranks in numeric order.
pub(super) fn as_numbered(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let order: Vec<Rank> = fabric.ranks().collect();
    plan::lower(task, fabric, |it| forest(task, it, &order))
}

/// A single binomial tree from the root, for Broadcast and Reduce.
pub(super) fn binomial(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    make(task, fabric)
}

fn forest(task: &Task<'_>, fabric: &Fabric, order: &[Rank]) -> Result<Forest, SynthError> {
    let pairs = far_first(order.len());
    let place = |rank: Rank| order.iter().position(|it| *it == rank).unwrap_or(0);
    let trees: Vec<Sketched> = plan::roots(task, fabric)
        .into_iter()
        .map(|root| {
            let start = place(root);
            let at = |it: usize| order[(start + it) % order.len()];
            let steps = pairs.iter().map(|(a, b)| ClassicStep::cheapest(at(*a), at(*b))).collect();
            Sketched { root, weight: 1, steps }
        })
        .collect();
    plan::route(Routes::new(fabric, plan::part_bytes(task)), &trees)
}

/// The edges of the binomial tree from position 0, step by step: every rank that has the data sends
/// it as far as this step reaches.
fn far_first(count: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::with_capacity(count);
    let mut distance = count.next_power_of_two() / 2;
    while distance > 0 {
        let senders = (0..count).step_by(2 * distance);
        pairs.extend(senders.map(|it| (it, it + distance)).filter(|it| it.1 < count));
        distance /= 2;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaches_all_in_steps() {
        assert_eq!(far_first(6), [(0, 4), (0, 2), (0, 1), (2, 3), (4, 5)]);
        for count in 1..70 {
            let mut has = vec![false; count];
            has[0] = true;
            for (from, to) in far_first(count) {
                assert!(has[from] && !has[to]);
                has[to] = true;
            }
            assert!(has.into_iter().all(|it| it));
        }
    }
}
