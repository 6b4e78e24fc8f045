//! [`Line`]: what is to be sent to one rank, and how far that rank is with its calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::memory::Aligned;
use crate::run::Message;
use crate::wire::Header;
use crate::wire::header::FRAME_COST;

/// How many bytes may be sent to a rank for calls that it has not made yet: enough to keep a WAN link
/// busy (1 Gbit/s over 10 ms is 1.25 MB) until its Started frame comes, and a bound on what it must keep.
pub(super) const EAGER: usize = 2 << 20;

/// What waits to be sent to one rank.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Frames of all kinds but Data, in the order in which they go out.
    pub(crate) controls: VecDeque<(Header, Vec<u8>)>,
    /// Messages whose data may be sent, or offered in shared memory, now.
    pub(super) ready: BinaryHeap<Reverse<Message>>,
    /// Bytes of all calls under way that are still to be sent to the rank, whether they may be sent yet or not.
    pub(crate) owed: usize,
    /// What `owed` was when the latest call with data for the rank began. How many connections carry data depends on it.
    pub(crate) owed_at_first: usize,
    /// The message that is being cut into pieces, and how many of its bytes have been taken.
    pub(super) current: Option<(Message, usize)>,
    /// Messages that were interrupted for one of an earlier call, and how many of their bytes have been taken. They are in `ready` again.
    pub(super) cut: BTreeMap<Message, usize>,
    /// Notices of calls that the rank has not made yet, which are sent when it has.
    pub(super) held: VecDeque<Header>,
    /// The last call that the rank has made.
    pub(crate) started: u32,
    /// How much was sent of each call that the rank has not made yet, with [`FRAME_COST`] for each frame.
    pub(super) ahead: BTreeMap<u32, usize>,
    /// Calls that the rank has made and we have not, each with the number of its registration.
    pub(super) announced: BTreeMap<u32, u32>,
    /// Frames that the rank sent for calls that we have not made, kept until we do.
    pub(super) early: Vec<(Header, Aligned)>,
    /// The bytes of those, with [`FRAME_COST`] for each frame.
    pub(super) early_bytes: usize,
    /// Whether the rank reads our memory and we read its, so that messages are offered and not sent.
    pub(crate) shared: bool,
    /// The rank has left the group in order.
    pub(crate) left: bool,
}

impl Line {
    /// Whether data of a call may be sent now: the rank has made the call too, or [`EAGER`] is not used up.
    pub(super) fn may_send(&self, operation: u32) -> bool {
        operation <= self.started || self.ahead.values().sum::<usize>() < EAGER
    }

    /// Counts a frame of a call that the rank has not made yet.
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
    /// A message is sent to its end before another begins, unless one of an earlier call has become ready meanwhile: the rank may
    /// wait for that one before it makes the later call, and until it makes that, [`EAGER`] may hold up the later message.
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
