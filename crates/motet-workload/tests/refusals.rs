//! Jobs that cannot be are refused with the reason and the nearest choice, all at once.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_workload::{
    Batch, Compression, Draft, Gpu, Layout, Schedule, Sharding, SyncMode, models,
};

fn draft(model: &str, layout: Layout) -> Draft {
    let (model, gpu) = (models::named(model).unwrap(), Gpu::named("h100").unwrap());
    Draft::new(model, gpu, layout, Batch { sequence: 8192, micro: 1, global: 64 })
}

fn refused(draft: Draft) -> String {
    draft.check().unwrap_err().to_string()
}

#[test]
fn layers_that_do_not_divide_name_both_ways_out() {
    let layout = Layout { tp: 8, pp: 16, dp: 8, ..Layout::default() };
    assert_eq!(
        refused(draft("llama3-405b", layout.clone())),
        "126 layers cannot be split over 16 chunks of the pipeline: choose pp × chunks 14 or 18, or count \
         embedding and head as layers (`ends_count`)"
    );
    assert!(draft("llama3-405b", Layout { ends_count: true, ..layout }).check().is_ok());
}

#[test]
fn everything_is_said_at_once() {
    let layout = Layout { tp: 3, dp: 5, ep: 2, ..Layout::default() };
    let refusals = draft("llama3-8b", layout).check().unwrap_err();
    let problems: Vec<&str> = refusals.0.iter().map(|it| it.problem.as_str()).collect();
    assert_eq!(
        problems,
        [
            "5 data-parallel ranks cannot be split over 2 expert-parallel ones",
            "32 attention heads cannot be split over 3 tensor-parallel ranks",
            "14336 columns of the feed-forward part cannot be split over 3 tensor-parallel ranks",
            "8 heads of keys and values cannot be split over 3 tensor-parallel ranks",
            "llama3-8b has no experts to spread over ep 2",
            "a sequence of 8192 tokens cannot be cut into 3 equal pieces for cp and sequence parallelism",
            "a global batch of 64 sequences is no multiple of micro-batch 1 × dp 5",
        ]
    );
    assert_eq!(refusals.0[1].nearest, "choose tp 2 or 4");
    assert_eq!(refusals.0[6].nearest, "choose global 60 or 65");
}

#[test]
fn ranks_must_be_the_gpus_there_are() {
    let layout = Layout { tp: 4, pp: 2, dp: 4, ..Layout::default() };
    let with = |gpus| Draft { gpus: Some(gpus), ..draft("llama3-8b", layout.clone()) };
    assert!(with(32).check().is_ok());
    assert_eq!(refused(with(16)), "tp 4 × cp 1 × dp 4 × pp 2 is 32 ranks, not 16: choose dp 2");
    assert!(refused(with(20)).ends_with("choose 16 or 24 GPUs"));
}

#[test]
fn schedules_sync_and_compression_have_conditions() {
    let interleaved = Schedule::Interleaved { chunks: 2 };
    let layout = Layout { pp: 4, schedule: interleaved, ..Layout::default() };
    let uneven = Draft {
        batch: Batch { sequence: 8192, micro: 1, global: 6 },
        ..draft("llama3-8b", layout)
    };
    assert!(refused(uneven).ends_with("choose global 4 or 8"));
    let sharded = Layout { dp: 4, sharding: Sharding::Optimizer, ..Layout::default() };
    let local =
        Draft { sync: SyncMode::Local { period: 8 }, ..draft("llama3-8b", sharded.clone()) };
    assert!(refused(local).contains("sharding none"));
    let sparse = Compression::TopK { per_million: 1000 };
    let sparse = Draft { compression: sparse, ..draft("llama3-8b", sharded) };
    assert!(refused(sparse).contains("no equal shards"));
    let split = draft("fusion-270m", Layout { tp: 2, ..Layout::default() });
    assert!(refused(split).contains("only the number of parameters is known"));
}

#[test]
fn zeros_and_absurd_numbers_do_not_reach_the_arithmetic() {
    let zero = draft("llama3-8b", Layout { tp: 0, ..Layout::default() });
    assert_eq!(refused(zero), "tp of 0: choose tp 1");
    let many = draft("llama3-8b", Layout { dp: u32::MAX, ..Layout::default() });
    assert!(refused(many).starts_with("dp of 4294967295"));
    let huge = Batch { sequence: 1 << 28, micro: 1 << 28, global: 1 << 28 };
    assert!(
        refused(Draft { batch: huge, ..draft("llama3-8b", Layout::default()) }).contains("2^50")
    );
    let mfu = Gpu { mfu: 1001, ..Gpu::named("a100").unwrap() };
    let fast = Draft { gpu: mfu, ..draft("llama3-8b", Layout::default()) };
    assert_eq!(refused(fast), "MFU of 1001 thousandths: choose MFU 1000");
}
