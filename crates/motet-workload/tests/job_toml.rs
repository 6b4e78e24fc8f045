//! Jobs as people write them: known names, numbers of one's own, and what is wrong with its place.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_units::Duration;
use motet_workload::formats::job_toml::read;
use motet_workload::{
    Compression, Gpu, Recompute, Reduction, Schedule, Sharding, SyncMode, models,
};

const OPUS: &str = r#"
model = "llama3-8b"
gpu = { name = "a100", mfu = 0.45 }
gpus = 16

[layout]
tp = 4
dp = 2
pp = 2
sharding = "fsdp"

[batch]
sequence = 8192
micro = 2
global = 8
"#;

#[test]
fn reads_names_and_defaults() {
    let draft = read(OPUS).unwrap();
    assert_eq!(Some(draft.model.clone()), models::named("llama3-8b"));
    assert_eq!(draft.gpu, Gpu { mfu: 450, ..Gpu::named("a100").unwrap() });
    // With a pipeline parameters stay gathered and gradients are reduced once.
    assert_eq!(draft.layout.sharding, Sharding::FSDP_IN_PIPELINE);
    assert_eq!(draft.host.call, Duration::ZERO);
    assert_eq!(draft.check().unwrap().micro_batches(), 2);
    let flat = read(&OPUS.replace("pp = 2", "pp = 1")).unwrap();
    assert_eq!(flat.layout.sharding, Sharding::FSDP);
    for (word, reduction) in [
        ("in-pass", Reduction::InPass),
        ("before-send", Reduction::BeforeSend),
        ("after-send", Reduction::AfterSend),
    ] {
        let draft = read(&OPUS.replace("pp = 2", &format!("pp = 2\nreduce = \"{word}\""))).unwrap();
        let sharding = Sharding::Parameters { free: false, each: false, reduction };
        assert_eq!(draft.layout.sharding, sharding);
    }
    let first = OPUS.replace("pp = 2", "pp = 2\nhead_first = true");
    assert!(read(&first).unwrap().layout.head_first);
    let freed = read(&first.replace("pp = 2", "pp = 1")).unwrap_err().to_string();
    assert!(freed.contains("`head_first` is for parameters that are gathered once"), "{freed}");
    let host = read(&format!("{OPUS}\n[host]\ncall = \"200 us\"\n")).unwrap().host;
    assert_eq!(host.call, Duration::from_us(200));
}

#[test]
fn reads_numbers_of_ones_own() {
    let text = r#"
[model]
name = "mine"
layers = 32
hidden = 4096
vocab = 32000
ffn = 14336
heads = 32
kv_heads = 8
experts = { count = 8, active = 2, ffn = 14336 }
[gpu]
name = "h100-pcie"
peak_tflops = 756.5
memory = "2 TB/s"
[layout]
dp = 8
ep = 4
schedule = "interleaved"
chunks = 4
recompute = "full"
[batch]
sequence = 4096
micro = 1
global = 64
[sync]
period = 16
[compression]
kind = "top-k"
keep_per_million = 1000
"#;
    let draft = read(text).unwrap();
    assert_eq!(draft.model.parameters(), models::named("mixtral-8x7b").unwrap().parameters());
    assert_eq!((draft.gpu.peak, draft.gpu.memory), (756_500_000_000_000, 2_000_000_000_000));
    assert_eq!(draft.layout.schedule, Schedule::Interleaved { chunks: 4 });
    assert_eq!(draft.layout.recompute, Recompute::Full);
    assert_eq!(draft.sync, SyncMode::Local { period: 16 });
    assert_eq!(draft.compression, Compression::TopK { per_million: 1000 });
}

#[test]
fn what_is_wrong_has_a_place_and_a_remedy() {
    let wrong = |from: &str, to: &str| {
        assert!(OPUS.contains(from));
        let error = read(&OPUS.replace(from, to)).unwrap_err();
        let at = error.at.map(|it| it.line);
        (at, error.problem, error.remedy.unwrap_or_default())
    };
    let (at, problem, remedy) = wrong("llama3-8b", "llama9");
    assert_eq!((at, problem.as_str()), (Some(2), "there is no model `llama9`"));
    assert!(remedy.starts_with("use llama3-8b, llama3-70b"));
    let (at, problem, _) = wrong("tp = 4", "tensor = 4");
    assert_eq!(at, Some(7));
    assert!(problem.contains("unknown field `tensor`"), "{problem}");
    let (at, problem, _) = wrong("sharding = \"fsdp\"", "reduce_each = true");
    assert_eq!(
        (at, problem.as_str()),
        (Some(10), "`reduce_each` is for sharding = \"parameters\" only")
    );
    let (at, problem, _) = wrong("0.45", "0.45678");
    assert_eq!(at, Some(3));
    assert!(problem.contains("at most three decimals"), "{problem}");
    let (at, problem, _) = wrong("\"a100\"", "\"a900\"");
    assert_eq!((at, problem.as_str()), (Some(3), "the figures of GPU `a900` are not known"));
    let (_, problem, _) = wrong("\"fsdp\"", "\"zero4\"");
    assert!(problem.contains("zero4"), "{problem}");
}
