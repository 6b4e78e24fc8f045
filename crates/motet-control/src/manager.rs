//! [`Manager`]: acts for all ranks of a scale-up domain (Opus, §4.1): it chooses the network for each call, and asks the
//! controller for circuits once for all of them.
//!
//! A group has ranks on several rails, because each GPU of a server is on a rail of its own. The group's circuits on all
//! rails are one set. The manager asks for it when all ranks of the domain want the call, and the set is granted or recalled as a
//! whole. So rails cannot drift apart, and the controller gets one message from a server instead of one from each of its GPUs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use motet_runtime::Collective;
use motet_units::{Bytes, Rank};

use crate::protocol::{GroupId, JobId, Member, Notice, Report, Word};
use crate::seat::{Go, Seat, SeatStep};
use crate::shim::{Call, Tell};

/// The network that a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Network {
    /// Inside the domain.
    ScaleUp,
    /// Over the rails' circuits.
    Rails,
    /// Over the host's packet network, because the call is too small to change circuits for, or the controller refused it circuits.
    Host,
}

/// Which calls are too small to be worth circuits. All managers of a job must have the same rule, because all members of a
/// group must use the same network for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// AllReduces of at most this size take the host's network (Opus, §5: the short ones at the end of an iteration).
    pub offload: Option<Bytes>,
}

/// A message that the manager sends in answer to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// To the controller.
    Report(Report),
    /// To the shim of `rank`: its waiting call of `group` may start, over `network`.
    Go { rank: Rank, group: GroupId, network: Network },
}

/// One rank of the domain as a member of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Local {
    /// How many calls over the rails it has made. All but the last have started; the last may still wait.
    made: u64,
    /// The networks of the calls that have started and not ended, oldest first. Calls of a group end in the order in which they start.
    open: VecDeque<Network>,
    /// How many of its calls over circuits have ended.
    ended: u64,
    waiting: bool,
    /// Its shim predicts that its next call is one of this group.
    next: bool,
    /// Its shim predicts that its next call is one of another group.
    done: bool,
    /// How many calls of this group it makes in a row, beginning with its latest call or predicted call; 0 if
    /// that is not known.
    run: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// The manager's state for one group: the domain's [`Seat`], and how far each of its ranks is.
struct Desk {
    seat: Seat,
    locals: BTreeMap<Rank, Local>,
    /// By number, the network of each call that some rank of the domain has started and another has still to make.
    going: BTreeMap<u64, Network>,
}

/// The manager of one job's ranks in one scale-up domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Manager {
    rule: Rule,
    /// One desk for each group that reaches beyond the domain; all other groups stay on scale-up links.
    desks: BTreeMap<GroupId, Desk>,
}

impl Manager {
    /// The manager of the domain that is `member` of the job. `groups` has each group that reaches beyond the domain, with those of its
    /// ranks that are in the domain.
    #[must_use]
    pub fn new(
        job: JobId,
        member: Member,
        groups: impl IntoIterator<Item = (GroupId, BTreeSet<Rank>)>,
        rule: Rule,
    ) -> Self {
        let desks = groups.into_iter().map(|(group, ranks)| {
            let locals = ranks.into_iter().map(|it| (it, Local::default())).collect();
            let seat = Seat::new(job, member, group);
            (group, Desk { seat, locals, going: BTreeMap::new() })
        });
        Self { rule, desks: desks.collect() }
    }

    /// The network that a call should use if the controller grants circuits. It depends only on what all members of the group
    /// know alike, so that all choose the same.
    #[must_use]
    pub fn network(&self, call: &Call) -> Network {
        let short = call.collective == Collective::AllReduce
            && self.rule.offload.is_some_and(|most| call.bytes <= most);
        match self.desks.contains_key(&call.group) {
            false => Network::ScaleUp,
            true if short => Network::Host,
            true => Network::Rails,
        }
    }

    /// Handles what a rank's shim says.
    pub fn tell(&mut self, rank: Rank, tell: Tell) -> Vec<Said> {
        match tell {
            Tell::Call { call, run } => {
                let mut said = self.correct(rank, call.group);
                said.extend(match self.network(&call) {
                    Network::Rails => self.desk(call.group, |desk| desk.call(rank, run)),
                    network => {
                        self.desk(call.group, |desk| desk.open(rank, network));
                        vec![Said::Go { rank, group: call.group, network }]
                    }
                });
                said
            }
            Tell::Ended(group) => self.desk(group, |desk| desk.ended(rank)),
            Tell::Next { call, after, run } => {
                let mut said = Vec::new();
                if call.group != after {
                    said = self.desk(after, |desk| desk.done(rank));
                }
                if self.network(&call) == Network::Rails {
                    said.extend(self.desk(call.group, |desk| desk.next(rank, run)));
                }
                said
            }
        }
    }

    /// A rank calls `group`, so a prediction that it would call another one was wrong: circuits that were asked for because of it
    /// are given up before other members rely on them.
    fn correct(&mut self, rank: Rank, group: GroupId) -> Vec<Said> {
        let others = self.desks.iter_mut().filter(|it| *it.0 != group);
        others.flat_map(|it| it.1.not_next(rank)).collect()
    }

    /// Handles a message of the controller.
    pub fn hear(&mut self, notice: &Notice) -> Vec<Said> {
        self.desk(notice.group, |desk| {
            let step = desk.seat.hear(notice.what);
            let mut said = desk.step(step);
            if notice.what == Word::Recall {
                // Circuits were recalled for another group. If all ranks here are about to call this one, ask for them again.
                said.extend(desk.push());
            }
            said
        })
    }

    /// The controller is unreachable: calls that wait for it take the packet network, as [`Seat::give_up`] says.
    pub fn give_up(&mut self) -> Vec<Said> {
        let desks = self.desks.values_mut();
        desks
            .flat_map(|desk| {
                let step = desk.seat.give_up();
                desk.step(step)
            })
            .collect()
    }

    /// The manager was cut off for so long that the controller may have given the job up and its circuits to others: lets go of all
    /// circuits, as if they had been recalled.
    pub fn let_go(&mut self) -> Vec<Said> {
        let desks = self.desks.values_mut();
        desks
            .flat_map(|desk| {
                let step = desk.seat.hear(Word::Recall);
                desk.step(step)
            })
            .collect()
    }

    /// The reports to repeat, in case they were lost, while the controller has not answered.
    pub fn again(&self) -> impl Iterator<Item = Report> {
        self.desks.values().filter_map(|it| it.seat.again())
    }

    /// The state of every group, to be sent when a connection to the controller begins.
    pub fn reports(&self) -> impl Iterator<Item = Report> {
        self.desks.values().map(|it| it.seat.report())
    }

    /// How many calls of a group have ended on all ranks of the domain. Calls that took the packet network count as ended when they start.
    #[must_use]
    pub fn ended(&self, group: GroupId) -> u64 {
        self.desks.get(&group).map_or(0, |it| it.seat.report().ended)
    }

    fn desk(&mut self, group: GroupId, act: impl FnOnce(&mut Desk) -> Vec<Said>) -> Vec<Said> {
        self.desks.get_mut(&group).map_or_else(Vec::new, act)
    }
}

impl Desk {
    fn call(&mut self, rank: Rank, run: u32) -> Vec<Said> {
        let Some(local) = self.locals.get_mut(&rank) else { return Vec::new() };
        local.made += 1;
        (local.next, local.done, local.run) = (false, false, run);
        let (number, group) = (local.made, self.seat.group());
        if let Some(network) = self.going.get(&number).copied() {
            // Another rank of the domain has started this call already, so its network is known.
            local.open.push_back(network);
            self.forget();
            return vec![Said::Go { rank, group, network }];
        }
        local.waiting = true;
        self.push()
    }

    /// Starts the next call if some rank waits for it and either all ranks want it or circuits are held anyway; asks for circuits
    /// ahead of time if all ranks are predicted to make it and none has.
    fn push(&mut self) -> Vec<Said> {
        let called = self.locals.values().any(|it| it.waiting);
        let all = self.locals.values().all(|it| it.waiting || it.next);
        let held = self.seat.stance() == crate::protocol::Stance::Holding;
        self.seat.expect(self.run());
        if called && (all || held) && !self.seat.is_waiting() {
            let step = self.seat.call();
            return self.step(step);
        }
        let report = (all && !called).then(|| self.seat.foresee()).flatten();
        report.map(Said::Report).into_iter().collect()
    }

    /// How many calls of this group come in a row, if all ranks say the same; otherwise 0, not known.
    fn run(&self) -> u64 {
        let mut runs = self.locals.values().map(|it| it.run);
        let first = runs.next().unwrap_or(0);
        let alike = runs.all(|it| it == first);
        u64::from(if alike { first } else { 0 })
    }

    fn step(&mut self, step: SeatStep) -> Vec<Said> {
        let mut said: Vec<Said> = step.report.map(Said::Report).into_iter().collect();
        let Some(go) = step.go else { return said };
        let network = match go {
            Go::Circuits => Network::Rails,
            Go::Host => Network::Host,
        };
        let (number, group) = (self.seat.begun(), self.seat.group());
        self.going.insert(number, network);
        for (rank, local) in &mut self.locals {
            if local.waiting && local.made == number {
                local.waiting = false;
                local.open.push_back(network);
                said.push(Said::Go { rank: *rank, group, network });
            }
        }
        self.forget();
        said
    }

    /// Forgets the networks of calls that all ranks have made.
    fn forget(&mut self) {
        let least = self.locals.values().map(|it| it.made).min().unwrap_or(0);
        self.going.retain(|number, _| *number > least);
    }

    fn ended(&mut self, rank: Rank) -> Vec<Said> {
        let before = self.all_ended();
        if let Some(local) = self.locals.get_mut(&rank) {
            local.ended += u64::from(local.open.pop_front() == Some(Network::Rails));
        }
        let reports = (before..self.all_ended()).filter_map(|_| self.seat.ended());
        reports.collect::<Vec<_>>().into_iter().map(Said::Report).collect()
    }

    /// A rank has started a call over another network than the rails.
    fn open(&mut self, rank: Rank, network: Network) -> Vec<Said> {
        if let Some(local) = self.locals.get_mut(&rank) {
            local.open.push_back(network);
        }
        Vec::new()
    }

    /// How many calls over circuits have ended on all ranks.
    fn all_ended(&self) -> u64 {
        self.locals.values().map(|it| it.ended).min().unwrap_or(0)
    }

    fn done(&mut self, rank: Rank) -> Vec<Said> {
        if let Some(local) = self.locals.get_mut(&rank) {
            local.done = true;
        }
        let all = self.locals.values().all(|it| it.done && !it.waiting);
        let report = all.then(|| self.seat.release()).flatten();
        report.map(Said::Report).into_iter().collect()
    }

    /// The rank calls another group first, against what its shim had predicted.
    fn not_next(&mut self, rank: Rank) -> Vec<Said> {
        let Some(local) = self.locals.get_mut(&rank).filter(|it| it.next) else {
            return Vec::new();
        };
        local.next = false;
        let report = if self.seat.is_busy() { None } else { self.seat.release() };
        report.map(Said::Report).into_iter().collect()
    }

    fn next(&mut self, rank: Rank, run: u32) -> Vec<Said> {
        if let Some(local) = self.locals.get_mut(&rank) {
            (local.next, local.done, local.run) = (true, false, run);
        }
        self.push()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Refusal, Reply, Stance};

    const GROUP: GroupId = GroupId(3);

    fn manager() -> Manager {
        let ranks = BTreeSet::from([Rank(0), Rank(1)]);
        let rule = Rule { offload: Some(Bytes::new(1000)) };
        Manager::new(JobId(1), Member(0), [(GROUP, ranks)], rule)
    }

    fn call(group: GroupId, collective: Collective, bytes: u64) -> Tell {
        Tell::Call { call: Call { group, collective, bytes: Bytes::new(bytes) }, run: 2 }
    }

    fn big() -> Tell {
        call(GROUP, Collective::AllGather, 1 << 20)
    }

    fn reply(version: u64, reply: Reply) -> Notice {
        let what = Word::Reply { version, reply };
        Notice { job: JobId(1), member: Member(0), group: GROUP, what }
    }

    fn went(rank: u32, network: Network) -> Said {
        Said::Go { rank: Rank(rank), group: GROUP, network }
    }

    #[test]
    fn circuits_are_asked_for_once_when_all_ranks_want_them() {
        let mut manager = manager();
        assert_eq!(manager.tell(Rank(0), big()), []);
        let said = manager.tell(Rank(1), big());
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!(report.stance, Stance::Asking { call: 1 });
        let said = manager.hear(&reply(report.version, Reply::Grant));
        assert_eq!(said, [went(0, Network::Rails), went(1, Network::Rails)]);
        // Held: the next call goes at once, on each rank when it makes it.
        assert_eq!(manager.tell(Rank(1), big()), [went(1, Network::Rails)]);
        assert_eq!(manager.tell(Rank(0), big()), [went(0, Network::Rails)]);
    }

    #[test]
    fn the_controller_hears_that_calls_have_ended_when_all_ranks_have() {
        let mut manager = manager();
        manager.tell(Rank(0), big());
        let said = manager.tell(Rank(1), big());
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        manager.hear(&reply(report.version, Reply::Grant));
        let recall = Notice { what: Word::Recall, ..reply(0, Reply::Grant) };
        let said = manager.hear(&recall);
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!((report.stance, report.begun, report.ended), (Stance::Away, 1, 0));
        assert_eq!(manager.tell(Rank(0), Tell::Ended(GROUP)), []);
        let said = manager.tell(Rank(1), Tell::Ended(GROUP));
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!((report.begun, report.ended), (1, 1));
    }

    #[test]
    fn what_is_refused_takes_the_hosts_network_on_all_ranks() {
        let mut manager = manager();
        manager.tell(Rank(0), big());
        let said = manager.tell(Rank(1), big());
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        let refused = Reply::Refuse(Refusal::Impatient);
        let said = manager.hear(&reply(report.version, refused));
        assert_eq!(said, [went(0, Network::Host), went(1, Network::Host)]);
    }

    #[test]
    fn calls_that_are_foreseen_by_all_are_asked_for_ahead() {
        let mut manager = manager();
        let Tell::Call { call, .. } = big() else { panic!("a call") };
        let next = Tell::Next { call, after: GroupId(9), run: 2 };
        assert_eq!(manager.tell(Rank(0), next), []);
        let said = manager.tell(Rank(1), next);
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!(manager.hear(&reply(report.version, Reply::Grant)), []);
        assert_eq!(manager.tell(Rank(0), big()), [went(0, Network::Rails)]);
        // The phase is over: nobody has to be recalled.
        manager.tell(Rank(1), big());
        for rank in [0, 1] {
            manager.tell(Rank(rank), Tell::Ended(GROUP));
        }
        let after = Tell::Next { call: Call { group: GroupId(9), ..call }, after: GROUP, run: 2 };
        assert_eq!(manager.tell(Rank(0), after), []);
        let said = manager.tell(Rank(1), after);
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!((report.stance, report.begun, report.ended), (Stance::Away, 1, 1));
    }

    #[test]
    fn circuits_that_are_taken_away_are_asked_for_again_if_they_will_be_needed() {
        let mut manager = manager();
        let Tell::Call { call, .. } = big() else { panic!("a call") };
        let next = Tell::Next { call, after: GROUP, run: 2 };
        manager.tell(Rank(0), next);
        let said = manager.tell(Rank(1), next);
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        manager.hear(&reply(report.version, Reply::Grant));
        let said = manager.hear(&Notice { what: Word::Recall, ..reply(0, Reply::Grant) });
        let [Said::Report(away), Said::Report(asks)] = said[..] else { panic!("{said:?}") };
        assert_eq!((away.stance, asks.stance), (Stance::Away, Stance::Asking { call: 1 }));
    }

    #[test]
    fn small_sums_and_calls_inside_the_domain_need_no_circuits() {
        let mut manager = manager();
        let small = call(GROUP, Collective::AllReduce, 1000);
        assert_eq!(manager.tell(Rank(0), small), [went(0, Network::Host)]);
        let inside = call(GroupId(7), Collective::AllReduce, 1 << 30);
        let go = Said::Go { rank: Rank(0), group: GroupId(7), network: Network::ScaleUp };
        assert_eq!(manager.tell(Rank(0), inside), [go]);
    }

    #[test]
    fn nobody_waits_for_a_controller_that_is_gone() {
        let mut manager = manager();
        manager.tell(Rank(0), big());
        manager.tell(Rank(1), big());
        let said = manager.give_up();
        let [Said::Report(report), rest @ ..] = &said[..] else { panic!("{said:?}") };
        assert_eq!((report.stance, report.begun, report.ended), (Stance::Away, 1, 1));
        assert_eq!((report.version, report.host), (2, 1));
        assert_eq!(rest, [went(0, Network::Host), went(1, Network::Host)]);
        // What it would have said to the ask comes too late.
        assert_eq!(manager.hear(&reply(1, Reply::Grant)), []);
        assert_eq!(manager.give_up(), []);
    }

    #[test]
    fn what_was_foreseen_wrongly_is_given_up() {
        let mut manager = manager();
        let Tell::Call { call, .. } = big() else { panic!("a call") };
        for rank in [0, 1] {
            manager.tell(Rank(rank), Tell::Next { call, after: GroupId(9), run: 2 });
        }
        let inside = Tell::Call { call: Call { group: GroupId(9), ..call }, run: 2 };
        let said = manager.tell(Rank(1), inside);
        let [Said::Report(report), Said::Go { .. }] = said[..] else { panic!("{said:?}") };
        assert_eq!((report.group, report.stance), (GROUP, Stance::Away));
    }

    /// A call over circuits is under way while one over the host's network ends: circuits are still in use.
    #[test]
    fn ends_are_counted_by_network() {
        let mut manager = manager();
        manager.tell(Rank(0), big());
        let said = manager.tell(Rank(1), big());
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        let small = call(GROUP, Collective::AllReduce, 8);
        for rank in [0, 1] {
            manager.tell(Rank(rank), small);
            // The small one began first, so it ends first.
            assert_eq!(manager.tell(Rank(rank), Tell::Ended(GROUP)), []);
        }
        manager.hear(&reply(report.version, Reply::Grant));
        let recall = Notice { what: Word::Recall, ..reply(0, Reply::Grant) };
        let said = manager.hear(&recall);
        let [Said::Report(report)] = said[..] else { panic!("{said:?}") };
        assert_eq!((report.begun, report.ended), (1, 0));
    }
}
