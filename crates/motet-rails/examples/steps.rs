//! How long simulating a training step takes: the figures of BENCHMARKS.md.
//! `cargo run --release -p motet-rails --example steps`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures itself"
)]

use std::time::Instant;

use motet_rails::{Electrical, Machine};
use motet_workload::{Batch, Draft, Gpu, Job, Layout, Schedule, Sharding, models};

fn job(model: &str, gpu: &str, layout: Layout, batch: Batch) -> Job {
    let (model, gpu) = (models::named(model).unwrap(), Gpu::named(gpu).unwrap());
    Draft::new(model, gpu, layout, batch).check().unwrap()
}

fn run(name: &str, job: &Job, machine: &Machine) {
    let start = Instant::now();
    let iteration = job.iteration(0).unwrap();
    let mut fabric = Electrical::new(job, &iteration, machine).unwrap();
    let run = iteration.simulate(&job.draft().gpu, &mut fabric).unwrap();
    println!(
        "{name}: {} operations, step {}, MFU {:.3}, {:.0} tokens/s; simulated in {:.3} s",
        iteration.operations().len(),
        run.time(),
        run.mfu(job),
        run.tokens_per_s(job),
        start.elapsed().as_secs_f64()
    );
}

fn main() {
    let fsdp = Sharding::FSDP_IN_PIPELINE;
    let layout = Layout { tp: 4, dp: 2, pp: 2, sharding: fsdp, ..Layout::default() };
    let opus = job("llama3-8b", "a100", layout, Batch { sequence: 8192, micro: 2, global: 16 });
    run("llama3-8b, 16 GPUs", &opus, &Machine::named("perlmutter").unwrap());
    for (name, sharding) in [
        ("ZeRO-1", Sharding::Optimizer),
        ("FSDP", fsdp),
        ("FSDP, gathered for every pass", Sharding::FSDP),
    ] {
        let layout = Layout {
            tp: 8,
            dp: 128,
            pp: 16,
            schedule: Schedule::Interleaved { chunks: 8 },
            sharding,
            ends_count: true,
            ..Layout::default()
        };
        let batch = Batch { sequence: 8192, micro: 1, global: 2048 };
        let large = job("llama3-405b", "h100", layout, batch);
        run(
            &format!("llama3-405b, 16384 GPUs, {name}"),
            &large,
            &Machine::named("dgx-h100").unwrap(),
        );
    }
}
