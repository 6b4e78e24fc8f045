//! The job and machine that Opus measured, and the experiments of its evaluation.
//!
//! The paper (§3.1) gives: Llama 3 8B by TorchTitan on four nodes of four A100, TP 4, FSDP 2, PP 2, 1F1B, micro-batches of two. It does not
//! give the sequence, how many micro-batches a step has, or how fast the GPUs computed; [`Setting`] has them with a default each, and
//! [`sensitivity`] varies them. Gradients are reduced before the last of them are sent, as PyTorch did when the paper was written: its windows of
//! a second before ReduceScatter need that order.

use motet_units::{Bytes, Duration};
use motet_workload::{
    Batch, Draft, Gpu, Host, Layout, Refusal, Refusals, Schedule, Sharding, models,
};

use crate::error::RailsError;
use crate::machine::Machine;
use crate::optical::{Delay, Switching};
use crate::step::TrainingStep;

/// The host's (CPU) time per communication call at the end of a step: what PyTorch's calls took in recordings on the host of an
/// H200 (`benches/workload/results`), rounded up.
pub const HOST: Duration = Duration::from_us(200);

/// The parameters of the measured job that the paper does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Tokens per sequence; TorchTitan's for this model is 8192.
    pub sequence: u64,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// Share of the peak that compute reaches, in thousandths.
    pub mfu: u32,
    /// Pipeline stages: 2 in the measurements, 3 in Fig. 3(b).
    pub stages: u32,
    /// The host's time per communication call at the end of a step.
    pub host: Duration,
    /// The GPU's memory, in GB/s: that of an A100 of 80 GB, or of 40 GB.
    pub memory: u64,
}

impl Default for Setting {
    /// Eight micro-batches: a global batch of 32 sequences, a step of nine seconds.
    fn default() -> Self {
        Self { sequence: 8192, micro_batches: 8, mfu: 400, stages: 2, host: HOST, memory: 2039 }
    }
}

fn named<T>(found: Option<T>, name: &str) -> Result<T, RailsError> {
    let refusal = || Refusal {
        problem: format!("`{name}` is not known"),
        nearest: "this is a fault in Motet".to_owned(),
    };
    found.ok_or_else(|| Refusals(vec![refusal()]).into())
}

/// The measured job. With three stages its 32 layers become 33, since stages are equal here.
pub fn measured(setting: &Setting) -> Result<TrainingStep, RailsError> {
    let layout = Layout {
        tp: 4,
        dp: 2,
        pp: setting.stages,
        sharding: Sharding::FSDP_IN_PIPELINE_2025,
        ..Layout::default()
    };
    let mut model = named(models::named("llama3-8b"), "llama3-8b")?;
    model.layers = model.layers.next_multiple_of(setting.stages.max(1));
    let memory = setting.memory * 1_000_000_000;
    let gpu = Gpu { mfu: setting.mfu, memory, ..named(Gpu::named("a100"), "a100")? };
    let batch = Batch { sequence: setting.sequence, micro: 2, global: 4 * setting.micro_batches };
    let host = Host { call: setting.host };
    let job = Draft { host, ..Draft::new(model, gpu, layout, batch) }.check()?;
    TrainingStep::new(job, named(Machine::named("perlmutter"), "perlmutter")?)
}

/// How Llama 3.1 405B is split over ranks, where the paper that counts its windows does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    pub data_parallel: u32,
    /// Sequences of a step over all ranks; 2048 are 16 Mi tokens, as Meta has them.
    pub sequences: u64,
    /// Chunks of layers per stage; 1 for 1F1B.
    pub chunks: u32,
    /// Parameters are gathered, and gradients reduced, for every micro-batch instead of once.
    pub each: bool,
    /// With 1F1B, whether an activation and the gradient going the other way are sent as one exchange.
    pub exchange: bool,
}

/// Llama 3.1 405B as Meta trained it (Llama 3 paper, Table 4): TP 8, PP 16, with as many tokens a step on any number of GPUs, so that more of them
/// mean fewer micro-batches; 126 layers and two ends over the stages.
pub fn large(of: Large) -> Result<TrainingStep, RailsError> {
    let schedule = match of.chunks {
        0 | 1 => Schedule::OneForwardOneBackward,
        chunks => Schedule::Interleaved { chunks },
    };
    let layout = Layout {
        tp: 8,
        dp: of.data_parallel,
        pp: 16,
        schedule,
        sharding: if of.each { Sharding::FSDP } else { Sharding::FSDP_IN_PIPELINE_2025 },
        exchange: of.exchange,
        ends_count: true,
        ..Layout::default()
    };
    let model = named(models::named("llama3-405b"), "llama3-405b")?;
    let gpu = named(Gpu::named("h100"), "h100")?;
    let batch = Batch { sequence: 8192, micro: 1, global: of.sequences };
    let job = Draft::new(model, gpu, layout, batch).check()?;
    TrainingStep::new(job, named(Machine::named("dgx-h100"), "dgx-h100")?)
}

/// A job on as many GPUs as the follow-up paper simulates, 2,048. Its jobs are not known, so this is Llama 3.1 405B in Meta's layout, with
/// as many micro-batches per step as Meta has on 8,192 GPUs.
pub fn follow_up() -> Result<TrainingStep, RailsError> {
    large(Large { data_parallel: 16, sequences: 512, chunks: 1, each: false, exchange: true })
}

/// Milliseconds of switching that Fig. 8 is drawn over.
pub const DELAYS_MS: [u64; 11] = [0, 1, 5, 10, 15, 25, 50, 100, 200, 500, 1000];

/// The times of a step with one switching delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub delay: Duration,
    /// The time of the step without provisioning, and (`early`) with it.
    pub late: Duration,
    pub early: Duration,
    /// How often circuits were changed in the step, without and with provisioning.
    pub changes: (u64, u64),
}

impl Point {
    /// Percent longer than `base`, without and with provisioning. For printing only.
    #[must_use]
    pub fn percent(&self, base: Duration) -> (f64, f64) {
        let more = |it: Duration| (it.as_ps() as f64 / base.as_ps() as f64 - 1.0) * 100.0;
        (more(self.late), more(self.early))
    }
}

/// One point of Fig. 8.
pub fn point(
    step: &TrainingStep,
    delay: Duration,
    offload: Option<Bytes>,
) -> Result<Point, RailsError> {
    let run = |provisioned| {
        let switching = Switching { offload, ..Switching::new(Delay::optics(delay), provisioned) };
        step.switched(&switching)
    };
    let (late, early) = (run(false)?, run(true)?);
    let changes = (late.changes, early.changes);
    Ok(Point { delay, late: late.run.time(), early: early.run.time(), changes })
}

/// One assumption varied, and the cost of a switching delay of 100 ms under it.
#[derive(Clone, Debug)]
pub struct Varied {
    pub what: &'static str,
    pub value: String,
    pub base: Duration,
    pub point: Point,
}

/// Fig. 8 at 100 ms under other assumptions, one at a time.
pub fn sensitivity() -> Result<Vec<Varied>, RailsError> {
    let usual = Setting::default();
    let mut cases: Vec<(&'static str, String, Setting, Option<Bytes>)> = Vec::new();
    for micro_batches in [2, 4, 8, 12, 16, 32] {
        let setting = Setting { micro_batches, ..usual };
        cases.push(("micro-batches", micro_batches.to_string(), setting, None));
    }
    for mfu in [200, 300, 330, 400, 500] {
        let setting = Setting { mfu, ..usual };
        cases.push(("MFU", format!("{:.2}", f64::from(mfu) / 1e3), setting, None));
    }
    for sequence in [2048, 4096, 8192, 16384] {
        let setting = Setting { sequence, ..usual };
        cases.push(("sequence", sequence.to_string(), setting, None));
    }
    let beside = Some(Bytes::mib(1));
    cases.push(("short AllReduces", "over the host's network".to_owned(), usual, beside));
    let mut all = Vec::new();
    for (what, value, setting, offload) in cases {
        let step = measured(&setting)?;
        let base = step.electrical()?.time();
        let point = point(&step, Duration::from_ms(100), offload)?;
        all.push(Varied { what, value, base, point });
    }
    Ok(all)
}
