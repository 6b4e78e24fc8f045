//! How long legs take if the order in which every link carries them is given, by the
//! [link rule](motet_sim::link_rule).

use motet_sim::link_rule::{Arrival, Passage};
use motet_units::{Bytes, Duration, LinkId};

use super::plan::{ExchangePlan, NONE};
use super::timing::Timing;
use crate::fabric::Fabric;
use crate::schedule::JobTurns;

/// The timing of legs that are not cut. `crossings` has an entry for each link that a leg crosses, which names
/// the leg; the nth entry of a leg is for the nth link of its path. Each link carries legs in the order of its
/// entries, and the entries of a leg come after all entries of the leg that it waits for.
pub(super) fn in_this_order(
    plan: &ExchangePlan,
    fabric: &Fabric,
    chunk: Bytes,
    crossings: &[u32],
) -> Timing {
    let mut free_at = vec![0u64; fabric.link_count()];
    let mut taken: Vec<Vec<u32>> = vec![Vec::new(); fabric.link_count()];
    // Per leg: where its head and tail are, and how many links it has crossed.
    let mut at = vec![(Arrival::whole(0u64), 0usize); plan.legs.len()];
    let mut order = Vec::with_capacity(plan.legs.len());
    let mut makespan = 0;
    for leg in crossings {
        let it = &plan.legs[*leg as usize];
        let (mut at_node, crossed) = at[*leg as usize];
        let Some(link) = plan.paths[it.path as usize].get(crossed) else { continue };
        if crossed == 0 {
            let ready = if it.after == NONE { 0 } else { at[it.after as usize].0.tail };
            at_node = Arrival::whole(ready);
            order.push(*leg);
        }
        let bytes = chunk.checked_mul(u64::from(it.chunks)).unwrap_or(Bytes::new(u64::MAX));
        let busy = fabric.busy(*link, bytes).as_ps();
        let passage = Passage::of(at_node.forwarded(false), free_at[link.index()], busy);
        free_at[link.index()] = passage.streamed;
        at_node = passage.arrival(fabric.latency(*link).as_ps());
        at[*leg as usize] = (at_node, crossed + 1);
        taken[link.index()].push(*leg);
        makespan = makespan.max(at_node.tail);
    }
    let turns = turns(&order, taken);
    let order = order.iter().map(|it| (*it, 0)).collect();
    Timing { order, turns, makespan: Duration::from_ps(makespan) }
}

/// The turns of the links that do not carry legs in `order`.
fn turns(order: &[u32], taken: Vec<Vec<u32>>) -> Vec<JobTurns> {
    let mut position = vec![0u32; order.len()];
    for (at, leg) in (0..).zip(order) {
        position[*leg as usize] = at;
    }
    let links = (0..).map(LinkId).zip(taken);
    let others = links.filter(|(_, legs)| !legs.is_sorted_by_key(|it| position[*it as usize]));
    others.map(|(link, jobs)| JobTurns { link, jobs }).collect()
}
