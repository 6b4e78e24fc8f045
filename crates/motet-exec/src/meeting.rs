//! A meeting of ranks at the store, as plain data without sockets or clock: who has come, who does not reach whom, and
//! who of them goes on together.
//!
//! 1. Ranks come ([`Meeting::enter`]). At first all must; after a loss the meeting begins without those that have not come
//!    within the grace. Before it begins the store makes sure once more that each is still connected ([`Meeting::lives`]),
//!    because one that came may have died while it waited, and its dead address would keep all others from connecting.
//! 2. A **round**: those that may go on together hear of each other ([`Due::Roster`]), connect, and say whether they could
//!    ([`Meeting::answer`]).
//! 3. If all could, the group stands ([`Due::Go`]). If not, after a loss there is another round, without as few ranks
//!    as possible so that no two are left that do not reach each other; at first it is the end, because all are needed.
//!
//! Why the store decides, and not the ranks: of two ranks that do not reach each other each sees the other as lost. If
//! each chose for itself there would be two groups, each taking itself for the only one. For the same reason a
//! group goes on only with more than half of its ranks, or with half and the lowest, unless its ranks ask otherwise: a store
//! that was started anew knows nothing of a group that has gone on already.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::{Duration, Instant};

use crate::wire::{Join, Member, Met, Roster};

mod choose;

use choose::choose;

/// The longest time to wait that a rank may ask for; longer ones are cut to it.
const DAY_MS: u64 = 24 * 3600 * 1000;
/// When one rank has said that it does not reach another, how long others that are about to say so too may take.
const SETTLE: Duration = Duration::from_ms(1_000);
/// How much longer than a rank's own limit the store waits for it to say whom it reaches.
const SLACK: Duration = Duration::from_ms(10_000);
/// Rounds, at most. Each drops a rank or finds a pair apart, so this is for ranks that answer nonsense.
const MAX_ROUNDS: u32 = 64;

/// One rank that has come.
#[derive(Debug)]
struct Comer {
    /// Which connection it is: the same rank may come again by another.
    ticket: u64,
    member: Member,
    wait: Duration,
    until: Instant,
    minority: bool,
    /// The last round that it has heard of.
    told: u32,
    /// Why it cannot be in the group any more, if so.
    out: Option<String>,
}

#[derive(Debug)]
struct Round {
    /// Sent to all members alike, even when one has gone meanwhile, because a rank's place in it is its new number.
    roster: Roster,
    members: Vec<u32>,
    answered: BTreeSet<u32>,
    /// When the first member said that it could not connect to all, or went.
    failed: Option<Instant>,
    until: Instant,
}

#[derive(Debug)]
enum End {
    /// The members of the last round are the group.
    Stands,
    Failed(String),
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Meeting {
    group: String,
    generation: u32,
    id: u64,
    ranks: u32,
    first: Instant,
    grace: Duration,
    here: BTreeMap<u32, Comer>,
    /// Pairs that do not reach each other, the lower first, and how that is known.
    apart: BTreeMap<(u32, u32), String>,
    /// Ranks that were seen to be still connected since the meeting could begin; `None` as long as it cannot.
    alive: Option<BTreeSet<u32>>,
    round: Option<Round>,
    rounds: u32,
    /// What went wrong last.
    trouble: String,
    end: Option<End>,
}

/// What a rank must be told now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Roster(Roster),
    Go,
    Refused(String),
}

impl Meeting {
    /// A meeting of the group that the first rank to come describes. `id` is the group's number, which no other group has.
    pub(crate) fn new(join: &Join, id: u64, now: Instant) -> Self {
        Self {
            group: join.group.clone(),
            generation: join.generation,
            id,
            ranks: join.ranks,
            first: now,
            grace: ms(join.grace_ms),
            here: BTreeMap::new(),
            apart: BTreeMap::new(),
            alive: None,
            round: None,
            rounds: 0,
            trouble: String::new(),
            end: None,
        }
    }

    /// Whether it has ended, or all ranks have gone.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some() || self.here.is_empty()
    }

    /// Whether a group stands.
    pub(crate) const fn stands(&self) -> bool {
        matches!(self.end, Some(End::Stands))
    }

    /// Whether a rank is here already.
    pub(crate) fn has(&self, rank: u32) -> bool {
        self.here.contains_key(&rank)
    }

    /// A rank comes, by the connection with this ticket.
    pub(crate) fn enter(&mut self, join: &Join, ticket: u64, now: Instant) -> Result<(), String> {
        let Join { group, rank, .. } = join;
        if self.ranks != join.ranks {
            return Err(format!(
                "the group `{group}` has {} ranks, not {}",
                self.ranks, join.ranks
            ));
        }
        if self.end.is_some() || self.round.is_some() {
            return Err(self.late(*rank));
        }
        if self.has(*rank) {
            return Err(format!("rank {rank} of `{group}` has come already"));
        }
        for other in join.apart.iter().filter(|it| **it < self.ranks && *it != rank) {
            let why = format!("rank {rank} has heard nothing from it, or nothing right");
            self.apart.entry(pair(*rank, *other)).or_insert(why);
        }
        let (address, host) = (join.address.clone(), join.host.clone());
        let comer = Comer {
            ticket,
            member: Member { rank: *rank, address, host },
            wait: ms(join.wait_ms),
            until: now + ms(join.wait_ms),
            minority: join.minority,
            told: 0,
            out: None,
        };
        self.here.insert(*rank, comer);
        Ok(())
    }

    /// What a rank is told that comes when the others have met.
    fn late(&self, rank: u32) -> String {
        match self.generation {
            0 => format!("the group `{}` is complete without rank {rank}", self.group),
            generation => gone_on(&self.group, generation, rank),
        }
    }

    /// A rank's connection has ended.
    pub(crate) fn leave(&mut self, rank: u32, ticket: u64, now: Instant) {
        if self.here.get(&rank).is_none_or(|it| it.ticket != ticket) {
            return;
        }
        self.here.remove(&rank);
        // All must be looked after anew when the next has come.
        self.alive = None;
        if self.end.is_none()
            && let Some(round) = &mut self.round
            && round.members.contains(&rank)
        {
            round.failed.get_or_insert(now);
            self.trouble = format!("rank {rank} has gone while the group met");
        }
    }

    /// A rank says how its attempt to connect to all others went. What it says of an earlier round does not count.
    pub(crate) fn answer(&mut self, rank: u32, met: &Met, now: Instant) {
        let Some(round) = &mut self.round else { return };
        if self.end.is_some() || met.round != round.roster.round || !round.members.contains(&rank) {
            return;
        }
        round.answered.insert(rank);
        if met.missing.is_empty() {
            return;
        }
        round.failed.get_or_insert(now);
        let others: Vec<u32> =
            met.missing.iter().copied().filter(|it| *it != rank && *it < self.ranks).collect();
        for other in &others {
            let why = format!("rank {rank} says: {}", met.why);
            self.apart.entry(pair(rank, *other)).or_insert(why);
        }
        let whom = if others.is_empty() {
            if let Some(comer) = self.here.get_mut(&rank) {
                comer.out = Some(met.why.clone());
            }
            "gave up".to_owned()
        } else {
            format!("does not reach rank {}", list(&others))
        };
        self.trouble = format!("rank {rank} {whom}: {}", met.why);
    }

    /// Begins the first or the next round, or ends the meeting, where what is known at this time allows it.
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        let Some(round) = &self.round else {
            let all = self.here.len() == self.ranks as usize;
            if all || (self.generation > 0 && now >= self.first + self.grace) {
                let alive = self.alive.get_or_insert_default();
                if self.here.keys().all(|it| alive.contains(it)) {
                    self.begin(now);
                }
            }
            return;
        };
        let silent: Vec<u32> =
            round.members.iter().copied().filter(|it| !round.answered.contains(it)).collect();
        if silent.is_empty() && round.failed.is_none() {
            self.end = Some(End::Stands);
            return;
        }
        if now >= round.until {
            for rank in &silent {
                if let Some(comer) = self.here.get_mut(rank) {
                    comer.out = Some("this rank did not say in time whom it reaches".to_owned());
                }
            }
            self.trouble = format!("rank {} did not say in time whom it reaches", list(&silent));
            self.begin(now);
            return;
        }
        let Some(failed) = round.failed else { return };
        let all_said = silent.iter().all(|it| !self.here.contains_key(it));
        if all_said || self.generation == 0 || now >= failed + SETTLE {
            self.begin(now);
        }
    }

    /// Begins a round with those that may go on together, or ends the meeting if they may not.
    fn begin(&mut self, now: Instant) {
        if self.generation == 0 && self.round.is_some() {
            let why = format!("the group `{}` has not met: {}", self.group, self.trouble);
            self.end = Some(End::Failed(why));
            return;
        }
        let here: Vec<u32> =
            self.here.iter().filter(|it| it.1.out.is_none()).map(|it| *it.0).collect();
        let members = choose(&here, &self.apart.keys().copied().collect());
        let of = |rank: &u32| self.here.get(rank);
        let asks = members.iter().filter_map(of).all(|it| it.minority);
        if !asks && !may_go_on(&members, self.ranks) {
            self.end = Some(End::Failed(self.too_few(&members)));
            return;
        }
        if members.is_empty() || self.rounds >= MAX_ROUNDS {
            let why = format!("the group `{}` cannot go on: {}", self.group, self.trouble);
            self.end = Some(End::Failed(why));
            return;
        }
        self.rounds += 1;
        let wait = members.iter().filter_map(of).map(|it| it.wait).max();
        let roster = Roster {
            meeting: self.id,
            round: self.rounds,
            members: members.iter().filter_map(of).map(|it| it.member.clone()).collect(),
        };
        self.round = Some(Round {
            roster,
            members,
            answered: BTreeSet::new(),
            failed: None,
            until: now + wait.unwrap_or(Duration::ZERO) + SLACK,
        });
    }

    fn too_few(&self, members: &[u32]) -> String {
        let Self { group, ranks, .. } = self;
        let apart = self.apart.iter().next();
        let apart = apart.map_or(String::new(), |((low, high), why)| {
            format!("; rank {low} and rank {high} do not reach each other ({why})")
        });
        format!(
            "of the {ranks} ranks of the group `{group}` only {} (rank {}) came and reach one another{apart}; a group goes on \
             with more than half, or with half and rank 0, because the others could have gone on elsewhere. If they cannot, \
             allow fewer on all ranks (`--minority`)",
            members.len(),
            list(members)
        )
    }

    /// What a rank must be told now, once.
    pub(crate) fn due(&mut self, rank: u32, ticket: u64, now: Instant) -> Due {
        let Some(comer) = self.here.get_mut(&rank).filter(|it| it.ticket == ticket) else {
            return Due::Refused("its place was given to another connection".to_owned());
        };
        if let Some(why) = &comer.out {
            return Due::Refused(why.clone());
        }
        match (&self.end, &self.round) {
            (Some(End::Failed(why)), _) => Due::Refused(why.clone()),
            (Some(End::Stands), Some(round)) if round.members.contains(&rank) => Due::Go,
            (Some(End::Stands), round) => {
                let members = round.as_ref().map(|it| it.members.clone()).unwrap_or_default();
                Due::Refused(self.left_out(rank, &members))
            }
            (None, Some(round))
                if round.members.contains(&rank)
                    && round.failed.is_none()
                    && comer.told < round.roster.round =>
            {
                comer.told = round.roster.round;
                Due::Roster(round.roster.clone())
            }
            (None, None) if now >= comer.until => {
                let here = self.here.len();
                let missing = (0..self.ranks).find(|it| !self.here.contains_key(it)).unwrap_or(0);
                let ranks = self.ranks;
                Due::Refused(format!(
                    "only {here} of {ranks} ranks came in time; rank {missing} is one that did not"
                ))
            }
            (None, _) => Due::Nothing,
        }
    }

    /// Whether the store must make sure now that a rank is still connected.
    pub(crate) fn is_called(&self, rank: u32) -> bool {
        let called = self.alive.as_ref().is_some_and(|it| !it.contains(&rank));
        called && self.round.is_none() && self.end.is_none()
    }

    /// A rank was found to be still connected.
    pub(crate) fn lives(&mut self, rank: u32, ticket: u64) {
        if self.here.get(&rank).is_some_and(|it| it.ticket == ticket)
            && let Some(alive) = &mut self.alive
        {
            alive.insert(rank);
        }
    }

    /// Whether a rank is expected to say whom it reaches.
    pub(crate) fn is_asked(&self, rank: u32) -> bool {
        let asked = |it: &Round| it.members.contains(&rank) && !it.answered.contains(&rank);
        self.end.is_none() && self.round.as_ref().is_some_and(asked)
    }

    fn left_out(&self, rank: u32, members: &[u32]) -> String {
        let group = &self.group;
        let with = |it: &&(u32, u32)| it.0 == rank || it.1 == rank;
        let met = |it: &&(u32, u32)| members.contains(&it.0) || members.contains(&it.1);
        let pairs: Vec<&(u32, u32)> = self.apart.keys().filter(with).collect();
        let found = pairs.iter().copied().find(met).or_else(|| pairs.first().copied());
        let why = found.map_or(String::new(), |it| {
            let other = if it.0 == rank { it.1 } else { it.0 };
            let how = self.apart.get(it).map_or("", String::as_str);
            format!("it and rank {other} do not reach each other ({how}); ")
        });
        let list = list(members);
        format!(
            "rank {rank} of the group `{group}` was left out: {why}the group goes on with {} of {} ranks ({list})",
            members.len(),
            self.ranks
        )
    }
}

/// What a rank is told that comes to a group that has gone on.
pub(crate) fn gone_on(group: &str, generation: u32, rank: u32) -> String {
    format!(
        "the group `{group}` has gone on without rank {rank}, which came too late (loss {generation} of the group); it \
         cannot come in again"
    )
}

/// A number of milliseconds that came from elsewhere, limited to a day.
fn ms(said: u64) -> Duration {
    Duration::from_ms(said.min(DAY_MS))
}

const fn pair(one: u32, other: u32) -> (u32, u32) {
    if one < other { (one, other) } else { (other, one) }
}

/// Whether these ranks of a group of `ranks` may go on: more than half, or the half with rank 0. So two parts never both do.
fn may_go_on(members: &[u32], ranks: u32) -> bool {
    let doubled = members.len() * 2;
    doubled > ranks as usize || (doubled == ranks as usize && members.first() == Some(&0))
}

/// Ranks in words, the first few.
fn list(ranks: &[u32]) -> String {
    const MOST: usize = 16;
    let mut words: Vec<String> = ranks.iter().take(MOST).map(u32::to_string).collect();
    match ranks.len().saturating_sub(MOST) {
        0 => {}
        more => words.push(format!("{more} more")),
    }
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRACE: u64 = 1_000;
    const WAIT: u64 = 60_000;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }

    fn join(rank: u32, ranks: u32, generation: u32, apart: &[u32]) -> Join {
        Join {
            group: "g".into(),
            generation,
            meeting: 7,
            rank,
            ranks,
            address: format!("10.0.0.{rank}:1"),
            host: String::new(),
            wait_ms: WAIT,
            grace_ms: if generation > 0 { GRACE } else { 0 },
            minority: false,
            apart: apart.to_vec(),
        }
    }

    /// A meeting to which these come, each with whom it does not reach, by a connection with its rank's number.
    fn meeting(ranks: u32, generation: u32, come: &[(u32, &[u32])]) -> Meeting {
        let mut it = Meeting::new(&join(come[0].0, ranks, generation, &[]), 7, at(0));
        for (rank, apart) in come {
            it.enter(&join(*rank, ranks, generation, apart), u64::from(*rank), at(0)).unwrap();
        }
        advance(&mut it, 0);
        it
    }

    /// All that are here are alive.
    fn advance(it: &mut Meeting, ms: u64) {
        it.advance(at(ms));
        let here: Vec<(u32, u64)> = it.here.iter().map(|it| (*it.0, it.1.ticket)).collect();
        here.iter().for_each(|(rank, ticket)| it.lives(*rank, *ticket));
        it.advance(at(ms));
    }

    fn due(it: &mut Meeting, rank: u32, ms: u64) -> Due {
        advance(it, ms);
        it.due(rank, u64::from(rank), at(ms))
    }

    /// The ranks that one is to connect to.
    fn roster(it: &mut Meeting, rank: u32, ms: u64) -> (u32, Vec<u32>) {
        match due(it, rank, ms) {
            Due::Roster(it) => (it.round, it.members.iter().map(|it| it.rank).collect()),
            other => panic!("rank {rank}: {other:?}"),
        }
    }

    fn refused(it: &mut Meeting, rank: u32, ms: u64) -> String {
        match due(it, rank, ms) {
            Due::Refused(why) => why,
            other => panic!("rank {rank}: {other:?}"),
        }
    }

    fn says(it: &mut Meeting, rank: u32, round: u32, missing: &[u32], ms: u64) {
        let met = Met { round, missing: missing.to_vec(), why: "no answer".into() };
        it.answer(rank, &met, at(ms));
    }

    #[test]
    fn at_first_all_must_come_and_connect() {
        let mut it = meeting(3, 0, &[(0, &[]), (2, &[])]);
        assert_eq!(due(&mut it, 0, 59_000), Due::Nothing);
        it.enter(&join(1, 3, 0, &[]), 1, at(59_900)).unwrap();
        for rank in 0..3 {
            assert_eq!(roster(&mut it, rank, 59_950), (1, vec![0, 1, 2]));
            assert_eq!(due(&mut it, rank, 59_950), Due::Nothing, "it is told once");
        }
        // The last came at the end of the first's time, and there still is some to connect.
        for rank in 0..3 {
            assert_eq!(due(&mut it, rank, 70_000), Due::Nothing);
            says(&mut it, rank, 1, &[], 70_000);
        }
        assert!((0..3).all(|rank| due(&mut it, rank, 70_001) == Due::Go) && it.stands());
    }

    #[test]
    fn at_first_one_that_does_not_reach_another_ends_the_meeting_for_all() {
        let mut it = meeting(3, 0, &[(0, &[]), (1, &[]), (2, &[])]);
        says(&mut it, 2, 1, &[1], 10);
        for rank in 0..3 {
            let why = refused(&mut it, rank, 10);
            assert!(why.contains("rank 2 does not reach rank 1: no answer"), "{why}");
        }
        assert!(it.is_over() && !it.stands());
    }

    #[test]
    fn who_does_not_come_in_time_is_named() {
        let mut it = meeting(3, 0, &[(0, &[]), (2, &[])]);
        let why = refused(&mut it, 0, WAIT);
        assert_eq!(why, "only 2 of 3 ranks came in time; rank 1 is one that did not");
    }

    #[test]
    fn a_rank_that_went_may_come_again_and_one_that_is_here_may_not() {
        let mut it = meeting(2, 0, &[(1, &[])]);
        let again = it.enter(&join(1, 2, 0, &[]), 9, at(1)).unwrap_err();
        assert!(again.contains("has come already"), "{again}");
        it.leave(1, 1, at(2));
        assert!(it.is_over(), "nobody is here");
        it.enter(&join(1, 2, 0, &[]), 9, at(3)).unwrap();
        // The end of the first connection does not take away the second's place.
        it.leave(1, 1, at(4));
        assert!(it.has(1));
    }

    #[test]
    fn one_that_died_while_it_waited_is_noticed_before_the_group_is_made() {
        let mut it = meeting(2, 0, &[(1, &[])]);
        it.enter(&join(0, 2, 0, &[]), 0, at(5)).unwrap();
        it.advance(at(5));
        // All have come, and now each must be seen.
        assert!(it.is_called(0) && it.is_called(1));
        it.lives(0, 0);
        it.advance(at(6));
        assert_eq!(it.due(0, 0, at(6)), Due::Nothing);
        it.leave(1, 1, at(7));
        it.enter(&join(1, 2, 0, &[]), 2, at(8)).unwrap();
        it.advance(at(8));
        assert!(it.is_called(0), "it may have died since");
        it.lives(1, 1);
        assert!(it.is_called(1), "that was its former connection");
        it.lives(0, 0);
        it.lives(1, 2);
        it.advance(at(9));
        assert!(matches!(it.due(0, 0, at(9)), Due::Roster(_)));
    }

    #[test]
    fn hostile_times_are_a_day() {
        let mut join = Join { wait_ms: u64::MAX, grace_ms: u64::MAX, ..join(0, 2, 1, &[]) };
        join.ranks = 2;
        let mut it = Meeting::new(&join, 7, at(0));
        it.enter(&join, 0, at(0)).unwrap();
        assert_eq!(due(&mut it, 0, DAY_MS - 1), Due::Nothing);
        assert_ne!(due(&mut it, 0, DAY_MS), Due::Nothing);
    }

    #[test]
    fn of_two_that_do_not_reach_each_other_the_higher_is_left_out() {
        let all: [(u32, &[u32]); 4] = [(0, &[]), (1, &[3]), (2, &[]), (3, &[1])];
        let mut it = meeting(4, 1, &all);
        for rank in [0, 1, 2] {
            assert_eq!(roster(&mut it, rank, 0), (1, vec![0, 1, 2]));
        }
        // Who is left out may be needed yet.
        assert_eq!(due(&mut it, 3, 0), Due::Nothing);
        for rank in [0, 1, 2] {
            says(&mut it, rank, 1, &[], 5);
        }
        assert!([0, 1, 2].iter().all(|rank| due(&mut it, *rank, 6) == Due::Go));
        let why = refused(&mut it, 3, 6);
        assert!(why.contains("it and rank 1 do not reach each other"), "{why}");
        assert!(why.contains("goes on with 3 of 4 ranks (0, 1 and 2)"), "{why}");
    }

    #[test]
    fn what_is_found_while_connecting_leads_to_another_round() {
        let all: [(u32, &[u32]); 4] = [(0, &[]), (1, &[]), (2, &[]), (3, &[])];
        let mut it = meeting(4, 1, &all);
        assert_eq!(roster(&mut it, 0, 0), (1, vec![0, 1, 2, 3]));
        says(&mut it, 0, 1, &[], 10);
        says(&mut it, 3, 1, &[1], 10);
        // Others may be about to find something out, too.
        assert_eq!(due(&mut it, 0, 20), Due::Nothing);
        assert_eq!(roster(&mut it, 0, 1_010), (2, vec![0, 1, 2]));
        // What belongs to the round before does not count.
        says(&mut it, 1, 1, &[0], 1_020);
        assert_eq!(roster(&mut it, 1, 1_020), (2, vec![0, 1, 2]));
        // Rank 1 dies: rank 3, which only it did not reach, is needed again.
        it.leave(1, 1, at(1_030));
        assert_eq!(roster(&mut it, 3, 2_100), (3, vec![0, 2, 3]));
        for rank in [0, 2, 3] {
            says(&mut it, rank, 3, &[], 2_200);
        }
        assert!([0, 2, 3].iter().all(|rank| due(&mut it, *rank, 2_200) == Due::Go));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for_and_who_gives_up_neither() {
        let mut it = meeting(5, 1, &[(0, &[]), (1, &[]), (2, &[]), (3, &[]), (4, &[])]);
        (0..3).for_each(|rank| says(&mut it, rank, 1, &[], 10));
        says(&mut it, 4, 1, &[4], 10);
        assert_eq!(refused(&mut it, 4, 11), "no answer");
        assert_eq!(roster(&mut it, 0, 1_010), (2, vec![0, 1, 2, 3]));
        (0..3).for_each(|rank| says(&mut it, rank, 2, &[], 1_020));
        let silent = 1_010 + WAIT + 10_000;
        assert_eq!(due(&mut it, 0, silent - 1), Due::Nothing);
        assert_eq!(roster(&mut it, 0, silent), (3, vec![0, 1, 2]));
        assert!(refused(&mut it, 3, silent).contains("did not say in time"));
    }

    #[test]
    fn who_comes_late_finds_no_place() {
        let mut it = meeting(3, 1, &[(0, &[2]), (1, &[2])]);
        assert_eq!(roster(&mut it, 0, GRACE), (1, vec![0, 1]));
        let late = it.enter(&join(2, 3, 1, &[]), 2, at(GRACE + 1)).unwrap_err();
        assert!(late.contains("has gone on without rank 2"), "{late}");
    }

    #[test]
    fn fewer_than_half_do_not_go_on_unless_they_ask() {
        // Half, without the lowest.
        let mut it = meeting(4, 1, &[(1, &[]), (2, &[])]);
        let why = refused(&mut it, 1, GRACE);
        assert!(why.contains("only 2 (rank 1 and 2)") && why.contains("--minority"), "{why}");
        // Half, with it.
        let mut it = meeting(4, 1, &[(0, &[]), (3, &[])]);
        assert_eq!(roster(&mut it, 3, GRACE), (1, vec![0, 3]));
        // All came, and no more than half of them reach each other.
        let mut it = meeting(2, 1, &[(0, &[1]), (1, &[0])]);
        assert_eq!(roster(&mut it, 0, 0), (1, vec![0]));
        // One of three, which asks for it.
        let asks = Join { minority: true, ..join(2, 3, 1, &[]) };
        let mut it = Meeting::new(&asks, 7, at(0));
        it.enter(&asks, 2, at(0)).unwrap();
        assert_eq!(roster(&mut it, 2, GRACE), (1, vec![2]));
    }

    #[test]
    fn ranks_in_words() {
        assert_eq!(list(&[3]), "3");
        assert_eq!(list(&[0, 1, 2]), "0, 1 and 2");
        let many: Vec<u32> = (0..1024).collect();
        assert!(list(&many).ends_with("15 and 1008 more"));
    }

    proptest! {
        /// Of two groups that go on from the same ranks, never both may.
        #[test]
        fn never_two_groups_go_on(ranks in 1_u32..12, side: u16) {
            let (one, other): (Vec<u32>, Vec<u32>) =
                (0..ranks).partition(|it| side >> it & 1 == 1);
            prop_assert!(!(may_go_on(&one, ranks) && may_go_on(&other, ranks)));
        }
    }
}
