//! [`Run`]: one call of a registered operation, and how far it is: which events have happened, how many
//! bytes of each transfer have been sent or received, and the memory it works on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use motet_collective::{Action, Buffer, Transfer, TransferId};
use motet_units::Instant;

use crate::element::{Element, Reduction};
use crate::error::ExecError;
use crate::layout::{Layout, REGIONS, Region, Span};
use crate::memory::{Aligned, Foreign, Memory, Spare};
use crate::merged::Merged;
use crate::plan::Plan;
use crate::reduce::{accumulate, average, combine};
use crate::uses::Uses;
use crate::wire::header::{FRAME_COST, MIN_PIECE};

/// A rank's memory, by [`Region`].
pub(crate) type Regions = [Memory; REGIONS];

/// What all calls of an operation share.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) number: u32,
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    pub(crate) merged: Merged,
    /// What the program does with its memory, which decides which of the caller's buffers can be lent.
    pub(crate) uses: Uses,
    pub(crate) element: Element,
    pub(crate) reduction: Reduction,
    /// Whether this rank's output is a sum, which for an average is still to be divided.
    pub(crate) output_is_sum: bool,
    pub(crate) ranks: u32,
    /// For each rank of this host that sends to this one: where its chunks lie, and its memory to read from.
    pub(crate) foreign: BTreeMap<u32, (Layout, Vec<Foreign>)>,
}

/// How a call ended, with the memory that it was lent.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) memory: Regions,
    pub(crate) result: Result<(), ExecError>,
}

/// A message: one slice of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) operation: u32,
    pub(crate) slice: u32,
    pub(crate) transfer: u32,
}

/// One call under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) registered: Arc<Registered>,
    pub(crate) memory: Regions,
    /// How many events each event of each slice still waits for.
    waits: Vec<u32>,
    /// How many bytes of each event are done: sent for a sending, received for an arrival.
    bytes: Vec<usize>,
    /// Events that have not happened.
    pub(crate) left: usize,
    /// By arrival: data that came before it may be written, each piece with its offset in the message.
    kept: BTreeMap<usize, Vec<(usize, Aligned)>>,
    /// By arrival of which some has come, but not all: see [`piece_came`](Self::piece_came).
    parts: BTreeMap<usize, u64>,
    /// For each slice and each wait for an event of another rank: whether there was a notice of that event.
    heard: Vec<bool>,
    /// Arrivals whose data was offered in shared memory and is still to be read.
    offered: BTreeSet<usize>,
    reply: Sender<Outcome>,
    pub(crate) deadline: Instant,
}

impl Run {
    pub(crate) fn new(
        registered: Arc<Registered>,
        mut memory: Regions,
        reply: Sender<Outcome>,
        deadline: Instant,
    ) -> Self {
        let slices = registered.layout.slices.len();
        let events = registered.plan.events.len();
        for (span, at) in registered.layout.tails() {
            copy(&mut memory, span, Span { region: Region::Work, start: at, len: span.len });
        }
        let mut waits = Vec::with_capacity(slices * events);
        for _ in 0..slices {
            waits.extend_from_slice(&registered.plan.waits);
        }
        Self {
            bytes: vec![0; slices * events],
            heard: vec![false; slices * registered.plan.remote_waits()],
            parts: BTreeMap::new(),
            left: slices * events,
            registered,
            memory,
            waits,
            kept: BTreeMap::new(),
            offered: BTreeSet::new(),
            reply,
            deadline,
        }
    }

    /// The number of an event of a slice.
    pub(crate) fn index(&self, slice: u32, local: usize) -> usize {
        slice as usize * self.registered.plan.events.len() + local
    }

    /// The slice and event that a number stands for.
    pub(crate) fn of_index(&self, index: usize) -> (u32, usize) {
        let events = self.registered.plan.events.len().max(1);
        ((index / events) as u32, index % events)
    }

    /// How many bytes the whole call sends to each other rank.
    pub(crate) fn to_send(&self) -> BTreeMap<usize, usize> {
        let Registered { plan, layout, .. } = &*self.registered;
        let chunk: usize = layout.slices.iter().map(|it| it.len).sum();
        let mut all = BTreeMap::new();
        for event in plan.events.iter().filter(|it| it.is_sent()) {
            let transfer = &plan.transfers[event.transfer().index()];
            if transfer.dst.rank != plan.rank {
                *all.entry(transfer.dst.rank.0 as usize).or_default() +=
                    chunk * transfer.count as usize;
            }
        }
        all
    }

    /// Events that wait for nothing, in order.
    pub(crate) fn at_once(&self) -> Vec<usize> {
        (0..self.waits.len()).filter(|it| self.waits[*it] == 0).collect()
    }

    /// Whether an event waits for no other event any more. An arrival may still wait for data.
    pub(crate) fn is_enabled(&self, index: usize) -> bool {
        self.waits[index] == 0
    }

    /// One event less for an event to wait for; true if it was the last. An error if there was none.
    pub(crate) fn one_less(&mut self, index: usize) -> Result<bool, ExecError> {
        let waits = self.waits.get_mut(index).filter(|it| **it > 0);
        let waits = waits.ok_or(ExecError::Internal("an event was waited for twice"))?;
        *waits -= 1;
        Ok(*waits == 0)
    }

    pub(crate) fn transfer(&self, transfer: u32) -> Option<&Transfer> {
        self.registered.plan.transfers.get(transfer as usize)
    }

    /// How long a message is.
    pub(crate) fn message_bytes(&self, message: Message) -> usize {
        let Some(transfer) = self.transfer(message.transfer) else { return 0 };
        self.registered.layout.message_bytes(message.slice as usize, transfer.count)
    }

    /// The number of a message's arrival, if it is one of this rank's.
    pub(crate) fn arrival(&self, message: Message) -> Option<usize> {
        self.event(message, TransferId(message.transfer).arrived())
    }

    /// The number of a message's sending, if it is one of this rank's.
    pub(crate) fn sending(&self, message: Message) -> Option<usize> {
        self.event(message, TransferId(message.transfer).sent())
    }

    fn event(&self, message: Message, event: motet_collective::Event) -> Option<usize> {
        let known = (message.slice as usize) < self.registered.layout.slices.len()
            && (message.transfer as usize) < self.registered.plan.transfers.len();
        let local = known.then(|| self.registered.plan.local(event)).flatten()?;
        Some(self.index(message.slice, local))
    }

    /// Counts bytes of an event; true when they are all there. `None` if they are too many.
    pub(crate) fn count(&mut self, index: usize, bytes: usize, message: Message) -> Option<bool> {
        let total = self.message_bytes(message);
        let counted = self.bytes[index].checked_add(bytes).filter(|it| *it <= total)?;
        self.bytes[index] = counted;
        Some(counted == total)
    }

    /// Counts a piece of data that came; true when all of the message is there. `None` if some of it came twice.
    ///
    /// Counting bytes alone would take one half that came twice for the whole. So of each piece the mark of its end is added up and
    /// that of its beginning subtracted. Pieces that lie end to end leave the marks of the message's end and beginning; others
    /// leave something else, but for chance.
    pub(crate) fn piece_came(
        &mut self,
        index: usize,
        offset: usize,
        len: usize,
        message: Message,
    ) -> Option<bool> {
        let whole = self.count(index, len, message)?;
        let total = self.message_bytes(message);
        if len == total {
            return Some(true);
        }
        let marks = mark(offset + len).wrapping_sub(mark(offset));
        let sum = self.parts.entry(index).or_default();
        *sum = sum.wrapping_add(marks);
        let sum = *sum;
        if whole {
            self.parts.remove(&index);
            return (sum == mark(total).wrapping_sub(mark(0))).then_some(true);
        }
        Some(false)
    }

    /// Notes that there was a notice for one of the waits for other ranks' events; false if there was one before.
    pub(crate) fn hear(&mut self, slice: u32, wait: usize) -> bool {
        let index = slice as usize * self.registered.plan.remote_waits() + wait;
        self.heard.get_mut(index).is_some_and(|it| !std::mem::replace(it, true))
    }

    /// Bytes of an event so far.
    pub(crate) fn counted(&self, index: usize) -> usize {
        self.bytes[index]
    }

    /// Where the source of a message lies, from `offset` on, as far as that is contiguous and at most
    /// `most` bytes; `None` at the message's end.
    pub(crate) fn source(&self, message: Message, offset: usize, most: usize) -> Option<Span> {
        let slot = self.transfer(message.transfer)?.src;
        let left = self.message_bytes(message).saturating_sub(offset).min(most);
        (left > 0).then(|| self.registered.layout.span(message.slice as usize, slot, offset, left))
    }

    /// The same for the destination of a message.
    pub(crate) fn target(&self, message: Message, offset: usize, most: usize) -> Option<Span> {
        let slot = self.transfer(message.transfer)?.dst;
        let left = self.message_bytes(message).saturating_sub(offset).min(most);
        (left > 0).then(|| self.registered.layout.span(message.slice as usize, slot, offset, left))
    }

    pub(crate) fn bytes_at(&self, span: Span) -> &[u8] {
        &self.memory[span.region as usize].bytes()[span.range()]
    }

    pub(crate) fn bytes_at_mut(&mut self, span: Span) -> &mut [u8] {
        &mut self.memory[span.region as usize].bytes_mut()[span.range()]
    }

    /// Copies or reduces received bytes of a message, which begin at `offset`, into its destination.
    pub(crate) fn write(
        &mut self,
        message: Message,
        mut offset: usize,
        mut from: &[u8],
    ) -> Result<(), ExecError> {
        let unknown = ExecError::Internal("a message of no transfer");
        let action = self.transfer(message.transfer).ok_or(unknown.clone())?.action;
        let (element, reduction) = (self.registered.element, self.registered.reduction);
        let first = self.registered.merged.first(message.transfer);
        while !from.is_empty() {
            let span = self.target(message, offset, from.len()).filter(|it| it.len > 0);
            let mut span = span.ok_or(unknown.clone())?;
            let first = first.map(|slot| {
                let layout = &self.registered.layout;
                layout.span(message.slice as usize, slot, offset, span.len)
            });
            if let Some(first) = first {
                span.len = first.len;
            }
            if span.len == 0 {
                return Err(unknown);
            }
            let (now, rest) = from.split_at(span.len);
            match action {
                Action::Copy => self.bytes_at_mut(span).copy_from_slice(now),
                Action::Reduce => {
                    reduce_into(&mut self.memory, span, first, now, element, reduction)
                        .ok_or(ExecError::Internal("elements do not lie as they must"))?;
                }
            }
            offset += span.len;
            from = rest;
        }
        Ok(())
    }

    /// Copies or reduces a message within this rank, unless it is a copy that the reduction behind it makes ([`Merged`]).
    pub(crate) fn move_within(&mut self, message: Message) -> Result<(), ExecError> {
        if self.registered.merged.is_left_out(message.transfer) {
            return Ok(());
        }
        let unknown = ExecError::Internal("a message of no transfer");
        let action = self.transfer(message.transfer).ok_or(unknown.clone())?.action;
        let total = self.message_bytes(message);
        let mut offset = 0;
        while offset < total {
            let from = self.source(message, offset, total - offset).ok_or(unknown.clone())?;
            let to = self.target(message, offset, from.len).ok_or(unknown.clone())?;
            let from = Span { len: to.len, ..from };
            match action {
                Action::Copy => copy(&mut self.memory, from, to),
                Action::Reduce => {
                    let (element, reduction) = (self.registered.element, self.registered.reduction);
                    reduce_within(&mut self.memory, from, to, element, reduction)
                        .ok_or(ExecError::Internal("elements do not lie as they must"))?;
                }
            }
            offset += to.len.max(1);
        }
        Ok(())
    }

    /// A copy of a message's bytes at its source, in one buffer.
    pub(crate) fn gathered(&self, message: Message) -> Aligned {
        let total = self.message_bytes(message);
        let mut all = Aligned::default();
        all.set_len(total);
        let mut offset = 0;
        while let Some(span) = self.source(message, offset, total).filter(|it| it.len > 0) {
            all.bytes_mut()[offset..offset + span.len].copy_from_slice(self.bytes_at(span));
            offset += span.len;
        }
        all
    }

    /// Reads a message from the memory of rank `from`: into its destination, or into a buffer if it is to be
    /// kept (`keep`). False if that rank's call has failed: then what was read counts for nothing, and it is no
    /// error here, because the Abort frame that names the rank at fault is about to come.
    pub(crate) fn pull(
        &mut self,
        from: u32,
        message: Message,
        keep: bool,
    ) -> Result<bool, ExecError> {
        let no_memory =
            ExecError::Protocol { rank: from, why: "it offers memory that it has not".into() };
        let registered = Arc::clone(&self.registered);
        let (layout, memory) = registered.foreign.get(&from).ok_or(no_memory.clone())?;
        let slot = self.transfer(message.transfer).ok_or(no_memory.clone())?.src;
        let total = self.message_bytes(message);
        let mut kept = Aligned::default();
        if keep {
            kept.set_len(total);
        }
        let mut offset = 0;
        while offset < total {
            let span = layout.span(message.slice as usize, slot, offset, total - offset);
            let region = memory.get(span.region as usize).ok_or(no_memory.clone())?;
            let bytes = region.bytes().get(span.range()).filter(|it| !it.is_empty());
            let bytes = bytes.ok_or(no_memory.clone())?;
            if keep {
                kept.bytes_mut()[offset..offset + span.len].copy_from_slice(bytes);
            } else {
                self.write(message, offset, bytes)?;
            }
            offset += span.len;
        }
        // A rank whose call has failed may change its memory at any time, but has set this byte before.
        let work = memory.get(Region::Work as usize);
        if work.and_then(|it| it.byte_now(layout.failed)) != Some(0) {
            return Ok(false);
        }
        if keep {
            let index = self.arrival(message).ok_or(no_memory)?;
            self.keep(index, 0, kept);
        }
        Ok(true)
    }

    /// Whether one more piece of a message may be kept. Each takes memory beside its data, for which [`stash`] allows, so there may not be
    /// more than a rank ever sends: short ones are the last of each chunk only.
    pub(crate) fn may_keep(&self, index: usize, message: Message) -> bool {
        let chunks = self.transfer(message.transfer).map_or(0, |it| it.count as usize);
        let most = chunks + self.message_bytes(message) / MIN_PIECE;
        self.kept.get(&index).map_or(0, Vec::len) < most
    }

    /// Keeps data of an arrival that may not be written yet.
    pub(crate) fn keep(&mut self, index: usize, offset: usize, bytes: Aligned) {
        self.kept.entry(index).or_default().push((offset, bytes));
    }

    /// Writes what was kept for an arrival that may be written now.
    pub(crate) fn write_kept(
        &mut self,
        index: usize,
        message: Message,
        spare: &mut Spare,
    ) -> Result<(), ExecError> {
        for (offset, bytes) in self.kept.remove(&index).unwrap_or_default() {
            self.write(message, offset, bytes.bytes())?;
            spare.put_back(bytes);
        }
        Ok(())
    }

    /// Notes that data was offered; false if it was noted already.
    pub(crate) fn note_offer(&mut self, index: usize) -> bool {
        self.offered.insert(index)
    }

    /// Whether data was offered and not read yet, which is noted no longer.
    pub(crate) fn take_offer(&mut self, index: usize) -> bool {
        self.offered.remove(&index)
    }

    /// Ends the call: copies tails back, makes sums averages, and returns the memory to the caller. If the call has failed, a byte
    /// in shared memory says so to ranks that may be reading it.
    pub(crate) fn end(mut self, mut result: Result<(), ExecError>) {
        if result.is_ok() {
            for (span, at) in self.registered.layout.tails() {
                // Memory that is only read has not changed.
                if !self.memory[span.region as usize].is_read_only() {
                    let from = Span { region: Region::Work, start: at, len: span.len };
                    copy(&mut self.memory, from, span);
                }
            }
            if self.registered.reduction == Reduction::Average && self.registered.output_is_sum {
                let output = self.registered.layout.whole(Buffer::Output);
                let (element, ranks) = (self.registered.element, self.registered.ranks);
                if average(element, ranks, self.bytes_at_mut(output)).is_err() {
                    result = Err(ExecError::Internal("elements do not lie as they must"));
                }
            }
        }
        if result.is_err() {
            let failed =
                Span { region: Region::Work, start: self.registered.layout.failed, len: 1 };
            self.bytes_at_mut(failed).fill(1);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        // Nobody may be waiting any more.
        let _ = self.reply.send(Outcome { memory: self.memory, result });
    }

    /// Which ranks messages are still due from and to, in words.
    pub(crate) fn waiting(&self) -> String {
        let mut from: BTreeMap<u32, usize> = BTreeMap::new();
        let mut to: BTreeMap<u32, usize> = BTreeMap::new();
        for index in 0..self.waits.len() {
            let (slice, local) = self.of_index(index);
            let event = self.registered.plan.events[local];
            let transfer = event.transfer();
            let message = Message { operation: 0, slice, transfer: transfer.0 };
            if !self.is_enabled(index) || self.bytes[index] == self.message_bytes(message) {
                continue;
            }
            let it = &self.registered.plan.transfers[transfer.index()];
            let (peers, peer) =
                if event.is_sent() { (&mut to, it.dst.rank.0) } else { (&mut from, it.src.rank.0) };
            *peers.entry(peer).or_default() += 1;
        }
        let list = |peers: &BTreeMap<u32, usize>| {
            let each: Vec<String> =
                peers.iter().map(|(it, n)| format!("rank {it} ({n})")).collect();
            if each.is_empty() { "nobody".to_owned() } else { each.join(", ") }
        };
        format!("messages are due from {}, and to {}", list(&from), list(&to))
    }
}

/// A number for a place in a message, unlike that of any other: its bits are mixed by two multiplications with odd numbers.
const fn mark(place: usize) -> u64 {
    let mixed = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The most memory that a call takes for data that comes before it may be written, and for keeping each piece of it.
pub(crate) fn stash(plan: &Plan, layout: &Layout) -> u64 {
    let per_chunk: usize = layout.slices.iter().map(|it| it.len).sum();
    let bytes = plan.kept_chunks().saturating_mul(per_chunk as u64);
    let pieces = plan.kept_chunks().saturating_mul(layout.slices.len() as u64);
    let pieces = pieces.saturating_add(bytes / MIN_PIECE as u64);
    bytes.saturating_add(pieces.saturating_mul(FRAME_COST as u64))
}

/// Copies within a rank's memory; the two may overlap.
fn copy(memory: &mut Regions, from: Span, to: Span) {
    let (source, target) = (from.region as usize, to.region as usize);
    let at = |it: Span| memory[it.region as usize].bytes()[it.range()].as_ptr();
    if at(from) == at(to) {
        // Source and destination are the same memory: in place, or because the caller's buffers overlap so.
    } else if source == target {
        memory[source].bytes_mut().copy_within(from.range(), to.start);
    } else if let Ok([source, target]) = memory.get_disjoint_mut([source, target]) {
        target.bytes_mut()[to.range()].copy_from_slice(&source.bytes()[from.range()]);
    }
}

/// Reduces received bytes with the operand at `first`, or without it with what the destination holds.
fn reduce_into(
    memory: &mut Regions,
    to: Span,
    first: Option<Span>,
    from: &[u8],
    element: Element,
    reduction: Reduction,
) -> Option<()> {
    let at = |it: Span| memory[it.region as usize].bytes()[it.range()].as_ptr();
    // In place, or in regions of the caller's that are one, what lies at `first` is where the result goes.
    if let Some(first) = first.filter(|it| at(*it) != at(to)) {
        let (source, target) = (first.region as usize, to.region as usize);
        if let Ok([source, target]) = memory.get_disjoint_mut([source, target]) {
            let (into, first) =
                (&mut target.bytes_mut()[to.range()], &source.bytes()[first.range()]);
            return combine(element, reduction, into, first, from).ok();
        }
        // Only the few elements of tails lie in one region.
        memory[source].bytes_mut().copy_within(first.range(), to.start);
    }
    let into = &mut memory[to.region as usize].bytes_mut()[to.range()];
    accumulate(element, reduction, into, from).ok()
}

/// Reduces within a rank's memory.
fn reduce_within(
    memory: &mut Regions,
    from: Span,
    to: Span,
    element: Element,
    reduction: Reduction,
) -> Option<()> {
    let (source, target) = (from.region as usize, to.region as usize);
    if source != target {
        let [source, target] = memory.get_disjoint_mut([source, target]).ok()?;
        let (into, from) = (&mut target.bytes_mut()[to.range()], &source.bytes()[from.range()]);
        return accumulate(element, reduction, into, from).ok();
    }
    let bytes = memory[source].bytes_mut();
    match bytes.get_disjoint_mut([from.range(), to.range()]) {
        Ok([from, into]) => accumulate(element, reduction, into, from).ok(),
        // They overlap: work from a copy.
        Err(_) => {
            let copied = Aligned::from_bytes(&bytes[from.range()]);
            accumulate(element, reduction, &mut bytes[to.range()], copied.bytes()).ok()
        }
    }
}
