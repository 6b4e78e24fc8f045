//! Ranks and their leader, with frames that take their time: no two ranks decide differently, and the table that is
//! faster comes into use on all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use motet_units::{Bytes, Duration};
use proptest::prelude::*;

use super::*;
use crate::agreement::Member;
use crate::key::Collective;
use crate::runtime::{Choice, Runtime};
use crate::table::tests::entry;
use crate::view::{Call, View};

const CALL: Call = Call { collective: Collective::AllReduce, bytes: Bytes::kib(1), ranks: 8 };
const SIGNATURE: Signature = Signature(7);

/// Two candidates, of which the first takes `slow` times as long as expected.
struct World {
    group: Group,
    members: Vec<Member>,
    to_leader: VecDeque<(Rank, Frame)>,
    to_rank: Vec<VecDeque<Frame>>,
    /// By operation: whether it was the first candidate.
    decided: BTreeMap<Operation, bool>,
    pending: Vec<Option<Operation>>,
    slow: u64,
}

fn table() -> Table {
    Table::new(vec![entry(7, 8, 10, 2)]).unwrap()
}

impl World {
    fn new(ranks: u32, slow: u64) -> Self {
        Self::with(ranks, slow, Box::new(Fastest { margin: 5 }))
    }

    fn with(ranks: u32, slow: u64, pilot: Box<dyn Pilot>) -> Self {
        let member = |rank| {
            let runtime = Arc::new(Runtime::default());
            runtime.install(Arc::new(View::new(table(), SIGNATURE)));
            Member::new(Rank(rank), runtime, 8)
        };
        Self {
            group: Group::new(ranks, table(), SIGNATURE, pilot),
            members: (0..ranks).map(member).collect(),
            to_leader: VecDeque::new(),
            to_rank: vec![VecDeque::new(); ranks as usize],
            decided: BTreeMap::new(),
            pending: vec![None; ranks as usize],
            slow,
        }
    }

    fn send(&mut self, sent: impl IntoIterator<Item = (To, Frame)>) {
        for (to, frame) in sent {
            for rank in 0..self.members.len() {
                if to == To::All || to == To::Rank(Rank::from_index(rank)) {
                    self.to_rank[rank].push_back(frame.clone());
                }
            }
        }
    }

    /// An operation of a rank, and what it measures of it.
    fn operate(&mut self, rank: usize) {
        let runtime = Arc::clone(self.members[rank].runtime());
        let operation = self.pending[rank].take().unwrap_or_else(|| runtime.begin());
        let Ok(decision) = runtime.decide(operation, &CALL) else {
            self.pending[rank] = Some(operation);
            return;
        };
        let Choice::Setting(setting) = decision.choice() else { panic!("a table decides") };
        let ticket = decision.ticket().unwrap();
        let plain = table().entries()[0].candidates[0].setting == *setting;
        let first = *self.decided.entry(operation).or_insert(plain);
        assert_eq!(first, plain, "rank {rank} differs at operation {operation}");
        runtime.record(ticket, Duration::from_ps(1000 * if plain { self.slow } else { 1 }));
    }

    fn step(&mut self, rank: usize) {
        if let Some(frame) = self.to_rank[rank].pop_front() {
            let answer = match frame {
                Frame::Table { signature, text } => {
                    let view = View::new(Table::read(&text).unwrap(), signature);
                    self.members[rank].prepare(Arc::new(view));
                    None
                }
                Frame::Agreement(message) => self.members[rank].handle(message),
                Frame::Hello(_) | Frame::Standing { .. } | Frame::Peers(_) => None,
            };
            let to_leader = answer.filter(|it| it.0 == To::Leader);
            let rank = Rank::from_index(rank);
            self.to_leader.extend(to_leader.map(|it| (rank, Frame::Agreement(it.1))));
        }
        if let Some((_, ask)) = self.members[rank].poll() {
            self.to_leader.push_back((Rank::from_index(rank), Frame::Agreement(ask)));
        }
    }

    fn report(&mut self, rank: usize) {
        let runtime = self.members[rank].runtime();
        let rank = Rank::from_index(rank);
        for report in runtime.reports(rank) {
            let frame = Frame::Standing { position: runtime.position(), report };
            self.to_leader.push_back((rank, frame));
        }
    }

    fn lead(&mut self) {
        if let Some((rank, frame)) = self.to_leader.pop_front() {
            let answer = self.group.handle(rank, frame);
            self.send(answer);
        }
    }
}

#[test]
fn a_candidate_that_got_slow_is_left_by_all_at_once() {
    let mut world = World::new(4, 3);
    for _ in 0..200 {
        for rank in 0..4 {
            world.operate(rank);
            world.step(rank);
            world.report(rank);
        }
        while !world.to_leader.is_empty() {
            world.lead();
        }
        let sent = world.group.turn();
        world.send(sent);
    }
    assert_eq!(world.group.switches(), 1);
    let (first, last) = (world.decided[&0], *world.decided.values().last().unwrap());
    assert!(first && !last);
}

#[test]
fn a_rank_that_is_silent_or_gone_keeps_all_where_they_are() {
    let mut world = World::new(3, 3);
    for turn in 0..60 {
        for rank in 0..3 {
            world.operate(rank);
            // The last rank measures and never answers.
            if rank < 2 {
                world.step(rank);
            }
            world.report(rank);
        }
        while !world.to_leader.is_empty() {
            world.lead();
        }
        let sent =
            if turn == 40 { world.group.part().into_iter().collect() } else { world.group.turn() };
        world.send(sent);
    }
    assert_eq!(world.group.switches(), 0);
    for rank in 0..2 {
        while !world.to_rank[rank].is_empty() {
            world.step(rank);
        }
        assert!(!world.members[rank].in_doubt());
    }
    assert!(world.decided.values().all(|it| *it));
}

#[test]
fn a_pilot_cannot_change_the_keys() {
    struct Other;
    impl Pilot for Other {
        fn steer(&mut self, _: &Sight<'_>) -> Course {
            Table::new(vec![entry(7, 8, 11, 2)]).map_or(Course::Stay, Course::Switch)
        }
    }
    let mut group = Group::new(1, table(), SIGNATURE, Box::new(Other));
    let report = Report {
        rank: Rank(0),
        table: Some(table().checksum()),
        retuning: None,
        times: Vec::new(),
    };
    group.handle(Rank(0), Frame::Standing { position: 5, report });
    assert_eq!(group.turn(), []);
}

/// Tries the second candidate whenever it can, and notes what was measured of it.
struct Trier(std::sync::mpsc::Sender<Vec<Report>>);

impl Pilot for Trier {
    fn steer(&mut self, sight: &Sight<'_>) -> Course {
        if let Some((_, reports)) = sight.trial {
            let _ = self.0.send(reports.to_vec());
        }
        let mut entries = sight.table.entries().to_vec();
        entries[0].candidates.swap(0, 1);
        Table::new(entries).map_or(Course::Stay, |table| Course::Try { table, turns: 2 })
    }
}

#[test]
fn a_trial_ends_by_itself_even_when_nobody_is_heard_any_more() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut world = World::with(3, 1, Box::new(Trier(sender)));
    let mut first_trial = None;
    for turn in 0..400 {
        for rank in 0..3 {
            world.operate(rank);
            // From turn 200 on no frame is delivered, in either direction.
            if turn < 200 {
                while !world.to_rank[rank].is_empty() {
                    world.step(rank);
                }
                world.report(rank);
            }
        }
        if turn < 200 {
            while !world.to_leader.is_empty() {
                world.lead();
            }
            let sent = world.group.turn();
            world.send(sent);
        }
        if world.group.trials() == 1 && first_trial.is_none() {
            first_trial = Some(turn);
        }
    }
    assert!(world.group.trials() >= 2 && world.group.switches() == 0);
    assert_eq!(world.group.table().checksum(), table().checksum());
    let tried: Vec<Operation> = world.decided.iter().filter(|it| !it.1).map(|it| *it.0).collect();
    // Thirty-two calls each, and plain ones after the last.
    assert_eq!(tried.len() as u64 % LEAST_LEAD, 0);
    assert!(!tried.is_empty() && world.decided.values().next_back() == Some(&true));
    let reports = receiver.recv().unwrap();
    assert_eq!(reports.len(), 3);
    assert!(reports.iter().all(|it| it.times[0].candidate == 0 && it.times[0].samples == 32));
}

proptest! {
    #[test]
    fn no_two_ranks_decide_differently_whatever_is_tried(
        steps in prop::collection::vec((0usize..3, 0u8..5), 200..900),
    ) {
        let (sender, _receiver) = std::sync::mpsc::channel();
        let mut world = World::with(3, 1, Box::new(Trier(sender)));
        for (rank, step) in steps {
            match step {
                0 | 1 => world.operate(rank),
                2 => world.step(rank),
                3 => {
                    world.report(rank);
                    world.lead();
                }
                _ => {
                    world.lead();
                    let sent = world.group.turn();
                    world.send(sent);
                }
            }
        }
    }

    #[test]
    fn no_two_ranks_decide_differently_whoever_comes_first(
        steps in prop::collection::vec((0usize..3, 0u8..5), 200..900), slow in 1u64..4,
    ) {
        let mut world = World::new(3, slow);
        for (rank, step) in steps {
            match step {
                0 | 1 => world.operate(rank),
                2 => world.step(rank),
                3 => {
                    world.report(rank);
                    world.lead();
                }
                _ => {
                    world.lead();
                    let sent = world.group.turn();
                    world.send(sent);
                }
            }
        }
    }
}
