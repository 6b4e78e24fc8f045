//! `motet plan show FOLDER`: a plan as a table.

use std::fmt::Write as _;

use motet_net::Signature;
use motet_tune::plan::folder::Manifest;
use motet_tune::plan::{Pick, Tuned, algbw};
use motet_units::{Bytes, Duration};

use super::store;
use crate::args::plan::ShowArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let stored = store::read(&args.folder)?;
    if let Some(name) = &args.network {
        let cluster = files::network(name, &args.read.options(), printer)?;
        stored
            .is_for(Signature::of(&cluster.network))
            .map_err(|it| Failure::wrong(it.to_string()).in_file(&args.folder))?;
    }
    if printer.is_json() {
        printer.json(&stored.manifest)?;
    } else {
        printer.out(&text(&stored.manifest))?;
    }
    Ok(Status::Done)
}

/// What a pick does, in few words.
pub(super) fn setting(pick: &Pick) -> String {
    let mut out = match &pick.algorithm {
        Some(name) => format!("NCCL {name}"),
        None => pick.way.clone(),
    };
    let _ = write!(out, " {}", pick.protocol);
    if let Some(channels) = pick.channels {
        let _ = write!(out, ", {channels} ch");
    }
    if let Some(threads) = pick.threads {
        let _ = write!(out, ", {threads} thr");
    }
    if let Some(buffer) = pick.buffer_bytes {
        let _ = write!(out, ", {}", Bytes::new(buffer));
    }
    out
}

fn text(manifest: &Manifest) -> String {
    let Manifest { network, signature, ranks, seed, .. } = manifest;
    let mut out = format!("plan for {network} ({signature}), {ranks} ranks, seed {seed}\n");
    let mut last = "";
    for task in &manifest.tasks {
        if task.collective != last {
            let _ = write!(
                out,
                "\n{}\n  {:>9} {:>12} {:>9} {:>9} {:>8} {:>8}  setting\n",
                task.collective, "size", "time µs", "GB/s", "bound", "x NCCL", "x MSCCL"
            );
            last = &task.collective;
        }
        row(task, &mut out);
    }
    out
}

fn row(task: &Tuned, out: &mut String) {
    let Some(best) = task.best() else { return };
    let gain = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"));
    let _ = writeln!(
        out,
        "  {:>9} {:>12.3} {:>9.2} {:>9.2} {:>8} {:>8}  {}",
        task.size().to_string(),
        best.time().as_us_f64(),
        best.algbw(task.size()),
        algbw(task.size(), Duration::from_ps(task.bound_ps)),
        gain(task.gain(task.nccl.as_ref())),
        gain(task.gain(task.msccl.as_ref())),
        setting(best)
    );
}
