//! Figures 3 and 4: bandwidth over MSCCL's uniform default, and over NCCL's own choice, by size; and the
//! same of collectives that the paper leaves out.

use motet_collective::CollectiveKind;
use motet_tune::clusters::{A100, Cluster, V100};
use motet_tune::plan::{Pick, TunedTask};

use super::super::claims::{Claim, Span};
use super::super::report::Report;
use super::setting::{ASSUMED, Planned, SIZES, tasks, times, written};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// What the paper says of one collective.
#[derive(Clone, Copy)]
enum Published {
    /// The least and the most of its clusters.
    Range(f64, f64),
    Peak(f64),
    Nothing,
}

/// One of the figures.
pub(in crate::commands::reproduce) struct Figure {
    name: &'static str,
    title: &'static str,
    clusters: &'static [&'static [Cluster]],
    published: &'static [(CollectiveKind, Published)],
    assumed: &'static [&'static str],
}

const SPANS: &str = "sizes are nccl-tests' (the whole output of an AllGather); the paper does not say of \
                     which sizes its figures are, so a cluster counts here with its largest gain of all \
                     sizes, and the least gains stand beside";

pub(in crate::commands::reproduce) const FIG_3: Figure = Figure {
    name: "tuccl-fig3",
    title: "gain over MSCCL and NCCL, 1 to 3 servers of 4 V100",
    clusters: &[&V100],
    published: &[
        (CollectiveKind::AllGather, Published::Range(1.75, 4.82)),
        (CollectiveKind::AllReduce, Published::Range(1.97, 11.49)),
    ],
    assumed: &[SPANS],
};
pub(in crate::commands::reproduce) const FIG_4: Figure = Figure {
    name: "tuccl-fig4",
    title: "gain over MSCCL and NCCL, 1 or 2 servers of 4 or 8 A100",
    clusters: &[&A100],
    published: &[
        (CollectiveKind::AllGather, Published::Peak(5.35)),
        (CollectiveKind::AllReduce, Published::Peak(7.09)),
    ],
    assumed: &[SPANS],
};
pub(in crate::commands::reproduce) const OTHERS: Figure = Figure {
    name: "tuccl-others",
    title: "gain over MSCCL and NCCL of collectives that the paper leaves out, V100 and A100",
    clusters: &[&V100, &A100],
    published: &[
        (CollectiveKind::ReduceScatter, Published::Nothing),
        (CollectiveKind::Broadcast, Published::Nothing),
        (CollectiveKind::Reduce, Published::Nothing),
        (CollectiveKind::AllToAll, Published::Nothing),
    ],
    assumed: &[
        "sizes are nccl-tests'; the root of a Broadcast or Reduce is rank 0, and sending straight to \
         everyone is then one GPU sending or receiving everything",
        "NCCL has no algorithm of its own for AllToAll, which is sends and receives there: nothing \
         stands beside it",
    ],
};

impl Figure {
    fn kinds(&self) -> impl Iterator<Item = CollectiveKind> + Clone {
        self.published.iter().map(|it| it.0)
    }
}

pub(in crate::commands::reproduce) fn gains(
    figure: &Figure,
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let kinds: Vec<CollectiveKind> = figure.kinds().collect();
    let clusters = figure.clusters.iter().copied().flatten();
    let planned: Vec<Planned> = clusters
        .map(|it| Planned::new(it, &kinds, &SIZES, args, printer))
        .collect::<Result<_, _>>()?;
    let published = figure.published.iter();
    let mut claims: Vec<Claim> = published.flat_map(|it| of_kind(&planned, it.0, it.1)).collect();
    claims.push(never_slower(&planned, &kinds));
    let plots = figure.kinds().map(|kind| (kind.name().to_owned(), plot(&planned, kind)));
    Report {
        name: figure.name,
        title: figure.title,
        table: table(&planned, &kinds),
        claims,
        usual: &ASSUMED,
        assumed: figure.assumed.iter().map(|it| (*it).to_owned()).collect(),
        plots: plots.collect(),
    }
    .finish(args, printer)
}

/// How many times as fast as MSCCL's uniform default.
fn over_msccl(task: &TunedTask) -> Option<f64> {
    times(task.msccl.as_ref(), task.program.as_ref())
}

/// The largest gain of each cluster against what was published.
fn of_kind(planned: &[Planned], kind: CollectiveKind, published: Published) -> Vec<Claim> {
    let name = written(kind);
    let largest = |it: &Planned| Span::of(it.tasks(kind).filter_map(over_msccl)).map(|it| it.high);
    let peaks = Span::of(planned.iter().filter_map(largest));
    match published {
        Published::Range(low, high) => {
            let statement = format!("{name}, largest gain of each cluster");
            let peaks = Claim::within(&statement, peaks, Span::new(low, high), "x").detail(|| {
                let outside =
                    |it: &&Planned| largest(it).is_some_and(|gain| !(low..=high).contains(&gain));
                let clusters = planned.iter().filter(outside);
                Some(clusters.filter_map(|it| at_largest(it, kind)).collect::<Vec<_>>().join("; "))
            });
            vec![peaks, every(planned, kind, low)]
        }
        Published::Nothing => {
            let all = Span::of(tasks(planned, kind).filter_map(|it| over_msccl(it.1)));
            let (low, high) = all.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
            let statement = format!("{name}, no size or cluster is slower than MSCCL's default");
            let claim = Claim::ours(statement, low >= 1.0, format!("{low:.2} to {high:.2}x"));
            vec![claim.beside("nothing")]
        }
        Published::Peak(peak) => {
            let ours = peaks.map_or(f64::NAN, |it| it.high);
            let statement = format!("{name}, the largest gain of all reaches the paper's");
            let claim = Claim::published(statement, ours >= peak, format!("{ours:.2}x"))
                .beside(format!("{peak:.2}x"))
                .detail(|| {
                    let best = planned.iter().filter(|it| largest(it) == Some(ours));
                    best.filter_map(|it| at_largest(it, kind)).next()
                });
            vec![claim]
        }
    }
}

/// Where a cluster gains most, how much of that program and knobs gain alone, and how far from the
/// bound the plan is there.
fn at_largest(planned: &Planned, kind: CollectiveKind) -> Option<String> {
    let gains = planned.tasks(kind).filter_map(|it| Some((it, over_msccl(it)?)));
    let (task, gain) = gains.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let alone = |pick: Option<&Pick>| times(task.msccl.as_ref(), pick).unwrap_or(f64::NAN);
    let program = task.program.as_ref()?;
    Some(format!(
        "{} gains most at {}, {gain:.2}x with {}: the program alone gains {:.2}x, the knobs alone {:.2}x, \
         and the plan takes {:.2} times the bound",
        planned.name,
        task.size(),
        setting(program),
        alone(task.sketch_only.as_ref()),
        alone(task.knobs_only.as_ref()),
        program.time_ps as f64 / task.bound_ps.max(1) as f64,
    ))
}

/// Whether every task gains at least `low`; if not, where, and what the knobs alone gain there.
fn every(planned: &[Planned], kind: CollectiveKind, low: f64) -> Claim {
    let gains: Vec<(&Planned, &TunedTask, f64)> =
        tasks(planned, kind).filter_map(|it| Some((it.0, it.1, over_msccl(it.1)?))).collect();
    let least = Span::of(gains.iter().map(|it| it.2)).map_or(f64::NAN, |it| it.low);
    let below: Vec<_> = gains.iter().filter(|it| it.2 < low).collect();
    Claim::published(
        format!("{}, every size and cluster gains as much as the paper's least", written(kind)),
        below.is_empty(),
        format!("{least:.2}x; less at {} of {} tasks", below.len(), gains.len()),
    )
    .beside(format!("{low:.2}x"))
    .detail(|| {
        let alone =
            below.iter().filter_map(|it| times(it.1.program.as_ref(), it.1.knobs_only.as_ref()));
        let alone = Span::of(alone)?.low * 100.0;
        let places: Vec<String> =
            below.iter().map(|it| format!("{} {}", it.0.name, it.1.size())).collect();
        Some(format!(
            "less at {}; there the default's program with its best knobs reaches {alone:.0} % of the \
             plan's speed or more",
            places.join(", ")
        ))
    })
}

fn never_slower(planned: &[Planned], kinds: &[CollectiveKind]) -> Claim {
    let all = || kinds.iter().flat_map(|kind| tasks(planned, *kind));
    let span = |gains: &mut dyn Iterator<Item = f64>| {
        Span::of(gains).map_or((f64::NAN, f64::NAN), |it| (it.low, it.high))
    };
    let (least, most) =
        span(&mut all().filter_map(|it| times(it.1.nccl.as_ref(), it.1.program.as_ref())));
    let (low, high) = span(&mut all().filter_map(|it| over_expected(it.0, it.1)));
    Claim::ours(
        "never slower than NCCL's own choice".to_owned(),
        least >= 1.0,
        format!(
            "{least:.2} to {most:.2}x; {low:.2} to {high:.2}x of what NCCL's cost model expects of it"
        ),
    )
    .beside("nothing")
}

/// How many times as fast as NCCL's cost model expects its choice to be.
fn over_expected(planned: &Planned, task: &TunedTask) -> Option<f64> {
    let expected = planned.nccl_expects(task)?.as_ps() as f64;
    Some(expected / task.program.as_ref()?.time_ps.max(1) as f64)
}

fn table(planned: &[Planned], kinds: &[CollectiveKind]) -> Table {
    let rows: Vec<(&Planned, &TunedTask)> =
        kinds.iter().flat_map(|kind| tasks(planned, *kind)).collect();
    let words = |of: &dyn Fn(&Planned, &TunedTask) -> String| {
        Values::Words(rows.iter().map(|it| of(it.0, it.1)).collect())
    };
    let number = |of: &dyn Fn(&TunedTask) -> Option<f64>, digits| {
        Values::Number(rows.iter().map(|it| of(it.1).unwrap_or(f64::NAN)).collect(), digits)
    };
    let us = |it: Option<&Pick>| it.map(|it| it.time().as_us_f64());
    let expected = rows.iter().map(|it| over_expected(it.0, it.1).unwrap_or(f64::NAN)).collect();
    let bound = |it: &TunedTask| {
        Some(it.bound_ps as f64 / it.program.as_ref()?.time_ps.max(1) as f64 * 100.0)
    };
    Table::new()
        .with("collective", words(&|_, it| it.collective.to_string()))
        .with("cluster", words(&|it, _| it.name.to_owned()))
        .with("size", words(&|_, it| it.size().to_string()))
        .with("plan_us", number(&|it| us(it.program.as_ref()), 1))
        .with("nccl_us", number(&|it| us(it.nccl.as_ref()), 1))
        .with("msccl_us", number(&|it| us(it.msccl.as_ref()), 1))
        .with("over_msccl", number(&over_msccl, 2))
        .with("over_nccl", number(&|it| times(it.nccl.as_ref(), it.program.as_ref()), 2))
        .with("over_nccl_model", Values::Number(expected, 2))
        .with("percent_of_bound", number(&bound, 1))
        .with("setting", words(&|_, it| it.program.as_ref().map(setting).unwrap_or_default()))
}

/// What the plan does, in few words.
fn setting(pick: &Pick) -> String {
    format!("{} {} x{}", pick.way, pick.protocol, pick.instances)
}

fn plot(planned: &[Planned], kind: CollectiveKind) -> Plot {
    let line = |it: &Planned| Line {
        name: it.name.to_owned(),
        points: it
            .tasks(kind)
            .filter_map(|task| Some((task.size_bytes as f64, over_msccl(task)?)))
            .collect(),
    };
    Plot {
        title: format!("{}: gain over MSCCL's uniform default", written(kind)),
        x: "bytes".to_owned(),
        y: "times as fast".to_owned(),
        log_x: true,
        lines: planned.iter().map(line).collect(),
    }
}
