//! `motet plan show FOLDER`: a plan as a table.

use std::fmt::Write as _;

use motet_net::Signature;
use motet_tune::plan::folder::Manifest;
use motet_tune::plan::{Pick, TunedTask, algbw};
use motet_units::Duration;

use super::{sockets, store};
use crate::args::plan::ShowArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if let Some(plan) = sockets::stored(&args.folder)? {
        return sockets::show(args, &plan, printer);
    }
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
    let mut out = format!("{} {} {}", pick.runtime.name(), pick.way, pick.protocol);
    if pick.is_program() {
        let packed = if pick.packed { " packed" } else { "" };
        let blocks = if pick.blocks == 1 { "block" } else { "blocks" };
        let _ = write!(out, ", {}x{packed}, {} {blocks}", pick.instances, pick.blocks);
    } else if pick.asked {
        let _ = write!(out, ", {} channels", pick.channels);
    }
    out
}

fn text(manifest: &Manifest) -> String {
    let Manifest { network, signature, ranks, seed, margin_percent, most_blocks, .. } = manifest;
    let mut out = format!(
        "plan for {network} ({signature}), {ranks} ranks, seed {seed}, margin {margin_percent}%, at \
         most {most_blocks} blocks\n{}; the bound is on ideal links\n",
        times(&manifest.tasks)
    );
    let mixed = manifest.tasks.iter().any(TunedTask::is_measured);
    let mut last = None;
    for task in &manifest.tasks {
        if last != Some(task.collective) {
            let _ = write!(
                out,
                "\n{}\n  {:>9} {:>12} {:>9} {:>9} {:>11} {:>11} {:>8}  setting (then MSCCL++, where \
                 it is faster than NCCL)\n",
                task.collective,
                "size",
                "time µs",
                "GB/s",
                "bound",
                "x NCCL best",
                "x NCCL",
                "x MSCCL"
            );
            last = Some(task.collective);
        }
        row(task, mixed, &mut out);
    }
    out.push_str(&too_fast(&manifest.tasks));
    out
}

/// What was measured below the bound: then the network is described as slower than it is.
fn too_fast(tasks: &[TunedTask]) -> String {
    let fast = |it: &&TunedTask| it.is_measured() && it.pick.time().as_ps() < it.bound_ps;
    let Some(first) = tasks.iter().find(fast) else { return String::new() };
    format!(
        "\n{} tasks were measured faster than the network allows as it is described ({} of {} is the first): its links \
         are faster than their description says\n",
        tasks.iter().filter(fast).count(),
        first.collective,
        first.size()
    )
}

/// Which time scale times are on.
fn times(tasks: &[TunedTask]) -> String {
    match (tasks.iter().filter(|it| it.is_measured()).count(), tasks.len()) {
        (0, _) => "times are of kernels as modelled, not measured".to_owned(),
        (some, all) if some == all => "times were measured, of the slowest rank".to_owned(),
        (some, all) => {
            format!("times of {some} of {all} tasks were measured, the others (*) modelled")
        }
    }
}

fn row(task: &TunedTask, mixed: bool, out: &mut String) {
    let gain = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"));
    let _ = write!(
        out,
        "  {:>9} {:>12.3} {:>9.2} {:>9.2} {:>11} {:>11} {:>8}  {}",
        task.size().to_string(),
        task.pick.time().as_us_f64(),
        task.pick.algbw(task.size()),
        algbw(task.size(), Duration::from_ps(task.bound_ps)),
        gain(task.gain(task.nccl_best.as_ref())),
        gain(task.gain(task.nccl.as_ref())),
        gain(task.gain(task.msccl.as_ref())),
        setting(&task.pick)
    );
    if let Some(plus) = &task.mscclpp {
        let times = gain(task.mscclpp_gain(task.nccl_best.as_ref()));
        let _ = write!(out, "; {times} by {}", setting(plus));
    }
    out.push_str(if mixed && !task.is_measured() { " *\n" } else { "\n" });
}
