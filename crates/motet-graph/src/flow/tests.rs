//! Flows against the least of all cuts, tried one by one.

use proptest::prelude::*;

use super::*;

const NODES: usize = 7;

/// A question: arcs with capacities, supplies, and sinks with demands.
#[derive(Clone, Debug)]
struct Case {
    arcs: Vec<(u32, u32, u64)>,
    supply: Vec<u64>,
    sinks: Vec<(u32, u64)>,
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..9, 1 => Just(u64::ENDLESS)]
}

fn case() -> impl Strategy<Value = Case> {
    let node = 0..NODES as u32;
    let arcs = prop::collection::vec((node.clone(), node, 0u64..9), 0..24);
    let supply = prop::collection::vec(amount(), NODES);
    let sinks = prop::collection::btree_map(0..NODES as u32, amount(), 1..4);
    (arcs, supply, sinks).prop_map(|(arcs, supply, sinks)| Case {
        arcs: arcs.into_iter().filter(|it| it.0 != it.1).collect(),
        supply,
        sinks: sinks.into_iter().collect(),
    })
}

impl Case {
    fn flow(&self) -> MaxFlow<PairedArcs, u64> {
        let mut flow = MaxFlow::new(PairedArcs::new(NODES));
        for (from, to, capacity) in &self.arcs {
            let arc = flow.add_pair(*from, *to);
            flow.set_capacity(arc as usize, *capacity);
        }
        for (node, supply) in self.supply.iter().enumerate() {
            flow.set_supply(node, *supply);
        }
        flow
    }

    /// What a set of nodes on the receiving side lets through: what leads into it, its supplies,
    /// and the demands outside it.
    fn cut(&self, receiving: u32) -> u64 {
        let inside = |node: u32| receiving >> node & 1 == 1;
        let into = self.arcs.iter().filter(|(from, to, _)| !inside(*from) && inside(*to));
        let into: u64 = into.map(|it| it.2).sum();
        let supply = (0u32..).zip(&self.supply).filter(|(node, _)| inside(*node));
        let supply = supply.fold(0u64, |sum, (_, it)| sum.saturating_add(*it));
        let demand = self.sinks.iter().filter(|(node, _)| !inside(*node));
        let demand = demand.fold(0u64, |sum, (_, it)| sum.saturating_add(*it));
        into.saturating_add(supply).saturating_add(demand)
    }

    /// The least cut, and of several the one with the fewest nodes on the receiving side: what all
    /// of them have in common, because least cuts are closed under intersection.
    fn least_cut(&self) -> (u64, u32) {
        let all = 0..1u32 << NODES;
        let least = all.clone().map(|it| self.cut(it)).min().unwrap();
        let common = all.filter(|it| self.cut(*it) == least).fold(u32::MAX, |a, b| a & b);
        (least, common)
    }
}

fn receiving(flow: &MaxFlow<PairedArcs, u64>) -> u32 {
    (0..NODES).filter(|it| !flow.is_sending(*it)).fold(0, |set, it| set | 1 << it)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_greatest_flow_is_the_least_cut(case in case()) {
        let (least, common) = case.least_cut();
        let mut flow = case.flow();
        let amount = flow.flow_into(case.sinks.iter().copied(), u64::ENDLESS);
        prop_assert_eq!(amount, least.min(u64::ENDLESS));
        if least < u64::ENDLESS {
            prop_assert_eq!(receiving(&flow), common);
        }
    }

    /// What flows over arcs keeps their capacities, and at every node what comes, with what is fed in, is
    /// what goes on or arrives.
    #[test]
    fn what_flows_over_arcs_is_a_flow(case in case()) {
        let mut flow = case.flow();
        let amount = flow.flow_into(case.sinks.iter().copied(), 50);
        let mut kept = [0i64; NODES];
        for (nth, (from, to, capacity)) in case.arcs.iter().enumerate() {
            let over = flow.flow(2 * nth);
            prop_assert!(over <= *capacity);
            prop_assert_eq!(flow.flow(2 * nth + 1), 0);
            kept[*from as usize] -= over as i64;
            kept[*to as usize] += over as i64;
        }
        prop_assert_eq!(kept.iter().sum::<i64>(), 0);
        let mut arrived = 0;
        for (node, kept) in kept.into_iter().enumerate() {
            let supply = case.supply[node].min(50) as i64;
            let demand = case.sinks.iter().find(|it| it.0 as usize == node).map_or(0, |it| it.1.min(50));
            prop_assert!(kept >= -supply && kept <= demand as i64);
            arrived += kept.max(0);
        }
        prop_assert!(arrived <= amount as i64);
    }

    #[test]
    fn a_limit_is_never_passed(case in case(), limit in 0u64..20) {
        let (least, common) = case.least_cut();
        let mut flow = case.flow();
        prop_assert_eq!(flow.flow_into(case.sinks.iter().copied(), limit), least.min(limit));
        if least < limit {
            prop_assert_eq!(receiving(&flow), common);
        }
    }

    /// What one question changed is set back before the next, also when the graph has changed.
    #[test]
    fn questions_do_not_see_each_other(case in case(), other in 0..NODES as u32) {
        let mut flow = case.flow();
        let first = flow.flow_into(case.sinks.iter().copied(), 50);
        flow.flow_into([(other, u64::ENDLESS)], 50);
        prop_assert_eq!(flow.flow_into(case.sinks.iter().copied(), 50), first);
        flow.isolate(other);
        flow.set_supply(other as usize, 0);
        let mut without = case.clone();
        without.arcs.retain(|it| it.0 != other && it.1 != other);
        without.supply[other as usize] = 0;
        let expected = without.least_cut().0.min(50);
        prop_assert_eq!(flow.flow_into(case.sinks.iter().copied(), 50), expected);
    }
}

#[test]
fn wide_numbers_flow_exactly() {
    let mut flow: MaxFlow<_, u128> = MaxFlow::new(PairedArcs::new(3));
    let wide = 1u128 << 100;
    for (from, to, capacity) in [(0, 1, wide), (1, 2, wide - 1), (0, 2, 3)] {
        let arc = flow.add_pair(from, to);
        flow.set_capacity(arc as usize, capacity);
    }
    flow.set_supply(0, u128::ENDLESS);
    assert_eq!(flow.flow_into([(2, u128::ENDLESS)], u128::ENDLESS), wide + 2);
    assert!(flow.is_sending(1) && !flow.is_sending(2));
}
