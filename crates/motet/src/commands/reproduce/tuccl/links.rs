//! Table II and figure 5a: how busy links are under the default and under the plan.

use motet_collective::CollectiveKind;
use motet_nccl::Knobs;
use motet_sim::event::LinkUse;
use motet_tune::clusters::{A100, Cluster, V100};
use motet_tune::plan::candidates::CandidateProgram;
use motet_tune::plan::{Pick, TunedTask};
use motet_units::{Bytes, Duration};

use super::super::claims::{Claim, Span};
use super::super::report::Report;
use super::setting::{ASSUMED, KINDS, Planned, times, written};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// Clusters, with what Table II has of them in percent for [`KINDS`].
const SETS: [(&str, &[Cluster], [f64; 2]); 2] =
    [("V100", &V100, [5.77, 0.47]), ("A100", &A100, [24.78, 2.79])];

/// Figure 5a: the most that pruned sketches add, in percent.
const MOST_ADDED: [f64; 2] = [18.45, 34.46];

/// How busy links are at one task, in percent.
struct Row {
    set: &'static str,
    cluster: &'static str,
    kind: CollectiveKind,
    size: Bytes,
    default: f64,
    plan: f64,
    /// Links that either uses, and how many there are.
    links: [usize; 2],
    all_links: usize,
    /// The plan's time as a part of the default's.
    time: f64,
}

/// The mean, over the links that carry anything, of busy time ÷ the time of the whole collective;
/// and how many those are.
fn busy(time: Duration, all: &[LinkUse]) -> (f64, usize) {
    let used = all.iter().filter(|it| it.crossings > 0 || !it.bytes.is_zero());
    let (mut busy, mut links) = (0.0, 0);
    for it in used {
        busy += it.busy.as_ps() as f64;
        links += 1;
    }
    let whole = time.as_ps() as f64 * links as f64;
    (if whole > 0.0 { busy / whole } else { 0.0 }, links)
}

/// In percent, if the simulator can run it.
fn of_pick(
    candidates: &[CandidateProgram],
    size: Bytes,
    pick: Option<&Pick>,
) -> Option<(f64, usize)> {
    let pick = pick?;
    let way = candidates.iter().find(|it| it.name == pick.way)?;
    let layout = way.family.find(pick.instances, pick.packed)?;
    let links = layout.laid.usage(size, &Knobs::new(pick.protocol));
    let (part, links) = busy(pick.time(), &links);
    Some((part * 100.0, links))
}

pub(in crate::commands::reproduce) fn links(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let mut rows = Vec::new();
    for (set, clusters, _) in SETS {
        for planned in Planned::all(clusters, args, printer)? {
            for kind in KINDS {
                let candidates = planned.candidates(kind)?;
                let row = |task: &TunedTask| {
                    let size = task.size();
                    let default = of_pick(&candidates, size, task.msccl.as_ref())?;
                    let plan = of_pick(&candidates, size, task.program.as_ref())?;
                    let (default, plan, links) = (default.0, plan.0, [default.1, plan.1]);
                    let (cluster, all_links) = (planned.name, planned.network.links().len());
                    let time = times(task.program.as_ref(), task.msccl.as_ref())?;
                    Some(Row { set, cluster, kind, size, default, plan, links, all_links, time })
                };
                rows.extend(planned.tasks(kind).filter_map(row));
            }
        }
    }
    let plots = KINDS.into_iter().map(|kind| (kind.name().to_owned(), plot(&rows, kind)));
    Report {
        name: "tuccl-table2",
        title: "Table II and figure 5a: how busy links are, by default and under the plan, percent",
        table: table(&rows),
        claims: claims(&rows),
        usual: &ASSUMED,
        assumed: vec![
            "utilization is the mean, over the directed links that carry anything (NVLink, PCIe, NIC \
             and fabric alike), of the time that a link is busy ÷ the time that the collective takes; \
             the paper calls its metric the aggregate link usage during the entire execution"
                .to_owned(),
            "a published figure that lies among ours says little here: ours are of all sizes, and the \
             paper gives none"
                .to_owned(),
            "the paper does not say which of +18.45 % and +34.46 % is of which \
             collective or cluster, nor whether they are points; they are read as points, AllGather \
             first"
                .to_owned(),
        ],
        plots: plots.collect(),
    }
    .finish(args, printer)
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (index, kind) in KINDS.into_iter().enumerate() {
        let of_kind: Vec<&Row> = rows.iter().filter(|it| it.kind == kind).collect();
        for (set, _, published) in SETS {
            let of_set: Vec<&Row> = of_kind.iter().copied().filter(|it| it.set == set).collect();
            let statement = format!("{set} {} by default, over sizes and clusters", written(kind));
            let span = Span::of(of_set.iter().map(|it| it.default));
            let claim = Claim::among(&statement, span, published[index], "%");
            claims.push(claim.detail(|| of_all_links(&of_set)));
        }
        claims.push(most_added(kind, MOST_ADDED[index], &of_kind));
    }
    claims.push(busier(rows));
    claims.push(idler_allreduce(rows));
    claims
}

/// What the shares would be if links that carry nothing counted too.
fn of_all_links(rows: &[&Row]) -> Option<String> {
    let all = |it: &&Row| it.default * it.links[0] as f64 / it.all_links.max(1) as f64;
    let used = Span::of(rows.iter().map(|it| it.links[0] as f64))?;
    let span = Span::of(rows.iter().map(all))?;
    Some(format!(
        "these are of the {:.0} to {:.0} links that carry anything; of all links of the network they \
         would be {:.2} to {:.2}%",
        used.low, used.high, span.low, span.high
    ))
}

fn most_added(kind: CollectiveKind, published: f64, rows: &[&Row]) -> Claim {
    let added = |it: &Row| it.plan - it.default;
    let row = rows.iter().max_by(|a, b| added(a).total_cmp(&added(b)));
    let most = row.map_or(f64::NAN, |it| added(it));
    Claim::published(
        format!("{}, the most that is added", written(kind)),
        most >= published,
        format!("{most:.2} points"),
    )
    .beside(format!("{published:.2} points"))
    .detail(|| {
        let Row { cluster, size, default, plan, .. } = row?;
        Some(format!("on {cluster} at {size}: {default:.2}% by default, {plan:.2}% under the plan"))
    })
}

/// "Comprehensively improve link utilization".
fn busier(rows: &[Row]) -> Claim {
    let added = || rows.iter().map(|it| it.plan - it.default);
    let (more, least) = (added().filter(|it| *it >= 0.0).count(), Span::of(added()));
    Claim::published(
        "the plan keeps links busier at every task".to_owned(),
        more == rows.len(),
        format!(
            "at {more} of {} tasks; the least is {:.2} points",
            rows.len(),
            least.map_or(f64::NAN, |it| it.low)
        ),
    )
    .beside("\"comprehensively\"")
    .detail(|| {
        let times = Span::of(rows.iter().filter(|it| it.plan < it.default).map(|it| it.time))?;
        Some(format!(
            "where links are less busy the plan takes {:.2} to {:.2} of the default's time",
            times.low, times.high
        ))
    })
}

/// In Table II AllReduce keeps links a tenth as busy as AllGather.
fn idler_allreduce(rows: &[Row]) -> Claim {
    let [gather, reduce] = KINDS;
    let ratio = |row: &Row| {
        let same = |it: &&Row| (it.cluster, it.size, it.kind) == (row.cluster, row.size, reduce);
        let other = rows.iter().find(same)?;
        (other.default > 0.0).then(|| row.default / other.default)
    };
    let ratios: Vec<f64> = rows.iter().filter(|it| it.kind == gather).filter_map(ratio).collect();
    let span = Span::of(ratios.iter().copied());
    let (low, high) = span.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
    let busier = ratios.iter().filter(|it| **it > 1.0).count();
    Claim::published(
        "by default AllGather keeps links busier than AllReduce of the same size".to_owned(),
        low > 1.0,
        format!("{low:.2} to {high:.2}x; busier at {busier} of {} tasks", ratios.len()),
    )
    .beside("12.28x (V100) and 8.88x (A100)")
}

fn table(rows: &[Row]) -> Table {
    let words = |of: &dyn Fn(&Row) -> String| Values::Words(rows.iter().map(of).collect());
    let number = |of: &dyn Fn(&Row) -> f64| Values::Number(rows.iter().map(of).collect(), 2);
    let whole = |at: usize| {
        let links = rows.iter().map(|it| i64::try_from(it.links[at]).unwrap_or(i64::MAX));
        Values::Whole(links.collect())
    };
    Table::new()
        .with("cluster", words(&|it| it.cluster.to_owned()))
        .with("collective", words(&|it| it.kind.to_string()))
        .with("size", words(&|it| it.size.to_string()))
        .with("default_percent", number(&|it| it.default))
        .with("plan_percent", number(&|it| it.plan))
        .with("added_points", number(&|it| it.plan - it.default))
        .with("default_links", whole(0))
        .with("plan_links", whole(1))
}

fn plot(rows: &[Row], kind: CollectiveKind) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|it| it.kind == kind) {
        let x = row.size.get() as f64;
        for (what, y) in [("default", row.default), ("plan", row.plan)] {
            let name = format!("{} {what}", row.cluster);
            match lines.iter_mut().find(|it| it.name == name) {
                Some(line) => line.points.push((x, y)),
                None => lines.push(Line { name, points: vec![(x, y)] }),
            }
        }
    }
    Plot {
        title: format!("{}: how busy links are", written(kind)),
        x: "bytes".to_owned(),
        y: "percent".to_owned(),
        log_x: true,
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_that_carry_something_count() {
        let link = |us, crossings| LinkUse {
            busy: Duration::from_us(us),
            bytes: Bytes::new(crossings * 8),
            crossings,
        };
        let time = Duration::from_us(10);
        assert_eq!(busy(time, &[link(10, 2), link(0, 0), link(5, 1)]), (0.75, 2));
        assert_eq!(busy(time, &[]), (0.0, 0));
    }
}
