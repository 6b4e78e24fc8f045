//! How fast replay is: ring AllReduce of 256 ranks, 130,560 transfers, over many states on one
//! core; with all links alike, and with every link of every state different.
//! `cargo bench -p motet-sim --bench replay`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to say")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use motet_collective::{Program, Verified};
use motet_net::builders::{Params, find};
use motet_net::state::{BandwidthRange, RangeTable};
use motet_net::{Network, NetworkState};
use motet_sim::replay::Replay;
use motet_sim::{Routed, SimOptions, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Seed};

#[path = "../../motet-collective/tests/support/programs.rs"]
mod programs;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const STATES: usize = 256;

fn network(words: &[&str]) -> Network {
    find(words[0]).unwrap().build(&Params::from_words(&words[1..]).unwrap()).unwrap()
}

/// Every link of every state drawn from 20 to 200 Gbit/s, as Xiong et al. do.
fn drawn(network: &Network) -> Vec<NetworkState> {
    let (low, high) = (Bandwidth::gbit_per_s(20), Bandwidth::gbit_per_s(200));
    let table = RangeTable::new(network, |_, _| BandwidthRange { low, high }).unwrap();
    let mut stream = Seed::new(1).stream("bench");
    let mut state = NetworkState::nominal(network);
    let mut draw = || {
        state.resample_uniform(&mut stream, &table).unwrap();
        state.clone()
    };
    (0..STATES).map(|_| draw()).collect()
}

fn bench(c: &mut Criterion, name: &str, program: Program, network: &Network) {
    let program = Verified::new(program, None).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    let options = SimOptions::default();
    let replay = Replay::compile(&routed, Bytes::mib(64), &options).unwrap();
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = c.benchmark_group(format!("replay {name}"));
    group.sample_size(10);
    let transfers = replay.transfers() as u64;
    group.throughput(Throughput::Elements(transfers));
    group.bench_function("compile", |b| {
        b.iter(|| Replay::compile(&routed, Bytes::mib(64), &options).unwrap());
    });
    let nominal = NetworkState::nominal(network);
    group.bench_function("one state", |b| b.iter(|| replay.run(&nominal).unwrap()));
    group.bench_function("usage", |b| b.iter(|| replay.usage(&nominal).unwrap()));
    group.bench_function("critical path", |b| b.iter(|| replay.critical_path(&nominal).unwrap()));
    group.throughput(Throughput::Elements(transfers * STATES as u64));
    let states = vec![nominal.clone(); STATES];
    group.bench_function(format!("{STATES} states alike, one core"), |b| {
        b.iter(|| one_core.install(|| replay.run_many(&states)));
    });
    let states = drawn(network);
    group.bench_function(format!("{STATES} states all different, one core"), |b| {
        b.iter(|| one_core.install(|| replay.run_many(&states)));
    });
    group.finish();
}

fn all(c: &mut Criterion) {
    let ring = network(&["ring", "gpus=256"]);
    bench(c, "ring-256", programs::ring_all_reduce(256, 1), &ring);
    bench(c, "ring-256 in lanes", programs::with_lanes(&programs::ring_all_reduce(256, 1)), &ring);
    let pod = network(&["leaf-spine", "leaves=16", "gpus-per-leaf=16"]);
    bench(c, "leaf-spine-256", programs::ring_all_reduce(256, 1), &pod);
}

criterion_group!(benches, all);
criterion_main!(benches);
