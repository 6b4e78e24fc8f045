//! Calls and bytes of the DAG are those of the closed forms, for every parallelism, alone and combined,
//! on small jobs and on large ones.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_collective::CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv};
use motet_workload::Parallelism::{Cp, Dp, Ep, Pp, Tp};
use motet_workload::{
    Batch, Compression, Draft, Gpu, Job, Layout, Recompute, Reduction, Schedule, Sharding,
    SyncMode, Tally, models,
};
use proptest::prelude::*;
use proptest::sample::select;

fn draft(model: &str, layout: Layout, global: u64) -> Draft {
    let (model, gpu) = (models::named(model).unwrap(), Gpu::named("h100").unwrap());
    Draft::new(model, gpu, layout, Batch { sequence: 8192, micro: 1, global })
}

fn tally(calls: u64, each: u128) -> Tally {
    Tally { calls, bytes: u128::from(calls) * each }
}

/// The DAG is sound and every stage's sums are as foretold.
fn holds(job: &Job, step: u32) {
    let iteration = job.iteration(step).unwrap();
    for index in 0..iteration.operations().len() {
        assert!(iteration.waits(index).iter().all(|it| (*it as usize) < index));
    }
    for stage in 0..job.layout().pp {
        let counted = iteration.volumes(job.layout(), stage);
        assert_eq!(counted, job.closed_form(stage, step), "stage {stage} of {:?}", job.layout());
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let degrees = (select(vec![1u32, 2, 4]), select(vec![1u32, 2, 8]), select(vec![1u32, 2, 4]));
    let sharding = select(vec![
        Sharding::None,
        Sharding::Optimizer,
        Sharding::Gradients,
        Sharding::FSDP,
        Sharding::FSDP_IN_PIPELINE,
        Sharding::FSDP_IN_PIPELINE_2025,
        Sharding::Parameters { free: false, each: false, reduction: Reduction::InPass },
        Sharding::Parameters { free: true, each: false, reduction: Reduction::AfterSend },
    ]);
    let schedule = select(vec![
        Schedule::OneForwardOneBackward,
        Schedule::Interleaved { chunks: 2 },
        Schedule::ZeroBubble,
    ]);
    let recompute = select(vec![Recompute::None, Recompute::Gathered, Recompute::Full]);
    let flags = (any::<bool>(), any::<bool>());
    let rest = (select(vec![1u32, 2]), select(vec![1u32, 2]), flags);
    (degrees, rest, sharding, schedule, recompute).prop_map(
        |((dp, tp, pp), (cp, ep, flags), sharding, schedule, recompute)| Layout {
            dp,
            tp,
            pp,
            cp,
            ep,
            sequence_parallel: flags.0,
            head_first: flags.1,
            sharding,
            schedule,
            recompute,
            ..Layout::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn dag_matches_closed_forms(
        layout in layouts(),
        model in select(vec!["llama3-8b", "mixtral-8x7b", "roberta-125m", "transformer-lm-247m"]),
        micro_batches in 1u64..5,
        step in 0u32..4,
        local in any::<bool>(),
        compression in select(vec![
            Compression::None,
            Compression::Fp16,
            Compression::Int8 { block: 256 },
            Compression::TopK { per_million: 1000 },
        ]),
    ) {
        let global = micro_batches * u64::from(layout.dp) * u64::from(layout.pp);
        let sync = if local { SyncMode::Local { period: 2 } } else { SyncMode::EveryStep };
        let mut draft = Draft { sync, compression, ..draft(model, layout, global) };
        let sharded = draft.layout.sharding != Sharding::None;
        if sharded && matches!(compression, Compression::TopK { .. }) {
            draft.compression = Compression::None;
        }
        if sharded {
            draft.sync = SyncMode::EveryStep;
        }
        if model != "mixtral-8x7b" || draft.layout.dp == 1 {
            draft.layout.ep = 1;
        }
        if draft.layout.pp == 1 {
            draft.layout.schedule = Schedule::OneForwardOneBackward;
        }
        // What still does not go together (heads, layers) is drawn again.
        let job = draft.check();
        prop_assume!(job.is_ok());
        holds(&job.unwrap(), step);
    }
}

/// Each parallelism alone on Llama 3 8B, with figures worked out by hand.
#[test]
fn each_parallelism_alone() {
    let volumes = |layout: Layout| {
        let job = draft("llama3-8b", layout, 8).check().unwrap();
        holds(&job, 0);
        job.iteration(0).unwrap().volumes(job.layout(), 0)
    };
    let one = Layout::default();
    assert!(volumes(one.clone()).0.is_empty());
    // 34 parts; 8.03 billion gradients of 4 bytes; one sum for the loss.
    let dp = volumes(Layout { dp: 8, ..one.clone() });
    assert_eq!(dp.of(Dp, AllReduce), Tally { calls: 35, bytes: 4 * 8_030_261_248 + 4 });
    assert_eq!(dp.0.len(), 1);
    let fsdp = Sharding::FSDP;
    let fsdp = volumes(Layout { dp: 8, sharding: fsdp, ..one.clone() });
    assert_eq!(fsdp.of(Dp, AllGather), Tally { calls: 2 * 34, bytes: 2 * 2 * 8_030_261_248 });
    assert_eq!(fsdp.of(Dp, ReduceScatter), Tally { calls: 34, bytes: 4 * 8_030_261_248 });
    // Activations: 8192 × 4096 × 2 bytes. 4 per layer, and one each for embedding and head.
    let activations = 64 << 20;
    let tp = volumes(Layout { tp: 8, ..one.clone() });
    assert_eq!(tp.of(Tp, AllGather), tally(8 * (32 * 4 + 2), activations));
    assert_eq!(tp.of(Tp, ReduceScatter), tally(8 * (32 * 4 + 2), activations));
    let plain = volumes(Layout { tp: 8, sequence_parallel: false, ..one.clone() });
    let loss = 8 * 3 * 8192 * 4 + 4;
    let sums = Tally { calls: 8 * (130 + 3) + 1, bytes: 8 * 130 * activations + loss };
    assert_eq!(plain.of(Tp, AllReduce), sums);
    let pp = volumes(Layout { pp: 4, ..one.clone() });
    assert_eq!(pp.of(Pp, SendRecv), tally(8, activations));
    // Keys and values: 8192 tokens × 2 × 8 heads × 128 × 2 bytes.
    let cp = volumes(Layout { cp: 4, ..one });
    assert_eq!(cp.of(Cp, AllGather), tally(8 * 32 * 2, 32 << 20));
    assert_eq!(cp.of(Cp, ReduceScatter), tally(8 * 32, 32 << 20));
}

#[test]
fn experts_send_each_token_to_each_of_its_experts() {
    let layout = Layout { dp: 8, ep: 8, ..Layout::default() };
    let job = draft("mixtral-8x7b", layout, 8).check().unwrap();
    holds(&job, 0);
    let volumes = job.iteration(0).unwrap().volumes(job.layout(), 0);
    // One micro-batch, 32 layers, out and back both ways, two experts a token.
    assert_eq!(volumes.of(Ep, AllToAll), tally(32 * 4, 2 * (64 << 20)));
    // Every expert is on one rank only: its gradients are nobody else's. 1.6 of 46.7 billion are left.
    let experts = 32 * 8 * 3 * 4096 * 14336;
    let dense = 46_702_792_704 - experts;
    assert_eq!(volumes.of(Dp, AllReduce), Tally { calls: 35, bytes: 4 * dense + 4 });
}

/// Llama 3 405B on 16,384 GPUs as Meta trained it (TP 8, PP 16, DP 128, 16 sequences per rank).
#[test]
fn the_405b_job() {
    let layout = Layout {
        tp: 8,
        pp: 16,
        dp: 128,
        ends_count: true,
        sharding: Sharding::FSDP_IN_PIPELINE,
        schedule: Schedule::Interleaved { chunks: 8 },
        ..Layout::default()
    };
    let draft = Draft { gpus: Some(16_384), ..draft("llama3-405b", layout, 2048) };
    let job = draft.check().unwrap();
    assert_eq!(job.micro_batches(), 16);
    holds(&job, 0);
    let iteration = job.iteration(0).unwrap();
    let volumes = iteration.volumes(job.layout(), 5);
    // Eight layers of (570,425,344 + 2,617,245,696) / 8 split and 32,768 copied parameters.
    let layer = (16384 * 16384 * 2 + 16384 * 1024 * 2 + 3 * 16384 * 53248) / 8 + 2 * 16384;
    assert_eq!(volumes.of(Dp, AllGather), tally(8, 2 * layer));
    assert_eq!(volumes.of(Dp, ReduceScatter), tally(8, 4 * layer));
    // A piece of 8192 × 16384 × 2 bytes over eight ranks; eight chunks, both ways.
    assert_eq!(volumes.of(Pp, SendRecv), tally(16 * 16, 32 << 20));
    assert_eq!(volumes.of(Tp, AllGather), tally(16 * 8 * 4, 256 << 20));
    assert_eq!(iteration.volumes(job.layout(), 0).of(Pp, SendRecv).calls, 16 * 15);
}

#[test]
fn deepseek_with_all_dimensions() {
    let layout = Layout {
        tp: 2,
        cp: 2,
        dp: 32,
        ep: 32,
        sharding: Sharding::Optimizer,
        recompute: Recompute::Full,
        ..Layout::default()
    };
    let job = draft("deepseek-v3", layout, 64).check().unwrap();
    holds(&job, 0);
    let volumes = job.iteration(0).unwrap().volumes(job.layout(), 0);
    // 58 layers with experts, two micro-batches, six exchanges each with recomputing, eight experts.
    assert_eq!(volumes.of(Ep, AllToAll), tally(2 * 58 * 6, 4096 * 7168 * 2 * 8));
}

/// Local SGD with a period of four: nothing but the loss in three steps, all parameters in the fourth.
#[test]
fn local_sgd_averages_once_a_period() {
    let layout = Layout { dp: 8, ..Layout::default() };
    let sync = SyncMode::Local { period: 4 };
    let job = Draft { sync, ..draft("llama3-8b", layout, 8) }.check().unwrap();
    let sums = |step| job.iteration(step).unwrap().volumes(job.layout(), 0).of(Dp, AllReduce);
    for step in [0, 1, 2, 4] {
        assert_eq!(sums(step), tally(1, 4));
    }
    assert_eq!(sums(3), Tally { calls: 35, bytes: 4 * 8_030_261_248 + 4 });
}

/// What packing makes of the same gradients: a half, a quarter with a scale per 256 numbers, and top-k's
/// AllGather, which grows with the ranks.
#[test]
fn compression_changes_sizes_and_collectives() {
    let layout = Layout { dp: 8, ..Layout::default() };
    let packed = |compression| {
        let job = Draft { compression, ..draft("llama3-8b", layout.clone(), 8) }.check().unwrap();
        holds(&job, 0);
        job.iteration(0).unwrap().volumes(job.layout(), 0)
    };
    let numbers: u128 = 8_030_261_248;
    let sums = |bytes| Tally { calls: 35, bytes: bytes + 4 };
    assert_eq!(packed(Compression::Fp16).of(Dp, AllReduce), sums(2 * numbers));
    let int8 = packed(Compression::Int8 { block: 256 });
    // Every part is a multiple of 256.
    assert_eq!(int8.of(Dp, AllReduce), sums(numbers + 4 * numbers / 256));
    let sparse = packed(Compression::TopK { per_million: 1000 });
    assert_eq!(sparse.of(Dp, AllReduce), tally(1, 4));
    // A thousandth of each of 34 parts, rounded up, six bytes a number, from eight ranks.
    let kept: u128 =
        [525_336_576, 525_336_576 + 4096].iter().map(|it: &u128| it.div_ceil(1000)).sum();
    let kept = kept + 32 * 218_112_000_u128.div_ceil(1000);
    assert_eq!(sparse.of(Dp, AllGather), Tally { calls: 34, bytes: 8 * 6 * kept });
}
