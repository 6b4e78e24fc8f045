//! Table II and figure 5a: how busy links are under the default and under the plan.

use motet_collective::CollectiveKind;
use motet_nccl::Knobs;
use motet_sim::event::LinkUse;
use motet_tune::clusters::{A100, Cluster, V100};
use motet_tune::plan::candidates::CandidateProgram;
use motet_tune::plan::{Pick, TunedTask};
use motet_units::{Bytes, Duration};

use super::claims::{Claim, Span};
use super::report::Report;
use super::setting::{KINDS, Planned, written};
use crate::args::ReproduceArgs;
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
    /// Links that either uses.
    links: [usize; 2],
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
                    Some(Row { set, cluster: planned.name, kind, size, default, plan, links })
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
        assumed: vec![
            "utilization is the mean, over the directed links that carry anything (NVLink, PCIe, NIC \
             and fabric alike), of the time that a link is busy ÷ the time that the collective takes; \
             the paper calls its metric the aggregate link usage during the entire execution"
                .to_owned(),
            "a published figure that lies among ours says little here: ours go from nearly nothing to \
             about a half as sizes grow, and the paper gives no size"
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
        let of_kind = || rows.iter().filter(move |it| it.kind == kind);
        for (set, _, published) in SETS {
            let span = Span::of(of_kind().filter(|it| it.set == set).map(|it| it.default));
            claims.push(Claim::among(
                &format!("{set} {} by default, over sizes and clusters", written(kind)),
                span,
                published[index],
                "%",
                [
                    "we count only links that carry something, and these shares are of them",
                    "we count only links that carry something, which idle links would bring down",
                ],
            ));
        }
        let added = Span::of(of_kind().map(|it| it.plan - it.default));
        let most = added.map_or(f64::NAN, |it| it.high);
        let claim = Claim::new(
            &format!("{}, the most that is added", written(kind)),
            &format!("{:.2} points", MOST_ADDED[index]),
            format!("{most:.2} points"),
            most >= MOST_ADDED[index],
        );
        claims.push(
            claim.because("the default keeps links busier here than on the paper's machines"),
        );
    }
    claims.push(busier(rows));
    claims.push(idler_allreduce(rows));
    claims
}

/// "Comprehensively improve link utilization".
fn busier(rows: &[Row]) -> Claim {
    let added = || rows.iter().map(|it| it.plan - it.default);
    let (more, least) = (added().filter(|it| *it >= 0.0).count(), Span::of(added()));
    Claim::new(
        "the plan keeps links busier at every task",
        "\"comprehensively\"",
        format!(
            "at {more} of {} tasks; the least is {:.2} points",
            rows.len(),
            least.map_or(f64::NAN, |it| it.low)
        ),
        more == rows.len(),
    )
    .because(
        "a plan is chosen for its time alone, and is faster there too: a program that sends fewer \
         copies through NICs leaves the other links more idle",
    )
}

/// In Table II AllReduce keeps links a tenth as busy as AllGather.
fn idler_allreduce(rows: &[Row]) -> Claim {
    let [gather, reduce] = KINDS;
    let ratio = |row: &Row| {
        let same = |it: &&Row| (it.cluster, it.size, it.kind) == (row.cluster, row.size, reduce);
        let other = rows.iter().find(same)?;
        (other.default > 0.0).then(|| row.default / other.default)
    };
    let span = Span::of(rows.iter().filter(|it| it.kind == gather).filter_map(ratio));
    let (low, high) = span.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
    Claim::new(
        "by default AllGather keeps links busier than AllReduce of the same size",
        "12.28x (V100) and 8.88x (A100)",
        format!("{low:.2} to {high:.2}x"),
        low > 1.0,
    )
    .because(
        "an AllReduce that sends straight to everyone uses the same links for as much data or more: in \
         two rounds at large sizes, everything at once at small ones; the paper's was what TACCL \
         synthesized, whose dependencies it gives as the cause",
    )
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
