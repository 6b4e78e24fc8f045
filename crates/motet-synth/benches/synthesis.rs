//! How long programs take to make, on the networks that peers publish figures for, and to repair when
//! one of eight WAN links has half its bandwidth. Before it times repairs it prints how long repaired
//! programs take beside those made from scratch.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark may fail by panicking, and prints"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use motet_collective::{CollectiveKind, Verified};
use motet_net::builders::{Params, find};
use motet_net::{LinkClass, Network, NetworkState};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_synth::{Effort, Goal, Lowered, Method, Repairer, Task, synthesize};
use motet_units::{Bandwidth, Bytes, Duration, Seed};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn network(template: &str, words: &str) -> Network {
    let params = Params::from_words(words.split_whitespace()).unwrap();
    find(template).unwrap().build(&params).unwrap()
}

fn task(network: &Network, kind: CollectiveKind) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    Task::new(network, Goal::new(kind, ranks).unwrap(), Bytes::gib(1))
}

/// AllGather of 1 GiB, as `motet synth` makes it; peers' CPU seconds are in BENCHMARKS.md.
fn made(criterion: &mut Criterion) {
    let grid = "bandwidth=50GiB/s latency=500ns";
    let networks = [
        ("dgx-1", network("dgx-1", "")),
        ("dgx-a100 x2", network("dgx-a100", "count=2")),
        ("mesh 4x4", network("mesh", &format!("rows=4 columns=4 {grid}"))),
        ("torus 4x4", network("torus-2d", &format!("rows=4 columns=4 {grid}"))),
        ("mesh 8x8", network("mesh", &format!("rows=8 columns=8 {grid}"))),
    ];
    let mut group = criterion.benchmark_group("allgather 1 GiB");
    for (name, network) in &networks {
        let task = task(network, CollectiveKind::AllGather);
        let effort = Effort::unlimited(Seed::new(0));
        group.bench_function(*name, |it| {
            it.iter(|| black_box(synthesize(&task, Method::Auto, &effort).unwrap()));
        });
    }
    group.finish();
}

fn simulated(made: Lowered, task: &Task<'_>) -> Duration {
    let program = Verified::new(made.program, Some(task.network)).unwrap();
    let routed = Routed::new(&program, task.network, SwitchForwarding::CutThrough).unwrap();
    Simulation::new(&Prepared::new(&routed), task.size).state(&task.state).run().unwrap().time
}

/// Sixteen ranks in two datacenters joined by eight WAN links, one of which halves.
fn repaired(criterion: &mut Criterion) {
    let network = network("two-dc", "gpus=8 borders=8 wan-links=paired fabric=logical");
    let mut state = NetworkState::nominal(&network);
    let wan = network.link_ids().find(|it| network.link(*it).spec.class == LinkClass::Wan).unwrap();
    let ends = |it: motet_units::LinkId| (network.link(it).from, network.link(it).to);
    let (a, b) = ends(wan);
    for link in network.link_ids().filter(|it| [(a, b), (b, a)].contains(&ends(*it))) {
        let half = state.bandwidth(link).bits_per_s() / 2;
        state.set_bandwidth(link, Bandwidth::from_bits_per_s(half));
    }
    let mut group = criterion.benchmark_group("repair");
    for kind in
        [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce]
    {
        let task = task(&network, kind);
        let repairer = Repairer::new(&task).unwrap();
        let task = task.in_state(state.clone());
        let repaired = simulated(repairer.repair(&state).unwrap(), &task);
        let draft = synthesize(&task, Method::Auto, &Effort::unlimited(Seed::new(0))).unwrap();
        let scratch = draft.prove(&task).unwrap().time;
        let ratio = repaired.as_ps() as f64 / scratch.as_ps() as f64;
        eprintln!("{kind}: repaired {repaired}, from scratch {scratch}, ratio {ratio:.4}");
        group.bench_function(kind.name(), |it| {
            it.iter(|| black_box(repairer.repair(black_box(&state)).unwrap()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = repaired, made
}
criterion_main!(benches);
