//! Whatever is lost, late or doubled, no two ranks decide differently for an operation.

use std::collections::BTreeMap;

use motet_units::Bytes;
use proptest::prelude::*;

use super::*;
use crate::key::Collective;
use crate::reason::Reason;
use crate::runtime::{Choice, InDoubt};
use crate::table::Table;
use crate::table::tests::entry;
use crate::view::Call;

const CALL: Call = Call { collective: Collective::AllReduce, bytes: Bytes::kib(1), ranks: 8 };

/// A table that says which one it is by its number of candidates.
fn view(version: u8) -> Arc<View> {
    let table = Table::new(vec![entry(7, 8, 10, version)]).unwrap();
    Arc::new(View::new(table, Signature(7)))
}

fn target(version: u8) -> Target {
    let view = view(version);
    Target::Table { checksum: view.table().checksum(), signature: view.signature() }
}

/// What an operation was decided by: a table's version, or 0 for the library.
type Decided = u8;

struct Rig {
    leader: Leader,
    members: Vec<Member>,
    /// What each rank has begun and not yet decided.
    pending: Vec<Option<Operation>>,
    decided: BTreeMap<Operation, Decided>,
    /// On their way.
    mail: Vec<Letter>,
    /// Whether the leader has died.
    dead: bool,
    /// Which ranks cannot hear the leader any more.
    cut: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Letter {
    from_leader: bool,
    /// `None` for the leader.
    to: Option<usize>,
    message: Message,
}

impl Rig {
    fn new(ranks: u32) -> Self {
        let member = |rank| Member::new(Rank(rank), Arc::new(Runtime::default()), 2);
        Self {
            leader: Leader::new(ranks, 1),
            members: (0..ranks).map(member).collect(),
            pending: vec![None; ranks as usize],
            decided: BTreeMap::new(),
            mail: Vec::new(),
            dead: false,
            cut: vec![false; ranks as usize],
        }
    }

    fn send(&mut self, from_leader: bool, sent: Option<(To, Message)>) {
        let Some((to, message)) = sent else { return };
        if to == To::Leader || (to == To::All && !from_leader) {
            self.mail.push(Letter { from_leader, to: None, message });
        }
        for rank in 0..self.members.len() {
            if to == To::All || to == To::Rank(Rank::from_index(rank)) {
                self.mail.push(Letter { from_leader, to: Some(rank), message });
            }
        }
    }

    fn deliver(&mut self, letter: Letter) {
        let Letter { from_leader, to, message } = letter;
        let answer = match to {
            None if self.dead => None,
            None => self.leader.handle(message),
            Some(rank) if from_leader && self.cut[rank] => None,
            Some(rank) => self.members[rank].handle(message),
        };
        self.send(to.is_none(), answer);
    }

    /// Delivers so many of the letters that are on their way, in order.
    fn deliver_first(&mut self, count: usize) {
        for _ in 0..count {
            let letter = self.mail.remove(0);
            self.deliver(letter);
        }
    }

    /// A rank's connection to the leader ends. A leader that lives gives up what is open, as `Group::part` does.
    fn cut(&mut self, rank: usize) {
        self.cut[rank] = true;
        let ranks = self.members.len() as u32;
        let asked = self.members[rank].lose_leader(ranks);
        self.send(false, asked);
        if !self.dead {
            let parting = self.leader.abort();
            self.send(true, parting);
        }
    }

    /// One step of a rank's calling thread; `None` when it is in doubt.
    fn operate(&mut self, rank: usize) -> Option<Decided> {
        let runtime = Arc::clone(self.members[rank].runtime());
        let operation = self.pending[rank].unwrap_or_else(|| runtime.begin());
        let decision = match runtime.decide(operation, &CALL) {
            Ok(decision) => decision,
            Err(InDoubt(it)) => {
                assert_eq!(it, operation);
                assert!(self.members[rank].in_doubt(), "waits for nothing");
                self.pending[rank] = Some(operation);
                return None;
            }
        };
        self.pending[rank] = None;
        let version = match decision.choice() {
            Choice::Setting(_) => {
                let ticket = decision.ticket().unwrap();
                let versions = 1..=VERSIONS;
                versions
                    .into_iter()
                    .find(|it| view(*it).table().checksum() == ticket.table)
                    .unwrap()
            }
            Choice::LibraryDefault(_) => 0,
        };
        let first = *self.decided.entry(operation).or_insert(version);
        assert_eq!(first, version, "rank {rank} differs at operation {operation}");
        Some(version)
    }

    /// Delivers everything, in order, until nothing is left.
    fn settle(&mut self) {
        while !self.mail.is_empty() {
            let letter = self.mail.remove(0);
            self.deliver(letter);
        }
    }

    fn propose(&mut self, at: Operation, target: Target) {
        let proposal = self.leader.propose(at, target).unwrap();
        self.send(true, Some(proposal));
    }

    fn prepare(&mut self, version: u8) {
        self.members.iter_mut().for_each(|it| it.prepare(view(version)));
    }
}

const VERSIONS: u8 = 4;

#[test]
fn all_ranks_switch_at_the_agreed_operation() {
    let mut rig = Rig::new(3);
    rig.prepare(1);
    rig.propose(2, target(1));
    rig.settle();
    assert_eq!(rig.leader.committed(), Some(1));
    for rank in [0, 0, 0, 1, 1, 1, 2, 2, 2] {
        rig.operate(rank);
    }
    assert_eq!(rig.decided.values().copied().collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn a_rank_without_the_table_keeps_all_from_switching() {
    let mut rig = Rig::new(2);
    rig.members[0].prepare(view(1));
    rig.members[1].prepare(view(2));
    rig.propose(0, target(1));
    rig.settle();
    let held = Some(view(2).table().checksum());
    assert_eq!(rig.leader.refusal(), Some((Rank(1), Refusal::NotPrepared { held })));
    assert_eq!((rig.operate(0), rig.operate(1)), (Some(0), Some(0)));
}

#[test]
fn a_rank_that_is_past_the_operation_refuses() {
    let mut rig = Rig::new(2);
    rig.prepare(1);
    rig.operate(1);
    rig.propose(0, target(1));
    rig.settle();
    assert_eq!(rig.leader.refusal(), Some((Rank(1), Refusal::Late { position: 1 })));
    assert_eq!((rig.operate(0), rig.operate(1)), (Some(0), Some(0)));
}

#[test]
fn a_rank_in_doubt_learns_the_verdict_from_any_other() {
    let mut rig = Rig::new(3);
    rig.prepare(1);
    rig.propose(1, target(1));
    // Three proposals, three answers; then all that is sent to rank 2 is lost.
    rig.deliver_first(6);
    rig.mail.retain(|it| it.to != Some(2));
    rig.settle();
    assert_eq!((rig.operate(2), rig.operate(2)), (Some(0), None));
    // Nor does the leader answer.
    let (to, ask) = rig.members[2].poll().unwrap();
    assert_eq!(to, To::All);
    rig.deliver(Letter { from_leader: false, to: Some(0), message: ask });
    rig.settle();
    assert_eq!((rig.operate(2), rig.operate(1), rig.operate(1)), (Some(1), Some(0), Some(1)));
}

#[test]
fn one_who_has_not_heard_of_a_round_ends_it() {
    let mut rig = Rig::new(2);
    rig.prepare(1);
    rig.propose(0, target(1));
    let late = rig.mail.pop().unwrap();
    rig.settle();
    assert_eq!(rig.operate(0), None);
    let ask = rig.members[0].poll().unwrap().1;
    rig.deliver(Letter { from_leader: false, to: Some(1), message: ask });
    rig.settle();
    assert_eq!(rig.operate(0), Some(0));
    // The proposal comes at last, and is refused.
    rig.deliver(late);
    rig.settle();
    assert_eq!(rig.leader.refusal(), Some((Rank(1), Refusal::Refused)));
    assert_eq!(rig.operate(1), Some(0));
}

/// Two of three have accepted when the leader dies, and the last has not heard of the round, or has, or knows more.
#[test]
fn when_the_leader_dies_ranks_settle_it_among_themselves() {
    for (heard, verdict, expected) in [(2, 0, 0), (3, 0, 0), (3, 1, 1)] {
        let mut rig = Rig::new(3);
        rig.prepare(1);
        rig.propose(1, target(1));
        rig.deliver_first(heard);
        // What is left is answers, and perhaps a proposal; with all answers there is a verdict.
        if verdict == 1 {
            while rig.leader.committed().is_none() {
                let letter = rig.mail.remove(0);
                rig.deliver(letter);
            }
            // It reaches the last rank only.
            let letter = rig.mail.pop().unwrap();
            rig.deliver(letter);
        }
        rig.mail.clear();
        rig.dead = true;
        assert_eq!((rig.operate(0), rig.operate(0)), (Some(0), None), "in doubt");
        rig.cut(0);
        rig.settle();
        assert_eq!(rig.operate(0).is_some(), heard == 2 || verdict == 1, "one of two others knows");
        rig.cut(1);
        rig.cut(2);
        rig.settle();
        let asked = rig.members[0].poll();
        rig.send(false, asked);
        rig.settle();
        rig.finish();
        assert_eq!(rig.decided[&1], expected);
    }
}

/// The verdict reaches nobody, and one rank can no longer hear the leader, who lives.
#[test]
fn a_rank_without_leader_learns_from_those_who_ask_it() {
    let mut rig = Rig::new(3);
    rig.prepare(1);
    rig.propose(2, target(1));
    // Three proposals and three answers.
    rig.deliver_first(6);
    assert_eq!(rig.leader.committed(), Some(1));
    rig.mail.clear();
    rig.cut(0);
    rig.settle();
    assert_eq!((rig.operate(0), rig.operate(0), rig.operate(0)), (Some(0), Some(0), None));
    let asked = rig.members[0].poll();
    rig.send(false, asked);
    rig.settle();
    assert_eq!(
        rig.operate(0),
        None,
        "who knows cannot be heard, and who can be heard does not know"
    );
    rig.finish();
    assert_eq!(rig.decided[&2], 1);
}

#[test]
fn a_trial_ends_by_itself() {
    let mut rig = Rig::new(2);
    rig.prepare(1);
    let proposal = rig.leader.propose_until(1, Some(3), target(1)).unwrap();
    rig.send(true, Some(proposal));
    rig.settle();
    let decided: Vec<_> = (0..5).map(|_| (rig.operate(0), rig.operate(1))).collect();
    assert_eq!(decided, [0, 1, 1, 0, 0].map(|it| (Some(it), Some(it))));
    // While it is to come or lasts, nothing else is agreed on.
    rig.prepare(2);
    let proposal = rig.leader.propose_until(9, Some(12), target(2)).unwrap();
    rig.send(true, Some(proposal));
    rig.settle();
    rig.propose(11, target(2));
    rig.settle();
    assert_eq!(rig.leader.refusal().map(|it| it.1), Some(Refusal::Busy));
}

#[test]
fn a_changed_network_is_left_together() {
    let mut rig = Rig::new(2);
    rig.prepare(1);
    rig.members.iter().for_each(|it| it.runtime().observe_signature(Signature(7)));
    rig.propose(0, target(1));
    rig.settle();
    rig.operate(0);
    rig.members[0].runtime().observe_signature(Signature(8));
    assert_eq!(rig.operate(0), Some(1), "not alone");
    let retuning = rig.members[0].runtime().wants_retuning().unwrap();
    assert_eq!((retuning.planned, retuning.observed), (Signature(7), Signature(8)));
    assert_eq!(rig.members[0].runtime().report(Rank(0)).retuning, Some(retuning));
    assert_eq!(rig.members[1].runtime().wants_retuning(), None);
    // A table for the old network is refused; that the library decides is not.
    rig.operate(1);
    rig.propose(9, target(1));
    rig.settle();
    let refusal = Refusal::OtherNetwork { observed: Signature(8) };
    assert_eq!(rig.leader.refusal(), Some((Rank(0), refusal)));
    rig.propose(2, Target::Library);
    rig.settle();
    assert_eq!((rig.operate(0), rig.operate(1), rig.operate(1)), (Some(0), Some(1), Some(0)));
    let runtime = rig.members[0].runtime();
    let decision = runtime.decide(runtime.begin(), &CALL).unwrap();
    assert_eq!(decision.choice(), Choice::LibraryDefault(Reason::Left));
    assert_eq!(runtime.wants_retuning(), Some(retuning), "until there is a plan for it");
}

#[test]
fn a_new_leader_does_not_judge_rounds_of_the_old() {
    let mut leader = Leader::new(2, 10);
    assert_eq!(leader.handle(Message::Ask { round: 9, rank: Rank(0) }), None);
    assert_eq!(leader.resend(), None);
    leader.propose(5, Target::Library).unwrap();
    assert_eq!(leader.propose(6, Target::Library), Err(RoundOpen(10)));
    let verdict = Message::Verdict { round: 10, commit: false };
    assert_eq!(leader.abort(), Some((To::All, verdict)));
    let ask = Message::Ask { round: 10, rank: Rank(1) };
    assert_eq!(leader.handle(ask), Some((To::Rank(Rank(1)), verdict)));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Operate(u8),
    Deliver(u8),
    Double(u8),
    Lose(u8),
    Propose(u8, u8),
    Prepare(u8, u8),
    Poll(u8),
    Resend,
    Observe(u8, bool),
    /// As `Propose`, for so many operations.
    Try(u8, u8, u8),
    /// The leader dies; each rank hears of it at its own time.
    Die,
    Cut(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Operate),
        12 => any::<u8>().prop_map(Step::Deliver),
        1 => any::<u8>().prop_map(Step::Double),
        2 => any::<u8>().prop_map(Step::Lose),
        3 => (0u8..6, 0..=VERSIONS).prop_map(|(ahead, version)| Step::Propose(ahead, version)),
        2 => (any::<u8>(), 1..=VERSIONS).prop_map(|(rank, version)| Step::Prepare(rank, version)),
        2 => any::<u8>().prop_map(Step::Poll),
        1 => Just(Step::Resend),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(rank, same)| Step::Observe(rank, same)),
        2 => (0u8..6, 1..=VERSIONS, 0u8..9)
            .prop_map(|(ahead, version, lasts)| Step::Try(ahead, version, lasts)),
    ]
}

/// The same, and leaders die or cannot be heard.
fn fatal_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => step(),
        1 => Just(Step::Die),
        2 => any::<u8>().prop_map(Step::Cut),
    ]
}

impl Rig {
    fn step(&mut self, step: Step) {
        let rank = |it: u8| usize::from(it) % self.members.len();
        let letter = |it: u8| (!self.mail.is_empty()).then(|| usize::from(it) % self.mail.len());
        match step {
            Step::Operate(it) => drop(self.operate(rank(it))),
            Step::Deliver(it) => {
                if let Some(index) = letter(it) {
                    let letter = self.mail.remove(index);
                    self.deliver(letter);
                }
            }
            Step::Double(it) => {
                let Some(index) = letter(it) else { return };
                self.mail.push(self.mail[index]);
            }
            Step::Lose(it) => drop(letter(it).map(|index| self.mail.remove(index))),
            Step::Propose(ahead, version) => self.propose_ahead(ahead, version, None),
            Step::Try(ahead, version, lasts) => self.propose_ahead(ahead, version, Some(lasts)),
            Step::Die => self.dead = true,
            Step::Cut(it) => self.cut(rank(it)),
            Step::Prepare(it, version) => {
                let rank = rank(it);
                self.members[rank].prepare(view(version));
            }
            Step::Poll(it) => {
                let sent = self.members[rank(it)].poll();
                self.send(false, sent);
            }
            Step::Resend if self.dead => {}
            Step::Resend => self.send(true, self.leader.resend()),
            Step::Observe(it, same) => {
                let signature = Signature(if same { 7 } else { 8 });
                self.members[rank(it)].runtime().observe_signature(signature);
            }
        }
    }

    fn propose_ahead(&mut self, ahead: u8, version: u8, lasts: Option<u8>) {
        // A leader that has lost a rank proposes nothing any more.
        if self.dead || self.cut.contains(&true) {
            return;
        }
        let positions = self.members.iter().map(|it| it.runtime().position());
        let at = positions.max().unwrap() + u64::from(ahead);
        let until = lasts.map(|it| at + u64::from(it));
        let target = if version == 0 { Target::Library } else { target(version) };
        if let Ok(proposal) = self.leader.propose_until(at, until, target) {
            if version != 0 && ahead > 1 {
                self.prepare(version);
            }
            self.send(true, Some(proposal));
        }
    }

    /// Once messages arrive again, every rank comes to the same operation.
    fn finish(&mut self) {
        if self.dead {
            (0..self.members.len()).for_each(|it| self.cut(it));
        } else {
            self.send(true, self.leader.resend());
        }
        self.settle();
        let positions = self.members.iter().map(|it| it.runtime().position());
        let end = positions.max().unwrap() + 8;
        // By turns: a rank that does not hear a leader that lives has to wait until the others have asked it at their fences.
        while (0..self.members.len()).any(|it| !self.is_at(it, end)) {
            let mut goes_on = false;
            for rank in 0..self.members.len() {
                if self.is_at(rank, end) {
                    continue;
                }
                if self.operate(rank).is_some() {
                    goes_on = true;
                    continue;
                }
                let sent = self.members[rank].poll();
                assert!(sent.is_some(), "in doubt, and asks no one");
                self.send(false, sent);
                self.settle();
                let knows = self.operate(rank).is_some();
                assert!(knows || (self.cut[rank] && !self.dead), "asked, and still in doubt");
                goes_on |= knows;
            }
            assert!(goes_on, "all have asked, and some are still in doubt");
        }
        assert_eq!(self.decided.len() as u64, end);
    }

    /// Whether a rank has decided all operations before this one.
    fn is_at(&self, rank: usize, end: Operation) -> bool {
        self.members[rank].runtime().position() >= end && self.pending[rank].is_none()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn ranks_never_decide_differently(
        ranks in 2u32..5,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut rig = Rig::new(ranks);
        for it in steps {
            rig.step(it);
        }
        rig.finish();
    }

    #[test]
    fn nor_when_the_leader_dies_or_cannot_be_heard(
        ranks in 2u32..5,
        steps in prop::collection::vec(fatal_step(), 0..200),
    ) {
        let mut rig = Rig::new(ranks);
        for it in steps {
            rig.step(it);
        }
        rig.finish();
    }
}
