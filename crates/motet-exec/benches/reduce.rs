//! How fast elements are reduced, by type, in a cache-sized and a memory-sized buffer.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail, and says so")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use motet_exec::{Element, Reduction, accumulate};

fn reductions(c: &mut Criterion) {
    let mut group = c.benchmark_group("sum");
    for size in [256usize << 10, 16 << 20] {
        for element in [Element::F32, Element::Bf16, Element::F16, Element::F64, Element::I32] {
            let mut into = vec![0u64; size / 8];
            let from = vec![0u64; size / 8];
            let (into, from) = (bytemuck::cast_slice_mut(&mut into), bytemuck::cast_slice(&from));
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new(element.name(), size), |b| {
                b.iter(|| accumulate(element, Reduction::Sum, into, from).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, reductions);
criterion_main!(benches);
