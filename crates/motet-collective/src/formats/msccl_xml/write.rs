//! The text of an MSCCL XML file.

use std::fmt::Write as _;

use motet_net::formats::xml;
use motet_units::{Bytes, Rank};

use super::header::counts_all_parts;
use super::parse::letter;
use super::steps::{OutStep, XmlSteps};
use super::{Options, check, check_counts, lower};
use crate::diagnostic::Report;
use crate::program::{Event, Lane, Program};
use crate::verify::Verified;

/// Writes a program as MSCCL XML, lowered first where it has no lanes or others than the runtime
/// can run.
///
/// # Errors
/// What the format cannot say or the runtime not load, each with its place.
pub fn write(program: &Verified<Program>, options: &Options) -> Result<String, Report> {
    check_counts(program, options)?;
    let lowered = lower::unproved(program, options)?;
    // Before it is proved, which takes longer.
    planned(&lowered, options)?;
    let program = lower::prove(lowered, program, options)?;
    let plan = planned(&program, options)?;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = text(&program, &plan, &mut out);
    Ok(out)
}

/// The steps of a lowered program, if the runtime loads them.
fn planned(program: &Program, options: &Options) -> Result<XmlSteps, Report> {
    let plan = XmlSteps::new(program);
    let mut report = Report::default();
    check::header(program, &mut report);
    check::blocks(program, &plan, options, &mut report);
    if report.is_right() { Ok(plan) } else { Err(report) }
}

fn text(program: &Program, plan: &XmlSteps, out: &mut String) -> std::fmt::Result {
    let collective = program.collective();
    let parts = if counts_all_parts(collective.kind()) { collective.ranks() } else { 1 };
    let flag = |it: bool| if it { 1 } else { 0 };
    write!(
        out,
        "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" \
         coll=\"{}\" inplace=\"{}\" outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\"",
        xml::escape(program.name()),
        program.hints().protocol.name(),
        channels(program),
        collective.chunks() * parts,
        collective.ranks(),
        collective.kind(),
        flag(program.forms().in_place),
        flag(program.forms().out_of_place),
        program.hints().min_size.get(),
        program.hints().max_size.map_or(0, Bytes::get),
    )?;
    if let Some(root) = collective.root() {
        write!(out, " root=\"{root}\"")?;
    }
    out.push_str(">\n");
    let mut lanes = program.lanes().iter().enumerate().peekable();
    for rank in (0..collective.ranks()).map(Rank) {
        writeln!(
            out,
            "  <gpu id=\"{rank}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">",
            collective.input_chunks(rank),
            collective.output_chunks(rank),
            plan.scratch[rank.index()],
        )?;
        while let Some((index, lane)) = lanes.next_if(|(_, it)| it.rank == rank) {
            let (send, recv) = peers(program, lane);
            let peer = |it: Option<u32>| it.map_or(-1, i64::from);
            writeln!(
                out,
                "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">",
                plan.block_ids[index],
                peer(send),
                peer(recv),
                lane.channel
            )?;
            steps(&plan.steps[index], out)?;
            out.push_str("    </tb>\n");
        }
        out.push_str("  </gpu>\n");
    }
    out.push_str("</algo>\n");
    Ok(())
}

fn steps(steps: &[OutStep], out: &mut String) -> std::fmt::Result {
    let mut number = 0;
    for step in steps {
        let waits = step.waits.iter().map(|(block, step)| (i64::from(*block), i64::from(*step)));
        let mut waits: Vec<(i64, i64)> = waits.collect();
        let (depid, deps) = waits.pop().unwrap_or((-1, -1));
        for (depid, deps) in waits {
            writeln!(
                out,
                "      <step s=\"{number}\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" \
                 dstoff=\"-1\" cnt=\"0\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"0\"/>"
            )?;
            number += 1;
        }
        writeln!(
            out,
            "      <step s=\"{number}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" \
             dstoff=\"{}\" cnt=\"{}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{}\"/>",
            step.kind.name(),
            letter(step.src.buffer),
            step.src.offset,
            letter(step.dst.buffer),
            step.dst.offset,
            step.count,
            if step.flag { 1 } else { 0 },
        )?;
        number += 1;
    }
    Ok(())
}

/// Whom a lane sends to and receives from.
pub(super) fn peers(program: &Program, lane: &Lane) -> (Option<u32>, Option<u32>) {
    let between = |it: &&Event| !program.transfer(it.transfer()).is_local();
    let find = |sent: bool| lane.events.iter().filter(between).find(|it| it.is_sent() == sent);
    (
        find(true).map(|it| program.transfer(it.transfer()).dst.rank.0),
        find(false).map(|it| program.transfer(it.transfer()).src.rank.0),
    )
}

pub(super) fn channels(program: &Program) -> u32 {
    program.lanes().iter().map(|it| it.channel + 1).max().unwrap_or(1)
}
