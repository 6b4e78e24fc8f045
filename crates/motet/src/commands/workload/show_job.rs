//! `motet workload show` of a training job: calls and bytes of every stage, counted and by formula.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Rank};
use motet_workload::{Iteration, Job, Parallelism, Schedule, Sharding, Tally};
use serde::Serialize;

use super::{short, time, who};
use crate::failure::Failure;
use crate::printer::Printer;

#[derive(Serialize)]
struct JobJson<'a> {
    kind: &'static str,
    model: &'a str,
    parameters: u64,
    gpu: &'a str,
    ranks: u64,
    tp: u32,
    dp: u32,
    pp: u32,
    cp: u32,
    ep: u32,
    sharding: &'static str,
    schedule: &'static str,
    micro_batches: u32,
    tokens_per_step: u64,
    /// The least that a step takes on any network.
    compute_bound_us: f64,
    stages: Vec<StageJson>,
}

#[derive(Serialize, PartialEq)]
struct StageJson {
    stage: u32,
    first_rank: u32,
    compute_us: f64,
    state_bytes: u64,
    calls: Vec<CallsJson>,
}

#[derive(Clone, Serialize, PartialEq)]
struct CallsJson {
    parallelism: &'static str,
    collective: &'static str,
    calls: u64,
    bytes: u128,
    closed_form_calls: u64,
    closed_form_bytes: u128,
    smallest_bytes: u64,
    largest_bytes: u64,
    /// The groups of the stage's first rank.
    groups: Vec<Vec<u32>>,
}

/// One line of a stage's table.
struct Line {
    of: (Parallelism, CollectiveKind),
    counted: Tally,
    formula: Tally,
    sizes: (Bytes, Bytes),
    groups: Vec<Vec<Rank>>,
}

pub(super) fn show(job: &Job, printer: &mut Printer) -> Result<(), Failure> {
    let iteration = job.iteration(0).map_err(|it| Failure::wrong(it.to_string()))?;
    let stages: Vec<Stage> =
        (0..job.layout().pp).map(|it| Stage::new(job, &iteration, it)).collect();
    if printer.is_json() {
        return printer.json(&json(job, &iteration, &stages));
    }
    printer.out(&text(job, &iteration, &stages))
}

struct Stage {
    stage: u32,
    first: Rank,
    compute: Duration,
    state: Bytes,
    lines: Vec<Line>,
}

impl Stage {
    fn new(job: &Job, iteration: &Iteration, stage: u32) -> Self {
        let formula = job.closed_form(stage, 0);
        let mut lines: Vec<Line> = Vec::new();
        for demand in job.demands(iteration, stage) {
            let Some(parallelism) = demand.parallelism else { continue };
            let of = (parallelism, demand.kind);
            let place = lines.iter().position(|it| it.of == of).unwrap_or_else(|| {
                lines.push(Line {
                    of,
                    counted: Tally::default(),
                    formula: formula.of(of.0, of.1),
                    sizes: (demand.bytes, demand.bytes),
                    groups: Vec::new(),
                });
                lines.len() - 1
            });
            let line = &mut lines[place];
            line.counted.calls += demand.calls;
            line.counted.bytes += u128::from(demand.bytes.get()) * u128::from(demand.calls);
            line.sizes = (line.sizes.0.min(demand.bytes), line.sizes.1.max(demand.bytes));
            if !line.groups.contains(&demand.members) {
                line.groups.push(demand.members);
            }
        }
        // What the formula has and the DAG lacks must show.
        for (of, tally) in &formula.0 {
            if !lines.iter().any(|it| it.of == *of) {
                let (counted, sizes) = (Tally::default(), (Bytes::ZERO, Bytes::ZERO));
                lines.push(Line { of: *of, counted, formula: *tally, sizes, groups: Vec::new() });
            }
        }
        lines.sort_by_key(|it| it.of);
        let mine = iteration.operations().iter().filter(|it| it.stage == stage);
        Self {
            stage,
            first: job.first_rank(stage),
            compute: mine.map(|it| it.compute_time(&job.draft().gpu)).sum(),
            state: job.state_bytes(stage),
            lines,
        }
    }

    /// What stages may share a table by: all but who is in the groups.
    fn alike(&self, other: &Self) -> bool {
        let of = |it: &Line| (it.of, it.counted, it.formula, it.sizes);
        let lines = || self.lines.iter().map(of).eq(other.lines.iter().map(of));
        self.compute == other.compute && self.state == other.state && lines()
    }
}

const fn sharding(it: Sharding) -> &'static str {
    match it {
        Sharding::None => "none",
        Sharding::Optimizer => "optimizer",
        Sharding::Gradients => "gradients",
        Sharding::Parameters { .. } => "parameters",
    }
}

const fn schedule(it: Schedule) -> &'static str {
    match it {
        Schedule::OneForwardOneBackward => "1f1b",
        Schedule::Interleaved { .. } => "interleaved",
        Schedule::ZeroBubble => "zero-bubble",
    }
}

fn json<'a>(job: &'a Job, iteration: &Iteration, stages: &[Stage]) -> JobJson<'a> {
    let (layout, draft) = (job.layout(), job.draft());
    let calls = |it: &Line| CallsJson {
        parallelism: it.of.0.name(),
        collective: it.of.1.name(),
        calls: it.counted.calls,
        bytes: it.counted.bytes,
        closed_form_calls: it.formula.calls,
        closed_form_bytes: it.formula.bytes,
        smallest_bytes: it.sizes.0.get(),
        largest_bytes: it.sizes.1.get(),
        groups: it.groups.iter().map(|it| it.iter().map(|it| it.0).collect()).collect(),
    };
    let stage = |it: &Stage| StageJson {
        stage: it.stage,
        first_rank: it.first.0,
        compute_us: it.compute.as_us_f64(),
        state_bytes: it.state.get(),
        calls: it.lines.iter().map(calls).collect(),
    };
    JobJson {
        kind: "job",
        model: &job.model().name,
        parameters: job.model().parameters(),
        gpu: &draft.gpu.name,
        ranks: layout.ranks(),
        tp: layout.tp,
        dp: layout.dp,
        pp: layout.pp,
        cp: layout.cp,
        ep: layout.ep,
        sharding: sharding(layout.sharding),
        schedule: schedule(layout.schedule),
        micro_batches: job.micro_batches(),
        tokens_per_step: draft.batch.global.saturating_mul(draft.batch.sequence),
        compute_bound_us: iteration.compute_bound(&draft.gpu).as_us_f64(),
        stages: stages.iter().map(stage).collect(),
    }
}

fn text(job: &Job, iteration: &Iteration, stages: &[Stage]) -> String {
    let (layout, draft) = (job.layout(), job.draft());
    let degrees = [
        ("TP", layout.tp),
        ("CP", layout.cp),
        ("DP", layout.dp),
        ("EP", layout.ep),
        ("PP", layout.pp),
    ];
    let used: Vec<String> =
        degrees.iter().filter(|it| it.1 > 1).map(|it| format!("{} {}", it.0, it.1)).collect();
    let mut out = format!(
        "{} on {} {} (MFU {:.1}%): {}\n",
        job.model().name,
        layout.ranks(),
        draft.gpu.name,
        f64::from(draft.gpu.mfu) / 10.0,
        if used.is_empty() { "one rank".to_owned() } else { used.join(", ") }
    );
    let mut line = |word: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {word:9}  {text}");
    };
    line("model", format!("{:.2} billion parameters", job.model().parameters() as f64 / 1e9));
    line(
        "batch",
        format!(
            "{} sequences of {} tokens: {} micro-batches of {} on each replica",
            draft.batch.global,
            draft.batch.sequence,
            job.micro_batches(),
            draft.batch.micro
        ),
    );
    line(
        "sharded",
        format!("{} ({} pipeline)", sharding(layout.sharding), schedule(layout.schedule)),
    );
    let bound = iteration.compute_bound(&draft.gpu);
    line("compute", format!("a step takes at least {}, whatever the network", time(bound)));
    let mut from = 0;
    while from < stages.len() {
        let alike = stages[from..].iter().take_while(|it| it.alike(&stages[from])).count();
        out.push('\n');
        table(&mut out, &stages[from..from + alike], stages.len());
        from += alike;
    }
    if let Some(stage) = stages.first()
        && stage.lines.is_empty()
    {
        out.push_str("no communication\n");
    }
    out
}

fn table(out: &mut String, stages: &[Stage], all: usize) {
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return };
    let which = match (stages.len(), all) {
        (_, 1) => "every rank".to_owned(),
        (1, _) => format!("a rank of stage {}", first.stage),
        _ => format!("a rank of stages {} to {}", first.stage, last.stage),
    };
    let heading = format!(
        "{which}: computes {}, holds {} of weights, gradients and optimizer state",
        time(first.compute),
        short(first.state.get().into())
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", Printer::strong(&heading));
    if first.lines.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "  {:4}{:15}{:>7}{:>11}  {:24}{:23}rank {} with",
        "", "collective", "calls", "bytes", "by formula", "each", first.first.0
    );
    for it in &first.lines {
        let formula = if it.counted == it.formula {
            "the same".to_owned()
        } else {
            format!("{} calls, {}", it.formula.calls, short(it.formula.bytes))
        };
        let (least, most) = (short(it.sizes.0.get().into()), short(it.sizes.1.get().into()));
        let each = if least == most { least } else { format!("{least} to {most}") };
        let groups: Vec<String> = it.groups.iter().map(|it| who(it)).collect();
        let _ = writeln!(
            out,
            "  {:4}{:15}{:7}{:>11}  {formula:24}{each:23}{}",
            it.of.0.name(),
            it.of.1.name(),
            it.counted.calls,
            short(it.counted.bytes),
            groups.join("; ")
        );
    }
}
