//! [`Plan`]: one rank's half of a program, in the form that the engine runs.
//!
//! An event happens at one rank: *sent* where the source is, *arrived* where the destination is. For
//! each event of this rank the plan says how many others it waits for, who waits for it here, and
//! which other ranks must be told of it. An arrival also waits for its own sending; that is not counted,
//! because the data that comes tells of it.

use motet_collective::program::EventGraph;
use motet_collective::{Event, Program, Transfer};
use motet_graph::{Followers, Rows};
use motet_units::Rank;

/// Stands for the number of an event that is another rank's.
const NONE: u32 = u32::MAX;

/// One rank's half of a program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rank: Rank,
    /// All transfers of the program: frames name them by their numbers.
    pub(crate) transfers: Vec<Transfer>,
    /// The number here of each event of the program, by its index.
    local: Vec<u32>,
    /// The events of this rank.
    pub(crate) events: Vec<Event>,
    /// How many events each waits for, of this rank and others.
    pub(crate) waits: Vec<u32>,
    /// For each event of this rank, the events of this rank that wait for it.
    followers: Rows,
    /// For each event of this rank, the other ranks that must be told when it has happened.
    told: Rows,
    /// Events of this rank that wait for an event of another: pairs of (event of the program, event here), sorted.
    remote: Vec<(u32, u32)>,
    /// Whether senders may wait until their receivers can write, without a deadlock.
    pub(crate) may_wait_for_receiver: bool,
}

fn home(program: &Program, event: usize) -> Rank {
    let event = Event::from_index(event);
    let transfer = program.transfer(event.transfer());
    if event.is_sent() { transfer.src.rank } else { transfer.dst.rank }
}

/// The events that an event waits for, each once; of an arrival without its own sending.
fn awaited(graph: &EventGraph, event: usize) -> impl Iterator<Item = usize> {
    let own = if event.is_multiple_of(2) { usize::MAX } else { event - 1 };
    let mut all: Vec<usize> = graph.preds(event).iter().map(|it| *it as usize).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().filter(move |it| *it != own)
}

impl Plan {
    pub(crate) fn new(program: &Program, rank: Rank) -> Self {
        // Fewer waits are fewer messages between ranks; the order is the same.
        let lean = program.without_implied_waits();
        let graph = EventGraph::new(&lean);
        let count = graph.events();
        let homes: Vec<Rank> = (0..count).map(|it| home(program, it)).collect();
        let mut local = vec![NONE; count];
        let mut events = Vec::new();
        for (index, _) in homes.iter().enumerate().filter(|it| *it.1 == rank) {
            local[index] = events.len() as u32;
            events.push(Event::from_index(index));
        }
        let mut waits = vec![0u32; events.len()];
        let mut followers = Vec::new();
        let mut told = Vec::new();
        let mut remote = Vec::new();
        for index in 0..count {
            for before in awaited(&graph, index) {
                match (homes[before] == rank, homes[index] == rank) {
                    (true, true) => followers.push((local[before] as usize, local[index])),
                    (true, false) => told.push((local[before] as usize, homes[index].0)),
                    (false, true) => remote.push((before as u32, local[index])),
                    (false, false) => continue,
                }
                if homes[index] == rank {
                    waits[local[index] as usize] += 1;
                }
            }
        }
        for list in [&mut followers, &mut told] {
            list.sort_unstable();
            list.dedup();
        }
        remote.sort_unstable();
        Self {
            rank,
            transfers: program.transfers().to_vec(),
            followers: Rows::group(events.len(), followers),
            told: Rows::group(events.len(), told),
            local,
            events,
            waits,
            remote,
            may_wait_for_receiver: may_wait_for_receiver(&graph),
        }
    }

    /// The number here of an event of the program, if it is one of this rank's.
    pub(crate) fn local(&self, event: Event) -> Option<usize> {
        self.local.get(event.index()).filter(|it| **it != NONE).map(|it| *it as usize)
    }

    /// Events of this rank that wait for one of its own.
    pub(crate) fn behind(&self, local: usize) -> &[u32] {
        self.followers.row(local)
    }

    /// Ranks that must be told when an event of this rank has happened.
    pub(crate) fn told(&self, local: usize) -> &[u32] {
        self.told.row(local)
    }

    /// Events of this rank that wait for one of another rank, each with the number of that wait among [`remote_waits`](Self::remote_waits).
    pub(crate) fn behind_remote(&self, event: u32) -> impl Iterator<Item = (usize, usize)> {
        let first = self.remote.partition_point(|it| it.0 < event);
        let all = self.remote.iter().enumerate().skip(first);
        all.take_while(move |it| it.1.0 == event).map(|(wait, it)| (wait, it.1 as usize))
    }

    /// How many waits for events of other ranks there are.
    pub(crate) fn remote_waits(&self) -> usize {
        self.remote.len()
    }

    /// Chunks that may have to be kept because they come before they can be written.
    pub(crate) fn kept_chunks(&self) -> u64 {
        let arrivals = self.events.iter().zip(&self.waits);
        let kept = arrivals.filter(|(event, waits)| !event.is_sent() && **waits > 0);
        kept.map(|(event, _)| u64::from(self.transfers[event.transfer().index()].count)).sum()
    }

    /// Whether this rank receives anything from `from`.
    pub(crate) fn receives_from(&self, from: Rank) -> bool {
        self.transfers.iter().any(|it| it.src.rank == from && it.dst.rank == self.rank)
    }
}

/// Whether the events could still happen if every transfer were sent only when its destination may
/// be written. True for most programs that have no lanes; a ring whose ranks send before they
/// receive is the example where it is not.
fn may_wait_for_receiver(graph: &EventGraph) -> bool {
    let mut waits = Vec::new();
    for event in 0..graph.events() {
        waits.extend(graph.preds(event).iter().map(|it| (event as u32, *it)));
        if !event.is_multiple_of(2) {
            waits.extend(awaited(graph, event).map(|it| (event as u32 - 1, it as u32)));
        }
    }
    waits.sort_unstable();
    waits.dedup();
    Followers::of(graph.events(), waits.iter().copied()).topological().len() == graph.events()
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_collective::program::{Lane, LaneKind};
    use motet_collective::{Collective, CollectiveKind, ProgramBuilder, Slot};

    /// Two ranks send to each other; with lanes, each sends before it receives.
    fn exchange(lanes: bool) -> Program {
        let collective = Collective::new(CollectiveKind::AllToAll, 2, 1).unwrap();
        let mut b = ProgramBuilder::new("exchange", collective);
        let there = b.add(Transfer::copy(Slot::input(Rank(0), 1), Slot::output(Rank(1), 0), 1));
        let back = b.add(Transfer::copy(Slot::input(Rank(1), 0), Slot::output(Rank(0), 1), 1));
        if lanes {
            for (rank, events) in
                [(0, vec![there.sent(), back.arrived()]), (1, vec![back.sent(), there.arrived()])]
            {
                b.add_lane(Lane { rank: Rank(rank), kind: LaneKind::Block, channel: 0, events });
            }
        } else {
            b.wait(back.sent(), there.sent());
        }
        b.build()
    }

    #[test]
    fn senders_that_go_first_cannot_wait_for_receivers() {
        assert!(!Plan::new(&exchange(true), Rank(0)).may_wait_for_receiver);
        assert!(Plan::new(&exchange(false), Rank(0)).may_wait_for_receiver);
    }

    #[test]
    fn waits_across_ranks_are_told() {
        let plans = [0, 1].map(|it| Plan::new(&exchange(false), Rank(it)));
        let sent = plans[0].local(Event::from_index(0)).unwrap();
        assert_eq!(plans[0].told(sent), [1]);
        let back = plans[1].local(Event::from_index(2)).unwrap();
        assert_eq!(plans[1].waits[back], 1);
        assert_eq!(plans[1].behind_remote(0).collect::<Vec<_>>(), [(0, back)]);
        assert_eq!(plans[1].local(Event::from_index(0)), None);
    }
}
