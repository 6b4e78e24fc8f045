//! How fast the event engine is on ring AllReduce of 256 ranks, 130,560 transfers: when all links
//! are alike, when no two are, by discipline, and end to end from a verified program.
//! `cargo bench -p motet-sim --bench event`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to say")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use motet_collective::Verified;
use motet_net::builders::{Params, find};
use motet_net::{LinkSpec, Network, NetworkBuilder};
use motet_sim::{Discipline, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration};

#[path = "../../motet-collective/tests/support/programs.rs"]
mod programs;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const RANKS: u32 = 256;
const SIZE: Bytes = Bytes::gib(1);

/// The ring template, its links changed by `spec` (of number and nominal).
fn ring(spec: impl Fn(u64, LinkSpec) -> LinkSpec) -> Network {
    let params = Params::from_words([format!("gpus={RANKS}")]).unwrap();
    let nominal = find("ring").unwrap().build(&params).unwrap();
    let mut b = NetworkBuilder::new("ring");
    for node in nominal.nodes() {
        b.add_node(node.clone()).unwrap();
    }
    for (index, link) in nominal.links().iter().enumerate() {
        b.add_link(link.from, link.to, spec(index as u64, link.spec)).unwrap();
    }
    b.build().unwrap()
}

/// No two links alike, and no two times a multiple of one another.
fn all_different(index: u64, spec: LinkSpec) -> LinkSpec {
    let scatter = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    LinkSpec {
        latency: Duration::from_ps(400_000 + scatter),
        bandwidth: Bandwidth::from_bits_per_s(300_000_000_000 + scatter * 99_991),
        ..spec
    }
}

fn event(c: &mut Criterion) {
    let program = Verified::new(programs::ring_all_reduce(RANKS, 1), None).unwrap();
    let networks = [("links alike", ring(|_, it| it)), ("links different", ring(all_different))];
    let mut group = c.benchmark_group("event ring allreduce 256");
    group.throughput(Throughput::Elements(program.transfers().len() as u64));
    group.sample_size(20);
    for (name, network) in &networks {
        let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
        let prepared = Prepared::new(&routed);
        for discipline in [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare] {
            let options = SimOptions { discipline, ..SimOptions::default() };
            group.bench_function(format!("{name}, {discipline:?}"), |b| {
                b.iter(|| Simulation::new(&prepared, SIZE).options(options).run().unwrap());
            });
        }
        group.bench_function(format!("{name}, end to end"), |b| {
            b.iter(|| {
                let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
                Simulation::new(&Prepared::new(&routed), SIZE).run().unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, event);
criterion_main!(benches);
