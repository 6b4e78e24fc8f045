//! Figure 4: how long windows are and what follows them, and how many a step of the 405B job has (§3.1).

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_rails::TrainingStep;
use motet_rails::opus::{HOST, Large, Setting, large, measured};
use motet_units::{Duration, Instant};
use motet_workload::windows::{Call, View, Window, Windows, estimate};

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
    claims.push(exchanged(&step.calls(&run, View::Rail)));
    claims.extend(readings()?);
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
    let longest = rail.all().max_by_key(Window::length);
    let (after, length) =
        longest.map_or((String::new(), Duration::ZERO), |it| (it.after.traffic(), it.length()));
    let before = |rail: bool| {
        let row = |it: &&Row| (it.view == "rail") == rail && it.traffic == "DP reducescatter";
        let means: Vec<f64> = rows.iter().filter(row).map(|it| it.mean_ms).collect();
        means.iter().sum::<f64>() / means.len().max(1) as f64
    };
    let (mean, by_stages) = (before(true), before(false));
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
                    let (before, after) = (it.before.traffic(), it.after.traffic());
                    format!("{:.3} ms from {before} to {after}", it.length().as_us_f64() / 1e3)
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
        .beside("1000 ms on average"),
        Claim::published(
            "windows before ReduceScatter take about that long on average".to_owned(),
            (800.0..1200.0).contains(&mean),
            format!("{mean:.0} ms on a rail, {by_stages:.0} ms as the stages see them"),
        )
        .beside("1000 ms"),
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
    ]
}

/// The paper has one size for all traffic between stages: that of an activation and the gradient that is exchanged for it.
fn exchanged(calls: &[Call]) -> Claim {
    let mut at: BTreeMap<Instant, Vec<u64>> = BTreeMap::new();
    for it in calls.iter().filter(|it| it.kind == CollectiveKind::SendRecv) {
        at.entry(it.start).or_default().push(it.bytes.get() >> 20);
    }
    let pairs = at.values().filter(|it| it.len() == 2).count();
    let largest = at.values().map(|it| it.iter().sum::<u64>()).max().unwrap_or(0);
    Claim::published(
        "bytes after a window: Send/Recv".to_owned(),
        largest == 64,
        format!("{largest} MiB an exchange"),
    )
    .beside("64 MB")
    .detail(|| {
        Some(format!("{pairs} exchanges, and {} messages alone of half of it", at.len() - pairs))
    })
}

/// The share of windows over 1 ms by what tells phases apart, for what the host may take per call.
fn readings() -> Result<Vec<Claim>, Failure> {
    let mut shares: [Vec<(f64, String)>; 3] = Default::default();
    for host in [HOST, Duration::ZERO, Duration::from_us(500), MS] {
        let setting = Setting { host, ..Setting::default() };
        let step = measured(&setting).map_err(failure)?;
        let run = step.electrical().map_err(failure)?;
        let calls = step.calls(&run, View::Rail);
        let all =
            [Windows::of(&calls), Windows::of_groups(&calls), Windows::of_collectives(&calls)];
        for (shares, it) in shares.iter_mut().zip(all) {
            let (over, count) = (it.over(MS), it.all().len());
            let text = format!("{:.0} % ({over} of {count})", share(&it));
            shares.push((share(&it), format!("{text} at {:.1} ms", host.as_us_f64() / 1e3)));
        }
    }
    let names = ["parallelisms", "groups of ranks", "collectives"];
    let claim = |(name, shares): (&str, Vec<(f64, String)>)| {
        let texts: Vec<&str> = shares.iter().map(|it| it.1.as_str()).collect();
        Claim::published(
            format!("windows over 1 ms, phases being {name}, by what the host takes per call"),
            shares.first().is_some_and(|it| it.0 > 75.0),
            texts.join(", "),
        )
        .beside("> 75 %")
    };
    Ok(names.into_iter().zip(shares).map(claim).collect())
}

fn share(it: &Windows) -> f64 {
    100.0 * it.over(MS) as f64 / it.all().len().max(1) as f64
}

/// The 405B job's windows beside 127, for what the paper does not say of it.
fn counted() -> Result<Vec<Claim>, Failure> {
    let mut claims = Vec::new();
    let sequences = 2048;
    for (data_parallel, chunks, each, exchange) in [
        (64, 1, true, false),
        (64, 1, true, true),
        (64, 1, false, true),
        (64, 8, true, false),
        (64, 8, false, false),
        (128, 8, true, false),
    ] {
        let of = Large { data_parallel, sequences, chunks, each, exchange };
        claims.push(count(&large(of).map_err(failure)?, of)?);
    }
    Ok(claims)
}

fn count(step: &TrainingStep, of: Large) -> Result<Claim, Failure> {
    let run = step.electrical().map_err(failure)?;
    let stages = step.job.layout().pp;
    let all: Vec<usize> =
        (0..stages).map(|it| step.windows(&run, View::Stage(it)).all().len()).collect();
    let (least, most) =
        (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(0));
    let last = all.last().copied().unwrap_or(0);
    let schedule = match (of.chunks, of.exchange) {
        (1, true) => "1F1B",
        (1, false) => "1F1B without exchanges",
        _ => "interleaved",
    };
    let gathered = if of.each { "for every micro-batch" } else { "once" };
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
