//! Figure 4: how long windows are and what follows them, and how many a step of the 405B job has (§3.1).

use motet_rails::Step;
use motet_rails::opus::{Large, Setting, large, measured};
use motet_units::Duration;
use motet_workload::windows::{View, Window, Windows, estimate};

use super::super::claims::Claim;
use super::super::report::Report;
use super::SILENT;
use crate::args::reproduce::ReproduceArgs;
use crate::commands::rails::failure;
use crate::commands::rails::windows::distribution;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::table::{Table, Values};

const MS: Duration = Duration::from_ms(1);

/// Windows before one kind of traffic, as one view of the step has them.
struct Row {
    view: String,
    traffic: String,
    count: u64,
    mean_ms: f64,
    longest_ms: f64,
    mib: f64,
}

pub(in crate::commands::reproduce) fn fig4(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let step = measured(&Setting::default()).map_err(failure)?;
    let run = step.electrical().map_err(failure)?;
    let rail = step.windows(&run, View::Rail);
    let stages: Vec<Windows> = (0..2).map(|it| step.windows(&run, View::Stage(it))).collect();
    let mut rows = rows("rail", &rail);
    for (stage, windows) in stages.iter().enumerate() {
        rows.extend(self::rows(&format!("stage {stage}"), windows));
    }
    let mut claims = claims(&rail, &stages, &rows);
    claims.extend(counted()?);
    Report {
        name: "opus-fig4",
        title: "Opus, figure 4: windows of Llama 3 8B, by the traffic that follows",
        table: table(&rows),
        claims,
        usual: &SILENT,
        assumed: vec![
            "rail: traffic of all ranks on it; stage: that of the ranks whose ports would change".to_owned(),
            "bytes are what one rank gives to all calls of a phase, as traces record them; MB of the paper are MiB".to_owned(),
            "steps here are all alike, so one stands for the ten that the paper measured".to_owned(),
        ],
        plots: vec![(
            "distribution".to_owned(),
            distribution(
                "windows of Llama 3 8B on 16 A100",
                &[("rail", &rail), ("stage 0", &stages[0]), ("stage 1", &stages[1])],
            ),
        )],
    }
    .finish(args, printer)
}

fn rows(view: &str, windows: &Windows) -> Vec<Row> {
    let row = |(traffic, it): (String, motet_workload::windows::Before)| Row {
        view: view.to_owned(),
        traffic,
        count: it.count,
        mean_ms: it.mean().as_us_f64() / 1e3,
        longest_ms: it.longest.as_us_f64() / 1e3,
        mib: it.bytes.get() as f64 / f64::from(1 << 20),
    };
    windows.by_traffic().into_iter().map(row).collect()
}

fn table(rows: &[Row]) -> Table {
    let number =
        |digits, of: &dyn Fn(&Row) -> f64| Values::Number(rows.iter().map(of).collect(), digits);
    Table::new()
        .with("seen by", Values::Words(rows.iter().map(|it| it.view.clone()).collect()))
        .with("before", Values::Words(rows.iter().map(|it| it.traffic.clone()).collect()))
        .with("windows", Values::Whole(rows.iter().map(|it| it.count as i64).collect()))
        .with("mean_ms", number(3, &|it| it.mean_ms))
        .with("longest_ms", number(3, &|it| it.longest_ms))
        .with("most_MiB", number(3, &|it| it.mib))
}

fn claims(rail: &Windows, stages: &[Windows], rows: &[Row]) -> Vec<Claim> {
    let share = |it: &Windows| 100.0 * it.over(MS) as f64 / it.all().len().max(1) as f64;
    let longest = rail.all().max_by_key(Window::length);
    let (after, length) =
        longest.map_or((String::new(), Duration::ZERO), |it| (it.after.traffic(), it.length()));
    let mean = rows.iter().find(|it| it.view == "rail" && it.traffic == "DP reducescatter");
    let bytes = |traffic: &str| {
        let all = rows.iter().filter(|it| it.view != "rail" && it.traffic == traffic);
        all.map(|it| it.mib).fold(0.0, f64::max)
    };
    let [gathered, reduced] = ["DP allgather", "DP reducescatter"].map(bytes);
    let each: Vec<String> = stages.iter().map(|it| format!("{:.0} %", share(it))).collect();
    vec![
        Claim::published(
            "windows over 1 ms".to_owned(),
            share(rail) > 75.0,
            format!("{:.0} % ({} of {})", share(rail), rail.over(MS), rail.all().len()),
        )
        .beside("> 75 %")
        .detail(|| {
            let short = rail.all().filter(|it| it.length() <= MS);
            let short: Vec<String> = short
                .map(|it| {
                    let (ms, after) = (it.length().as_us_f64() / 1e3, it.after.traffic());
                    format!("{ms:.3} ms before {after}")
                })
                .collect();
            Some(format!(
                "seen by the stages {}; the others: {}",
                each.join(" and "),
                short.join(", ")
            ))
        }),
        Claim::ours(
            "most windows in which the rail is idle at all are over 1 ms (our count, not the paper's)"
                .to_owned(),
            2 * rail.over(MS) > rail.over(Duration::ZERO),
            format!("{} of {}", rail.over(MS), rail.over(Duration::ZERO)),
        ),
        Claim::published(
            "the largest window is before ReduceScatter".to_owned(),
            after == "DP reducescatter",
            format!("{after}, {:.0} ms", length.as_us_f64() / 1e3),
        )
        .beside("1000 ms on average")
        .detail(|| None),
        Claim::ours(
            "windows before ReduceScatter take, on average".to_owned(),
            mean.is_some_and(|it| it.mean_ms > 100.0),
            mean.map_or("nothing".to_owned(), |it| format!("{:.0} ms", it.mean_ms)),
        ),
        Claim::published(
            "bytes after a window: AllGather".to_owned(),
            (956.5..957.5).contains(&gathered),
            format!("{gathered:.1} MiB"),
        )
        .beside("957 MB"),
        Claim::published(
            "bytes after a window: ReduceScatter".to_owned(),
            (3828.5..3830.0).contains(&reduced),
            format!("{reduced:.1} MiB"),
        )
        .beside("3829 MB"),
        messages(stages),
    ]
}

/// The paper has one size for all messages between stages, and so few to a window.
fn messages(stages: &[Windows]) -> Claim {
    let phases = stages.iter().flat_map(|it| &it.phases);
    let sent = phases.filter(|it| it.class == "PP" && it.bytes().get() > 1024);
    let mut all: Vec<f64> = sent.map(|it| it.bytes().get() as f64 / f64::from(1 << 20)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let text: Vec<String> = all.iter().map(|it| format!("{it:.0}")).collect();
    Claim::published(
        "bytes after a window: Send/Recv".to_owned(),
        all.iter().any(|it| (63.5..64.5).contains(it)),
        format!("{} MiB", text.join(", ")),
    )
    .beside("64 MB")
    .detail(|| {
        let phases = stages.iter().flat_map(|it| &it.phases);
        let sent = phases.filter(|it| it.class == "PP" && it.bytes().get() > 1024);
        let each: Vec<String> = sent
            .map(|it| {
                let one = (it.bytes().get() / it.calls.max(1)) >> 20;
                format!("{} of {one} MiB", it.calls)
            })
            .collect();
        Some(format!("messages in the phases: {}", each.join(", ")))
    })
}

/// The 405B job's windows beside 127, for what the paper does not say of it.
fn counted() -> Result<Vec<Claim>, Failure> {
    let mut claims = Vec::new();
    for (data_parallel, chunks, each) in
        [(64, 1, true), (64, 1, false), (64, 8, true), (64, 8, false), (128, 8, true)]
    {
        let step = large(Large { data_parallel, chunks, each }).map_err(failure)?;
        claims.push(count(&step, chunks, each)?);
    }
    Ok(claims)
}

fn count(step: &Step, chunks: u32, each: bool) -> Result<Claim, Failure> {
    let run = step.electrical().map_err(failure)?;
    let stages = step.job.layout().pp;
    let of = |stage| step.windows(&run, View::Stage(stage)).all().len();
    let all: Vec<usize> = (0..stages).map(of).collect();
    let (least, most) =
        (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(0));
    let last = all.last().copied().unwrap_or(0);
    let schedule = if chunks > 1 { "interleaved" } else { "1F1B" };
    let gathered = if each { "for every micro-batch" } else { "once" };
    let estimated = estimate(step.job.micro_batches());
    Ok(Claim::published(
        format!(
            "windows in a step of Llama 3.1 405B on {} GPUs, {schedule}, parameters gathered {gathered}",
            step.job.layout().ranks()
        ),
        last.abs_diff(127) <= 2,
        format!("{last} for the last stage, {least} to {most} for all; estimate {estimated}"),
    )
    .beside("127"))
}
