//! Multicast and reduction in switches: what travels together, and what must not.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::{
    Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId, Turns,
    Verified,
};
use motet_net::{Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Discipline, Outcome, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration, LinkId, NodeId, Rank};
use proptest::prelude::*;

use crate::support::{
    Log, Told, any_network, any_options, any_program, any_switches, link, run, run_forwarding,
    verified,
};

const ALPHA: u64 = 70;
/// One chunk of 100 bytes at 8 bit/ps.
const BETA: u64 = 100;
const SIZE: Bytes = Bytes::new(100);

/// GPUs under leaves under one spine, which reduce and multicast if said so.
fn tree(leaves: usize, gpus: usize, leaf_can: bool, spine_can: bool) -> Network {
    let mut b = NetworkBuilder::new("tree");
    let add = |b: &mut NetworkBuilder, name: String, kind, can| {
        let mut node = Node::new(name, kind);
        (node.multicast, node.reduces) = (can, can);
        b.add_node(node).unwrap()
    };
    let spec = link(8_000_000_000_000, ALPHA);
    let spine = add(&mut b, "spine".to_owned(), NodeKind::Spine, spine_can);
    for leaf in 0..leaves {
        let id: NodeId = add(&mut b, format!("leaf{leaf}"), NodeKind::Leaf, leaf_can);
        b.add_duplex(id, spine, spec).unwrap();
        for gpu in 0..gpus {
            let gpu = add(&mut b, format!("gpu{leaf}-{gpu}"), NodeKind::Gpu, false);
            b.add_duplex(gpu, id, spec).unwrap();
        }
    }
    b.build().unwrap()
}

/// All reduce into rank 0, which then sends the sum to all: with one chunk.
fn star_all_reduce(ranks: u32) -> Program {
    let collective = Collective::new(CollectiveKind::AllReduce, ranks, 1).unwrap();
    let mut b = ProgramBuilder::new("star", collective).forms(Forms::IN_PLACE);
    let root = Slot::output(Rank(0), 0);
    let mut last: Option<TransferId> = None;
    for rank in 1..ranks {
        let id = b.add(Transfer::reduce(Slot::output(Rank(rank), 0), root, 1));
        if let Some(before) = last {
            b.wait(id.arrived(), before.arrived());
        }
        last = Some(id);
    }
    for rank in 1..ranks {
        b.add_after(Transfer::copy(root, Slot::output(Rank(rank), 0), 1), last.as_slice());
    }
    b.build()
}

fn outcome(network: &Network, program: Program, discipline: Discipline) -> Outcome {
    let options = SimOptions { discipline, ..SimOptions::default() };
    run(&verified(program), network, SIZE, options).unwrap()
}

fn time(network: &Network, program: Program, discipline: Discipline) -> u64 {
    outcome(network, program, discipline).time.as_ps()
}

const DISCIPLINES: [Discipline; 3] =
    [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare];

#[test]
fn one_switch() {
    for discipline in DISCIPLINES {
        // Without: four streams one after the other into rank 0, and out of it.
        let plain = time(&tree(1, 5, false, false), star_all_reduce(5), discipline);
        assert_eq!(plain, 2 * (2 * ALPHA + 4 * BETA), "{discipline:?}");
        let network = tree(1, 5, true, false);
        let shared = outcome(&network, star_all_reduce(5), discipline);
        assert_eq!(shared.time.as_ps(), 2 * (2 * ALPHA + BETA), "{discipline:?}");
        // Every link of a GPU carries one chunk each way; those of the spine nothing.
        let crossings: Vec<u64> = shared.links.iter().map(|it| it.crossings).collect();
        assert_eq!(crossings, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}

#[test]
fn two_levels() {
    for discipline in DISCIPLINES {
        let all = tree(3, 2, true, true);
        let shared = outcome(&all, star_all_reduce(6), discipline);
        assert_eq!(shared.time.as_ps(), 2 * (4 * ALPHA + BETA), "{discipline:?}");
        assert!(shared.links.iter().all(|it| it.crossings == 1));
        // Leaves only: each leaf sends one sum, and two of them share the way from the spine
        // on to rank 0's leaf, where they meet again.
        let leaves = outcome(&tree(3, 2, true, false), star_all_reduce(6), discipline);
        let spine_down = leaves.links[1].crossings;
        assert_eq!(spine_down, 2, "spine to leaf 0");
        // Spine only: what meets there goes on as one, but not the stream of rank 0's neighbour.
        let spine = outcome(&tree(3, 2, false, true), star_all_reduce(6), discipline);
        assert_eq!(spine.links[1].crossings, 1);
    }
}

#[test]
fn switches_that_store_and_forward_wait_for_the_whole() {
    for discipline in DISCIPLINES {
        let switches = SwitchForwarding::StoreAndForward;
        let options = SimOptions { discipline, ..SimOptions::default() };
        let program = verified(star_all_reduce(6));
        let outcome = run_forwarding(&program, &tree(3, 2, true, true), SIZE, options, switches);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.time, Duration::from_ps(2 * 4 * (ALPHA + BETA)));
    }
}

/// A reduction that is sent only after another one into the same place has arrived cannot be
/// reduced with it on the way.
#[test]
fn what_would_wait_for_itself_stays_apart() {
    let collective = Collective::rooted(CollectiveKind::Reduce, 3, 1, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("in-turn", collective).forms(Forms::IN_PLACE);
    b.set_scratch(Rank(2), 1);
    let (root, scratch) = (Slot::output(Rank(0), 0), Slot::scratch(Rank(2), 0));
    let first = b.add(Transfer::reduce(Slot::output(Rank(1), 0), root, 1));
    let back = b.add_after(Transfer::copy(root, scratch, 1), &[first]);
    let second = b.add_after(Transfer::reduce(Slot::output(Rank(2), 0), root, 1), &[back]);
    b.wait(second.arrived(), first.arrived());
    for discipline in DISCIPLINES {
        let network = tree(1, 3, true, false);
        let in_turn = outcome(&network, b.clone().build(), discipline);
        assert_eq!(in_turn.time.as_ps(), 3 * (2 * ALPHA + BETA), "{discipline:?}");
        assert_eq!(in_turn.links[3].crossings, 2, "leaf to rank 0");
    }
}

/// Copies of one slot that wait for different things are different data to the switch.
#[test]
fn only_equal_waits_are_multicast() {
    let collective = Collective::rooted(CollectiveKind::Broadcast, 3, 1, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("in-turn", collective);
    let (input, to) = (Slot::input(Rank(0), 0), |rank| Slot::output(Rank(rank), 0));
    b.add(Transfer::copy(input, to(0), 1));
    let first = b.add(Transfer::copy(input, to(1), 1));
    let together = b.clone();
    b.add_after(Transfer::copy(input, to(2), 1), &[first]);
    let network = tree(1, 3, true, false);
    let apart = time(&network, b.build(), Discipline::ProgramOrder);
    assert_eq!(apart, 2 * (2 * ALPHA + BETA));
    let mut b = together;
    b.add(Transfer::copy(input, to(2), 1));
    assert_eq!(time(&network, b.build(), Discipline::ProgramOrder), 2 * ALPHA + BETA);
}

/// An AllReduce of one chunk for each tree: up the tree, whose root is another rank for every chunk,
/// then from the root to all. The parent of node n is `tree[n - 1] % n`. So ranks wait for each other
/// in many ways.
fn up_random_trees(trees: &[Vec<u32>]) -> Program {
    let (ranks, chunks) = (trees[0].len() as u32 + 1, trees.len() as u32);
    let collective = Collective::new(CollectiveKind::AllReduce, ranks, chunks).unwrap();
    let mut b = ProgramBuilder::new("trees", collective).forms(Forms::IN_PLACE);
    for (chunk, tree) in (0..).zip(trees) {
        let slot = |node: u32| Slot::output(Rank((node + chunk) % ranks), chunk);
        let mut into: Vec<Vec<TransferId>> = vec![Vec::new(); ranks as usize];
        for node in (1..ranks).rev() {
            let parent = tree[node as usize - 1] % node;
            let up = Transfer::reduce(slot(node), slot(parent), 1);
            let up = b.add_after(up, &into[node as usize]);
            let into = &mut into[parent as usize];
            if let Some(before) = into.last() {
                b.wait(up.arrived(), before.arrived());
            }
            into.push(up);
        }
        for node in 1..ranks {
            b.add_after(Transfer::copy(slot(0), slot(node), 1), &into[0]);
        }
    }
    b.build()
}

/// Every transfer on the way it takes by default, and every link with turns of its own: those of a
/// run without time that takes, of what can cross a link next, now this and now that.
fn with_turns(
    program: &Verified<Program>,
    network: &Network,
    picks: &[usize],
) -> Verified<Program> {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough).unwrap();
    let mut builder = program.to_builder();
    let count = program.transfers().len();
    let ways: Vec<Vec<LinkId>> =
        (0..count).map(|it| routed.hops(it).iter().map(|hop| hop.link).collect()).collect();
    for (index, way) in ways.iter().enumerate().filter(|it| !it.1.is_empty()) {
        let path = builder.add_path(way.clone());
        builder.transfer_mut(TransferId::from_index(index)).path = Some(path);
    }
    let mut done = vec![false; count * 2];
    let mut crossed = vec![0usize; count];
    let mut turns: BTreeMap<LinkId, Vec<TransferId>> = BTreeMap::new();
    let mut picks = picks.iter().cycle();
    let graph = routed.graph();
    let ready =
        |event: usize, done: &[bool]| graph.preds(event).iter().all(|it| done[*it as usize]);
    loop {
        let arrival = |it: usize| crossed[it] == ways[it].len() && !done[it * 2 + 1];
        if let Some(it) = (0..count).find(|it| arrival(*it) && ready(it * 2 + 1, &done)) {
            done[it * 2 + 1] = true;
            continue;
        }
        let sendable = |it: usize| done[it * 2] || ready(it * 2, &done);
        let left = |it: usize| crossed[it] < ways[it].len() || !done[it * 2];
        let open: Vec<usize> = (0..count).filter(|it| left(*it) && sendable(*it)).collect();
        if open.is_empty() {
            break;
        }
        let it = open[picks.next().unwrap() % open.len()];
        if let Some(link) = ways[it].get(crossed[it]) {
            turns.entry(*link).or_default().push(TransferId::from_index(it));
            crossed[it] += 1;
        }
        done[it * 2] = true;
    }
    let turns = turns.into_iter().map(|(link, transfers)| Turns { link, transfers });
    builder.set_turns(turns.collect());
    Verified::new(builder.build(), Some(network)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever turns links have, what travels together comes to its end under every discipline:
    /// there is no cycle of waits, turns and heads that must come together.
    #[test]
    fn turns_and_sharing_never_wait_for_each_other(
        program in prop_oneof![
            any_program(5),
            (2u32..6).prop_map(|it| verified(star_all_reduce(it))),
            prop::collection::vec(prop::collection::vec(any::<u32>(), 4), 1..6)
                .prop_map(|it| verified(up_random_trees(&it))),
        ],
        network in prop_oneof![
            any_network(5, true), Just(tree(1, 5, true, true)), Just(tree(2, 3, true, true)),
        ],
        picks in prop::collection::vec(any::<usize>(), 1..40),
        switches in any_switches(),
    ) {
        let program = with_turns(&program, &network, &picks);
        for discipline in DISCIPLINES {
            let options = SimOptions { discipline, ..SimOptions::default() };
            let outcome = run_forwarding(&program, &network, SIZE, options, switches);
            prop_assert!(outcome.is_ok(), "{discipline:?}: {}", outcome.unwrap_err());
        }
    }

    /// On any network with capable switches every program still runs to its end, in an order that
    /// keeps every wait; links carry no more than without, and each transfer's every hop once.
    #[test]
    fn sharing_is_safe(
        program in prop_oneof![
            any_program(5), (2u32..6).prop_map(|it| verified(star_all_reduce(it)))
        ],
        network in any_network(5, true),
        options in any_options(),
        switches in any_switches(),
        size in 0u64..100_000,
    ) {
        let routed = Routed::new(&program, &network, switches).unwrap();
        let prepared = Prepared::new(&routed);
        let simulation = || Simulation::new(&prepared, Bytes::new(size)).options(options);
        let (mut log, mut again) = (Log::default(), Log::default());
        let outcome = simulation().run_with(&mut log).unwrap();
        prop_assert_eq!(&outcome, &simulation().run_with(&mut again).unwrap());
        prop_assert_eq!(&log, &again);
        let silent = simulation().run().unwrap();
        prop_assert_eq!((silent.time, &silent.links), (outcome.time, &outcome.links));
        let mut done = vec![false; routed.graph().events()];
        let mut crossed = BTreeSet::new();
        for (_, told) in &log.0 {
            let event = match told {
                Told::Sent(id) => id.sent(),
                Told::Arrived(id) => id.arrived(),
                Told::Finished { link, transfers, .. } => {
                    for id in transfers {
                        prop_assert!(crossed.insert((*id, *link)));
                    }
                    continue;
                }
                _ => continue,
            };
            prop_assert!(!std::mem::replace(&mut done[event.index()], true));
            prop_assert!(routed.graph().preds(event.index()).iter().all(|it| done[*it as usize]));
        }
        prop_assert!(done.iter().all(|it| *it));
        let mut alone = vec![0u64; network.links().len()];
        for (index, _) in program.transfers().iter().enumerate() {
            for hop in routed.hops(index) {
                prop_assert!(crossed.remove(&(TransferId::from_index(index), hop.link)));
                alone[hop.link.index()] += 1;
            }
        }
        prop_assert!(crossed.is_empty());
        for (link, alone) in outcome.links.iter().zip(alone) {
            prop_assert!(link.crossings <= alone);
        }
    }
}
