//! The job that Opus measured: Llama 3 8B on 16 A100, TP 4, FSDP 2, PP 2, micro-batches of two
//! sequences (§3.1), by TorchTitan. `--nocapture` prints our volumes beside those of the paper's Fig. 4b.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_collective::CollectiveKind::{self, AllGather, AllReduce, ReduceScatter, SendRecv};
use motet_units::{Bytes, Rank};
use motet_workload::{
    Batch, Draft, Gpu, Group, Iteration, Job, Layout, Parallelism, Part, Phase, Sharding, Work,
    models,
};

fn opus() -> Job {
    let sharding = Sharding::FSDP_IN_PIPELINE_2025;
    let layout = Layout { tp: 4, dp: 2, pp: 2, sharding, ..Layout::default() };
    let (model, gpu) = (models::named("llama3-8b").unwrap(), Gpu::named("a100").unwrap());
    let batch = Batch { sequence: 8192, micro: 2, global: 8 };
    Draft { gpus: Some(16), ..Draft::new(model, gpu, layout, batch) }.check().unwrap()
}

/// Bytes given to all calls of one kind on the rail by one rank of a stage, as a trace records them.
fn input(job: &Job, it: &Iteration, stage: u32, of: Parallelism, kind: CollectiveKind) -> u64 {
    let calls = it.communications().filter(|(_, operation, what)| {
        operation.stage == stage && what.parallelism == of && what.kind == kind
    });
    calls.map(|(_, _, what)| what.input(job.layout()).get()).sum()
}

/// 957 and 3,829 "MB" of the paper are MiB: what a rank gives to all AllGathers of a step (its shard of a
/// stage's parameters in BF16) and to all ReduceScatters (the stage's gradients in FP32, whole).
#[test]
fn volumes_are_the_papers() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("per rank and step        ours (MiB)   Opus, Fig. 4b");
    for stage in 0..2 {
        let gathered = input(&job, &iteration, stage, Parallelism::Dp, AllGather);
        let reduced = input(&job, &iteration, stage, Parallelism::Dp, ReduceScatter);
        println!("stage {stage} DP AllGather      {:10.3}   957", mib(gathered));
        println!("stage {stage} DP ReduceScatter  {:10.3}   3829", mib(reduced));
        // Sixteen layers of 54,534,144 parameters, a quarter of 128,256 rows, and the last norm.
        let parameters = 16 * 54_534_144 + 32_064 * 4096 + u64::from(stage) * 4096;
        assert_eq!((gathered, reduced), (parameters, 4 * parameters));
        assert_eq!((gathered >> 20, reduced >> 20), (957, 3829));
    }
    let hop = job.hop();
    println!("one PP Send/Recv         {:10.3}   64", mib(hop.get()));
    // Two sequences of 8192 tokens, split over four ranks by sequence parallelism: the paper's 64 MiB are
    // two of these messages, or one that is not split of one sequence (TorchTitan's default batch).
    assert_eq!(hop, Bytes::mib(32));
    let (batch, layout) = (job.draft().batch, job.layout().clone());
    let layout = Layout { sequence_parallel: false, ..layout };
    let whole = Draft { batch: Batch { micro: 1, ..batch }, layout, ..job.draft().clone() };
    assert_eq!(whole.check().unwrap().hop(), Bytes::mib(64));
    for (_, operation, it) in iteration.communications() {
        let scale_out = !matches!(it.group, Group::Tensor);
        if scale_out && it.kind == AllReduce {
            assert_eq!((operation.phase, it.bytes), (Phase::Optimizer, Bytes::new(4)));
        }
    }
    println!("largest sync AllReduce    4 bytes     <1");
}

/// The order of Fig. 3(a): stage 0 gathers and computes, sends; stage 1 gathers only when that is there.
#[test]
fn traffic_comes_in_the_papers_order() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let reach = reach(&iteration);
    let find = |stage, kind, part: Option<Part>| {
        let mut all = iteration.communications().filter(|(_, operation, it)| {
            let rail = it.group != Group::Tensor;
            rail && operation.stage == stage
                && it.kind == kind
                && (part.is_none() || operation.part == part)
        });
        all.next().unwrap().0
    };
    let sent = find(0, SendRecv, None);
    let first_gather = find(1, AllGather, None);
    assert!(reach[first_gather].contains(&sent), "stage 1 gathers before its input is there");
    // The second layer's parameters come while the first computes, not after it.
    let (second, first) = (find(0, AllGather, Some(Part::Layer(1))), Part::Layer(0));
    let operations = iteration.operations();
    let computes = |it: &usize| {
        matches!(operations[*it].work, Work::Compute { .. }) && operations[*it].part == Some(first)
    };
    assert!(!reach[second].iter().any(computes), "parameters are not gathered ahead");
    // No part computes before its parameters are there.
    let mut checked = 0;
    for (index, it) in operations.iter().enumerate() {
        let forward = it.phase == Phase::Forward && it.micro_batch == Some(0);
        if forward && matches!(it.work, Work::Compute { flops: 1.., .. }) {
            assert!(reach[index].contains(&find(it.stage, AllGather, it.part)), "{it:?}");
            checked += 1;
        }
    }
    // Attention and feed-forward of 32 layers, and the head.
    assert_eq!(checked, 2 * 32 + 1);
    // Gradients leave when the last micro-batch's backward pass is over, the last layer first.
    let (early, late) = (
        find(0, ReduceScatter, Some(Part::Layer(15))),
        find(0, ReduceScatter, Some(Part::Layer(0))),
    );
    assert!(reach[late].contains(&early) && !reach[early].contains(&late));
    let last = operations.iter().rposition(|it| {
        it.stage == 0
            && it.phase == Phase::Backward
            && it.part == Some(Part::Layer(0))
            && matches!(it.work, Work::Compute { flops: 1.., .. })
    });
    assert!(reach[early].contains(&last.unwrap()), "gradients are reduced before the pass is over");
    assert_eq!(operations[early].micro_batch, Some(1));
    // The norm waits for every gradient.
    let norm = operations.iter().position(|it| it.phase == Phase::Optimizer).unwrap();
    assert!(reach[norm].contains(&late));
    assert_eq!(job.layout().members(Group::Hop { to: 1 }, Rank(0)), [Rank(0), Rank(8)]);
}

/// What a rank of a stage does on the rail, by its kinds and in order, with n micro-batches: PyTorch's 1F1B sends the first
/// activation alone, exchanges the others for gradients (64 MiB at a time, as in Fig. 4b), and sends the last
/// gradient when all of the last stage's are reduced.
#[test]
fn messages_are_exchanged() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let reach = reach(&iteration);
    let hops: Vec<usize> =
        iteration.communications().filter(|it| it.2.kind == SendRecv).map(|it| it.0).collect();
    let [first, gradient, activation, last] = hops[..] else { panic!("{hops:?}") };
    let of = |it: usize| {
        let operation = &iteration.operations()[it];
        (operation.stage, operation.micro_batch)
    };
    let mut pair = [of(gradient), of(activation)];
    pair.sort_unstable();
    assert_eq!(
        (of(first), pair, of(last)),
        ((0, Some(0)), [(0, Some(1)), (1, Some(0))], (1, Some(1)))
    );
    assert_eq!(reach[gradient], reach[activation], "neither goes before both are there");
    for (index, operation, it) in iteration.communications() {
        if it.kind == ReduceScatter && it.parallelism == Parallelism::Dp {
            assert_eq!(reach[last].contains(&index), operation.stage == 1);
        }
    }
}

/// Four stages: every stage but the last exchanges, and a pipeline with hardly any micro-batches still ends.
#[test]
fn deep_pipelines_exchange_and_end() {
    for micro_batches in 1..10 {
        let layout = Layout { pp: 4, ..Layout::default() };
        let (model, gpu) = (models::named("llama3-8b").unwrap(), Gpu::named("a100").unwrap());
        let batch = Batch { sequence: 4096, micro: 1, global: micro_batches };
        let draft = Draft::new(model, gpu, layout, batch);
        let job = draft.clone().check().unwrap();
        let iteration = job.iteration(0).unwrap();
        let mut waits = std::collections::BTreeMap::new();
        for (index, operation, it) in iteration.communications() {
            if let Group::Hop { to } = it.group {
                let key = (operation.stage.min(to), iteration.waits(index).iter().max().copied());
                *waits.entry(key).or_insert(0) += 1;
            }
        }
        for between in 0..3u32 {
            let pairs = waits.iter().filter(|it| it.0.0 == between && *it.1 == 2).count() as u64;
            // The stage behind takes that many activations before it gives the first gradient.
            let before = u64::from(4 - between - 1);
            assert_eq!(pairs, micro_batches.saturating_sub(before), "{micro_batches} {between}");
        }
        // What is exchanged is used behind what is given for it, so that compute alone takes as long.
        let bound = iteration.compute_bound(&draft.gpu);
        let layout = Layout { exchange: false, ..draft.layout.clone() };
        let apart = Draft { layout, ..draft.clone() }.check().unwrap().iteration(0).unwrap();
        assert_eq!(apart.compute_bound(&draft.gpu), bound);
    }
}

/// All that each operation comes after.
fn reach(iteration: &Iteration) -> Vec<std::collections::BTreeSet<usize>> {
    let mut all: Vec<std::collections::BTreeSet<usize>> = Vec::new();
    for index in 0..iteration.operations().len() {
        let mut before = std::collections::BTreeSet::new();
        for it in iteration.waits(index) {
            before.insert(*it as usize);
            before.extend(&all[*it as usize]);
        }
        all.push(before);
    }
    all
}

/// With communication free, a step takes what 1F1B takes: forward and backward of all micro-batches on
/// the slower stage, and the other's share of one as a bubble; then the optimizer.
#[test]
fn compute_alone_is_the_schedules_time() {
    let job = opus();
    let gpu = &job.draft().gpu;
    let iteration = job.iteration(0).unwrap();
    let on = |stage: u32, phase: Phase, copies: bool| {
        let all = iteration.operations().iter();
        let all = all.filter(|it| it.stage == stage && it.phase == phase);
        let all = all.filter(|it| matches!(it.work, Work::Compute { flops: 0, .. }) == copies);
        all.map(|it| it.compute_time(gpu).as_ps()).collect::<Vec<_>>()
    };
    let sum = |all: Vec<u64>| all.into_iter().sum::<u64>();
    // Two micro-batches; stage 1 (with the head) is the slower one and never waits between them.
    let passes = |stage, copies| {
        sum(on(stage, Phase::Forward, copies)) + sum(on(stage, Phase::Backward, copies))
    };
    let (micro_batch, slow) = (passes(0, false) / 2, passes(1, false));
    // Both stages copy before their first AllGather and their ReduceScatters, and wait for each other's.
    let copies = passes(0, true) + passes(1, true);
    // The first stage ends later, and so takes its norm later; the updates are side by side.
    let [norm, update] = on(0, Phase::Optimizer, true)[..] else { panic!() };
    let update = update.max(on(1, Phase::Optimizer, true)[1]);
    let bound = iteration.compute_bound(gpu).as_ps();
    assert_eq!(bound, micro_batch + slow + copies + norm + update);
    // 6 operations per parameter and token at 40 % of 16 A100s, and the bubble of one in three: the
    // attention's share and the embedding, which computes nothing, are why it is not exact.
    let tokens = 8.0 * 8192.0;
    let ideal = 6.0 * 8.03e9 * tokens / (16.0 * 312e12 * 0.4) * 1.5;
    let ratio = bound as f64 / 1e12 / ideal;
    assert!((1.0..1.4).contains(&ratio), "{ratio}");
}
