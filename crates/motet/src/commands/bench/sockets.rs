//! `motet bench --backend tcp`: nccl-tests' table of what Motet's programs take between processes of this machine.
//!
//! It is `motet exec bench` with the sizes and the columns of nccl-tests: every element of the first and the last call of
//! a size is checked, and a time is that of the slowest rank, in the middle of all calls. Calls are out of place.

use motet_collective::{Collective, CollectiveKind};
use motet_units::Rank;
use serde::Serialize;

use super::live::{GroupJson, ranks};
use super::nccl_tests::{self, Group, Iterations, Row, Table};
use crate::args::bench::BenchArgs;
use crate::args::exec::WhatArgs;
use crate::args::sizes::sizes;
use crate::commands::exec::bench::{RowJson, measure};
use crate::failure::{Failure, Status};
use crate::printer::Printer;

#[derive(Serialize)]
struct BenchJson {
    backend: &'static str,
    collective: &'static str,
    ranks: u32,
    results: Vec<LineJson>,
    wrong: u64,
    avg_busbw_gbps: f64,
}

#[derive(Serialize)]
struct LineJson {
    size_bytes: u64,
    /// Elements, as NCCL's call would be given them.
    count: u64,
    out_of_place: GroupJson,
    program: String,
    /// On ideal links, by the simulator, on the cluster that was given.
    predicted_us: Option<f64>,
}

pub(super) fn run(args: &BenchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    refuse(args)?;
    let (kind, ranks) = (args.collective, ranks(args, printer)?);
    let called = match kind {
        CollectiveKind::SendRecv => {
            Collective::send_recv(1, (0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        CollectiveKind::AllToAllV => {
            return Err(Failure::unreadable("alltoallv needs a count for each pair of ranks")
                .with_remedy("take alltoall, whose counts are equal"));
        }
        kind if kind.has_root() => Collective::rooted(kind, ranks, 1, Rank(0)),
        kind => Collective::new(kind, ranks, 1),
    };
    let called = called.map_err(|it| Failure::wrong(it.to_string()))?;
    let calls: Vec<(u64, u64)> = sizes(args.min, args.max, args.factor)?
        .into_iter()
        .map(|it| nccl_tests::size(kind, ranks, it))
        .filter(|it| it.1 > 0)
        .collect();
    if calls.is_empty() {
        return Err(Failure::unreadable(format!("{} are too few for {ranks} ranks", args.max))
            .with_remedy("give `--max` an element for every rank"));
    }
    let what = what(args, &calls)?;
    let (_, measured) = measure(&what, ranks, printer)?;
    let lines: Vec<((u64, u64), Group, RowJson)> = calls
        .into_iter()
        .zip(measured)
        .map(|(call, row)| (call, Group::new(&called, call.0, row.time_us, Some(row.wrong)), row))
        .collect();
    let table = table(&called, &what, &lines);
    if printer.is_json() {
        printer.json(&json(&table, lines))?;
    } else {
        printer.out(&table.text(args))?;
    }
    Ok(if table.wrong() == 0 { Status::Done } else { Status::Wrong })
}

/// Options of the other backends, which would be ignored.
fn refuse(args: &BenchArgs) -> Result<(), Failure> {
    let given = [
        ("--tuning", args.tuning),
        ("--plan", args.plan.is_some()),
        ("--terms", args.terms.is_some()),
    ];
    match given.into_iter().find(|it| it.1) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::unreadable(format!(
            "`{name}` is of NCCL, and `--backend tcp` runs Motet's programs"
        ))
        .with_remedy(format!("leave `{name}` away"))),
    }
}

/// The same as words for `motet exec bench`.
fn what(args: &BenchArgs, calls: &[(u64, u64)]) -> Result<WhatArgs, Failure> {
    let mut words = vec!["--collective".to_owned(), args.collective.to_string()];
    if let Some(cluster) = &args.cluster {
        words.extend(["--cluster".to_owned(), cluster.clone()]);
    }
    for (size, _) in calls {
        words.extend(["--size".to_owned(), format!("{size} B")]);
    }
    WhatArgs::of(&words).map_err(|it| Failure::unreadable(it.to_string()))
}

fn table<'a>(
    called: &'a Collective,
    what: &WhatArgs,
    lines: &[((u64, u64), Group, RowJson)],
) -> Table<'a> {
    let row = |((size_bytes, count), group, row): &((u64, u64), Group, RowJson)| Row {
        size_bytes: *size_bytes,
        count: *count,
        groups: [Some(*group), None],
        more: format!("  {}", row.program),
    };
    Table {
        collective: called,
        run: Iterations {
            warm_up: what.warm_up,
            counted: what.iterations,
            validation: 1,
            graph: 0,
        },
        about: format!(
            "Motet's programs between {} processes of this machine\n# time: measured, the slowest rank's",
            called.ranks()
        ),
        more: "  program",
        rows: lines.iter().map(row).collect(),
    }
}

fn json(table: &Table<'_>, lines: Vec<((u64, u64), Group, RowJson)>) -> BenchJson {
    let line = |((size_bytes, count), group, row): ((u64, u64), Group, RowJson)| LineJson {
        size_bytes,
        count,
        out_of_place: GroupJson::from(group),
        program: row.program,
        predicted_us: row.predicted_us,
    };
    BenchJson {
        backend: "tcp",
        collective: table.collective.kind().name(),
        ranks: table.collective.ranks(),
        wrong: table.wrong(),
        avg_busbw_gbps: table.average(),
        results: lines.into_iter().map(line).collect(),
    }
}
