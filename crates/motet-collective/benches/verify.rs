//! How fast the verifier is: ring AllReduce of 1,024 ranks, 2,095,104 transfers, with and without
//! lanes. `cargo bench -p motet-collective --bench verify`.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use motet_collective::verify;

#[path = "../tests/support/programs.rs"]
mod programs;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn ring_all_reduce(c: &mut Criterion) {
    let mut group = c.benchmark_group("verify ring allreduce");
    group.sample_size(10);
    for ranks in [64, 256, 1024] {
        let plain = programs::ring_all_reduce(ranks, 1);
        let laned = programs::with_lanes(&plain);
        group.throughput(Throughput::Elements(plain.transfers().len() as u64));
        for (name, program) in [("by waits", &plain), ("in lanes", &laned)] {
            group.bench_function(format!("{ranks} ranks {name}"), |b| {
                b.iter_batched(
                    || program,
                    |it| assert!(verify::check(it, None).is_right()),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, ring_all_reduce);
criterion_main!(benches);
