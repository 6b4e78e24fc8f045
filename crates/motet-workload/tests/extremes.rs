//! Whatever numbers a job is asked with, it is refused or it holds: nothing overflows, divides by zero or
//! hangs.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_workload::model::{Attention, Experts, Shape, Transformer};
use motet_workload::{
    Batch, Compression, Draft, Gpu, Layout, Model, Precision, Recompute, Schedule, Sharding,
    SyncMode,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Mostly numbers that go together, now and then one that does not.
fn number() -> impl Strategy<Value = u64> {
    let odd = vec![0u64, 3, 7, 1000, 1 << 20, 1 << 28, (1 << 28) + 1, 1 << 50, u64::MAX];
    prop_oneof![12 => select(vec![1u64, 2, 4, 8, 16, 64]), 1 => select(odd)]
}

fn small() -> impl Strategy<Value = u32> {
    let odd = vec![0u32, 3, 1 << 10, 1 << 20, u32::MAX];
    prop_oneof![20 => select(vec![1u32, 2, 4]), 1 => select(odd)]
}

fn attention() -> impl Strategy<Value = Attention> {
    let all = [number(), number(), number(), number(), number(), number()];
    (any::<bool>(), all).prop_map(|(latent, [heads, a, b, c, d, e])| {
        if latent {
            let (q_rank, kv_rank, plain_dim, rotary_dim, value_dim) = (a, b, c, d, e);
            Attention::Latent { heads, q_rank, kv_rank, plain_dim, rotary_dim, value_dim }
        } else {
            Attention::Grouped { heads, kv_heads: a, head_dim: b }
        }
    })
}

fn model() -> impl Strategy<Value = Model> {
    let experts =
        (number(), number(), number(), small()).prop_map(|(count, active, ffn, dense)| Experts {
            count,
            active,
            shared: active,
            ffn,
            dense_layers: dense,
        });
    let sizes = [number(), number(), number(), number()];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let embedding = proptest::option::of(number());
    (small(), sizes, flags, embedding, attention(), proptest::option::of(experts)).prop_map(
        |(layers, sizes, (gated, biases, tied), embedding, attention, experts)| {
            let [hidden, vocab, ffn, positions] = sizes;
            let shape = Transformer {
                hidden,
                vocab,
                ffn,
                gated,
                biases,
                positions,
                tied,
                embedding,
                attention,
                experts,
            };
            Model { name: "any".to_owned(), layers, shape: Shape::Transformer(shape) }
        },
    )
}

fn layout() -> impl Strategy<Value = Layout> {
    let schedule = prop_oneof![
        Just(Schedule::OneForwardOneBackward),
        small().prop_map(|chunks| Schedule::Interleaved { chunks }),
        Just(Schedule::ZeroBubble),
    ];
    let (late, later) = (Sharding::FSDP_IN_PIPELINE_2025, Sharding::FSDP_IN_PIPELINE);
    let sharding = select(vec![Sharding::None, Sharding::Gradients, Sharding::FSDP, late, later]);
    let degrees = [small(), small(), small(), small(), small()];
    let flags = (any::<bool>(), any::<bool>());
    (degrees, flags, sharding, schedule).prop_map(|(degrees, flags, sharding, schedule)| {
        let [dp, tp, pp, cp, ep] = degrees;
        let (sequence_parallel, ends_count) = flags;
        let recompute = Recompute::Full;
        Layout {
            dp,
            tp,
            pp,
            cp,
            ep,
            sequence_parallel,
            sharding,
            schedule,
            recompute,
            ends_count,
            ..Layout::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn refused_or_right(
        model in model(),
        layout in layout(),
        batch in [number(), number(), number()],
        precision in [number(), number()],
        peak in number(),
        mfu in small(),
        sync in prop_oneof![
            Just(SyncMode::EveryStep),
            small().prop_map(|period| SyncMode::Local { period }),
        ],
        packing in prop_oneof![
            Just(Compression::Fp16),
            small().prop_map(|block| Compression::Int8 { block }),
            small().prop_map(|per_million| Compression::TopK { per_million }),
        ],
        step in any::<u32>(),
    ) {
        let [sequence, micro, global] = batch;
        let gpu = Gpu { name: "any".to_owned(), peak, memory: peak, mfu };
        let draft = Draft {
            precision: Precision { compute: precision[0], gradients: precision[1] },
            sync,
            compression: packing,
            ..Draft::new(model, gpu, layout, Batch { sequence, micro, global })
        };
        let Ok(job) = draft.check() else { return Ok(()) };
        let passes = u64::from(job.micro_batches()) * u64::from(job.model().layers);
        if passes <= 2000 {
            let iteration = job.iteration(step).unwrap();
            for stage in 0..job.layout().pp {
                prop_assert_eq!(iteration.volumes(job.layout(), stage), job.closed_form(stage, step));
            }
            let gpu = &job.draft().gpu;
            let longest = iteration.operations().iter().map(|it| it.compute_time(gpu)).max();
            prop_assert!(Some(iteration.compute_bound(gpu)) >= longest);
        }
    }
}
