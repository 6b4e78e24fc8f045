//! Puts the plan of a one-sided program together: the operations of each threadblock, from what the
//! [`super::agenda`] says it does and whom it waits for, and the lists of channels, buffers and
//! semaphores that the operations refer to.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::{Bytes, Rank};

use super::agenda::{self, Agenda, Block, Call, Item, Take};
use super::fuse::{self, Fused, Kind, PlanFuser};
use super::lists::Lists;
use super::model::{self, ChannelType, ExecutionPlan, PlanChunk, PlanOp};
use super::packing::Ends;
use super::style::Style;
use super::switch::SwitchGroup;
use super::switch_write::SwitchOp;
use super::{Options, limits};
use crate::diagnostic::Report;
use crate::program::{Program, Slot, Transfer, TransferId};

/// The plan of a one-sided program, if the executor can load it.
pub(super) fn plan(
    program: &Program,
    options: &Options,
    style: Style,
) -> Result<ExecutionPlan, Report> {
    let mut report = Report::default();
    limits::check_lanes(program, &mut report);
    if !report.is_right() {
        return Err(report);
    }
    let agenda = agenda::agenda(program, style.packing, style.flush);
    let mut lists = Lists::new(program, &agenda, options);
    let mut threadblocks: Vec<Vec<model::Threadblock>> =
        vec![Vec::new(); program.collective().ranks() as usize];
    for (index, block) in agenda.blocks.iter().enumerate() {
        let list = &mut threadblocks[block.rank.index()];
        let ops = Emit::new(program, &agenda, style, index, &mut lists).run();
        list.push(lists.threadblock(index, list.len() as u32, ops));
    }
    let hints = program.hints();
    let gpus = threadblocks.into_iter().enumerate();
    let mut plan = ExecutionPlan {
        name: program.name().to_owned(),
        collective: program.collective().kind().name().to_owned(),
        protocol: hints.protocol.name().to_owned(),
        inplace: program.forms().in_place,
        reuse_resources: false,
        num_threads_per_block: options.threads_per_block,
        use_double_scratch_buffer: style.packing.is_some_and(|it| it.doubled),
        buffer_alignment: 16,
        min_message_size: hints.min_size.get(),
        max_message_size: hints.max_size.map_or(u64::MAX, Bytes::get),
        gpus: gpus
            .map(|(rank, blocks)| lists.gpu(program, Rank::from_index(rank), blocks))
            .collect(),
    };
    plan.reuse_resources = style.packing.is_some_and(|it| it.doubled)
        && limits::shares_scratch(&plan)
        && limits::shared_size(program) >= Bytes::new(plan.max_message_size);
    // Ports may have needed threadblocks that the program has no lanes for.
    limits::check(&plan, options.gpu, &mut report);
    limits::check_gets(&plan, &mut report);
    if report.is_right() { Ok(plan) } else { Err(report) }
}

/// Writes the operations of one block.
struct Emit<'a> {
    program: &'a Program,
    agenda: &'a Agenda,
    style: Style,
    index: usize,
    lists: &'a mut Lists,
    ops: Vec<PlanOp>,
    /// Moves since the threads last met.
    phase: Vec<TransferId>,
    /// The thread that posted to each port since.
    posted: BTreeMap<usize, usize>,
    /// Whether a thread has waited for something since.
    waited: bool,
}

impl<'a> Emit<'a> {
    fn new(
        program: &'a Program,
        agenda: &'a Agenda,
        style: Style,
        index: usize,
        lists: &'a mut Lists,
    ) -> Self {
        Self {
            program,
            agenda,
            style,
            index,
            lists,
            ops: Vec::new(),
            phase: Vec::new(),
            posted: BTreeMap::new(),
            waited: false,
        }
    }

    fn run(mut self) -> Vec<PlanOp> {
        let block: &Block = &self.agenda.blocks[self.index];
        self.tell("rlxsignal", &block.call.greets);
        let greeted: Vec<Take> = block.call.greeted_by.iter().map(|it| Take::Block(*it)).collect();
        self.take("rlxwait", &greeted);
        let Style { packing, fused, .. } = self.style;
        let fuser = PlanFuser {
            program: self.program,
            packing,
            here: block.rank,
            items: &block.items,
            fused,
        };
        let mut left = block.call.leaves.is_empty();
        for Fused { items, kind } in fuser.run() {
            let through = items.end > block.call.leaves_after;
            self.group(&block.items[items], kind);
            if through && !left {
                // What the block still does within its own GPU, the others need not wait for.
                self.meet();
                let Call { leaves, leaves_unchanged, .. } = &block.call;
                self.tell("rlxsignal", leaves_unchanged);
                self.tell("signal", &(leaves - leaves_unchanged));
                left = true;
            }
        }
        for relay in &block.relays {
            self.take("wait", &[Take::Port { lane: relay.lane, times: relay.times }]);
            self.meet();
            self.tell("signal", &relay.tells);
        }
        self.end(block);
        self.ops
    }

    /// One operation, what is waited for before it and who is told after it.
    fn group(&mut self, items: &[Item], kind: Kind) {
        let takes: Vec<Take> = items.iter().flat_map(|it| it.takes.iter().copied()).collect();
        self.take("wait", &takes);
        let must_meet = |item: &Item| {
            let transfer = self.program.transfer(item.id);
            let mut phase = self.phase.iter().map(|it| self.program.transfer(*it));
            item.follows.iter().any(|it| self.phase.contains(it))
                || item.port.is_none() && phase.any(|it| fuse::conflict(self.program, transfer, it))
        };
        if self.waited || items.iter().any(must_meet) || self.changes_threads(items) {
            self.meet();
        }
        match kind {
            Kind::Posts => self.posts(items),
            Kind::Copies => self.copies(items),
            Kind::Sum { copied, reduces } => self.sum(items, copied, reduces),
            Kind::Switch => self.switch(items),
        }
        let Some(last) = items.last() else { return };
        let reads = |it: &Item| Ends::of(self.style.packing, self.program.transfer(it.id)).reads;
        self.waited |= self.style.careful && items.iter().any(reads);
        if last.port.is_none() {
            self.phase.extend(items.iter().map(|it| it.id));
            if !last.tells.is_empty() {
                self.meet();
                self.tell("signal", &last.tells);
            }
        } else if !last.after_flush.is_empty() {
            self.meet();
            self.tell("signal", &last.after_flush);
        }
    }

    /// Whether another thread than before would post to the same port. Only what one thread posts
    /// is in order.
    fn changes_threads(&self, items: &[Item]) -> bool {
        let mut ports = items.iter().enumerate();
        ports.any(|(thread, it)| {
            let before = it.port.and_then(|it| self.posted.get(&it));
            before.is_some_and(|it| *it != thread)
        })
    }

    /// Waits until others have left this GPU's memory.
    fn end(&mut self, block: &Block) {
        let ports =
            block.last_takes.iter().map(|(lane, times)| Take::Port { lane: *lane, times: *times });
        let Call { left_by, left_unchanged_by, .. } = &block.call;
        let blocks = left_by.difference(left_unchanged_by).map(|it| Take::Block(*it));
        let takes: Vec<Take> = ports.chain(blocks).collect();
        self.take("wait", &takes);
        let takes: Vec<Take> = left_unchanged_by.iter().map(|it| Take::Block(*it)).collect();
        self.take("rlxwait", &takes);
        if !block.call.confirms.is_empty() {
            self.meet();
            self.tell("signal", &block.call.confirms);
        }
        let confirmed: Vec<Take> =
            block.call.confirmed_by.iter().map(|it| Take::Block(*it)).collect();
        self.take("wait", &confirmed);
    }

    fn push(&mut self, name: &str) -> &mut PlanOp {
        self.ops.push(PlanOp { name: name.to_owned(), ..PlanOp::default() });
        let last = self.ops.len() - 1;
        &mut self.ops[last]
    }

    fn meet(&mut self) {
        self.push("nop");
        self.phase.clear();
        self.posted.clear();
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

    /// What different threads post to different ports.
    fn posts(&mut self, items: &[Item]) {
        let Some(first) = items.first() else { return };
        let packets = self.ends(first).reads;
        let name = match (packets, first.flush, first.signals()) {
            (true, _, _) => "rppkt",
            (false, true, _) => "pwsf",
            (false, false, true) => "pws",
            (false, false, false) => "put",
        };
        if packets {
            // All threads meet before these are posted.
            self.phase.clear();
            self.posted.clear();
        }
        let (mut channels, mut sources, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for (thread, item) in items.iter().enumerate() {
            let Some(port) = item.port else { continue };
            let it = *self.program.transfer(item.id);
            channels.push(self.lists.sending(self.index, port));
            sources.push(local(it.src, it.count));
            targets.push(self.remote(ChannelType::Port, it.dst, it.count));
            self.posted.insert(port, thread);
        }
        if packets {
            sources.truncate(1);
        }
        let op = self.push(name);
        op.channel_type = Some(ChannelType::Port);
        op.channel_ids.clone_from(&channels);
        op.src_buff = sources;
        op.dst_buff = targets;
        if packets && first.signals() {
            let op = self.push("signal");
            op.channel_type = Some(ChannelType::Port);
            op.channel_ids = channels;
        }
        // A flush is over for the thread that posted; the others learn of it at a meeting.
        self.waited |= first.flush;
    }

    fn ends(&self, item: &Item) -> Ends {
        Ends::of(self.style.packing, self.program.transfer(item.id))
    }

    fn copies(&mut self, items: &[Item]) {
        let Some(first) = items.first() else { return };
        let here = self.agenda.blocks[self.index].rank;
        let Ends { reads, writes } = self.ends(first);
        let kind = ChannelType::Memory;
        let one = self.program.transfer(first.id);
        let name = match (one.is_local(), one.src.rank == here, reads, writes) {
            (true, _, false, false) => "copy",
            (true, _, true, _) => "upkt",
            (true, _, false, true) => "cpkt",
            (false, false, ..) => "get",
            (false, true, false, false) => "put",
            (false, true, false, true) => "ppkt",
            (false, true, true, _) => "rppkt",
        };
        let channel_type = (!one.is_local()).then_some(kind);
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for item in items {
            let it = *self.program.transfer(item.id);
            sources.push(self.range(here, it.src, it.count));
            targets.push(self.range(here, it.dst, it.count));
        }
        if name == "rppkt" {
            sources.truncate(1);
        }
        let op = self.push(name);
        op.channel_type = channel_type;
        op.src_buff = sources;
        op.dst_buff = targets;
    }

    fn sum(&mut self, items: &[Item], copied: bool, reduces: usize) {
        let here = self.agenda.blocks[self.index].rank;
        let transfers: Vec<Transfer> =
            items.iter().map(|it| *self.program.transfer(it.id)).collect();
        let (added, sent) = transfers.split_at(usize::from(copied) + reduces);
        let (Some(first), Some(last)) = (added.first(), added.last()) else { return };
        let reads = !last.is_local();
        let sends = sent.iter().any(|it| !it.is_local());
        let copies = sent.iter().any(Transfer::is_local);
        let packets = Ends::of(self.style.packing, last).reads;
        let name = match (packets, reads, copies, sends) {
            (false, false, _, false) => "re",
            (false, false, _, true) => "res",
            (false, true, _, false) => "rre",
            (false, true, _, true) => "rres",
            (true, _, false, false) => "repkt",
            (true, _, false, true) => "respkt",
            (true, _, true, false) => "recpkt",
            (true, _, true, true) => "recspkt",
        };
        let own = local(first.dst, first.count);
        let mut sources: Vec<PlanChunk> = if copied { Vec::new() } else { vec![own] };
        for it in added {
            sources.push(self.range(here, it.src, it.count));
        }
        let mut targets = vec![own];
        for it in sent {
            targets.push(self.range(here, it.dst, it.count));
        }
        let op = self.push(name);
        op.channel_type = (reads || sends).then_some(ChannelType::Memory);
        op.reduce_op = Some("sum".to_owned());
        op.src_buff = sources;
        op.dst_buff = targets;
    }

    /// An operation in the switch; [`super::switch_write`] has seen to it that it is one.
    fn switch(&mut self, items: &[Item]) {
        let transfers: Vec<Transfer> =
            items.iter().map(|it| *self.program.transfer(it.id)).collect();
        let Some((op, _)) = SwitchOp::parse(|it| transfers.get(it).copied()) else { return };
        let (Some(source), Some(target)) = (op.sources.first(), op.targets.first()) else { return };
        let mut named = |group: Option<SwitchGroup>, slot: &Slot| {
            let id = self.lists.switch(self.index, group.as_ref());
            PlanChunk {
                buffer: None,
                buffer_id: None,
                switch_channel_id: Some(id),
                index: slot.offset,
                size: op.count,
            }
        };
        let src = match op.sums {
            true => named(op.source_group(), source),
            false => local(*source, op.count),
        };
        let dst = named(op.target_group(), target);
        let ids = [src, dst].iter().filter_map(|it| it.switch_channel_id).collect();
        let made = self.push(if op.sums { "glres" } else { "gstore" });
        made.channel_type = Some(ChannelType::Switch);
        made.channel_ids = ids;
        made.reduce_op = op.sums.then(|| "sum".to_owned());
        made.src_buff = vec![src];
        made.dst_buff = vec![dst];
    }

    /// A range as a threadblock at `here` names it.
    fn range(&mut self, here: Rank, slot: Slot, count: u32) -> PlanChunk {
        if slot.rank == here {
            local(slot, count)
        } else {
            self.remote(ChannelType::Memory, slot, count)
        }
    }

    fn remote(&mut self, kind: ChannelType, slot: Slot, count: u32) -> PlanChunk {
        let id = self.lists.buffer(self.index, kind, slot.rank, slot.buffer);
        PlanChunk {
            buffer: None,
            buffer_id: Some(id),
            switch_channel_id: None,
            index: slot.offset,
            size: count,
        }
    }
}

fn local(slot: Slot, count: u32) -> PlanChunk {
    let buffer = Some(slot.buffer.into());
    PlanChunk { buffer, buffer_id: None, switch_channel_id: None, index: slot.offset, size: count }
}
