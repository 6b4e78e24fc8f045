//! The plan of a one-sided program: operations from the [`super::agenda`], and the lists of
//! channels, buffers and semaphores they refer into.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::{Bytes, Rank};

use super::agenda::{self, Agenda, Block, Item, Take};
use super::lists::Lists;
use super::model::{self, ChannelType, Chunk, Op, Plan};
use super::resolve::address;
use super::{Options, limits, shape};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Action, Program, Slot, Transfer, TransferId};

/// The plan, if the program has the shape for one and the executor can load it.
pub(super) fn plan(program: &Program, options: &Options) -> Result<Plan, Report> {
    let mut report = Report::default();
    if !shape::is_one_sided(program, |a, b| options.channel.by_port(a, b)) {
        let message = "the program is not one-sided; lower it first";
        report.push(Diagnostic::error(Finding::Limit, message));
        return Err(report);
    }
    for (index, lane) in
        program.lanes().iter().enumerate().filter(|(_, it)| it.events.len() / 2 > limits::MAX_OPS)
    {
        let message = format!(
            "lane {index} of rank {} has {} transfers; a threadblock has at most {} operations",
            lane.rank,
            lane.events.len() / 2,
            limits::MAX_OPS
        );
        report.push(Diagnostic::error(Finding::Limit, message));
    }
    if !report.is_right() {
        return Err(report);
    }
    let agenda = match agenda::agenda(program) {
        Ok(agenda) => agenda,
        Err(diagnostic) => {
            report.push(*diagnostic);
            return Err(report);
        }
    };
    let mut lists = Lists::new(program, &agenda, options);
    let mut threadblocks: Vec<Vec<model::Threadblock>> =
        vec![Vec::new(); program.collective().ranks() as usize];
    for (index, block) in agenda.blocks.iter().enumerate() {
        let list = &mut threadblocks[block.rank.index()];
        let ops = Emit::new(program, &agenda, index, &mut lists).run();
        list.push(lists.threadblock(index, list.len() as u32, ops));
    }
    let hints = program.hints();
    let gpus = threadblocks.into_iter().enumerate();
    let plan = Plan {
        name: program.name().to_owned(),
        collective: program.collective().kind().name().to_owned(),
        protocol: hints.protocol.name().to_owned(),
        inplace: program.forms().in_place,
        reuse_resources: false,
        num_threads_per_block: options.threads_per_block,
        use_double_scratch_buffer: false,
        buffer_alignment: 16,
        min_message_size: hints.min_size.get(),
        max_message_size: hints.max_size.map_or(u64::MAX, Bytes::get),
        gpus: gpus
            .map(|(rank, blocks)| lists.gpu(program, Rank::from_index(rank), blocks))
            .collect(),
    };
    limits::check(&plan, &mut report);
    if report.is_right() { Ok(plan) } else { Err(report) }
}

/// Writes the operations of one block.
struct Emit<'a> {
    program: &'a Program,
    agenda: &'a Agenda,
    index: usize,
    lists: &'a mut Lists,
    ops: Vec<Op>,
    /// Moves since the threads last met.
    phase: Vec<TransferId>,
    /// Whether a thread has waited for something since.
    waited: bool,
}

impl<'a> Emit<'a> {
    fn new(program: &'a Program, agenda: &'a Agenda, index: usize, lists: &'a mut Lists) -> Self {
        Self { program, agenda, index, lists, ops: Vec::new(), phase: Vec::new(), waited: false }
    }

    fn run(mut self) -> Vec<Op> {
        let block: &Block = &self.agenda.blocks[self.index];
        self.tell("rlxsignal", &block.call.greets);
        let greeted: Vec<Take> = block.call.greeted_by.iter().map(|it| Take::Block(*it)).collect();
        self.take("rlxwait", &greeted);
        for item in &block.items {
            self.take("wait", &item.takes);
            let follows = item.follows.iter().any(|it| self.phase.contains(it));
            let conflicts = item.port.is_none() && self.conflicts(self.program.transfer(item.id));
            if self.waited || follows || conflicts {
                self.meet();
            }
            match item.port {
                Some(port) => self.post(item, port),
                None => self.step(item.id),
            }
            if item.port.is_none() && !item.tells.is_empty() {
                if self.phase.contains(&item.id) {
                    self.meet();
                }
                self.tell("signal", &item.tells);
            }
        }
        self.end(block);
        self.ops
    }

    /// Leaves others' memory, and waits until they have left one's own.
    fn end(&mut self, block: &Block) {
        if !block.call.leaves.is_empty() && !self.phase.is_empty() {
            self.meet();
        }
        self.tell("signal", &block.call.leaves);
        let ports =
            block.last_takes.iter().map(|(lane, times)| Take::Port { lane: *lane, times: *times });
        let blocks = block.call.left_by.iter().map(|it| Take::Block(*it));
        let takes: Vec<Take> = ports.chain(blocks).collect();
        self.take("wait", &takes);
        if !block.call.confirms.is_empty() {
            self.meet();
            self.tell("signal", &block.call.confirms);
        }
        let confirmed: Vec<Take> =
            block.call.confirmed_by.iter().map(|it| Take::Block(*it)).collect();
        self.take("wait", &confirmed);
    }

    fn push(&mut self, name: &str) -> &mut Op {
        self.ops.push(Op { name: name.to_owned(), ..Op::default() });
        let last = self.ops.len() - 1;
        &mut self.ops[last]
    }

    fn meet(&mut self) {
        self.push("nop");
        self.phase.clear();
        self.waited = false;
    }

    fn take(&mut self, name: &str, takes: &[Take]) {
        let mut channels: BTreeMap<ChannelType, Vec<u32>> = BTreeMap::new();
        let mut semaphores = Vec::new();
        for take in takes {
            self.waited = true;
            match take {
                Take::Block(from)
                    if self.agenda.blocks[*from].rank == self.agenda.blocks[self.index].rank =>
                {
                    semaphores.push(self.lists.semaphore(*from, self.index));
                }
                Take::Block(from) => {
                    let (kind, id) = self.lists.channel(self.index, *from);
                    channels.entry(kind).or_default().push(id);
                }
                Take::Port { lane, times } => {
                    let id = self.lists.receiving(self.index, *lane);
                    channels.entry(ChannelType::Port).or_default().extend(vec![id; *times]);
                }
            }
        }
        self.counters(name, channels);
        for ids in semaphores.chunks(limits::MAX_SEMAPHORES_PER_OP) {
            self.push("sem_acquire").semaphore_ids = ids.to_vec();
        }
    }

    fn tell(&mut self, name: &str, blocks: &BTreeSet<usize>) {
        let mut channels: BTreeMap<ChannelType, Vec<u32>> = BTreeMap::new();
        let mut semaphores = Vec::new();
        for to in blocks {
            if self.agenda.blocks[*to].rank == self.agenda.blocks[self.index].rank {
                semaphores.push(self.lists.semaphore(self.index, *to));
            } else {
                let (kind, id) = self.lists.channel(self.index, *to);
                channels.entry(kind).or_default().push(id);
            }
        }
        self.counters(name, channels);
        for ids in semaphores.chunks(limits::MAX_SEMAPHORES_PER_OP) {
            self.push("sem_release").semaphore_ids = ids.to_vec();
        }
    }

    /// One operation for as many channels as it takes; a channel is in each only once.
    fn counters(&mut self, name: &str, channels: BTreeMap<ChannelType, Vec<u32>>) {
        for (kind, mut ids) in channels {
            while !ids.is_empty() {
                let (mut now, mut later) = (Vec::new(), Vec::new());
                for id in ids {
                    let fits = now.len() < limits::MAX_CHANNELS_PER_OP && !now.contains(&id);
                    if fits { now.push(id) } else { later.push(id) }
                }
                let op = self.push(name);
                op.channel_type = Some(kind);
                op.channel_ids = now;
                ids = later;
            }
        }
    }

    fn post(&mut self, item: &Item, port: usize) {
        let transfer = *self.program.transfer(item.id);
        let name = match (item.flush, item.signals()) {
            (true, _) => "pwsf",
            (false, true) => "pws",
            (false, false) => "put",
        };
        let channel = self.lists.sending(self.index, port);
        let dst = self.remote(ChannelType::Port, transfer.dst, transfer.count);
        let op = self.push(name);
        op.channel_type = Some(ChannelType::Port);
        op.channel_ids = vec![channel];
        op.src_buff = vec![local(transfer.src, transfer.count)];
        op.dst_buff = vec![dst];
        // A flush is over for the thread that posted; the others learn of it at a meeting.
        self.waited |= item.flush;
    }

    fn step(&mut self, id: TransferId) {
        self.phase.push(id);
        let Transfer { action, src, dst, count, .. } = *self.program.transfer(id);
        let here = self.agenda.blocks[self.index].rank;
        let (own_src, own_dst) = (local(src, count), local(dst, count));
        let kind = ChannelType::Memory;
        let (name, sources, target) = match (action, src.rank == here, dst.rank == here) {
            (Action::Copy, true, true) => ("copy", vec![own_src], own_dst),
            (Action::Copy, true, false) => ("put", vec![own_src], self.remote(kind, dst, count)),
            (Action::Copy, false, _) => ("get", vec![self.remote(kind, src, count)], own_dst),
            (Action::Reduce, true, _) => ("re", vec![own_dst, own_src], own_dst),
            (Action::Reduce, false, _) => {
                ("rre", vec![own_dst, self.remote(kind, src, count)], own_dst)
            }
        };
        let op = self.push(name);
        if src.rank != dst.rank {
            op.channel_type = Some(kind);
        }
        if action == Action::Reduce {
            op.reduce_op = Some("sum".to_owned());
        }
        op.src_buff = sources;
        op.dst_buff = vec![target];
    }

    fn remote(&mut self, kind: ChannelType, slot: Slot, count: u32) -> Chunk {
        let id = self.lists.buffer(self.index, kind, slot.rank, slot.buffer);
        Chunk {
            buffer: None,
            buffer_id: Some(id),
            switch_channel_id: None,
            index: slot.offset,
            size: count,
        }
    }

    /// Whether a transfer touches what another of this phase writes, or writes what it touches.
    fn conflicts(&self, transfer: &Transfer) -> bool {
        let in_place = Some(self.program.collective()).filter(|_| self.program.forms().in_place);
        let overlap = |a: Slot, m: u32, b: Slot, n: u32| {
            let (a, b) = (address(in_place, a), address(in_place, b));
            (a.0, a.1) == (b.0, b.1) && a.2 < b.2 + u64::from(n) && b.2 < a.2 + u64::from(m)
        };
        self.phase.iter().map(|it| self.program.transfer(*it)).any(|other| {
            let (m, n) = (transfer.count, other.count);
            overlap(transfer.src, m, other.dst, n)
                || overlap(transfer.dst, m, other.dst, n)
                || overlap(transfer.dst, m, other.src, n)
        })
    }
}

fn local(slot: Slot, count: u32) -> Chunk {
    let buffer = Some(slot.buffer.into());
    Chunk { buffer, buffer_id: None, switch_channel_id: None, index: slot.offset, size: count }
}
