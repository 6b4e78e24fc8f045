//! The text of an MSCCL XML file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_net::formats::xml;
use motet_units::{Bytes, Rank};

use super::header::counts_all_parts;
use super::limits::{
    COUNT_LIMIT, MAX_ATTRIBUTE, MAX_BLOCKS, MAX_CHANNELS, MAX_CHILDREN, MAX_ELEMENTS, MAX_OFFSET,
    MAX_PEERS_PER_CHANNEL,
};
use super::parse::letter;
use super::steps::{OutStep, Plan};
use super::{Options, lower};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Event, Lane, Program};
use crate::verify::Verified;

/// Writes a program as MSCCL XML, lowered first where it has no lanes or others than the runtime
/// can run.
///
/// # Errors
/// What the format cannot say or the runtime not load, each with its place.
pub fn write(program: &Verified<Program>, options: &Options) -> Result<String, Report> {
    let program = lower(program, options)?;
    let plan = Plan::new(&program);
    let mut report = Report::default();
    check_header(&program, &mut report);
    check_blocks(&program, &plan, options, &mut report);
    if !report.is_right() {
        return Err(report);
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = text(&program, &plan, &mut out);
    Ok(out)
}

fn text(program: &Program, plan: &Plan, out: &mut String) -> std::fmt::Result {
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

fn channels(program: &Program) -> u32 {
    program.lanes().iter().map(|it| it.channel + 1).max().unwrap_or(1)
}

fn check_header(program: &Program, report: &mut Report) {
    let mut refuse = |message: String| {
        report.push(Diagnostic::error(Finding::Limit, message));
    };
    let name = xml::escape(program.name());
    if name.len() > MAX_ATTRIBUTE {
        let length = name.len();
        refuse(format!(
            "the name has {length} characters of XML; the parser holds {MAX_ATTRIBUTE}"
        ));
    }
    let hints = program.hints();
    let sizes = [Some(hints.min_size), hints.max_size];
    if sizes.into_iter().flatten().any(|it| i64::try_from(it.get()).is_err()) {
        refuse("a size limit does not fit 63 bits".to_owned());
    }
    if hints.max_size.is_some_and(Bytes::is_zero) {
        refuse("a largest size of 0 would mean no limit; leave it out instead".to_owned());
    }
    let ranks = program.collective().ranks() as usize;
    if ranks > MAX_CHILDREN {
        refuse(format!("there are {ranks} ranks; the parser holds {MAX_CHILDREN}"));
    }
    let channels = channels(program);
    if channels > MAX_CHANNELS {
        refuse(format!("{channels} channels are needed; the runtime has {MAX_CHANNELS}"));
    }
}

fn check_blocks(program: &Program, plan: &Plan, options: &Options, report: &mut Report) {
    let ranks = program.collective().ranks() as usize;
    let mut elements = vec![1 + ranks; ranks];
    let mut peers_on = BTreeMap::new();
    for (index, lane) in program.lanes().iter().enumerate() {
        let name = format!("gpu {}, threadblock {}", lane.rank, plan.block_ids[index]);
        let mut refuse = |message: String| {
            report.push(Diagnostic::error(Finding::Limit, format!("{name}{message}")));
        };
        if plan.block_ids[index] == MAX_BLOCKS {
            refuse(format!(": no more than {MAX_BLOCKS} threadblocks can be told apart"));
        }
        let (length, most) = (plan.length(index), options.runtime.max_steps() as usize);
        elements[lane.rank.index()] += length + 1;
        if length > most {
            refuse(format!(" has {length} steps; the runtime holds {most}"));
        }
        let (send, recv) = peers(program, lane);
        for (peer, what) in [(send, "send"), (recv, "receive")] {
            if peer.is_some() {
                let count = peers_on.entry((lane.rank, lane.channel, what)).or_insert(0usize);
                *count += 1;
                if *count == MAX_PEERS_PER_CHANNEL + 1 {
                    refuse(format!(
                        " is one too many to {what} on channel {}; the runtime holds \
                         {MAX_PEERS_PER_CHANNEL}",
                        lane.channel
                    ));
                }
            }
        }
        let mut number = 0;
        for step in &plan.steps[index] {
            number += step.waits.len().max(1);
            let at = number - 1;
            if step.count >= COUNT_LIMIT {
                let count = step.count;
                refuse(format!(
                    ", step {at} moves {count} chunks; the most is {}",
                    COUNT_LIMIT - 1
                ));
            }
            let offset = step.src.offset.max(step.dst.offset);
            if offset > MAX_OFFSET {
                refuse(format!(", step {at} has offset {offset}; the largest is {MAX_OFFSET}"));
            }
        }
    }
    for (rank, elements) in elements.iter().enumerate().filter(|it| *it.1 > MAX_ELEMENTS) {
        let message =
            format!("gpu {rank} makes {elements} elements; the parser holds {MAX_ELEMENTS}");
        report.push(Diagnostic::error(Finding::Limit, message));
    }
}
