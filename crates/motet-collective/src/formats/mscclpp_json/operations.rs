//! What each operation does, as the executor of mscclpp 0.9.0 does it.
//!
//! Sums are taken apart: `dst = a + b` becomes a copy of a to dst, unless dst is a, and a
//! reduction of b into dst; what is also sent to others is copied from dst. Two traits of the
//! executor that its documentation does not tell show here: `flush` alone waits for nothing (it
//! counts its channels by its destinations, of which it has none), and a `get` exchanges the
//! offsets of its two ends.

use motet_units::brief;

use super::model::{ChannelType, PlanOp};
use super::resolve::{PlanReader, Range};
use super::steps::{ChannelEnd, Counter, Move, Moves, PlanStepKind, Post, Touch};
use super::switch;
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::{Action, Buffer, Transfer};

/// Adds the steps of `op`.
pub(super) fn read(reader: &mut PlanReader<'_>, op: &PlanOp) {
    reader.group = op.tbg_info;
    if reader.group.is_some() && reader.pipeline.is_some() {
        return reader.not_judged("`pipeline` over an operation shared out by `tbg_info`");
    }
    if op.name.ends_with("pkt") && reader.pipeline.is_some() {
        return reader.not_judged(format!(
            "`pipeline` over `{}`, which does not go by slices",
            brief(&op.name)
        ));
    }
    match op.name.as_str() {
        "nop" => reader.push(PlanStepKind::Sync),
        "barrier" => barrier(reader, op),
        "signal" | "rlxsignal" | "wait" | "rlxwait" => signal_or_wait(reader, op),
        "sem_acquire" | "sem_release" => semaphore(reader, op),
        "flush" => {
            let message = "`flush` by itself waits for nothing in the executor; use pwsf";
            let diagnostic = Diagnostic::warning(Finding::BadWait, message);
            let at = reader.at();
            reader.report.push(diagnostic.from_origin(at));
        }
        "put" | "pws" | "pwsf" | "ppkt" => put(reader, op),
        "rppkt" => read_put_packets(reader, op),
        "get" => get(reader, op),
        "copy" | "upkt" | "cpkt" => copy(reader, op),
        "re" => reduce(reader, op, Sum::PLAIN),
        "res" => reduce(reader, op, Sum { sends: true, ..Sum::PLAIN }),
        "rre" => reduce(reader, op, Sum { reads: true, ..Sum::PLAIN }),
        "rres" => reduce(reader, op, Sum { reads: true, sends: true, ..Sum::PLAIN }),
        "repkt" => reduce(reader, op, Sum { packets: true, ..Sum::PLAIN }),
        "respkt" => reduce(reader, op, Sum { packets: true, sends: true, ..Sum::PLAIN }),
        "recpkt" => reduce(reader, op, Sum { packets: true, copies: true, ..Sum::PLAIN }),
        "recspkt" => {
            reduce(reader, op, Sum { packets: true, reads: false, copies: true, sends: true });
        }
        "glres" | "gstore" | "gstorepkt" => switch::read(reader, op),
        other => {
            reader.not_judged(format!("`{}` is not an operation of the executor", brief(other)));
        }
    }
}

fn barrier(reader: &mut PlanReader<'_>, op: &PlanOp) {
    match (op.barrier_id, op.num_threadblocks) {
        (Some(id), Some(blocks)) => reader.push(PlanStepKind::Barrier { id, blocks }),
        _ => {
            reader
                .wrong(Finding::OutOfRange, "`barrier` needs `barrier_id` and `num_threadblocks`");
        }
    }
}

fn signal_or_wait(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let Some(kind) = channel_type(reader, op) else { return };
    let raises = op.name.ends_with("signal");
    // Only memory channels have a relaxed form; the executor ignores the word for ports.
    let relaxed = op.name.starts_with("rlx") && kind == ChannelType::Memory;
    let ends = reader.channels(op, kind);
    let touch = |end| {
        let at = if raises { ChannelEnd::other(end) } else { end };
        Touch { counter: Counter::Inbound(at), end: Some(end), relaxed }
    };
    let touches = ends.into_iter().flatten().map(touch).collect();
    reader.push(if raises { PlanStepKind::Raise(touches) } else { PlanStepKind::Take(touches) });
}

fn semaphore(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let known = reader.context.plan.gpus[reader.rank.index()].semaphores.len();
    let mut touches = Vec::with_capacity(op.semaphore_ids.len());
    for id in &op.semaphore_ids {
        if *id as usize >= known {
            reader.wrong(Finding::OutOfRange, format!("semaphore {id} of {known} does not exist"));
            continue;
        }
        let counter = Counter::Semaphore { rank: reader.rank, id: *id };
        touches.push(Touch { counter, end: None, relaxed: false });
    }
    let raises = op.name == "sem_release";
    reader.push(if raises { PlanStepKind::Raise(touches) } else { PlanStepKind::Take(touches) });
}

fn channel_type(reader: &mut PlanReader<'_>, op: &PlanOp) -> Option<ChannelType> {
    match op.channel_type {
        Some(kind @ (ChannelType::Memory | ChannelType::Port)) => Some(kind),
        Some(ChannelType::Switch) => {
            reader.not_judged(format!("`{}` over a switch channel", op.name));
            None
        }
        _ => {
            reader.wrong(Finding::OutOfRange, format!("`{}` needs a `channel_type`", op.name));
            None
        }
    }
}

/// The transfer between two ranges, which must be of one size.
fn transfer(
    reader: &mut PlanReader<'_>,
    action: Action,
    src: Range,
    dst: Range,
) -> Option<Transfer> {
    if src.count != dst.count {
        let parts = reader.context.parts;
        let message = format!("{} chunks into {}", src.count / parts, dst.count / parts);
        reader.wrong(Finding::Mismatch, message);
        return None;
    }
    Some(Transfer { action, src: src.slot, dst: dst.slot, count: src.count, path: None })
}

fn plain(transfer: Transfer) -> Move {
    Move { transfer, reads_packets: false, writes_packets: false }
}

fn put(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let Some(kind) = channel_type(reader, op) else { return };
    let writes_packets = op.name == "ppkt";
    if op.src_buff.len() != op.dst_buff.len() {
        let message =
            format!("{} sources for {} destinations", op.src_buff.len(), op.dst_buff.len());
        return reader.wrong(Finding::Mismatch, message);
    }
    if kind == ChannelType::Memory
        && op.src_buff.iter().any(|it| it.buffer != op.src_buff[0].buffer)
    {
        return reader.not_judged(format!(
            "`{}` from different buffers: the executor takes the first one's for all",
            op.name
        ));
    }
    let mut moves = Vec::with_capacity(op.dst_buff.len());
    for (src, dst) in op.src_buff.iter().zip(&op.dst_buff) {
        let ranges = (reader.local(src), reader.remote(dst, kind));
        let (Some(src), Some(dst)) = ranges else {
            moves.push(None);
            continue;
        };
        let is_scratch = |it: Range| it.slot.buffer == Buffer::Scratch;
        let posted = kind == ChannelType::Port;
        if writes_packets && (!is_scratch(dst) || posted && !is_scratch(src)) {
            reader.not_judged("packets outside scratch");
            moves.push(None);
            continue;
        }
        let made = transfer(reader, Action::Copy, src, dst);
        moves.push(made.map(|it| Move { transfer: it, reads_packets: false, writes_packets }));
    }
    if kind == ChannelType::Port {
        return post(reader, op, moves);
    }
    if op.name.starts_with("pws") {
        return reader.not_judged(format!("`{}` over a memory channel sends no signal", op.name));
    }
    let moves = moves.into_iter().flatten().collect();
    reader.push(PlanStepKind::Moves(Moves { moves, chained: false, packets: writes_packets }));
}

/// Posts move i through channel i.
fn post(reader: &mut PlanReader<'_>, op: &PlanOp, moves: Vec<Option<Move>>) {
    let ends = reader.channels(op, ChannelType::Port);
    if ends.len() < moves.len() {
        let message = format!("{} channels for {} destinations", ends.len(), moves.len());
        return reader.wrong(Finding::Mismatch, message);
    }
    let mut posts = Vec::with_capacity(moves.len());
    for (what, end) in moves.into_iter().zip(ends) {
        let (Some(what), Some(end)) = (what, end) else { continue };
        if what.transfer.dst.rank != end.peer {
            let message = format!("data for gpu {} goes through {end}", what.transfer.dst.rank);
            reader.wrong(Finding::Mismatch, message);
            continue;
        }
        let signal = op.name.starts_with("pws").then(|| Counter::Inbound(end.other()));
        posts.push(Post { what, end, signal, flush: op.name == "pwsf" });
    }
    reader.push(PlanStepKind::Posts(posts));
}

/// Forwards packets from local scratch to the scratch of others.
fn read_put_packets(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let Some(kind) = channel_type(reader, op) else { return };
    let Some(src) = op.src_buff.first().and_then(|it| reader.local(it)) else {
        return;
    };
    let mut moves = Vec::with_capacity(op.dst_buff.len());
    for dst in &op.dst_buff {
        let dst = reader.remote(dst, kind);
        if [Some(src), dst].iter().flatten().any(|it| it.slot.buffer != Buffer::Scratch) {
            reader.not_judged("packets outside scratch");
            moves.push(None);
            continue;
        }
        let made = dst.and_then(|it| transfer(reader, Action::Copy, src, it));
        moves.push(made.map(|it| Move { transfer: it, reads_packets: true, writes_packets: true }));
    }
    if kind == ChannelType::Port {
        // All threads see the packets and meet, then the first ones post them.
        reader.push(PlanStepKind::Sync);
        return post(reader, op, moves);
    }
    let moves = moves.into_iter().flatten().collect();
    reader.push(PlanStepKind::Moves(Moves { moves, chained: false, packets: true }));
}

fn get(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let Some(kind) = channel_type(reader, op) else { return };
    if kind == ChannelType::Port {
        return reader.not_judged("`get` over a port channel");
    }
    if op.src_buff.len() != op.dst_buff.len() {
        let message =
            format!("{} sources for {} destinations", op.src_buff.len(), op.dst_buff.len());
        return reader.wrong(Finding::Mismatch, message);
    }
    let mut moves = Vec::with_capacity(op.dst_buff.len());
    for (src, dst) in op.src_buff.iter().zip(&op.dst_buff) {
        if src.index != dst.index {
            reader.not_judged("`get` between different offsets: the executor exchanges the two");
            continue;
        }
        if let (Some(src), Some(dst)) = (reader.remote(src, kind), reader.local(dst)) {
            moves.extend(transfer(reader, Action::Copy, src, dst).map(plain));
        }
    }
    reader.push(PlanStepKind::Moves(Moves { moves, chained: false, packets: false }));
}

/// A local copy, from packets (`upkt`), into packets (`cpkt`) or neither.
fn copy(reader: &mut PlanReader<'_>, op: &PlanOp) {
    let (reads_packets, writes_packets) = (op.name == "upkt", op.name == "cpkt");
    let (Some(src), Some(dst)) = (op.src_buff.first(), op.dst_buff.first()) else {
        return reader
            .wrong(Finding::OutOfRange, format!("`{}` needs a source and a destination", op.name));
    };
    let (Some(src), Some(dst)) = (reader.local(src), reader.local(dst)) else { return };
    let packets = [(reads_packets, src), (writes_packets, dst)];
    if packets.iter().any(|(it, range)| *it && range.slot.buffer != Buffer::Scratch) {
        return reader.not_judged("packets outside scratch");
    }
    let made = transfer(reader, Action::Copy, src, dst);
    let moves = made.map(|it| Move { transfer: it, reads_packets, writes_packets });
    let moves = moves.into_iter().collect();
    reader.push(PlanStepKind::Moves(Moves {
        moves,
        chained: true,
        packets: reads_packets || writes_packets,
    }));
}

/// The shape of a reducing operation.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// All sources but the first are packets in local scratch, and what is sent is packets.
    packets: bool,
    /// All sources but the first are remote.
    reads: bool,
    /// The second destination is packets in local scratch.
    copies: bool,
    /// The other destinations are remote.
    sends: bool,
}

impl Sum {
    /// A sum within the GPU.
    const PLAIN: Self = Self { packets: false, reads: false, copies: false, sends: false };
}

fn reduce(reader: &mut PlanReader<'_>, op: &PlanOp, shape: Sum) {
    if op.reduce_op.as_deref().is_some_and(|it| it != "sum") {
        return reader.not_judged(format!("`{}` with a `reduce_op` other than sum", op.name));
    }
    let kind = op.channel_type.unwrap_or(ChannelType::None);
    if (shape.reads || shape.sends) && kind != ChannelType::Memory {
        return reader.not_judged(format!("`{}` over another than a memory channel", op.name));
    }
    let own_outputs = if shape.copies { 2 } else { 1 };
    let (Some(first), Some(dst)) = (op.src_buff.first(), op.dst_buff.first()) else {
        return reader
            .wrong(Finding::OutOfRange, format!("`{}` needs a source and a destination", op.name));
    };
    let (Some(first), Some(dst)) = (reader.local(first), reader.local(dst)) else { return };
    let mut sources = vec![plain_range(first)];
    for chunk in &op.src_buff[1..] {
        let range = if shape.reads { reader.remote(chunk, kind) } else { reader.local(chunk) };
        let Some(range) = range else { return };
        sources.push((range, shape.packets));
    }
    let mut targets = Vec::with_capacity(op.dst_buff.len());
    for (index, chunk) in op.dst_buff.iter().enumerate().skip(1) {
        let local = index < own_outputs;
        if !local && !shape.sends {
            return reader.wrong(Finding::OutOfRange, format!("`{}` has one destination", op.name));
        }
        let range = if local { reader.local(chunk) } else { reader.remote(chunk, kind) };
        let Some(range) = range else { return };
        targets.push(range);
    }
    let scratch = |it: &Range| it.slot.buffer == Buffer::Scratch;
    let in_scratch = sources[1..].iter().all(|(it, _)| scratch(it)) && targets.iter().all(scratch);
    if shape.packets && !in_scratch {
        return reader.not_judged("packets outside scratch");
    }
    if let Some(moves) = sum(reader, &sources, dst, &targets, shape.packets) {
        reader.push(PlanStepKind::Moves(Moves { moves, chained: true, packets: shape.packets }));
    }
}

const fn plain_range(range: Range) -> (Range, bool) {
    (range, false)
}

/// `dst` = the sum of `sources`, then a copy of it to each of `targets`.
fn sum(
    reader: &mut PlanReader<'_>,
    sources: &[(Range, bool)],
    dst: Range,
    targets: &[Range],
    packets: bool,
) -> Option<Vec<Move>> {
    let at = reader.context.address(dst.slot);
    let same = |reader: &PlanReader<'_>, (it, is_packets): &(Range, bool)| {
        !*is_packets && reader.context.address(it.slot) == at
    };
    let overlaps = |reader: &PlanReader<'_>, (it, is_packets): &(Range, bool)| {
        let (rank, scratch, start) = reader.context.address(it.slot);
        let (a, b) = (u64::from(it.count), u64::from(dst.count));
        !*is_packets && (rank, scratch) == (at.0, at.1) && start < at.2 + b && at.2 < start + a
    };
    if sources.iter().any(|it| overlaps(reader, it) && !same(reader, it)) {
        reader.not_judged("a sum whose destination overlaps one of its sources");
        return None;
    }
    // What is in the destination already starts the sum.
    let base = sources.iter().position(|it| same(reader, it));
    let mut moves = Vec::with_capacity(sources.len() + targets.len());
    for (index, (range, reads_packets)) in sources.iter().enumerate() {
        if base == Some(index) {
            continue;
        }
        let action = if base.is_none() && index == 0 { Action::Copy } else { Action::Reduce };
        let transfer = transfer(reader, action, *range, dst)?;
        moves.push(Move { transfer, reads_packets: *reads_packets, writes_packets: false });
    }
    for target in targets {
        let transfer = transfer(reader, Action::Copy, dst, *target)?;
        moves.push(Move { transfer, reads_packets: false, writes_packets: packets });
    }
    Some(moves)
}
