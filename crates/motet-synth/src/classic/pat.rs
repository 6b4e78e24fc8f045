//! PAT, parallel aggregated trees: a binomial tree out of every rank, far ranks first.
//!
//! Rank by rank the same tree is shifted, so that in every step each rank sends to one other and
//! receives from one: log₂ n steps for any number of ranks. Unlike Bruck's, the first steps, in
//! which a rank has little to send, go far and the last go to neighbours; so the long links carry
//! least. NCCL has done AllGather and ReduceScatter like this since 2.23. The parts of one step
//! lie apart in the buffer and are transfers of their own; the model charges latency to none but
//! the first.

use motet_units::Rank;

use super::plan::{self, ClassicStep, Sketched};
use super::ring;
use super::routes::Routes;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// Over ranks in the order of a short ring.
pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let rings = ring::rings(task, fabric, 1).map_err(|it| plan::explained(task, it))?;
    let order = rings.into_iter().next().unwrap_or_default();
    plan::lower(task, fabric, |it| forest(task, it, &order))
}

/// Over ranks as they are numbered.
pub(super) fn as_numbered(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let order: Vec<Rank> = fabric.ranks().collect();
    plan::lower(task, fabric, |it| forest(task, it, &order))
}

/// One such tree, out of the root.
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

/// The binomial tree out of place 0, step by step: whoever has the data sends it as far as the
/// step goes.
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
