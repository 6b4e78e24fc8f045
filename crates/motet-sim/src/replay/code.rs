//! [`Code`]: a program in the form that the replay kernel executes, in program order.
//!
//! It has one opcode byte per step and its operands as 32-bit words, read front to back. Times that
//! a later step needs are kept in numbered slots, which are reused as soon as nothing needs them
//! any more: a ring over 256 ranks has a quarter of a million events but only 257 slots, so
//! everything stays in the first-level cache. Slot [`START`] always holds the launch time.

/// The slot of the launch time; never written by a step.
pub(super) const START: u32 = 0;
/// In place of a slot: nothing needs this time.
pub(super) const NOWHERE: u32 = u32::MAX;
/// In place of a slot: nothing waits for this time, so it may be the end of the program.
pub(super) const END: u32 = u32::MAX - 1;
/// In the link word of a hop: the link leaves a node that stores and forwards.
pub(super) const STORES: u32 = 1 << 31;

/// What a step does. Words in brackets are its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A transfer over one link after one event, whose sending nothing waits for:
    /// [wait, link, channel, arrived].
    Hop,
    /// The same where nothing waits for the arrival either: [wait, link, channel].
    HopEnd,
    /// Any transfer: [waits, hops, sent, arrived, wait…, (link, channel)…].
    Path,
    /// A transfer over the route that its flow is given with the run:
    /// [waits, flow, size, sent, arrived, wait…].
    Flow,
    /// What happens when all of several events have: [waits, time, wait…].
    Join,
    /// A transfer within a rank that takes time: [waits, delay, time, wait…].
    Local,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    pub(super) words: Vec<u32>,
    /// The transfer of each step, for reports only.
    pub(super) transfers: Vec<u32>,
    /// How many slots it needs, [`START`] included.
    pub(super) slots: usize,
}

/// Words per step, roughly: how much memory is reserved at the start.
const WORDS: usize = 4;

impl Code {
    /// Code without steps, with memory for about `steps` of them.
    pub(super) fn with_capacity(steps: usize) -> Self {
        Self {
            ops: Vec::with_capacity(steps),
            words: Vec::with_capacity(WORDS * steps),
            transfers: Vec::with_capacity(steps),
            slots: 1,
        }
    }

    pub(super) fn push(&mut self, op: Op, transfer: usize, words: &[u32]) {
        self.ops.push(op);
        self.transfers.push(transfer as u32);
        self.words.extend_from_slice(words);
    }
}
