//! From the elements of an MSCCL XML file to a program.
//!
//! A threadblock is a lane. Each step is a few *halves* in the order in which the runtime does
//! them: a local transfer, an arrival, a sending. The k-th sending from one rank to another on a
//! channel and the k-th arrival there are one transfer ([`super::connect`]). What a step waits
//! for is found in [`super::waits`].
//!
//! Nothing that is wrong with a file of the right shape stops the reader: it says so in the
//! report and goes on with the rest.

use std::collections::BTreeSet;

use motet_net::formats::{Position, ReadError};
use motet_units::Rank;

use super::connect::{self, Half, HalfKind};
use super::forward::{self, StepKey};
use super::header::{self, Header, MOST_CHUNKS};
use super::joint;
use super::limits;
use super::parse::{self, Algo, XmlBlock, XmlGpu, XmlStep, XmlStepKind, letter};
use super::waits;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::formats::imported::{Imported, Origin, Origins, Place};
use crate::program::{
    Action, Buffer, Event, EventGraph, Lane, LaneKind, Program, ProgramBuilder, Slot, Transfer,
};
use crate::verify;

/// Reads an MSCCL XML file.
pub fn read(text: &str) -> Result<Imported, ReadError> {
    let algo = parse::parse(text)?;
    let mut report = Report::default();
    let header = header::read(text, &algo, &mut report)?;
    refuse_hostile_sizes(&algo)?;
    let plain = read_with(&algo, &header, report.clone(), &BTreeSet::new());
    let raced = forward::raced(&algo, &plain);
    if raced.is_empty() {
        return Ok(plain);
    }
    let staged = read_with(&algo, &header, report, &raced);
    // A file that is wrong anyway is easier to mend in its own words.
    let is_right = verify::check(&staged.program, None).is_right();
    Ok(if is_right { staged } else { plain })
}

/// Reads the steps. Those of `staged` are read as the kernel does them: see [`forward`].
fn read_with(algo: &Algo, header: &Header, report: Report, staged: &BTreeSet<StepKey>) -> Imported {
    let mut reader = XmlReader {
        ranks: header.collective.ranks(),
        channels: header.channels,
        report,
        blocks: Vec::new(),
        halves: Vec::new(),
        scratch: vec![0; header.collective.ranks() as usize],
        staged,
    };
    if algo.has_copies {
        reader.report.push(Diagnostic::warning(
            Finding::Limit,
            "runtimes pass over <copy>; place local chunks with cpy steps or by in-place calls",
        ));
    }
    for gpu in reader.gpus_by_rank(algo) {
        reader.gpu(gpu, header);
    }
    reader.finish(header)
}

fn refuse_hostile_sizes(algo: &Algo) -> Result<(), ReadError> {
    let too_many = |what: &str, number: i64, line: u32| {
        Err(ReadError {
            at: Some(Position { line: line as usize, column: 1 }),
            ..ReadError::new(format!("{what}=\"{number}\" is more than {MOST_CHUNKS}"))
                .with_remedy("offsets have 16 bits; use fewer chunks")
        })
    };
    for gpu in &algo.gpus {
        if gpu.scratch > MOST_CHUNKS {
            return too_many("s_chunks", gpu.scratch, gpu.line);
        }
        for step in gpu.blocks.iter().flat_map(|it| &it.steps) {
            if step.count > MOST_CHUNKS {
                return too_many("cnt", step.count, step.line);
            }
        }
    }
    Ok(())
}

/// A threadblock as far as it is understood.
#[derive(Debug)]
pub(super) struct BlockRead<'a> {
    pub(super) rank: Rank,
    pub(super) source: &'a XmlBlock,
    /// Its halves are `halves[first_half..end_half]` of all.
    pub(super) first_half: usize,
    pub(super) end_half: usize,
}

pub(super) struct XmlReader<'a> {
    pub(super) ranks: u32,
    channels: Option<i64>,
    pub(super) report: Report,
    pub(super) blocks: Vec<BlockRead<'a>>,
    pub(super) halves: Vec<Half>,
    scratch: Vec<u32>,
    staged: &'a BTreeSet<StepKey>,
}

impl<'a> XmlReader<'a> {
    /// The gpus in rank order, each rank once.
    fn gpus_by_rank(&mut self, algo: &'a Algo) -> Vec<&'a XmlGpu> {
        let mut gpus: Vec<&XmlGpu> = algo.gpus.iter().collect();
        gpus.sort_by_key(|it| it.id);
        let mut last = None;
        gpus.retain(|gpu| {
            let known = (0..i64::from(self.ranks)).contains(&gpu.id);
            let again = last.replace(gpu.id) == Some(gpu.id);
            if !known || again {
                let what = if again { "is there twice" } else { "is no rank of the collective" };
                let message = format!("gpu {} {what} (line {})", gpu.id, gpu.line);
                self.report.push(Diagnostic::error(Finding::OutOfRange, message));
            }
            known && !again
        });
        gpus
    }

    fn gpu(&mut self, gpu: &'a XmlGpu, header: &Header) {
        // Checked by gpus_by_rank.
        let rank = Rank(u32::try_from(gpu.id).unwrap_or(0));
        self.declared(gpu, rank, header);
        let mut blocks: Vec<&XmlBlock> = gpu.blocks.iter().collect();
        blocks.sort_by_key(|it| it.id);
        limits::check_blocks(rank, &blocks, &mut self.report);
        // What rrs sends is in no buffer of the file: each threadblock gets scratch for it.
        let own = u32::try_from(gpu.scratch).unwrap_or(0);
        let mut staging = own;
        for (index, block) in blocks.iter().enumerate() {
            if block.id != index as i64 {
                let message = format!(
                    "gpu {rank}: threadblock ids must count from 0 without gaps, but number \
                     {index} has id {} (line {})",
                    block.id, block.line
                );
                self.report.push(Diagnostic::error(Finding::BadLane, message));
            }
            self.peers(rank, block);
            let first_half = self.halves.len();
            for (step_index, step) in block.steps.iter().enumerate() {
                let at = At { rank, block: self.blocks.len(), step: step_index, staging };
                self.step(at, block, step);
                self.offsets(rank, gpu, header, own, block, step_index, step);
            }
            let end_half = self.halves.len();
            self.blocks.push(BlockRead { rank, source: block, first_half, end_half });
            staging = staging.saturating_add(self.staging_chunks(rank, block));
        }
        self.scratch[rank.index()] = staging;
    }

    /// How much scratch of its own a threadblock needs, for `rrs` and what is read like it.
    fn staging_chunks(&self, rank: Rank, block: &XmlBlock) -> u32 {
        let is_staged = |index: usize, step: &XmlStep| {
            step.kind == XmlStepKind::ReceiveReduceSend
                || self.staged.contains(&forward::key(place(rank, block, index, step)))
        };
        let staged = block.steps.iter().enumerate().filter(|(index, it)| is_staged(*index, it));
        staged.map(|(_, it)| u32::try_from(it.count).unwrap_or(0)).max().unwrap_or(0)
    }

    /// The declared buffer sizes against the collective's; an in-place file may leave out the
    /// buffer that lies in the other.
    fn declared(&mut self, gpu: &XmlGpu, rank: Rank, header: &Header) {
        for (name, declared, size) in [
            ("i_chunks", gpu.input, header.collective.input_chunks(rank)),
            ("o_chunks", gpu.output, header.collective.output_chunks(rank)),
        ] {
            if declared != 0 && declared != i64::from(size) {
                let kind = header.collective.kind();
                let message = format!(
                    "gpu {rank} declares {name}=\"{declared}\", but {kind} has {size} chunks there \
                     (line {})",
                    gpu.line
                );
                self.report.push(Diagnostic::warning(Finding::Mismatch, message));
            }
        }
        if gpu.scratch < 0 {
            let message = format!("gpu {rank} has a negative s_chunks (line {})", gpu.line);
            self.report.push(Diagnostic::error(Finding::OutOfRange, message));
        }
    }

    /// Offsets that the collective allows but the file's own declarations do not; the verifier
    /// finds those outside the collective's buffers.
    #[expect(clippy::too_many_arguments, reason = "the whole context of one step")]
    fn offsets(
        &mut self,
        rank: Rank,
        gpu: &XmlGpu,
        header: &Header,
        own_scratch: u32,
        block: &XmlBlock,
        index: usize,
        step: &XmlStep,
    ) {
        let (src, dst) = uses(step.kind);
        for (used, name, (buffer, offset)) in [(src, "src", step.src), (dst, "dst", step.dst)] {
            let end = offset.saturating_add(step.count.max(1));
            let (declared, size) = match buffer {
                Buffer::Input => (gpu.input, header.collective.input_chunks(rank)),
                Buffer::Output => (gpu.output, header.collective.output_chunks(rank)),
                // Staging lies behind the file's own scratch, so the verifier would let it pass.
                Buffer::Scratch if end > i64::from(own_scratch) => (gpu.scratch, u32::MAX),
                Buffer::Scratch | Buffer::Switch => continue,
            };
            let hidden = end > declared && end <= i64::from(size);
            if used && (offset < 0 || hidden) {
                let message = format!(
                    "{name} is {}[{offset}] for {} chunks, but the gpu declares {declared} there",
                    letter(buffer),
                    step.count
                );
                let place = place(rank, block, index, step);
                self.error(Finding::OutOfRange, &message, place);
            }
        }
    }

    fn peers(&mut self, rank: Rank, block: &XmlBlock) {
        for (name, peer) in [("send", block.send), ("recv", block.recv)] {
            let wrong = match peer {
                -1 => continue,
                it if it == i64::from(rank.0) => "the gpu itself",
                it if !(0..i64::from(self.ranks)).contains(&it) => "no rank",
                _ => continue,
            };
            let message = format!(
                "gpu {rank}, threadblock {}: {name}=\"{peer}\" is {wrong} (line {})",
                block.id, block.line
            );
            self.report.push(Diagnostic::error(Finding::BadLane, message));
        }
        let most = self.channels.unwrap_or(i64::MAX);
        if block.channel < 0 || block.channel >= most {
            let message = format!(
                "gpu {rank}, threadblock {}: chan=\"{}\" is outside the {most} channels of the \
                 file (line {})",
                block.id, block.channel, block.line
            );
            self.report.push(Diagnostic::error(Finding::OutOfRange, message));
        }
    }

    fn step(&mut self, at: At, block: &XmlBlock, step: &XmlStep) {
        if step.number.is_some_and(|it| it != at.step as i64) {
            let message = format!("the step is number {} of its threadblock", at.step);
            let place = place(at.rank, block, at.step, step);
            let found = Diagnostic::warning(Finding::Mismatch, message);
            self.report.push(found.from_origin(text(place)));
        }
        let slot = |(buffer, offset): (Buffer, i64)| {
            Slot::new(at.rank, buffer, u32::try_from(offset).unwrap_or(u32::MAX))
        };
        let (src, dst) = (slot(step.src), slot(step.dst));
        let count = u32::try_from(step.count).unwrap_or(0);
        let staged = Slot::scratch(at.rank, at.staging);
        let local =
            |action, src, dst| HalfKind::Local(Transfer { action, src, dst, count, path: None });
        let arrival = |action, slot| HalfKind::Arrival { action, slot, count };
        let sending = |slot| HalfKind::Sending { slot, count };
        let copy_first = (src != dst).then(|| local(Action::Copy, src, dst));
        let is_staged = self.staged.contains(&forward::key(place(at.rank, block, at.step, step)));
        let mut halves: Vec<HalfKind> = Vec::with_capacity(4);
        match step.kind {
            XmlStepKind::ReceiveCopySend if is_staged => halves.extend([
                arrival(Action::Copy, staged),
                sending(staged),
                local(Action::Copy, staged, dst),
            ]),
            XmlStepKind::ReceiveReduceCopySend if is_staged => halves.extend([
                local(Action::Copy, src, staged),
                arrival(Action::Reduce, staged),
                sending(staged),
                local(Action::Copy, staged, dst),
            ]),
            XmlStepKind::Nop => {}
            XmlStepKind::Send => halves.push(sending(src)),
            XmlStepKind::Receive => halves.push(arrival(Action::Copy, dst)),
            XmlStepKind::ReceiveCopySend => {
                halves.extend([arrival(Action::Copy, dst), sending(dst)]);
            }
            XmlStepKind::ReceiveReduceSend => halves.extend([
                local(Action::Copy, src, staged),
                arrival(Action::Reduce, staged),
                sending(staged),
            ]),
            XmlStepKind::ReceiveReduceCopy => {
                halves.extend(copy_first);
                halves.push(arrival(Action::Reduce, dst));
            }
            XmlStepKind::ReceiveReduceCopySend => {
                halves.extend(copy_first);
                halves.extend([arrival(Action::Reduce, dst), sending(dst)]);
            }
            XmlStepKind::Copy => halves.push(local(Action::Copy, src, dst)),
            XmlStepKind::Reduce => halves.push(local(Action::Reduce, src, dst)),
        }
        self.overlap(&at, block, step, &halves);
        let (block, step) = (at.block as u32, at.step as u32);
        self.halves.extend(halves.into_iter().map(|kind| Half { block, step, kind }));
    }

    /// A step's threads copy all at once, so that none may read what another has written.
    fn overlap(&mut self, at: &At, block: &XmlBlock, step: &XmlStep, halves: &[HalfKind]) {
        let Some(HalfKind::Local(Transfer { src, dst, count, .. })) = halves.first() else {
            return;
        };
        let near = src.offset.abs_diff(dst.offset) < *count;
        if src.buffer == dst.buffer && src.offset != dst.offset && near {
            let place = place(at.rank, block, at.step, step);
            self.error(Finding::Race, "source and destination overlap", place);
        }
    }

    pub(super) fn error(&mut self, finding: Finding, message: &str, place: Place) {
        self.report.push(Diagnostic::error(finding, message).from_origin(text(place)));
    }

    /// The place of a step in the file.
    pub(super) fn place(&self, block: usize, step: usize) -> Place {
        let BlockRead { rank, source, .. } = &self.blocks[block];
        place(*rank, source, step, &source.steps[step])
    }

    fn finish(mut self, header: &Header) -> Imported {
        let pairs = connect::pair(&mut self);
        let mut builder = ProgramBuilder::new(header.name.clone(), header.collective.clone())
            .forms(header.forms)
            .hints(header.hints);
        for (rank, chunks) in self.scratch.iter().enumerate() {
            builder.set_scratch(Rank::from_index(rank), *chunks);
        }
        let mut origins = Origins::new("step");
        // The events of each half, once its transfer has a number.
        let mut events: Vec<[Option<Event>; 2]> = vec![[None; 2]; self.halves.len()];
        for (index, half) in self.halves.iter().enumerate() {
            let sent = self.place(half.block as usize, half.step as usize);
            match half.kind {
                HalfKind::Local(transfer) => {
                    let id = builder.add(transfer);
                    events[index] = [Some(id.sent()), Some(id.arrived())];
                    origins.push(Origin { sent, arrived: sent });
                }
                HalfKind::Arrival { .. } => {}
                HalfKind::Sending { .. } => {
                    let Some((transfer, other)) = pairs.of(index, &self.halves) else {
                        continue;
                    };
                    let id = builder.add(transfer);
                    events[index] = [Some(id.sent()), None];
                    events[other] = [Some(id.arrived()), None];
                    let half = &self.halves[other];
                    let arrived = self.place(half.block as usize, half.step as usize);
                    origins.push(Origin { sent, arrived });
                }
            }
        }
        for block in &self.blocks {
            let halves = &events[block.first_half..block.end_half];
            builder.add_lane(Lane {
                rank: block.rank,
                kind: LaneKind::Block,
                channel: u32::try_from(block.source.channel).unwrap_or(0),
                events: halves.iter().flatten().flatten().copied().collect(),
            });
        }
        for (event, awaited) in waits::find(&mut self, &events) {
            builder.wait(event, awaited);
        }
        let program = builder.build().without_implied_waits();
        self.joint_steps(&program, &events);
        Imported { program, origins, report: self.report }
    }

    /// The program lets a receive happen before the send that is one step with it; whether that
    /// hides a deadlock is checked here. One that the program shows itself is the verifier's.
    fn joint_steps(&mut self, program: &Program, events: &[[Option<Event>; 2]]) {
        let same_step =
            |a: &(usize, &Half), b: &(usize, &Half)| (a.1.block, a.1.step) == (b.1.block, b.1.step);
        let halves: Vec<(usize, &Half)> = self.halves.iter().enumerate().collect();
        let steps: Vec<Vec<Event>> = halves
            .chunk_by(same_step)
            .map(|step| step.iter().flat_map(|it| events[it.0]).flatten().collect())
            .collect();
        let joint = steps.iter().map(Vec::as_slice).filter(|it| it.len() > 1);
        if EventGraph::new(program).order().is_some() && joint::deadlocks(program, joint) {
            self.report.push(Diagnostic::error(
                Finding::Deadlock,
                "steps that receive and send on in one wait for room on each other's connections; \
                 split some of them into a receive and a send",
            ));
        }
    }
}

/// Where a step is, and where its threadblock keeps sums that are in no buffer of the file.
struct At {
    rank: Rank,
    block: usize,
    step: usize,
    staging: u32,
}

/// Which of its two slots a step of this kind uses.
const fn uses(kind: XmlStepKind) -> (bool, bool) {
    match kind {
        XmlStepKind::Send | XmlStepKind::ReceiveReduceSend => (true, false),
        XmlStepKind::Receive | XmlStepKind::ReceiveCopySend => (false, true),
        XmlStepKind::ReceiveReduceCopy
        | XmlStepKind::ReceiveReduceCopySend
        | XmlStepKind::Copy
        | XmlStepKind::Reduce => (true, true),
        XmlStepKind::Nop => (false, false),
    }
}

fn place(rank: Rank, block: &XmlBlock, index: usize, step: &XmlStep) -> Place {
    Place {
        rank,
        block: u32::try_from(block.id).unwrap_or(0),
        step: index as u32,
        line: Some(step.line),
    }
}

pub(super) fn text(place: Place) -> String {
    Origins::new("step").place(place).to_string()
}
