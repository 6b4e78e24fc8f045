//! Figures 6 and 7: what the program alone, the knobs alone and both together gain over MSCCL's
//! uniform default.

use motet_collective::CollectiveKind;
use motet_tune::clusters::{A100, Cluster, V100};
use motet_tune::plan::{Pick, TunedTask};

use super::super::claims::{Claim, Span};
use super::super::report::Report;
use super::setting::{ASSUMED, KINDS, Planned, tasks, times, written};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// A part of what is tuned, and what of a task it is.
type Part = (&'static str, fn(&TunedTask) -> Option<&Pick>);

const PARTS: [Part; 3] = [
    ("sketch only", |it| it.sketch_only.as_ref()),
    ("knobs only", |it| it.knobs_only.as_ref()),
    ("joint", |it| it.program.as_ref()),
];

/// One of the figures.
pub(in crate::commands::reproduce) struct Figure {
    name: &'static str,
    title: &'static str,
    clusters: &'static [Cluster],
    /// For [`KINDS`], by [`PARTS`].
    published: [[Span; 3]; 2],
}

const fn point(value: f64) -> Span {
    Span::new(value, value)
}

pub(in crate::commands::reproduce) const FIG_6: Figure = Figure {
    name: "tuccl-fig6",
    title: "gain over MSCCL of the program alone, the knobs alone and both, V100",
    clusters: &V100,
    published: [[point(3.2), point(3.5), point(4.0)], [point(2.3), point(2.5), point(5.0)]],
};
/// The paper has one figure for both collectives.
pub(in crate::commands::reproduce) const FIG_7: Figure = Figure {
    name: "tuccl-fig7",
    title: "gain over MSCCL of the program alone, the knobs alone and both, A100",
    clusters: &A100,
    published: [[Span::new(1.27, 1.52), Span::new(1.27, 1.52), point(4.85)]; 2],
};

pub(in crate::commands::reproduce) fn ablation(
    figure: &Figure,
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let planned = Planned::all(figure.clusters, args, printer)?;
    let mut claims = Vec::new();
    for (kind, published) in KINDS.into_iter().zip(figure.published) {
        for (part, published) in PARTS.into_iter().zip(published) {
            claims.push(of_part(&planned, kind, part, published));
        }
    }
    claims.push(never_less(&planned));
    claims.push(synergy(&planned));
    let plots = KINDS.into_iter().map(|kind| (kind.name().to_owned(), plot(&planned, kind)));
    Report {
        name: figure.name,
        title: figure.title,
        table: table(&planned),
        claims,
        usual: &ASSUMED,
        assumed: vec![
            "sketch only is the best program under the uniform default, knobs only the program that \
             sends straight to everyone under its best knobs"
                .to_owned(),
            "the paper shows the groups that reach the largest bandwidth and does not say on which \
             cluster or at which size: ours is the span over all of them"
                .to_owned(),
        ],
        plots: plots.collect(),
    }
    .finish(args, printer)
}

fn gain(task: &TunedTask, part: Part) -> Option<f64> {
    times(task.msccl.as_ref(), part.1(task))
}

/// Whether the published figure lies among ours, or ours in the published range.
fn of_part(planned: &[Planned], kind: CollectiveKind, part: Part, published: Span) -> Claim {
    let ours = Span::of(tasks(planned, kind).filter_map(|it| gain(it.1, part)));
    let statement = format!("{}, {}, over sizes and clusters", written(kind), part.0);
    let claim = if published.low == published.high {
        Claim::among(&statement, ours, published.low, "x")
    } else {
        Claim::within(&statement, ours, published, "x")
    };
    claim.detail(|| {
        let gains = tasks(planned, kind).filter_map(|it| Some((it.0, it.1, gain(it.1, part)?)));
        let gains: Vec<_> = gains.collect();
        let least = gains.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
        let most = gains.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
        let place = |it: &(&Planned, &TunedTask, f64)| format!("{} at {}", it.0.name, it.1.size());
        Some(format!("least on {}, most on {}", place(least), place(most)))
    })
}

fn all(planned: &[Planned]) -> impl Iterator<Item = &TunedTask> {
    KINDS.into_iter().flat_map(|kind| tasks(planned, kind)).map(|it| it.1)
}

fn never_less(planned: &[Planned]) -> Claim {
    let ratio = |it: &TunedTask| {
        let alone = gain(it, PARTS[0])?.max(gain(it, PARTS[1])?);
        Some(gain(it, PARTS[2])? / alone)
    };
    let ratios: Vec<f64> = all(planned).filter_map(ratio).collect();
    let span = Span::of(ratios.iter().copied());
    let (low, high) = span.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
    let less = ratios.iter().filter(|it| **it < 1.0).count();
    Claim::published(
        "both together gain at least what the better part alone gains".to_owned(),
        low >= 1.0,
        format!("{low:.2} to {high:.2} times that; less at {less} of {} tasks", ratios.len()),
    )
    .beside("more")
}

/// The paper calls the gains multiplicative; its own figures (3.2 · 3.5 against 4) are not.
fn synergy(planned: &[Planned]) -> Claim {
    let ratio =
        |it: &TunedTask| Some(gain(it, PARTS[2])? / (gain(it, PARTS[0])? * gain(it, PARTS[1])?));
    let ratios: Vec<f64> = all(planned).filter_map(ratio).collect();
    let more = ratios.iter().filter(|it| **it >= 1.0).count();
    Claim::published(
        "both together gain at least the product of either alone (\"multiplicative\")".to_owned(),
        more == ratios.len(),
        format!(
            "at {more} of {} tasks; {}",
            ratios.len(),
            Span::of(ratios.iter().copied()).map_or_else(String::new, |it| {
                format!("{:.2} to {:.2} of the product", it.low, it.high)
            })
        ),
    )
    .beside("claimed; V100 figures give 0.36 (AllGather) and 0.87 (AllReduce) of the product")
}

fn table(planned: &[Planned]) -> Table {
    let rows: Vec<(&Planned, &TunedTask)> =
        KINDS.into_iter().flat_map(|kind| tasks(planned, kind)).collect();
    let words = |of: &dyn Fn(&Planned, &TunedTask) -> String| {
        Values::Words(rows.iter().map(|it| of(it.0, it.1)).collect())
    };
    let mut table = Table::new()
        .with("collective", words(&|_, it| it.collective.to_string()))
        .with("cluster", words(&|it, _| it.name.to_owned()))
        .with("size", words(&|_, it| it.size().to_string()));
    for part in PARTS {
        let gains = rows.iter().map(|it| gain(it.1, part).unwrap_or(f64::NAN)).collect();
        table = table.with(&part.0.replace(' ', "_"), Values::Number(gains, 2));
    }
    table
}

fn plot(planned: &[Planned], kind: CollectiveKind) -> Plot {
    let line = |it: &Planned, part: Part| Line {
        name: format!("{} {}", it.name, part.0),
        points: it
            .tasks(kind)
            .filter_map(|task| Some((task.size_bytes as f64, gain(task, part)?)))
            .collect(),
    };
    Plot {
        title: format!("{}: what tuning each part alone gains", written(kind)),
        x: "bytes".to_owned(),
        y: "times MSCCL's uniform default".to_owned(),
        log_x: true,
        lines: planned.iter().flat_map(|it| PARTS.map(|part| line(it, part))).collect(),
    }
}
