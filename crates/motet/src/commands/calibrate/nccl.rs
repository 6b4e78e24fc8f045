//! `motet calibrate` of a log of nccl-tests: the model of NCCL beside it.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_tune::calibrate::nccl::{Comparison, compare};
use motet_tune::calibrate::nccl_tests;
use serde::Serialize;

use crate::args::calibrate::CalibrateArgs;
use crate::commands::nccl;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Serialize)]
struct NcclJson {
    model: String,
    cluster: String,
    results: Vec<LineJson>,
    /// Medians of modelled over measured, and of how far that is from 1.
    ratio: f64,
    error: f64,
}

#[derive(Serialize)]
struct LineJson {
    collective: CollectiveKind,
    size_bytes: u64,
    measured_us: Option<f64>,
    measured_in_place_us: Option<f64>,
    modelled_us: f64,
    ratio: f64,
}

pub(super) fn run(
    name: &str,
    text: &str,
    args: &CalibrateArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let log = nccl_tests::read(text).map_err(|it| Failure::from(it).in_file(name))?;
    let Some(cluster) = &args.cluster else {
        return Err(Failure::unreadable("a log of nccl-tests is compared with the model of NCCL")
            .in_file(name)
            .with_remedy("name the network that it was measured on with `--cluster`"));
    };
    if args.output.is_some() || args.from.is_some() || args.plans.is_some() {
        return Err(Failure::unreadable("no terms are fitted to a log of nccl-tests")
            .in_file(name)
            .with_remedy("leave out `-o`, `--from` and `--plans`"));
    }
    let (found, model) = {
        let _progress = Progress::start(printer, "searching rings and trees as NCCL does");
        let (network, model) = nccl::model(cluster, &args.read, args.nccl, printer)?;
        let found = compare(&log, args.collective, &network, &model);
        (found.map_err(|it| Failure::from(it).in_file(name))?, model)
    };
    let version = format!("NCCL {}", model.options().version.name());
    if printer.is_json() {
        printer.json(&json(&found, version, cluster))?;
    } else {
        printer.out(&table(&found, &version, cluster))?;
    }
    Ok(Status::Done)
}

fn json(found: &Comparison, model: String, cluster: &str) -> NcclJson {
    let line = |it: &motet_tune::calibrate::nccl::Compared| LineJson {
        collective: it.kind,
        size_bytes: it.size.get(),
        measured_us: it.out_of_place,
        measured_in_place_us: it.in_place,
        modelled_us: it.modelled.as_us_f64(),
        ratio: it.ratio,
    };
    let results = found.calls.iter().map(line).collect();
    NcclJson { model, cluster: cluster.to_owned(), results, ratio: found.ratio, error: found.error }
}

fn table(found: &Comparison, version: &str, cluster: &str) -> String {
    let mut out = format!("{version} as modelled on {cluster}, beside what was measured\n\n");
    let heading = "collective             bytes   measured   in place   modelled  ratio";
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", Printer::strong(heading));
    let time = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    for it in &found.calls {
        let _ = writeln!(
            out,
            "{:15} {:>12} {:>10} {:>10} {:>10.2} {:>6.2}",
            it.kind,
            it.size.get(),
            time(it.out_of_place),
            time(it.in_place),
            it.modelled.as_us_f64(),
            it.ratio
        );
    }
    let _ = writeln!(
        out,
        "\ntimes in µs; modelled over measured: median {:.2}, median distance from 1 {:.0}%",
        found.ratio,
        found.error * 100.0
    );
    out
}
