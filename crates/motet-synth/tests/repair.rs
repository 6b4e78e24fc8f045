//! Repaired programs are right in every state, and close to the bound of the state they are for.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use motet_collective::{BoundError, CollectiveKind, Program, Verified};
use motet_net::builders::{self, Params};
use motet_net::{LinkClass, Network, NetworkState};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::repair::Repairer;
use motet_synth::{Fabric, Goal, Lowered, SynthError, Task, packing};
use motet_units::{Bandwidth, Bytes, Duration, LinkId, Rank};
use proptest::prelude::*;

const BY_TREES: [CollectiveKind; 5] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
];

/// Sixteen ranks in two datacenters joined by eight WAN links, and those links, both ways in turn.
fn two_datacenters(fabric: &str) -> (Network, Vec<LinkId>) {
    let words = ["gpus=8", "borders=8", "wan-links=paired", fabric];
    let params = Params::from_words(words).unwrap();
    let network = builders::find("two-dc").unwrap().build(&params).unwrap();
    let is_wan = |it: &LinkId| network.link(*it).spec.class == LinkClass::Wan;
    let wan: Vec<LinkId> = network.link_ids().filter(is_wan).collect();
    assert_eq!((network.ranks().len(), wan.len()), (16, 16));
    (network, wan)
}

fn halved(state: &NetworkState, links: &[LinkId]) -> NetworkState {
    let mut state = state.clone();
    for link in links {
        let half = state.bandwidth(*link).bits_per_s() / 2;
        state.set_bandwidth(*link, Bandwidth::from_bits_per_s(half));
    }
    state
}

fn verified(lowered: Lowered, network: &Network) -> Verified<Program> {
    Verified::new(lowered.program, Some(network)).unwrap()
}

fn simulated(program: &Verified<Program>, task: &Task<'_>) -> Duration {
    let routed = Routed::new(program, task.network, SwitchForwarding::CutThrough).unwrap();
    Simulation::new(&Prepared::new(&routed), task.size).state(&task.state).run().unwrap().time
}

/// How long the program repaired for a state takes there, by the bound.
fn ratio(repairer: &Repairer<'_>, task: &Task<'_>, state: &NetworkState) -> f64 {
    let program = verified(repairer.repair(state).unwrap(), task.network);
    let task = task.clone().in_state(state.clone());
    let bound = task.bound().unwrap().program_time(task.size);
    simulated(&program, &task).as_ps() as f64 / bound.as_ps() as f64
}

#[test]
fn with_a_wan_link_at_half_speed_programs_stay_near_the_bound() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    for fabric in ["fabric=logical", "fabric=leaf-spine"] {
        let (network, wan) = two_datacenters(fabric);
        let state = halved(&NetworkState::nominal(&network), &wan[..2]);
        for (kind, most) in [(AllGather, 1.05), (ReduceScatter, 1.05), (AllReduce, 1.06)] {
            let task = Task::new(&network, Goal::new(kind, 16).unwrap(), Bytes::gib(1));
            let ratio = ratio(&Repairer::new(&task).unwrap(), &task, &state);
            assert!(ratio <= most, "{fabric} {kind}: {ratio}");
        }
    }
}

#[test]
fn links_that_fail_are_not_used_and_come_back() {
    let (network, wan) = two_datacenters("fabric=logical");
    let nominal = NetworkState::nominal(&network);
    let mut gone = nominal.clone();
    gone.set_up(wan[2], false);
    gone.set_up(wan[3], false);
    for kind in BY_TREES {
        let goal = Goal::rooted(kind, 16, Rank(3)).unwrap();
        let task = Task::new(&network, goal, Bytes::gib(1));
        let repairer = Repairer::new(&task).unwrap();
        let program = verified(repairer.repair(&gone).unwrap(), &network);
        let used = program.paths().iter().flatten();
        assert!(used.copied().all(|it| it != wan[2] && it != wan[3]), "{kind}");
        let (without, with) = (ratio(&repairer, &task, &gone), ratio(&repairer, &task, &nominal));
        assert!(without <= 1.5 && with <= 1.3, "{kind}: {without} without, {with} with");
    }
}

#[test]
fn repair_starts_from_trees_that_others_found() {
    let (network, wan) = two_datacenters("fabric=leaf-spine");
    let goal = Goal::new(CollectiveKind::AllReduce, 16).unwrap();
    let task = Task::new(&network, goal, Bytes::mib(64));
    let pairs = packing::pack(&Fabric::new(&task).unwrap()).unwrap().pairs;
    let repairer = Repairer::with_pairs(&task, &pairs).unwrap();
    let mut gone = task.state.clone();
    gone.set_up(wan[4], false);
    let first = repairer.repair(&gone).unwrap();
    let again = repairer.repair(&gone).unwrap();
    assert_eq!(first.program, again.program);
    simulated(&verified(again, &network), &task.clone().in_state(gone));
}

#[test]
fn a_network_in_two_pieces_is_refused_with_the_cut() {
    let (network, wan) = two_datacenters("fabric=leaf-spine");
    let mut apart = NetworkState::nominal(&network);
    for link in &wan {
        apart.set_up(*link, false);
    }
    for kind in BY_TREES {
        let task = Task::new(&network, Goal::rooted(kind, 16, Rank(0)).unwrap(), Bytes::mib(1));
        let repairer = Repairer::new(&task).unwrap();
        match repairer.repair(&apart) {
            Err(SynthError::Impossible(BoundError::Unreachable(gap))) => {
                assert_eq!((gap.cut.ranks.len(), gap.cut.links.len()), (8, 0), "{kind}");
            }
            other => panic!("{kind}: {other:?}"),
        }
        repairer.repair(&NetworkState::nominal(&network)).unwrap();
    }
}

#[test]
fn one_rank_alone_keeps_what_it_has() {
    let network = builders::find("ring").unwrap().build(&Params::new()).unwrap();
    let task = Task::new(&network, Goal::new(CollectiveKind::AllReduce, 1).unwrap(), Bytes::kib(1));
    let repairer = Repairer::new(&task).unwrap();
    verified(repairer.repair(&task.state).unwrap(), &network);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever links do, what comes out is right, or the cut says why nothing can.
    #[test]
    fn any_change_is_repaired_or_refused(
        parts in prop::collection::vec((0usize..72, 0u64..5), 1..24),
        kind in 0usize..5,
    ) {
        let (network, _) = two_datacenters("fabric=leaf-spine");
        let mut state = NetworkState::nominal(&network);
        for (link, quarters) in parts {
            let link = LinkId::from_index(link % network.links().len());
            let bits = state.bandwidth(link).bits_per_s() / 4 * quarters;
            state.set_up(link, bits > 0);
            state.set_bandwidth(link, Bandwidth::from_bits_per_s(bits.max(1)));
        }
        let goal = Goal::rooted(BY_TREES[kind], 16, Rank(5)).unwrap();
        let task = Task::new(&network, goal, Bytes::mib(64));
        match Repairer::new(&task).unwrap().repair(&state) {
            Ok(lowered) => {
                let program = verified(lowered, &network);
                simulated(&program, &task.clone().in_state(state));
            }
            Err(error) => {
                prop_assert!(task.clone().in_state(state).bound().is_err(), "{}", error);
            }
        }
    }
}
