//! [`Draft::check`]: checks whether a job's settings are consistent. It reports every problem, each with the nearest choice that
//! works, because people change one number after another until it fits.

use crate::job::{Draft, Job};
use crate::layout::{Schedule, Sharding};
use crate::model::{Attention, Model, Shape, Transformer};
use crate::refusal::{Refusal, Refusals, nearest_divisors, nearest_multiples};
use crate::sync::{Compression, SyncMode};

/// The limit of degrees of parallelism, layers and experts: more than any job has, and small enough that sums
/// do not overflow.
const MOST: u64 = 1 << 20;
/// The limit of widths, vocabularies, tokens of a sequence, and sequences of a batch.
const WIDEST: u64 = 1 << 28;
/// The limit of bytes per number.
const MOST_BYTES: u128 = 16;
/// The limit of parameters, of bytes of one layer's activations, and of operations per token.
const LARGEST: u128 = 1 << 50;
/// The limit of micro-batches times layers in one step, because the DAG has some twenty operations for each.
const MOST_PASSES: u128 = 1 << 19;

/// The problems found so far.
struct Findings(Vec<Refusal>);

impl Findings {
    fn refuse(&mut self, problem: impl Into<String>, nearest: impl Into<String>) {
        self.0.push(Refusal { problem: problem.into(), nearest: nearest.into() });
    }

    /// `parts` must divide `whole`.
    fn divides(&mut self, parts: u64, whole: u64, what: &str, by: &str, key: &str) {
        if !whole.is_multiple_of(parts) {
            let nearest = nearest_divisors(whole, parts);
            self.refuse(
                format!("{whole} {what} cannot be split over {parts} {by}"),
                format!("choose {key} {nearest}"),
            );
        }
    }

    fn end(self) -> Result<(), Refusals> {
        if self.0.is_empty() { Ok(()) } else { Err(Refusals(self.0)) }
    }
}

impl Draft {
    /// The checked job, or all problems.
    pub fn check(self) -> Result<Job, Refusals> {
        // Numbers that are zero or absurd first: everything after them divides and multiplies.
        let mut findings = Findings(Vec::new());
        self.check_numbers(&mut findings);
        findings.end()?;
        let mut findings = Findings(Vec::new());
        self.check_sizes(&mut findings);
        findings.end()?;
        let mut findings = Findings(Vec::new());
        self.check_ranks(&mut findings);
        self.check_model(&mut findings);
        self.check_batch(&mut findings);
        self.check_sync(&mut findings);
        findings.end()?;
        Ok(Job::checked(self))
    }

    fn check_numbers(&self, findings: &mut Findings) {
        let Self { layout, batch, precision, model, .. } = self;
        let chunks = u64::from(layout.schedule.chunks());
        let mut numbers = vec![
            ("dp", layout.dp.into(), MOST),
            ("tp", layout.tp.into(), MOST),
            ("pp", layout.pp.into(), MOST),
            ("cp", layout.cp.into(), MOST),
            ("ep", layout.ep.into(), MOST),
            ("chunks", chunks, MOST),
            ("layers", model.layers.into(), MOST),
            ("sequence", batch.sequence, WIDEST),
            ("micro-batch", batch.micro, WIDEST),
            ("global batch", batch.global, WIDEST),
            ("bytes per number", precision.compute, 16),
            ("bytes per gradient", precision.gradients, 16),
            ("GPU's peak", self.gpu.peak, u64::MAX),
            ("GPU's memory bandwidth", self.gpu.memory, u64::MAX),
            ("MFU", self.gpu.mfu.into(), 1000),
        ];
        match &model.shape {
            Shape::Transformer(it) => numbers.extend(widths(it)),
            Shape::Opaque { parameters } => numbers.push(("parameters", *parameters, 1 << 50)),
        }
        for (name, number, most) in may_be_zero(model) {
            if number > most {
                findings.refuse(format!("{name} of {number}"), format!("choose {name} {most}"));
            }
        }
        for (name, number, most) in numbers {
            if number == 0 || number > most {
                let unit = if name == "MFU" { " thousandths" } else { "" };
                findings.refuse(
                    format!("{name} of {number}{unit}"),
                    format!("choose {name} {}", if number == 0 { 1 } else { most }),
                );
            }
        }
    }

    /// Checks that products of sizes are so small that later computations fit into 64 bits.
    fn check_sizes(&self, findings: &mut Findings) {
        let Self { layout, batch, model, .. } = self;
        if let Shape::Transformer(it) = &model.shape {
            let layers = u128::from(model.layers);
            let [hidden, vocab, positions] = [it.hidden, it.vocab, it.positions].map(u128::from);
            let table = it.embedding.map_or(vocab * hidden, u128::from);
            let parameters = most_in_layer(it) * layers + 2 * table + (positions + 2) * hidden;
            let tokens = u128::from(batch.sequence) * u128::from(batch.micro);
            let widest = it.hidden.max(it.attention.context_width(1)).max(4);
            let active = it.experts.map_or(1, |it| it.active);
            let activations = tokens * u128::from(widest) * u128::from(active) * MOST_BYTES;
            let scores = 4 * most_in_scores(it.attention) * u128::from(batch.sequence);
            if [parameters, activations, scores].into_iter().any(|it| it > LARGEST) {
                findings.refuse(
                    "parameters, or what a layer makes of a micro-batch, of more than 2^50",
                    "choose a smaller model, sequence or micro-batch",
                );
            }
        }
        let ranks = u128::from(layout.dp) * u128::from(layout.tp) * u128::from(layout.cp);
        if ranks * u128::from(layout.pp) > u128::from(MOST) {
            findings.refuse(
                format!("{} ranks", ranks * u128::from(layout.pp)),
                format!("choose at most {MOST}"),
            );
        }
        let micro_batches = u128::from(batch.global / batch.micro / u64::from(layout.dp));
        if (u128::from(model.layers) + 2) * micro_batches > MOST_PASSES {
            findings.refuse(
                format!(
                    "{micro_batches} micro-batches through {} layers in one step",
                    model.layers
                ),
                "choose a larger micro-batch or a smaller global batch",
            );
        }
    }

    fn check_ranks(&self, findings: &mut Findings) {
        let layout = &self.layout;
        if let Some(gpus) = self.gpus.filter(|it| *it != layout.ranks()) {
            let rest = u64::from(layout.tp) * u64::from(layout.pp) * u64::from(layout.cp);
            let nearest = if gpus > 0 && gpus.is_multiple_of(rest) {
                format!("choose dp {}", gpus / rest)
            } else {
                format!("choose {} GPUs", nearest_multiples(rest, gpus))
            };
            let (tp, cp, dp, pp) = (layout.tp, layout.cp, layout.dp, layout.pp);
            findings.refuse(
                format!(
                    "tp {tp} × cp {cp} × dp {dp} × pp {pp} is {} ranks, not {gpus}",
                    layout.ranks()
                ),
                nearest,
            );
        }
        findings.divides(
            layout.ep.into(),
            layout.dp.into(),
            "data-parallel ranks",
            "expert-parallel ones",
            "ep",
        );
        self.check_stages(findings);
    }

    fn check_stages(&self, findings: &mut Findings) {
        let layout = &self.layout;
        let chunks = u64::from(layout.pp) * u64::from(layout.schedule.chunks());
        let ends = if layout.ends_count { 2 } else { 0 };
        let layers = u64::from(self.model.layers) + ends;
        if !layers.is_multiple_of(chunks) {
            let mut nearest = format!("choose pp × chunks {}", nearest_divisors(layers, chunks));
            if ends == 0 && (layers + 2).is_multiple_of(chunks) {
                nearest.push_str(", or count embedding and head as layers (`ends_count`)");
            }
            findings.refuse(
                format!("{layers} layers cannot be split over {chunks} chunks of the pipeline"),
                nearest,
            );
        } else if ends > 0 && chunks == 1 {
            findings.refuse(
                "embedding and head count as layers, but there is one stage",
                "choose `ends_count` false",
            );
        }
        if let Schedule::Interleaved { chunks } = layout.schedule
            && (chunks < 2 || layout.pp < 2)
        {
            findings.refuse(
                format!("an interleaved schedule with {chunks} chunks on {} stages", layout.pp),
                "choose at least 2 of both, or the schedule 1f1b",
            );
        }
    }

    fn check_model(&self, findings: &mut Findings) {
        let Self { model, layout, .. } = self;
        match &model.shape {
            Shape::Transformer(it) => self.check_transformer(it, findings),
            Shape::Opaque { .. } => {
                if [layout.tp, layout.pp, layout.cp, layout.ep].iter().any(|it| *it > 1) {
                    findings.refuse(
                        format!("of {} only the number of parameters is known, so nothing says what its parts send each other", model.name),
                        "choose tp, pp, cp and ep 1",
                    );
                }
            }
        }
        if layout.ep > 1 && !has_experts(model) {
            findings.refuse(
                format!("{} has no experts to spread over ep {}", model.name, layout.ep),
                "choose ep 1",
            );
        }
    }

    fn check_transformer(&self, it: &Transformer, findings: &mut Findings) {
        let (tp, ep) = (u64::from(self.layout.tp), u64::from(self.layout.ep));
        findings.divides(
            tp,
            it.attention.heads(),
            "attention heads",
            "tensor-parallel ranks",
            "tp",
        );
        findings.divides(
            tp,
            it.ffn,
            "columns of the feed-forward part",
            "tensor-parallel ranks",
            "tp",
        );
        if let Attention::Grouped { kv_heads, .. } = it.attention {
            // More ranks than keys and values is fine: ranks hold copies then.
            if !kv_heads.is_multiple_of(tp) && !tp.is_multiple_of(kv_heads) {
                findings.divides(
                    tp,
                    kv_heads,
                    "heads of keys and values",
                    "tensor-parallel ranks",
                    "tp",
                );
            }
        }
        if let Some(experts) = it.experts {
            findings.divides(ep, experts.count, "experts", "expert-parallel ranks", "ep");
            findings.divides(
                tp,
                experts.ffn,
                "columns of an expert",
                "tensor-parallel ranks",
                "tp",
            );
            if experts.active > experts.count {
                findings.refuse(
                    format!("a token goes to {} of {} experts", experts.active, experts.count),
                    format!("choose active {}", experts.count),
                );
            }
        }
    }

    fn check_batch(&self, findings: &mut Findings) {
        let Self { layout, batch, .. } = self;
        let pieces = if layout.sequence_parallel { layout.tp } else { 1 };
        let pieces = u64::from(layout.cp) * u64::from(pieces);
        if !batch.sequence.is_multiple_of(pieces) {
            findings.refuse(
                format!("a sequence of {} tokens cannot be cut into {pieces} equal pieces for cp and sequence parallelism", batch.sequence),
                format!("choose sequence {}", nearest_multiples(pieces, batch.sequence)),
            );
        }
        let step = batch.micro * u64::from(layout.dp);
        if !batch.global.is_multiple_of(step) {
            findings.refuse(
                format!(
                    "a global batch of {} sequences is no multiple of micro-batch {} × dp {}",
                    batch.global, batch.micro, layout.dp
                ),
                format!("choose global {}", nearest_multiples(step, batch.global)),
            );
        } else if let Schedule::Interleaved { .. } = layout.schedule {
            let (count, pp) = (batch.global / step, u64::from(layout.pp));
            if !count.is_multiple_of(pp) {
                findings.refuse(
                    format!("the interleaved schedule takes micro-batches in groups of pp {pp}, and there are {count}"),
                    format!("choose global {}", nearest_multiples(step * pp, batch.global)),
                );
            }
        }
    }

    fn check_sync(&self, findings: &mut Findings) {
        let sharded = self.layout.sharding != Sharding::None;
        if let SyncMode::Local { period } = self.sync {
            if period == 0 {
                findings.refuse("local SGD with a period of 0 steps", "choose period 1");
            }
            if sharded {
                findings.refuse(
                    "local SGD lets replicas differ, but sharding keeps one copy among them",
                    "choose sharding none",
                );
            }
        }
        if let Compression::TopK { per_million } = self.compression {
            if per_million == 0 || per_million > 1_000_000 {
                findings.refuse(
                    format!("top-k that keeps {per_million} of a million"),
                    "choose 1 to 1000000",
                );
            }
            if sharded {
                findings.refuse(
                    "top-k leaves no equal shards to scatter",
                    "choose sharding none, or compression int8",
                );
            }
        }
        if self.compression == (Compression::Int8 { block: 0 }) {
            findings.refuse("int8 with blocks of 0 numbers", "choose block 256");
        }
    }
}

fn has_experts(model: &Model) -> bool {
    matches!(&model.shape, Shape::Transformer(it) if it.experts.is_some())
}

/// At least as many parameters as any layer has, without overflow.
fn most_in_layer(it: &Transformer) -> u128 {
    let [h, ffn] = [it.hidden, it.ffn].map(u128::from);
    let attention = match it.attention {
        Attention::Grouped { heads, kv_heads, head_dim } => {
            2 * (h + 1) * (u128::from(heads) + u128::from(kv_heads)) * u128::from(head_dim) + h
        }
        Attention::Latent { heads, q_rank, kv_rank, plain_dim, rotary_dim, value_dim } => {
            let [heads, q, kv] = [heads, q_rank, kv_rank].map(u128::from);
            let dims = [plain_dim, rotary_dim, value_dim].map(u128::from).iter().sum::<u128>();
            (h + 1) * (q + kv + dims) + heads * dims * (q + kv + h)
        }
    };
    let feed_forward = |ffn: u128| (3 * h + 1) * ffn + h;
    let experts = it.experts.map_or(0, |it| {
        let count = u128::from(it.count) + u128::from(it.shared) + u128::from(it.active);
        count * (feed_forward(u128::from(it.ffn)) + h)
    });
    attention + feed_forward(ffn) + experts + 4 * h
}

/// At least as many multiply-adds as attention has per token and position.
fn most_in_scores(attention: Attention) -> u128 {
    match attention {
        Attention::Grouped { heads, head_dim, .. } => 2 * u128::from(heads) * u128::from(head_dim),
        Attention::Latent { heads, plain_dim, rotary_dim, value_dim, .. } => {
            let dims = [plain_dim, rotary_dim, value_dim].map(u128::from).iter().sum::<u128>();
            u128::from(heads) * dims
        }
    }
}

/// The numbers of a model that may be zero.
fn may_be_zero(model: &Model) -> Vec<(&'static str, u64, u64)> {
    let Shape::Transformer(it) = &model.shape else { return Vec::new() };
    vec![
        ("positions", it.positions, WIDEST),
        ("shared experts", it.experts.map_or(0, |it| it.shared), MOST),
        ("embedding", it.embedding.unwrap_or(0), 1 << 50),
    ]
}

/// The numbers of a transformer that may not be zero.
fn widths(it: &Transformer) -> Vec<(&'static str, u64, u64)> {
    let mut all = vec![
        ("hidden", it.hidden, WIDEST),
        ("vocab", it.vocab, WIDEST),
        ("ffn", it.ffn, WIDEST),
        ("heads", it.attention.heads(), MOST),
    ];
    match it.attention {
        Attention::Grouped { kv_heads, head_dim, .. } => {
            all.extend([("kv_heads", kv_heads, MOST), ("head_dim", head_dim, MOST)]);
        }
        Attention::Latent { q_rank, kv_rank, plain_dim, rotary_dim, value_dim, .. } => {
            all.extend([("q_rank", q_rank, MOST), ("kv_rank", kv_rank, MOST)]);
            all.extend([("plain_dim", plain_dim, MOST), ("rotary_dim", rotary_dim, MOST)]);
            all.push(("value_dim", value_dim, MOST));
        }
    }
    if let Some(experts) = it.experts {
        all.extend([("experts", experts.count, MOST), ("active", experts.active, MOST)]);
        all.push(("expert ffn", experts.ffn, WIDEST));
    }
    all
}
