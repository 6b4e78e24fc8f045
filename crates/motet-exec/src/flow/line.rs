//! [`Line`]: what is to be sent to one rank, and how far that rank is with its calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::memory::Aligned;
use crate::run::Message;
use crate::wire::Header;

/// The most data of calls that a rank has not made yet that is sent to it: enough to fill a WAN
/// link (1 Gbit/s over 10 ms is 1.25 MB) until it says that it has.
pub(super) const EAGER: usize = 2 << 20;
/// What a frame counts for beside its data.
pub(super) const FRAME_COST: usize = 64;

/// What waits to be sent to one rank.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Frames without data of a transfer.
    pub(crate) controls: VecDeque<(Header, Vec<u8>)>,
    /// Messages to send, or to offer.
    pub(super) ready: BinaryHeap<Reverse<Message>>,
    /// Bytes of all calls under way that are still to be sent, whether they are there yet or not.
    pub(crate) owed: usize,
    /// What that was when the last call began that sends it something.
    pub(crate) owed_at_first: usize,
    /// The message that is being cut into pieces, and how many of its bytes have been taken.
    pub(super) current: Option<(Message, usize)>,
    /// Messages in `ready` of which pieces were taken before an earlier call's message had to go first, and how many bytes.
    pub(super) cut: BTreeMap<Message, usize>,
    /// Notices of calls that the rank has not made yet.
    pub(super) held: VecDeque<Header>,
    /// The last call that the rank has made.
    pub(crate) started: u32,
    /// What was sent of each call that it has not.
    pub(super) ahead: BTreeMap<u32, usize>,
    /// What it called in calls that we have not made: the numbers of registrations.
    pub(super) announced: BTreeMap<u32, u32>,
    /// What it sent of calls that we have not made.
    pub(super) early: Vec<(Header, Aligned)>,
    pub(super) early_bytes: usize,
    /// Whether it reads our memory and we read its.
    pub(crate) shared: bool,
    /// It has left in order.
    pub(crate) left: bool,
}

impl Line {
    pub(super) fn may_send(&self, operation: u32) -> bool {
        operation <= self.started || self.ahead.values().sum::<usize>() < EAGER
    }

    pub(super) fn sent(&mut self, operation: u32, bytes: usize) {
        if operation > self.started {
            *self.ahead.entry(operation).or_default() += bytes + FRAME_COST;
        }
    }

    /// Whether there is data that may be sent now.
    pub(crate) fn has_data(&self) -> bool {
        let first = self.current.map(|it| it.0.operation);
        let first = first.into_iter().chain(self.ready.peek().map(|it| it.0.operation)).min();
        first.is_some_and(|it| self.may_send(it))
    }

    /// Whether there is nothing that may be sent now.
    pub(crate) fn is_empty(&self) -> bool {
        self.controls.is_empty() && !self.has_data()
    }

    /// The message to take the next piece of, and how many of its bytes have been taken.
    ///
    /// A message is sent to its end before another begins, unless one of an earlier call has become ready meanwhile: that may be
    /// what the rank waits for before it makes the call of this one, and until it does, this one may have to stop.
    pub(super) fn next_message(&mut self) -> Option<(Message, usize)> {
        let first = self.ready.peek().map(|it| it.0.operation);
        if let Some((message, done)) = self.current
            && first.is_some_and(|it| it < message.operation)
        {
            self.cut.insert(message, done);
            self.ready.push(Reverse(message));
            self.current = None;
        }
        if self.current.is_none() {
            let message = self.ready.peek()?.0;
            if self.may_send(message.operation) {
                self.ready.pop();
                self.current = Some((message, self.cut.remove(&message).unwrap_or(0)));
            }
        }
        self.current.filter(|it| self.may_send(it.0.operation))
    }
}
