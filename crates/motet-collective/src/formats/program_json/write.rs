//! Writes a program file, one row a line, so that two files compare well.

use std::fmt::Write as _;

use motet_units::Rank;

use super::rows::{action_letter, buffer_letter};
use super::{KEY, VERSION};
use crate::collective::{Collective, CollectiveKind};
use crate::program::{Event, LaneKind, Program};

/// Writes a program; [`super::read`] gives an equal one.
#[must_use]
pub fn write(program: &Program) -> String {
    let mut out = String::with_capacity(512 + program.transfers().len() * 32);
    // Writing to a string cannot fail.
    let _ = text(program, &mut out);
    out
}

fn text(program: &Program, out: &mut String) -> std::fmt::Result {
    head(program, out)?;
    rows(",\n \"paths\": [", program.paths(), out, |path, out| {
        numbers(path.iter().map(|it| it.0), out)
    })?;
    transfers(program, out)?;
    order(program, out)?;
    out.push_str("}\n");
    Ok(())
}

/// What the program does and is for.
fn head(program: &Program, out: &mut String) -> std::fmt::Result {
    let name = serde_json::Value::from(program.name());
    write!(out, "{{\"{KEY}\": {VERSION},\n \"name\": {name},\n")?;
    collective(program.collective(), out)?;
    let forms = program.forms();
    let names = [(forms.in_place, "\"in-place\""), (forms.out_of_place, "\"out-of-place\"")];
    let names: Vec<&str> = names.into_iter().filter(|it| it.0).map(|it| it.1).collect();
    writeln!(out, ",\n \"forms\": [{}],", names.join(", "))?;
    let hints = program.hints();
    writeln!(out, " \"protocol\": \"{}\",", hints.protocol.name())?;
    write!(out, " \"min_size\": {}", hints.min_size.get())?;
    if let Some(max) = hints.max_size {
        write!(out, ",\n \"max_size\": {}", max.get())?;
    }
    let ranks = || (0..program.collective().ranks()).map(Rank);
    let scratch: Vec<u32> = ranks().map(|it| program.scratch_chunks(it)).collect();
    let switch: Vec<u32> = ranks().map(|it| program.switch_chunks(it)).collect();
    for (key, chunks) in [("scratch", scratch), ("switch", switch)] {
        if chunks.iter().any(|it| *it > 0) {
            write!(out, ",\n \"{key}\": ")?;
            numbers(chunks, out)?;
        }
    }
    if let Some(network) = program.network() {
        write!(out, ",\n \"network\": \"{network}\"")?;
    }
    if let Some(made_for) = program.made_for() {
        let cluster = serde_json::Value::from(made_for.cluster.as_str());
        let size = made_for.size.get();
        write!(out, ",\n \"made_for\": {{\"cluster\": {cluster}, \"size_bytes\": {size}}}")?;
    }
    Ok(())
}

fn transfers(program: &Program, out: &mut String) -> std::fmt::Result {
    out.push_str(",\n \"transfers\": [");
    for (index, it) in program.transfers().iter().enumerate() {
        let (src, dst) = (it.src, it.dst);
        write!(
            out,
            "{}\n  [\"{}\",{},\"{}\",{},{},\"{}\",{},{}",
            if index > 0 { "," } else { "" },
            action_letter(it.action),
            src.rank,
            buffer_letter(src.buffer),
            src.offset,
            dst.rank,
            buffer_letter(dst.buffer),
            dst.offset,
            it.count
        )?;
        match it.path {
            Some(path) => write!(out, ",{path}]")?,
            None => out.push(']'),
        }
    }
    out.push(']');
    Ok(())
}

/// What waits for what, and whose turn it is.
fn order(program: &Program, out: &mut String) -> std::fmt::Result {
    let events = (0..program.transfers().len() * 2).map(Event::from_index);
    let waits: Vec<(Event, Event)> =
        events.flat_map(|it| program.deps(it).iter().map(move |dep| (it, *dep))).collect();
    rows(",\n \"waits\": [", &waits, out, |(event, awaited), out| {
        write!(out, "[{},{}]", event.index(), awaited.index())
    })?;
    rows(",\n \"lanes\": [", program.lanes(), out, |lane, out| {
        write!(out, "{{\"rank\": {}, \"kind\": ", lane.rank)?;
        match lane.kind {
            LaneKind::Block => out.push_str("\"block\""),
            LaneKind::Port { block } => write!(out, "{block}")?,
        }
        write!(out, ", \"channel\": {}, \"events\": ", lane.channel)?;
        numbers(lane.events.iter().map(|it| it.index()), out)?;
        out.push('}');
        Ok(())
    })?;
    rows(",\n \"turns\": [", program.turns(), out, |turns, out| {
        write!(out, "[{}, ", turns.link.0)?;
        numbers(turns.transfers.iter().map(|it| it.0), out)?;
        out.push(']');
        Ok(())
    })
}

fn collective(it: &Collective, out: &mut String) -> std::fmt::Result {
    write!(out, " \"collective\": {{\"kind\": \"{}\", \"ranks\": {}", it.kind(), it.ranks())?;
    if it.kind() != CollectiveKind::AllToAllV {
        write!(out, ", \"chunks\": {}", it.chunks())?;
    }
    if let Some(root) = it.root() {
        write!(out, ", \"root\": {root}")?;
    }
    if let Some(counts) = it.counts() {
        out.push_str(", \"counts\": ");
        numbers(counts.iter().copied(), out)?;
    }
    if let Some(peers) = it.peers() {
        out.push_str(", \"peers\": ");
        let text = |it: &Option<Rank>| it.map_or_else(|| "null".to_owned(), |it| it.to_string());
        numbers(peers.iter().map(text), out)?;
    }
    out.push('}');
    Ok(())
}

/// A list with one row a line; nothing at all if it is empty.
fn rows<T>(
    start: &str,
    rows: &[T],
    out: &mut String,
    mut row: impl FnMut(&T, &mut String) -> std::fmt::Result,
) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    out.push_str(start);
    for (index, it) in rows.iter().enumerate() {
        out.push_str(if index > 0 { ",\n  " } else { "\n  " });
        row(it, out)?;
    }
    out.push(']');
    Ok(())
}

fn numbers<T: std::fmt::Display>(
    numbers: impl IntoIterator<Item = T>,
    out: &mut String,
) -> std::fmt::Result {
    out.push('[');
    for (index, it) in numbers.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{it}")?;
    }
    out.push(']');
    Ok(())
}
