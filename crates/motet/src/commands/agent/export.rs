//! `motet agent export`: tables of what a policy decides on a cluster, one for each level of congestion.

use std::path::Path;
use std::sync::Arc;

use motet_agent::distill::{Distilled, Grid, distill};
use motet_agent::env::Place;
use motet_agent::lstm::Lstm;
use motet_agent::state::TopologyClass;
use motet_nccl::NcclOptions;
use motet_net::formats::ReadOptions;
use motet_runtime::Signature;
use motet_units::Seed;
use serde::Serialize;

use super::read_policy;
use crate::args::agent::export::AgentExportArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct Row {
    level: String,
    file: String,
    entries: usize,
    checksum: String,
    /// Calls that the table decides as the policy does.
    same_percent: f64,
    /// How much longer the table's actions take than the policy's.
    slower_percent: f64,
}

pub(crate) fn run(args: &AgentExportArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let policy = read_policy(&args.policy)?;
    let cluster = files::network(&args.cluster, &ReadOptions::default(), printer)?;
    let signature = Signature(motet_net::Signature::of(&cluster.network).as_u128());
    let wrong = |problem: String| Failure::wrong(problem).in_file(&args.cluster);
    let (class, options) = (TopologyClass::Mixed, NcclOptions::default());
    let place = Place::new(files::stem(&args.cluster), cluster.network, class, options, None)
        .map_err(|it| wrong(it.to_string()))?;
    let grid = Grid {
        place: Arc::new(place),
        signature,
        kinds: args.collective.clone(),
        sizes: args.size.clone(),
        seed: Seed::new(args.seed),
    };
    let progress = Progress::start(printer, "the policy decides");
    let tables = distill(&mut Lstm::new(Arc::new(policy)), &grid);
    let tables = tables.map_err(|it| wrong(it.to_string()))?;
    drop(progress);
    if !Path::new(&args.out).is_dir() {
        std::fs::create_dir_all(&args.out).map_err(|it| {
            Failure::unreadable(format!("cannot be made: {it}")).in_file(&args.out)
        })?;
    }
    let rows: Vec<Row> =
        tables.iter().map(|it| write(it, &args.out, printer)).collect::<Result<_, _>>()?;
    if printer.is_json() {
        printer.json(&serde_json::json!({ "seed": args.seed, "tables": rows }))?;
    } else {
        printer.out(&table(&rows).text())?;
    }
    Ok(Status::Done)
}

fn write(found: &Distilled, folder: &str, printer: &mut Printer) -> Result<Row, Failure> {
    let Distilled { level, table, agreement } = found;
    let file = format!("{level}.table");
    let path = Path::new(folder).join(&file);
    files::write(&path.to_string_lossy(), &table.write(), printer)?;
    Ok(Row {
        level: level.name().to_owned(),
        file,
        entries: table.entries().len(),
        checksum: table.checksum().to_string(),
        same_percent: agreement.same as f64 / agreement.calls.max(1) as f64 * 100.0,
        slower_percent: (agreement.slower.exp() - 1.0) * 100.0,
    })
}

fn table(rows: &[Row]) -> Table {
    let words = |of: &dyn Fn(&Row) -> String| Values::Words(rows.iter().map(of).collect());
    let number = |of: &dyn Fn(&Row) -> f64| Values::Number(rows.iter().map(of).collect(), 1);
    let entries = rows.iter().map(|it| i64::try_from(it.entries).unwrap_or(i64::MAX));
    Table::new()
        .with("level", words(&|it| it.level.clone()))
        .with("file", words(&|it| it.file.clone()))
        .with("entries", Values::Whole(entries.collect()))
        .with("checksum", words(&|it| it.checksum.clone()))
        .with("% as the policy", number(&|it| it.same_percent))
        .with("% slower", number(&|it| it.slower_percent))
}
