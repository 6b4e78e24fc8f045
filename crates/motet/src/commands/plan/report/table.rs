//! The numbers of a collective: a row for every size, with links to the files that serve it.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_nccl::Basis;
use motet_tune::plan::files::ProgramFile;
use motet_tune::plan::folder::TUNER;
use motet_tune::plan::{Pick, Plan, Runtime, TunedTask};

use super::{link, times};
use crate::plot::escaped;

const HEAD: &str = "<thead>\n<tr><th scope=\"col\" rowspan=\"2\">size</th>\
<th scope=\"colgroup\" colspan=\"9\">plan</th>\
<th scope=\"colgroup\" colspan=\"2\">NCCL at its best</th>\
<th scope=\"colgroup\" colspan=\"2\">plan ×</th>\
<th scope=\"colgroup\" colspan=\"3\">on MSCCL++ <span class=\"tag\">H200</span></th></tr>\n\
<tr><th scope=\"col\" class=\"text first\">pick</th><th scope=\"col\" class=\"text\">protocol</th>\
<th scope=\"col\"><abbr title=\"instances: how often the program runs side by side; packed: on as few thread blocks as peers allow\">inst.</abbr></th>\
<th scope=\"col\"><abbr title=\"thread blocks of the GPU that has most\">blocks</abbr></th>\
<th scope=\"col\">µs</th><th scope=\"col\">algbw</th><th scope=\"col\">busbw</th>\
<th scope=\"col\">% of bound</th><th scope=\"col\">model</th>\
<th scope=\"col\" class=\"text first\">setting</th><th scope=\"col\">plan ×</th>\
<th scope=\"col\" class=\"first\">NCCL by itself</th><th scope=\"col\">MSCCL's default</th>\
<th scope=\"col\" class=\"text first\">pick</th><th scope=\"col\">µs</th>\
<th scope=\"col\">× NCCL's best</th></tr>\n</thead>\n";

pub(super) fn table(
    plan: &Plan,
    kind: CollectiveKind,
    tasks: &[&TunedTask],
    bus: f64,
    programs: &[ProgramFile],
    out: &mut String,
) {
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<p class=\"soft\">Bandwidths in GB/s as nccl-tests counts them; bold where a program beats NCCL's \
         best by more than {}%. Names link to the files that runtimes load.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{kind}: numbers\">\n<table>\n\
         <caption>{kind} by size</caption>\n{HEAD}<tbody>\n",
        plan.margin_percent
    );
    for task in tasks {
        row(kind, task, bus, programs, out);
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

fn row(
    kind: CollectiveKind,
    task: &TunedTask,
    bus: f64,
    programs: &[ProgramFile],
    out: &mut String,
) {
    let pick = &task.pick;
    let rate = pick.algbw(task.size());
    let bound = 100.0 * task.bound_ps as f64 / pick.time_ps.max(1) as f64;
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}</th><td class=\"text first\">{}</td><td class=\"text\">{}</td>\
         <td>{}</td><td>{}</td><td>{:.2}</td><td>{rate:.2}</td><td>{:.2}</td><td>{bound:.0}%</td>\
         <td>{}</td>",
        task.size(),
        named(kind, task, pick, programs),
        pick.protocol,
        instances(pick),
        pick.blocks,
        pick.time().as_us_f64(),
        rate * bus,
        tag(pick)
    );
    let best = task.nccl_best.as_ref().map_or_else(
        || "–".to_owned(),
        |it| format!("{} {}{} {}", escaped(&it.way), it.protocol, channels(it), tag(it)),
    );
    let _ = write!(
        out,
        "<td class=\"text first\">{best}</td><td{}>{}</td><td class=\"first\">{}</td><td>{}</td>",
        win(task, pick),
        times(task.gain(task.nccl_best.as_ref())),
        times(task.gain(task.nccl.as_ref())),
        times(task.gain(task.msccl.as_ref()))
    );
    let _ = match &task.mscclpp {
        None => write!(out, "<td class=\"text first\">–</td><td>–</td><td>–</td>"),
        Some(plus) => write!(
            out,
            "<td class=\"text first\">{}, {}x, {} blocks</td><td>{:.2}</td><td{}>{}</td>",
            named(kind, task, plus, programs),
            plus.instances,
            plus.blocks,
            plus.time().as_us_f64(),
            win(task, plus),
            times(task.mscclpp_gain(task.nccl_best.as_ref()))
        ),
    };
    out.push_str("</tr>\n");
}

/// A pick with a link to the file that does it.
fn named(kind: CollectiveKind, task: &TunedTask, pick: &Pick, programs: &[ProgramFile]) -> String {
    let runtime = pick.runtime.name();
    if !pick.is_program() {
        return link(TUNER, &format!("{runtime} {}{}", pick.way, channels(pick)));
    }
    // The table's heading names the collective.
    let way = pick.way.strip_prefix(&format!("{kind}-")).unwrap_or(&pick.way);
    let text = match pick.runtime {
        // The column's heading names the runtime.
        Runtime::Mscclpp => way.to_owned(),
        Runtime::Msccl | Runtime::Nccl => format!("{runtime} {way}"),
    };
    let run = programs.iter().find(|it| it.runtime == pick.runtime && it.serves(task));
    run.map_or_else(|| escaped(&text), |it| link(&it.path(), &text))
}

/// A program that is picked beats NCCL's best by the margin, if there is one.
fn win(task: &TunedTask, pick: &Pick) -> &'static str {
    if pick.is_program() && task.nccl_best.is_some() { " class=\"win\"" } else { "" }
}

fn instances(pick: &Pick) -> String {
    match (pick.is_program(), pick.packed) {
        (false, _) => "–".to_owned(),
        (true, false) => pick.instances.to_string(),
        (true, true) => format!("{} packed", pick.instances),
    }
}

/// Channels that a tuner must ask for.
fn channels(pick: &Pick) -> String {
    if pick.asked { format!(", {} channels", pick.channels) } else { String::new() }
}

/// Which model a time of NCCL's or MSCCL's is by; the summary says what the words mean.
const fn tag(pick: &Pick) -> &'static str {
    match pick.basis {
        Basis::Kernels => "<span class=\"tag\">run</span>",
        Basis::Fitted => "<span class=\"tag\">fitted</span>",
        Basis::Belief | Basis::Links => "<span class=\"tag\">belief</span>",
        Basis::Measured => "<span class=\"tag\">measured</span>",
    }
}
