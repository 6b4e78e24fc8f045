//! Trees of any shape lower to programs that verify, and the schedule's time is the simulator's.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use motet_collective::formats::program_json;
use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::builders::{self, Params};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, NetworkState, Node, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::forest::{self, ForestOptions};
use motet_synth::{
    Edge, Effort, Fabric, Forest, Goal, Lowering, Method, PairForest, PathTable, Task, Tree, Trees,
    synthesize,
};
use motet_units::{Bandwidth, Bytes, Duration, Rank, Seed};

/// A tree of shortest ways, breadth first, out of every root.
fn breadth_first(fabric: &Fabric, roots: &[Rank]) -> Forest {
    let mut paths = PathTable::default();
    let mut trees = Vec::new();
    for root in roots {
        let mut seen = vec![false; fabric.rank_count()];
        seen[root.index()] = true;
        let (mut open, mut edges, mut next) = (vec![*root], Vec::new(), 0);
        while let Some(from) = open.get(next).copied() {
            next += 1;
            for link in fabric.outgoing(fabric.node(from)) {
                let Some(to) = fabric.rank(fabric.to(*link)) else { continue };
                if !std::mem::replace(&mut seen[to.index()], true) {
                    edges.push(Edge { from, to, path: paths.number(&[*link]) });
                    open.push(to);
                }
            }
        }
        trees.push(Tree { root: *root, weight: 1, edges });
    }
    Forest { paths: paths.into_paths(), trees }
}

fn network(template: &str, params: &[(&str, &str)]) -> Network {
    let template = builders::find(template).unwrap();
    let mut given = Params::new();
    for (key, value) in params {
        given.set(*key, *value);
    }
    template.build(&given).unwrap()
}

fn simulated(program: &Verified<Program>, task: &Task<'_>) -> Duration {
    let routed = Routed::new(program, task.network, SwitchForwarding::CutThrough).unwrap();
    Simulation::new(&Prepared::new(&routed), task.size).state(&task.state).run().unwrap().time
}

#[test]
fn every_collective_by_trees_verifies_and_takes_the_time_of_its_schedule() {
    let network = network("torus-2d", &[("rows", "3"), ("columns", "4")]);
    for kind in [
        CollectiveKind::AllGather,
        CollectiveKind::Broadcast,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Reduce,
        CollectiveKind::AllReduce,
    ] {
        let goal = Goal::rooted(kind, 12, Rank(5)).unwrap();
        let task = Task::new(&network, goal, Bytes::mib(12));
        let fabric = Fabric::new(&task).unwrap();
        let roots: Vec<Rank> = match task.goal.root() {
            Some(root) => vec![root],
            None => fabric.ranks().collect(),
        };
        let spread = breadth_first(&fabric, &roots);
        let collect = breadth_first(&fabric.turned_round(), &roots);
        let pairs = PairForest::of(&collect, &spread);
        let trees = match kind {
            CollectiveKind::AllGather | CollectiveKind::Broadcast => Trees::Spread(&spread),
            CollectiveKind::AllReduce => Trees::Both(&pairs),
            _ => Trees::Collect(&collect),
        };
        let lowering = Lowering::new(&task, &fabric, trees).unwrap();
        for slices in [1, 2, 5] {
            let lowered = lowering.with_slices(slices).unwrap();
            let verified = Verified::new(lowered.program, Some(&network)).unwrap();
            let time = simulated(&verified, &task);
            assert!(
                time <= lowered.makespan,
                "{kind}, {slices} slices: {time} {}",
                lowered.makespan
            );
        }
        let best = lowering.best(100_000).unwrap();
        assert!(best.makespan <= lowering.makespan(1).unwrap());
    }
}

/// Data from the other datacenter come late to links that local data take meanwhile.
#[test]
fn latency_between_datacenters_costs_no_bandwidth() {
    let network = network("two-dc", &[("fabric", "logical")]);
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        let task = Task::new(&network, Goal::new(kind, 8).unwrap(), Bytes::gib(1));
        let lowered = forest::synthesize(&task, ForestOptions { most_transfers: 40_000 }).unwrap();
        let makespan = lowered.makespan;
        let program = Verified::new(lowered.program, Some(&network)).unwrap();
        let time = simulated(&program, &task);
        assert!(time <= makespan, "{kind}: {time} {makespan}");
        let ratio = time.as_ps() as f64 / task.bound().unwrap().time(task.size).as_ps() as f64;
        assert!(ratio <= 1.01, "{kind}: {ratio}");
    }
}

/// Two datacenters of so many GPUs at 200 Gbit/s each, whose borders are joined by 400 Gbit/s, 5 ms apart.
fn far_apart(gpus: [usize; 2]) -> Network {
    let mut builder = NetworkBuilder::new("far");
    let spec = |gbit: u64, latency| {
        let rate = Bandwidth::from_bits_per_s(gbit * 1_000_000_000);
        LinkSpec::new(LinkClass::default(), rate, latency)
    };
    let near = Duration::from_ns(500);
    let mut borders = Vec::new();
    for (side, count) in gpus.into_iter().enumerate() {
        let mut add = |name: String, kind| builder.add_node(Node::new(name, kind)).unwrap();
        let leaf = add(format!("leaf{side}"), NodeKind::Leaf);
        let border = add(format!("border{side}"), NodeKind::Border);
        let ranks: Vec<_> =
            (0..count).map(|it| add(format!("gpu{side}-{it}"), NodeKind::Gpu)).collect();
        builder.add_duplex(leaf, border, spec(800, near)).unwrap();
        for rank in ranks {
            builder.add_duplex(rank, leaf, spec(200, near)).unwrap();
        }
        borders.push(border);
    }
    builder.add_duplex(borders[0], borders[1], spec(400, Duration::from_ms(5))).unwrap();
    builder.build().unwrap()
}

/// What goes far is sent at an even pace: sent ahead of all else, it would leave ranks nearby without data.
#[test]
fn far_datacenters_are_fed_evenly() {
    for (gpus, most) in [([4, 4], 1.03), ([4, 8], 1.055), ([2, 4], 1.075)] {
        let network = far_apart(gpus);
        for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
            let goal = Goal::new(kind, network.ranks().len() as u32).unwrap();
            let task = Task::new(&network, goal, Bytes::gib(1));
            let made = forest::synthesize(&task, ForestOptions { most_transfers: 20_000 }).unwrap();
            let program = Verified::new(made.program, Some(&network)).unwrap();
            let time = simulated(&program, &task).as_ps() as f64;
            let ratio = time / task.bound().unwrap().time(task.size).as_ps() as f64;
            assert!(ratio <= most, "{kind} {gpus:?}: {ratio}");
        }
    }
}

/// Over switches, with links of all rates and far apart, where jobs overtake each other and what
/// is collected is not simply what is spread, read backwards.
#[test]
fn schedules_hold_over_unequal_links() {
    let mut overtaking = 0;
    for latency in ["2 us", "1 ms"] {
        let network = network("two-dc", &[("wan-latency", latency)]);
        let mut state = NetworkState::nominal(&network);
        for link in network.link_ids() {
            let eighth = state.bandwidth(link).bits_per_s() / 8;
            let rate = eighth * (1 + (link.index() as u64 * 5) % 8);
            state.set_bandwidth(link, Bandwidth::from_bits_per_s(rate));
        }
        for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
            let task = Task::new(&network, Goal::new(kind, 8).unwrap(), Bytes::mib(64));
            let task = task.in_state(state.clone());
            let by_numbers = task.clone().by_numbers();
            let fabric = Fabric::new(&task).unwrap();
            let collects = kind == CollectiveKind::ReduceScatter;
            let turned = if collects { fabric.turned_round() } else { fabric.clone() };
            let found = forest::forest(&task, &turned, forest::Room::All).unwrap();
            let trees = if collects { Trees::Collect(&found) } else { Trees::Spread(&found) };
            for (task, slices) in [(&task, 1), (&task, 3), (&task, 20), (&by_numbers, 20)] {
                let lowering = Lowering::new(task, &fabric, trees).unwrap();
                let lowered = lowering.with_slices(slices).unwrap();
                let makespan = lowered.makespan;
                let program = Verified::new(lowered.program, Some(&network)).unwrap();
                let time = simulated(&program, task);
                assert!(time <= makespan, "{kind}, {slices} slices: {time} {makespan}");
                let has_turns = !program.turns().is_empty();
                assert!(task.may_overtake || !has_turns);
                overtaking += usize::from(has_turns);
                let text = program_json::write(&program);
                assert_eq!(program_json::read(&text).unwrap(), *program);
            }
        }
    }
    assert!(overtaking > 0, "no link has turns");
}

/// A rank's own copy of a part and the result that overwrites it lie once around the ring apart; that the proof sees at once
/// that one comes before the other keeps it within its limits however many ranks there are.
#[test]
fn a_ring_of_many_ranks_can_be_proved_right() {
    let network = network("ring", &[("gpus", "512")]);
    let task = Task::new(
        &network,
        Goal::rooted(CollectiveKind::AllReduce, 512, Rank(0)).unwrap(),
        Bytes::gib(1),
    );
    let draft = synthesize(&task, "ring".parse::<Method>().unwrap(), &Effort::normal(Seed::new(1)))
        .unwrap();
    let verified = Verified::new(draft.program, Some(&network)).unwrap();
    assert!(verified.transfers().len() > 2 * 511 * 512);
}
