//! Plans as programs: right, and as fast as their rounds and steps say.

use motet_collective::{CollectiveKind, Verified};
use motet_net::{NetworkBuilder, Node, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::{Effort, Method};
use motet_units::{Duration, Seed};

use super::brute_force::link;
use super::*;

const QUICK: Limits =
    Limits { conflicts: 5_000, front_conflicts: 50_000, chunks: 6, more_steps: 2 };

fn simulated(network: &Network, lowered: Lowered, size: Bytes) -> Duration {
    let program = Verified::new(lowered.program, Some(network)).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    Simulation::new(&Prepared::new(&routed), size).run().unwrap().time
}

fn time(network: &Network, kind: CollectiveKind, size: Bytes) -> Duration {
    let task = Task { size, ..task(network, kind) };
    let fabric = Fabric::new(&task).unwrap();
    let lowered = synthesize(&task, &fabric, &QUICK).unwrap();
    let makespan = lowered.makespan;
    let time = simulated(network, lowered, size);
    assert!(time <= makespan, "{time:?} {makespan:?}");
    time
}

#[test]
fn every_point_of_a_dgx1_verifies() {
    let network = dgx1();
    use CollectiveKind::{AllGather, Broadcast, Reduce, ReduceScatter};
    for kind in [AllGather, ReduceScatter, Broadcast, Reduce] {
        let task = task(&network, kind);
        let fabric = Fabric::new(&task).unwrap();
        let front = Exact::new(&task, &fabric).unwrap().front(&QUICK);
        assert!(front.points.len() > 1);
        for best in &front.points {
            let collects = matches!(kind, ReduceScatter | Reduce);
            let turned = fabric.turned_round();
            check(&best.plan, if collects { &turned } else { &fabric });
            let forest = &best.plan.forest;
            let trees = if collects { Trees::Collect(forest) } else { Trees::Spread(forest) };
            let lowered = Lowering::new(&task, &fabric, trees).unwrap().with_slices(1).unwrap();
            simulated(&network, lowered, task.size);
        }
    }
}

#[test]
fn large_and_small_sizes_on_a_dgx1() {
    let network = dgx1();
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    for kind in [AllGather, ReduceScatter] {
        let bound = task(&network, kind).bound().unwrap();
        let large = time(&network, kind, Bytes::gib(1)).as_us_f64();
        let least = bound.program_time(Bytes::gib(1)).as_us_f64();
        assert!(large <= 1.005 * least, "{kind}: {large} µs, bound {least}");
        // Two steps of 700 ns and hardly anything to carry.
        let small = time(&network, kind, Bytes::kib(1)).as_us_f64();
        assert!(small <= 1.42, "{kind}: {small} µs");
    }
    let small = time(&network, AllReduce, Bytes::kib(1)).as_us_f64();
    assert!(small <= 2.84, "AllReduce: {small} µs");
}

/// Two links side by side, one of them two and a half times as fast, count as three.
#[test]
fn parallel_links_share_what_their_cable_carries() {
    let mut builder = NetworkBuilder::new("parallel");
    let nodes = ["a", "b"].map(|it| builder.add_node(Node::new(it, NodeKind::Gpu)).unwrap());
    for gb_per_s in [10, 25] {
        builder.add_link(nodes[0], nodes[1], link(gb_per_s)).unwrap();
        builder.add_link(nodes[1], nodes[0], link(gb_per_s)).unwrap();
    }
    let network = builder.build().unwrap();
    let (exact, fabric) = all_gather(&network);
    let Answer::Possible(plan) = exact.solve(Point::new(6, 1, 2), &GENEROUS) else {
        panic!("three chunks a round were not found");
    };
    check(&plan, &fabric);
    let more = exact.solve(Point::new(7, 1, 2), &GENEROUS);
    assert!(matches!(more, Answer::Impossible(Proof::Bound)));
}

#[test]
fn switches() {
    let star = build("switch gpus=4");
    let (exact, fabric) = all_gather(&star);
    // One link into each rank: three rounds, in one step or more.
    for (chunks, steps, rounds) in [(1, 1, 3), (1, 2, 3), (2, 1, 6)] {
        let point = Point { chunks, steps, rounds };
        let Answer::Possible(plan) = exact.solve(point, &GENEROUS) else {
            panic!("{point} was not found");
        };
        check(&plan, &fabric);
    }
    let point = Point::new(1, 2, 2);
    assert!(matches!(exact.solve(point, &GENEROUS), Answer::Impossible(Proof::Bound)));
    time(&star, CollectiveKind::AllGather, Bytes::mib(1));
}

#[test]
fn what_cannot_be_done_is_said() {
    let network = build("ring gpus=40");
    let many = task(&network, CollectiveKind::AllGather);
    let fabric = Fabric::new(&many).unwrap();
    let error = Exact::new(&many, &fabric).unwrap_err();
    assert!(error.to_string().contains("40 ranks"), "{error}");
    let network = build("ring gpus=4");
    let mut task = task(&network, CollectiveKind::AllGather);
    let into = network.link_ids().filter(|it| network.link(*it).to.index() == 0);
    into.for_each(|it| task.allowed[it.index()] = false);
    let fabric = Fabric::new(&task).unwrap();
    let error = synthesize(&task, &fabric, &QUICK).unwrap_err();
    assert!(matches!(error, SynthError::Impossible(_)), "{error}");
}

/// The clock is looked at within the search: once it is up, what was found becomes a program, and if
/// there is nothing yet the search says so.
#[test]
fn a_search_ends_when_time_is_up() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let network = build("torus-2d rows=4 columns=4");
    let task = task(&network, CollectiveKind::AllGather);
    let made_after = |looks: u64| {
        let seen = AtomicU64::new(0);
        let clock = || seen.fetch_add(1, Ordering::Relaxed) >= looks;
        let effort = Effort { out_of_time: &clock, ..Effort::unlimited(Seed::new(1)) };
        let made = motet_synth::synthesize(&task, Method::Recipe(&METHOD), &effort);
        (made, seen.load(Ordering::Relaxed))
    };
    let (made, looks) = made_after(0);
    assert!(matches!(made, Err(SynthError::OutOfTime { method: "exact" })) && looks < 10);
    // The first point is found soon; the rest of the front takes minutes.
    let found = (4..16).map(|it| made_after(1 << it)).find_map(|(made, _)| made.ok());
    assert!(found.unwrap().prove(&task).is_ok());
}
