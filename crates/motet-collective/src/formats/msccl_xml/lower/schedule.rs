//! One order in which all events of a program can happen, as parallel as its waits allow.
//!
//! Time goes in rounds: in each, every connection sends at most one transfer, then everything
//! that can arrive does. A transfer is sent preferably when its arrival waits for nothing more,
//! and only if the connection's buffer has room for all its chunks (a runtime may cut a step
//! into its chunks, each with a place of its own) or its arrival is at hand. Where that leads
//! nowhere, as in an exchange in place, one transfer that others wait to see sent is sent ahead.
//! Where that is not enough, what stands in the way is delivered into scratch ([`staged`]), which
//! need not wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_graph::Followers;
use motet_units::Rank;

use super::{at_step_ends, staged};
use crate::program::graph::EventGraph;
use crate::program::{Event, Program, TransferId};

/// The same program ordered by waits alone: each event waits for the one before it in its lane.
pub(super) fn without_lanes(program: &Program) -> Program {
    let mut builder = program.to_builder();
    for lane in program.lanes() {
        for pair in lane.events.windows(2) {
            builder.wait(pair[1], pair[0]);
        }
    }
    builder.set_lanes(Vec::new());
    at_step_ends(&builder.build()).without_implied_waits()
}

/// Between two ranks.
type RankPair = (Rank, Rank);

#[derive(Debug, Default)]
struct ConnectionQueue {
    /// Whose arrival waits for nothing but being sent.
    clear: BTreeSet<TransferId>,
    /// Others that can be sent.
    blocked: BTreeSet<TransferId>,
    in_flight: VecDeque<TransferId>,
    chunks_in_flight: u32,
}

struct EventSchedule<'a> {
    program: &'a Program,
    /// How many events each event still waits for.
    waiting: Vec<u32>,
    followers: Followers,
    queues: BTreeMap<RankPair, ConnectionQueue>,
    local: BTreeSet<TransferId>,
    depth: u32,
    order: Vec<Event>,
}

/// How often what is in the way is looked for, before everything that could be is taken out of it.
const ATTEMPTS: u32 = 8;

/// A program without lanes and all its events in an order in which they can happen. Where the
/// program itself has none, some of its transfers go by way of scratch.
pub(super) fn ordered(program: &Program) -> (Program, Vec<Event>) {
    let mut program = program.clone();
    for _ in 0..ATTEMPTS {
        match order(&program) {
            Ok(order) => return (program, order),
            Err(in_the_way) => program = staged::stage(&program, &in_the_way),
        }
    }
    let waits = |id: &TransferId| {
        let others = |it: &&Event| **it != id.sent();
        !program.transfer(*id).is_local() && program.deps(id.arrived()).iter().any(|it| others(&it))
    };
    let all = (0..program.transfers().len()).map(TransferId::from_index).filter(waits).collect();
    program = staged::stage(&program, &all);
    // No arrival waits for anything but its sending, so that every transfer passes at once.
    let order = order(&program).unwrap_or_default();
    (program, order)
}

/// All events of a program without lanes, in an order in which they can happen; or the transfers
/// that stand in the way of all others.
fn order(program: &Program) -> Result<Vec<Event>, BTreeSet<TransferId>> {
    let graph = EventGraph::new(program);
    let followers = graph.followers();
    let mut schedule = EventSchedule {
        program,
        waiting: followers.awaited().to_vec(),
        followers,
        queues: BTreeMap::new(),
        local: BTreeSet::new(),
        depth: program.hints().protocol.fifo_depth() as u32,
        order: Vec::with_capacity(graph.events()),
    };
    for id in (0..program.transfers().len()).map(TransferId::from_index) {
        schedule.enqueue(id);
    }
    while schedule.order.len() < graph.events() {
        let before = schedule.order.len();
        schedule.round();
        if schedule.order.len() == before && !schedule.send_ahead() {
            return Err(schedule.in_the_way());
        }
    }
    Ok(schedule.order)
}

impl EventSchedule<'_> {
    /// Puts a transfer that can be sent into its queue.
    fn enqueue(&mut self, id: TransferId) {
        if self.waiting[id.sent().index()] > 0 {
            return;
        }
        let transfer = self.program.transfer(id);
        if transfer.is_local() {
            self.local.insert(id);
            return;
        }
        let queue = self.queues.entry((transfer.src.rank, transfer.dst.rank)).or_default();
        // One that was sent ahead waits for what others do, and not for its sending any more.
        if queue.in_flight.contains(&id) {
            return;
        }
        if self.waiting[id.arrived().index()] == 1 {
            queue.blocked.remove(&id);
            queue.clear.insert(id);
        } else {
            queue.blocked.insert(id);
        }
    }

    /// One event happens.
    fn happen(&mut self, event: Event) {
        self.order.push(event);
        for at in self.followers.rows().range(event.index()) {
            let next = Event::from_index(self.followers.rows().items()[at] as usize);
            self.waiting[next.index()] -= 1;
            let left = self.waiting[next.index()];
            let id = next.transfer();
            // An arrival that now waits for its sending alone, or a sending that can happen.
            let sent_already = event == id.sent();
            if !sent_already && left == u32::from(!next.is_sent()) {
                self.enqueue(id);
            }
        }
    }

    fn send(&mut self, pair: RankPair, id: TransferId) {
        if let Some(queue) = self.queues.get_mut(&pair) {
            queue.clear.remove(&id);
            queue.blocked.remove(&id);
            queue.in_flight.push_back(id);
            queue.chunks_in_flight += self.program.transfer(id).count;
        }
        self.happen(id.sent());
    }

    fn round(&mut self) {
        for id in std::mem::take(&mut self.local) {
            self.happen(id.sent());
            self.happen(id.arrived());
        }
        let mut sendings = Vec::new();
        for (pair, queue) in &self.queues {
            let room = |id: &&TransferId| {
                let count = self.program.transfer(**id).count;
                queue.in_flight.is_empty()
                    || queue.chunks_in_flight.saturating_add(count) <= self.depth
            };
            sendings.extend(queue.clear.first().filter(room).map(|id| (*pair, *id)));
        }
        let mut active: BTreeSet<RankPair> = sendings.iter().map(|it| it.0).collect();
        active.extend(self.queues.iter().filter(|it| !it.1.in_flight.is_empty()).map(|it| *it.0));
        for (pair, id) in sendings {
            self.send(pair, id);
        }
        // An arrival can make another possible.
        loop {
            let before = self.order.len();
            for pair in &active {
                self.receive(*pair);
            }
            if self.order.len() == before {
                break;
            }
        }
    }

    /// Everything that can arrive over a connection.
    fn receive(&mut self, pair: RankPair) {
        while let Some(queue) = self.queues.get_mut(&pair) {
            let ready = queue.in_flight.front().copied();
            let Some(id) = ready.filter(|it| self.waiting[it.arrived().index()] == 0) else {
                return;
            };
            queue.in_flight.pop_front();
            queue.chunks_in_flight -= self.program.transfer(id).count;
            self.happen(id.arrived());
        }
    }

    /// Sends one transfer whose arrival must wait, if others wait for its sending and there is
    /// room for all of it; whether there was one.
    fn send_ahead(&mut self) -> bool {
        let found = self.queues.iter().find_map(|(pair, queue)| {
            let fits = |id: &&TransferId| {
                let count = self.program.transfer(**id).count;
                queue.chunks_in_flight.saturating_add(count) <= self.depth
            };
            let mut able = queue.blocked.iter().filter(fits).filter(|it| self.is_awaited(**it));
            able.next().map(|id| (*pair, *id))
        });
        if let Some((pair, id)) = found {
            self.send(pair, id);
        }
        found.is_some()
    }

    /// Whether more than its own arrival waits for the sending of a transfer.
    fn is_awaited(&self, id: TransferId) -> bool {
        self.followers.rows().row(id.sent().index()).len() > 1
    }

    /// When nothing can go on: the transfers sent whose arrival must wait, and those that others
    /// wait to see sent.
    fn in_the_way(&self) -> BTreeSet<TransferId> {
        let mut found: BTreeSet<TransferId> = BTreeSet::new();
        for queue in self.queues.values() {
            found.extend(&queue.in_flight);
            found.extend(queue.blocked.iter().filter(|it| self.is_awaited(**it)));
        }
        if found.is_empty() {
            found.extend(self.queues.values().flat_map(|it| &it.blocked));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Collective, CollectiveKind};
    use crate::program::{ProgramBuilder, Slot, Transfer};

    #[test]
    fn what_is_sent_ahead_is_sent_once() {
        let collective = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
        let mut builder = ProgramBuilder::new("ahead", collective);
        let copy = |from: u32, to: u32| {
            Transfer::copy(Slot::input(Rank(from), 0), Slot::output(Rank(to), from), 1)
        };
        // The first may only arrive after the others, which wait until it is sent.
        let first = builder.add(copy(0, 1));
        let second = builder.add(copy(1, 0));
        let third = builder.add(copy(1, 0));
        builder.wait(second.sent(), first.sent());
        builder.wait(third.sent(), second.arrived());
        builder.wait(first.arrived(), second.arrived());
        builder.wait(first.arrived(), third.arrived());
        let order = order(&builder.build()).unwrap();
        let of = |it: TransferId| [it.sent(), it.arrived()];
        let [sent, arrived] = of(first);
        let expected =
            [vec![sent], of(second).to_vec(), of(third).to_vec(), vec![arrived]].concat();
        assert_eq!(order, expected);
    }
}
