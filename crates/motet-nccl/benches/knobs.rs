//! What one evaluation of a program under knobs costs: a tuner makes thousands.

#![allow(clippy::unwrap_used, reason = "a benchmark of what is known to be possible")]

use criterion::{Criterion, criterion_group, criterion_main};
use motet_collective::Verified;
use motet_nccl::Knobbed;
use motet_nccl::{KnobModel, Knobs, NcclOptions, Protocol};
use motet_net::builders::{Params, find};
use motet_sim::{Routed, SwitchForwarding};
use motet_units::Bytes;

#[path = "../../motet-collective/tests/support/programs.rs"]
mod programs;

fn evaluations(c: &mut Criterion) {
    let network = find("dgx-h100").unwrap().build(&Params::from_words(["count=1"]).unwrap());
    let network = network.unwrap();
    let model = KnobModel::new(&network, &NcclOptions::default());
    for (name, program) in
        [("ring", programs::ring_all_reduce(8, 1)), ("tree", programs::tree_all_reduce(8, 1))]
    {
        let program = Verified::new(program, None).unwrap();
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        let knobbed = Knobbed::new(&routed, model);
        for (size, mib) in [("1 MiB", 1), ("1 GiB", 1024)] {
            let knobs = Knobs { channels: Some(8), ..Knobs::new(Protocol::Simple) };
            c.bench_function(&format!("knobs/{name} AllReduce of {size} on 8 GPUs"), |b| {
                b.iter(|| knobbed.time(Bytes::mib(mib), &knobs).unwrap());
            });
        }
    }
}

criterion_group!(benches, evaluations);
criterion_main!(benches);
