//! A training job in TOML, read into a [`Draft`].
//!
//! ```toml
//! model = "llama3-8b"      # or a table [model] with numbers of one's own
//! gpu = "a100"             # or a table [gpu]
//! gpus = 16                # optional: the layout must use them all
//!
//! [layout]
//! tp = 4
//! dp = 2
//! pp = 2
//! sharding = "parameters"  # none, optimizer (ZeRO-1), gradients (ZeRO-2), parameters (ZeRO-3, FSDP)
//! schedule = "1f1b"        # or zero-bubble, or interleaved with chunks = 2
//!
//! [batch]
//! sequence = 8192
//! micro = 2
//! global = 8
//! ```
//!
//! Whether the settings are consistent is checked by [`Draft::check`].

use motet_net::formats::{ReadError, read_toml};
use motet_units::{Bandwidth, Duration};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::gpu::{Gpu, USUAL_MFU};
use crate::job::{Batch, Draft, Host, Precision};
use crate::layout::{Layout, Recompute, Reduction, Schedule, Sharding};
use crate::model::{Attention, Experts, Model, Shape, Transformer};
use crate::models;
use crate::sync::{Compression, SyncMode};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Spanned<toml::Value>,
    gpu: Spanned<toml::Value>,
    gpus: Option<u64>,
    #[serde(default)]
    layout: LayoutTable,
    batch: BatchTable,
    #[serde(default)]
    precision: PrecisionTable,
    sync: Option<SyncTable>,
    compression: Option<CompressionTable>,
    #[serde(default)]
    host: HostTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutTable {
    dp: Option<u32>,
    tp: Option<u32>,
    pp: Option<u32>,
    cp: Option<u32>,
    ep: Option<u32>,
    sequence_parallel: Option<bool>,
    sharding: Option<ShardingName>,
    /// Only with `sharding = "parameters"`.
    free_after_forward: Option<Spanned<bool>>,
    /// Only with `sharding = "parameters"`.
    reduce_each: Option<Spanned<bool>>,
    /// Only with `sharding = "parameters"`.
    reduce: Option<Spanned<ReductionName>>,
    /// Only with sharded parameters that are gathered once (`free_after_forward = false`).
    head_first: Option<Spanned<bool>>,
    schedule: Option<ScheduleName>,
    exchange: Option<bool>,
    /// Only with `schedule = "interleaved"`.
    chunks: Option<Spanned<u32>>,
    recompute: Option<RecomputeName>,
    ends_count: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ShardingName {
    None,
    #[serde(alias = "zero1")]
    Optimizer,
    #[serde(alias = "zero2")]
    Gradients,
    #[serde(alias = "zero3", alias = "fsdp")]
    Parameters,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ReductionName {
    InPass,
    BeforeSend,
    AfterSend,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ScheduleName {
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    Interleaved,
    ZeroBubble,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecomputeName {
    None,
    Gathered,
    Full,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchTable {
    sequence: u64,
    micro: u64,
    global: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrecisionTable {
    compute: Option<u64>,
    gradients: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    call: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SyncTable {
    period: u32,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum CompressionTable {
    Fp16,
    Int8 { block: Option<u32> },
    TopK { keep_per_million: u32 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuTable {
    /// The name of a known GPU, whose figures are the defaults of this table; or any name, if all figures are
    /// given.
    name: String,
    peak_tflops: Option<f64>,
    memory: Option<Bandwidth>,
    mfu: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    name: String,
    layers: u32,
    /// Only for a model of which nothing else is known.
    parameters: Option<u64>,
    hidden: Option<u64>,
    vocab: Option<u64>,
    ffn: Option<u64>,
    heads: Option<u64>,
    kv_heads: Option<u64>,
    head_dim: Option<u64>,
    gated: Option<bool>,
    biases: Option<bool>,
    positions: Option<u64>,
    tied: Option<bool>,
    latent: Option<LatentTable>,
    experts: Option<ExpertsTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatentTable {
    q_rank: u64,
    kv_rank: u64,
    plain_dim: u64,
    rotary_dim: u64,
    value_dim: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpertsTable {
    count: u64,
    active: u64,
    #[serde(default)]
    shared: u64,
    ffn: u64,
    #[serde(default)]
    dense_layers: u32,
}

/// Reads the text of a job.
pub fn read(text: &str) -> Result<Draft, ReadError> {
    let file: File = read_toml(text)?;
    let gradients = file.precision.gradients.unwrap_or(Precision::default().gradients);
    let compute = file.precision.compute.unwrap_or(Precision::default().compute);
    let BatchTable { sequence, micro, global } = file.batch;
    Ok(Draft {
        model: model(text, &file.model)?,
        gpu: gpu(text, &file.gpu)?,
        layout: layout(text, &file.layout)?,
        batch: Batch { sequence, micro, global },
        precision: Precision { compute, gradients },
        sync: file.sync.map_or(SyncMode::EveryStep, |it| SyncMode::Local { period: it.period }),
        compression: match file.compression {
            None => Compression::None,
            Some(CompressionTable::Fp16) => Compression::Fp16,
            Some(CompressionTable::Int8 { block }) => {
                Compression::Int8 { block: block.unwrap_or(256) }
            }
            Some(CompressionTable::TopK { keep_per_million }) => {
                Compression::TopK { per_million: keep_per_million }
            }
        },
        gpus: file.gpus,
        host: Host { call: file.host.call.unwrap_or(Duration::ZERO) },
    })
}

/// Reads a table in a place where a name is allowed too.
fn table<T: DeserializeOwned>(text: &str, value: &Spanned<toml::Value>) -> Result<T, ReadError> {
    T::deserialize(value.get_ref().clone())
        .map_err(|error| ReadError::new(error.message()).at(text, value.span().start))
}

fn model(text: &str, value: &Spanned<toml::Value>) -> Result<Model, ReadError> {
    let wrong = |problem: String| ReadError::new(problem).at(text, value.span().start);
    if let toml::Value::String(name) = value.get_ref() {
        return models::named(name).ok_or_else(|| {
            let known: Vec<String> = models::known().into_iter().map(|it| it.name).collect();
            wrong(format!("there is no model `{}`", motet_units::brief(name)))
                .with_remedy(format!("use {}, or a table [model]", known.join(", ")))
        });
    }
    let it: ModelTable = table(text, value)?;
    if let Some(parameters) = it.parameters {
        if it.hidden.is_some() || it.heads.is_some() || it.ffn.is_some() {
            return Err(wrong("a model has `parameters` or its sizes, not both".to_owned())
                .with_remedy("leave out `parameters`: they are counted"));
        }
        let shape = Shape::Opaque { parameters };
        return Ok(Model { name: it.name, layers: it.layers, shape });
    }
    let need = |number: Option<u64>, key: &str| {
        number.ok_or_else(|| {
            wrong(format!("the model lacks `{key}`"))
                .with_remedy("give hidden, vocab, ffn and heads, or `parameters` alone")
        })
    };
    let (hidden, heads) = (need(it.hidden, "hidden")?, need(it.heads, "heads")?);
    let attention = match it.latent {
        None => Attention::Grouped {
            heads,
            kv_heads: it.kv_heads.unwrap_or(heads),
            head_dim: it.head_dim.unwrap_or_else(|| hidden / heads.max(1)),
        },
        Some(LatentTable { q_rank, kv_rank, plain_dim, rotary_dim, value_dim }) => {
            Attention::Latent { heads, q_rank, kv_rank, plain_dim, rotary_dim, value_dim }
        }
    };
    let experts = it.experts.map(|ExpertsTable { count, active, shared, ffn, dense_layers }| {
        Experts { count, active, shared, ffn, dense_layers }
    });
    let shape = Transformer {
        hidden,
        vocab: need(it.vocab, "vocab")?,
        ffn: need(it.ffn, "ffn")?,
        gated: it.gated.unwrap_or(true),
        biases: it.biases.unwrap_or(false),
        positions: it.positions.unwrap_or(0),
        tied: it.tied.unwrap_or(false),
        embedding: None,
        attention,
        experts,
    };
    Ok(Model { name: it.name, layers: it.layers, shape: Shape::Transformer(shape) })
}

fn gpu(text: &str, value: &Spanned<toml::Value>) -> Result<Gpu, ReadError> {
    let wrong = |problem: String| {
        let known: Vec<&str> = Gpu::names().collect();
        let remedy =
            format!("use {}, or a table [gpu] with name, peak_tflops and memory", known.join(", "));
        ReadError::new(problem).at(text, value.span().start).with_remedy(remedy)
    };
    if let toml::Value::String(name) = value.get_ref() {
        return Gpu::named(name)
            .ok_or_else(|| wrong(format!("there is no GPU `{}`", motet_units::brief(name))));
    }
    let it: GpuTable = table(text, value)?;
    let known = Gpu::named(&it.name);
    let peak = match it.peak_tflops {
        // A thousandth of a TFLOP/s is finer than any data sheet.
        Some(tera) => Some(thousandths(tera).ok_or_else(|| {
            wrong("`peak_tflops` is a positive number with at most three decimals".to_owned())
        })?),
        None => None,
    };
    let mfu = match it.mfu {
        Some(share) => {
            thousandths(share).and_then(|it| u32::try_from(it).ok()).ok_or_else(|| {
                wrong("`mfu` is a share between 0 and 1 with at most three decimals".to_owned())
            })?
        }
        None => USUAL_MFU,
    };
    let peak = peak.map(|it| it.saturating_mul(1_000_000_000)).or(known.as_ref().map(|it| it.peak));
    let memory = it.memory.map(|it| it.bits_per_s() / 8).or(known.as_ref().map(|it| it.memory));
    let (Some(peak), Some(memory)) = (peak, memory) else {
        return Err(wrong(format!(
            "the figures of GPU `{}` are not known",
            motet_units::brief(&it.name)
        )));
    };
    Ok(Gpu { name: it.name, peak, memory, mfu })
}

/// A number in thousandths; `None` if that is not a whole number.
fn thousandths(number: f64) -> Option<u64> {
    let scaled = number * 1000.0;
    let whole = scaled.round();
    let fits = (0.0..1e15).contains(&scaled) && (scaled - whole).abs() < 1e-6;
    fits.then_some(whole as u64)
}

/// The value of a flag, or what is usual.
fn flag(value: Option<&Spanned<bool>>, usual: bool) -> bool {
    value.map_or(usual, |it| *it.get_ref())
}

impl LayoutTable {
    /// Whether parameters are freed after the forward pass. TorchTitan's default: with a pipeline, gather and reduce once
    /// per step, at its end.
    fn frees(&self) -> bool {
        flag(self.free_after_forward.as_ref(), self.pp.unwrap_or(1) == 1)
    }

    fn sharding(&self) -> Sharding {
        let pp = self.pp.unwrap_or(1);
        match self.sharding {
            None | Some(ShardingName::None) => Sharding::None,
            Some(ShardingName::Optimizer) => Sharding::Optimizer,
            Some(ShardingName::Gradients) => Sharding::Gradients,
            Some(ShardingName::Parameters) => Sharding::Parameters {
                free: self.frees(),
                each: flag(self.reduce_each.as_ref(), pp == 1),
                reduction: match self.reduce.as_ref().map(|it| *it.get_ref()) {
                    Some(ReductionName::InPass) => Reduction::InPass,
                    Some(ReductionName::BeforeSend) => Reduction::BeforeSend,
                    Some(ReductionName::AfterSend) => Reduction::AfterSend,
                    None if pp > 1 => Reduction::AfterSend,
                    None => Reduction::InPass,
                },
            },
        }
    }
}

/// Keys that mean nothing beside the others.
fn no_misplaced(text: &str, it: &LayoutTable) -> Result<(), ReadError> {
    let misplaced = |start: usize, key: &str, of: &str| {
        ReadError::new(format!("`{key}` is for {of} only"))
            .at(text, start)
            .with_remedy("leave it out")
    };
    if it.sharding != Some(ShardingName::Parameters) {
        let place = |it: &Option<Spanned<bool>>| it.as_ref().map(|it| it.span().start);
        let keys = [
            (place(&it.free_after_forward), "free_after_forward"),
            (place(&it.reduce_each), "reduce_each"),
            (place(&it.head_first), "head_first"),
            (it.reduce.as_ref().map(|it| it.span().start), "reduce"),
        ];
        for (place, key) in keys {
            if let Some(start) = place {
                return Err(misplaced(start, key, "sharding = \"parameters\""));
            }
        }
    }
    if it.schedule != Some(ScheduleName::Interleaved)
        && let Some(value) = &it.chunks
    {
        return Err(misplaced(value.span().start, "chunks", "schedule = \"interleaved\""));
    }
    if let Some(value) = &it.head_first
        && it.frees()
    {
        let of = "parameters that are gathered once (free_after_forward = false)";
        return Err(misplaced(value.span().start, "head_first", of));
    }
    Ok(())
}

fn layout(text: &str, it: &LayoutTable) -> Result<Layout, ReadError> {
    no_misplaced(text, it)?;
    let usual = Layout::default();
    Ok(Layout {
        dp: it.dp.unwrap_or(1),
        tp: it.tp.unwrap_or(1),
        pp: it.pp.unwrap_or(1),
        cp: it.cp.unwrap_or(1),
        ep: it.ep.unwrap_or(1),
        sequence_parallel: it.sequence_parallel.unwrap_or(usual.sequence_parallel),
        sharding: it.sharding(),
        head_first: flag(it.head_first.as_ref(), usual.head_first),
        schedule: match it.schedule {
            None | Some(ScheduleName::OneForwardOneBackward) => Schedule::OneForwardOneBackward,
            Some(ScheduleName::Interleaved) => {
                Schedule::Interleaved { chunks: it.chunks.as_ref().map_or(2, |it| *it.get_ref()) }
            }
            Some(ScheduleName::ZeroBubble) => Schedule::ZeroBubble,
        },
        exchange: it.exchange.unwrap_or(usual.exchange),
        recompute: match it.recompute {
            None | Some(RecomputeName::None) => Recompute::None,
            Some(RecomputeName::Gathered) => Recompute::Gathered,
            Some(RecomputeName::Full) => Recompute::Full,
        },
        ends_count: it.ends_count.unwrap_or(false),
    })
}
