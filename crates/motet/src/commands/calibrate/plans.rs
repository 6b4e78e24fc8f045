//! `motet calibrate --write-plans`: what `benches/mscclpp` should measure.

use std::fmt::Write as _;
use std::path::Path;

use motet_tune::calibrate::sweep;
use serde::Serialize;

use crate::args::calibrate::CalibrateArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Serialize)]
struct PlansJson<'a> {
    folder: &'a str,
    plans: usize,
    calls: usize,
}

pub(super) fn run(
    folder: &str,
    args: &CalibrateArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let progress = Progress::start(printer, "making plans");
    let plans = sweep::plans(&args.ranks, args.ranks_per_gpu, args.gpus_per_server);
    if plans.is_empty() {
        let server = args.gpus_per_server.filter(|it| args.ranks.iter().all(|ranks| ranks <= it));
        return Err(match server {
            Some(_) => Failure::wrong("all ranks are in one server, where there are no ports")
                .with_remedy("give fewer `--gpus-per-server`"),
            None => Failure::wrong("no plan fits so many ranks on a GPU")
                .with_remedy("give fewer `--ranks-per-gpu`"),
        });
    }
    progress.say(format!("writing {} plans", plans.len()));
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::unreadable(format!("cannot be made: {error}")).in_file(folder))?;
    let mut manifest = String::new();
    for plan in &plans {
        let file = Path::new(folder).join(format!("{}.json", plan.entry));
        files::write_bytes(&file.to_string_lossy(), plan.text.as_bytes())?;
        // Writing to a string cannot fail.
        let _ = writeln!(manifest, "{}", plan.manifest());
    }
    let file = Path::new(folder).join("manifest.jsonl");
    files::write_bytes(&file.to_string_lossy(), manifest.as_bytes())?;
    drop(progress);
    let calls = plans.iter().map(|it| it.sizes.len()).sum();
    if printer.is_json() {
        printer.json(&PlansJson { folder, plans: plans.len(), calls })?;
    } else {
        let count = plans.len();
        printer.out(&format!(
            "{count} plans and manifest.jsonl in {folder}, {calls} calls to measure: see \
             benches/mscclpp/README.md\n"
        ))?;
    }
    Ok(Status::Done)
}
