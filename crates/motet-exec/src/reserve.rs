//! [`Reserve`]: which of the connections to a rank carry data.
//!
//! Routers hash each connection, by its ports, onto one of several network paths (ECMP), so a few connections may all miss a path;
//! but many that carry data at once are slower, because each has little to send. So more connections are made than carry data, and
//! those in reserve are tried one after the other beside those at work. Data goes to whichever connection will be first to have
//! delivered its backlog, so one that has a path to itself delivers much more than the others; it then takes the place of one of them.
//!
//! A call that has little to send uses only some of those at work: when many short flows share a path, they end before congestion
//! control has found each its part of it.

use std::collections::VecDeque;

use motet_units::{Duration, Instant};

use crate::stream::SLOW;

/// A trial has two halves. In the first the connection has time to become as fast as its path allows, and only what it delivers in the
/// second counts. Each half lasts until the connection has been fed for this long (see [`OnTrial::fed`]) and the others have delivered
/// [`HALF_BYTES`] meanwhile.
const HALF_TRIAL: Duration = Duration::from_ms(150);
/// See [`HALF_TRIAL`].
const HALF_BYTES: u64 = 4 << 20;
/// A trial is lost when, for this long in all, there was something to send but nothing for the connection on trial.
const UNFED: Duration = Duration::from_ms(5_000);
/// When all have been tried, the next is tried again after this long, because paths change. When most connections at work have become
/// much slower than the fastest, all in reserve are tried anew without this pause.
const AGAIN: Duration = Duration::from_ms(10_000);
/// How many bytes of a call a connection should have to send for it to be worth using.
const ENOUGH: usize = 256 << 10;
/// How many connections carry data even if there is less.
const LEAST: usize = 2;
/// A connection on trial takes the place of the median one of the others if it has delivered more than this many times as much: a
/// fraction, 3/2. One that only shares their path delivers less than they do, because flows give up bandwidth slowly to a newer one.
const FASTER: (u64, u64) = (3, 2);

/// See the head of the file. Connections are numbered from 1 on; 0 carries no data.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Those that carry data; the last one is on trial, if any is.
    at_work: Vec<usize>,
    /// Those in reserve; the first is tried next.
    spare: VecDeque<usize>,
    on_trial: Option<OnTrial>,
    /// How many have not been tried yet.
    untried: usize,
    /// Whether there is no reserve, because the caller has set the number of connections: then all carry data of every call.
    whole: bool,
    /// When the last trial ended.
    ended: Instant,
    /// Whether most of those at work were much slower than the fastest when that was last looked at.
    mostly_slow: bool,
}

/// The trial that goes on, of the last connection of `at_work`.
#[derive(Debug)]
struct OnTrial {
    /// Whether this is the second half, in which what is delivered counts.
    counts: bool,
    /// For how long, in this half, the connection was fed: given as much data as it took. Only such times count, for the others too:
    /// between calls, and towards the end of a call that would have to wait for it, it delivers nothing, however fast its path is.
    fed: Duration,
    /// What each of `at_work` delivered in those times.
    delivered: Vec<u64>,
    /// For how long there was something to send and it was not fed, in the whole trial.
    unfed: Duration,
    /// When all this was last brought up to date.
    since: Instant,
    /// How much each of `at_work` had ever delivered by then.
    before: Vec<u64>,
    /// What there has been to send since.
    sending: Sending,
}

/// What there is to send to the rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sending {
    Nothing,
    /// Something, but none for the connection on trial, because the call would end later for it.
    Unfed,
    /// As much as the connection on trial takes.
    Fed,
}

impl OnTrial {
    fn new(before: Vec<u64>, now: Instant) -> Self {
        Self {
            counts: false,
            fed: Duration::ZERO,
            delivered: vec![0; before.len()],
            unfed: Duration::ZERO,
            since: now,
            before,
            sending: Sending::Nothing,
        }
    }

    /// Notes what each of `at_work` has delivered by now, and what there is to send from now on.
    fn note(&mut self, delivered: Vec<u64>, sending: Sending, now: Instant) {
        let time = now.since(self.since);
        match self.sending {
            Sending::Nothing => {}
            Sending::Unfed => self.unfed += time,
            Sending::Fed => {
                self.fed += time;
                let more = delivered.iter().zip(&self.before).map(|it| it.0.saturating_sub(*it.1));
                self.delivered.iter_mut().zip(more).for_each(|it| *it.0 += it.1);
            }
        }
        (self.since, self.before, self.sending) = (now, delivered, sending);
    }

    /// `None` while the trial goes on. At its end: the index in `at_work` of the connection whose place it takes, or `Some(None)` if it
    /// takes none.
    fn verdict(&mut self) -> Option<Option<usize>> {
        let (own, others) = self.delivered.split_last()?;
        if self.fed < HALF_TRIAL || others.iter().sum::<u64>() < HALF_BYTES {
            return (self.unfed >= UNFED).then_some(None);
        }
        if !self.counts {
            (self.counts, self.fed) = (true, Duration::ZERO);
            self.delivered.fill(0);
            return None;
        }
        let mut others: Vec<(u64, usize)> = others.iter().copied().zip(0..).collect();
        others.sort_unstable();
        let middle = others.get(others.len() / 2);
        Some(middle.filter(|it| FASTER.1 * own > FASTER.0 * it.0).map(|it| it.1))
    }
}

impl Reserve {
    /// For `connections` connections, the first of which is for all but data; at most `at_work` of the others carry data at once,
    /// and one more while it is on trial.
    pub(crate) fn new(connections: usize, at_work: usize, now: Instant) -> Self {
        let most = connections.saturating_sub(1).min(at_work);
        let spare: VecDeque<usize> = (most + 1..connections).collect();
        let untried = spare.len();
        let whole = spare.is_empty();
        Self {
            at_work: (1..=most).collect(),
            spare,
            on_trial: None,
            untried,
            whole,
            ended: now,
            mostly_slow: false,
        }
    }

    /// The connection on trial, if one is.
    pub(crate) fn on_trial(&self) -> Option<usize> {
        self.on_trial.as_ref().and(self.at_work.last().copied())
    }

    /// The connections that carry data when `owed` bytes are to be sent to the rank: all at work if there is no reserve or [`ENOUGH`] for
    /// each, else the fastest of them.
    pub(crate) fn carriers(&self, owed: usize, rate: impl Fn(usize) -> Option<f64>) -> Vec<usize> {
        let mut carriers = self.at_work.clone();
        if !self.whole && owed / ENOUGH < carriers.len() {
            let rate = |it: &usize| rate(*it).unwrap_or(0.0);
            carriers.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.cmp(b)));
            carriers.truncate((owed / ENOUGH).max(LEAST));
        }
        carriers
    }

    /// Begins and ends trials, in calls that have [`ENOUGH`] for all at work and one more. `delivered` gives the bytes that a connection has
    /// ever delivered, `rate` its rate where that is known.
    pub(crate) fn look(
        &mut self,
        owed: usize,
        sending: Sending,
        delivered: impl Fn(usize) -> u64,
        rate: impl Fn(usize) -> Option<f64>,
        now: Instant,
    ) {
        // Of a call that has little to send the one on trial may be given nothing.
        let little = owed / ENOUGH <= self.at_work.len();
        let sending = if little { Sending::Nothing } else { sending };
        let all = |at_work: &[usize]| at_work.iter().map(|it| delivered(*it)).collect();
        if let Some(trial) = &mut self.on_trial {
            trial.note(all(&self.at_work), sending, now);
        }
        if little {
            return;
        }
        let rates = self.at_work.iter().filter_map(|it| rate(*it));
        let best = rates.clone().fold(0.0, f64::max);
        let mostly_slow = 2 * rates.filter(|it| it * SLOW < best).count() > self.at_work.len();
        if mostly_slow && !self.mostly_slow {
            self.untried = self.spare.len() + usize::from(self.on_trial.is_some());
        }
        self.mostly_slow = mostly_slow;
        let Some(trial) = &mut self.on_trial else {
            if !self.spare.is_empty() && (self.untried > 0 || now.since(self.ended) >= AGAIN) {
                self.at_work.extend(self.spare.pop_front());
                self.on_trial = Some(OnTrial::new(all(&self.at_work), now));
            }
            return;
        };
        let Some(verdict) = trial.verdict() else { return };
        let Some(last) = self.at_work.pop() else { return };
        let out = match verdict.and_then(|place| self.at_work.get_mut(place)) {
            Some(other) => std::mem::replace(other, last),
            None => last,
        };
        self.spare.push_back(out);
        self.untried = self.untried.saturating_sub(1);
        self.on_trial = None;
        self.ended = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a call that all connections carry.
    const LARGE: usize = 64 << 20;

    fn at(ms: u64) -> Instant {
        Instant::from_ps(ms * 1_000_000_000)
    }

    /// Calls `look` for a second of which each connection delivers so many bytes per millisecond, of those that are at work.
    fn go_on(
        reserve: &mut Reserve,
        delivered: &mut [u64],
        from_ms: u64,
        rate: impl Fn(usize) -> u64,
    ) {
        for ms in from_ms..from_ms + 1000 {
            for it in &reserve.at_work {
                delivered[*it] += rate(*it);
            }
            reserve.look(LARGE, Sending::Fed, |it| delivered[it], |_| None, at(ms));
        }
    }

    #[test]
    fn one_that_finds_another_way_takes_a_place() {
        let mut delivered = [0; 17];
        let mut reserve = Reserve::new(17, 8, at(0));
        assert_eq!(reserve.at_work, [1, 2, 3, 4, 5, 6, 7, 8]);
        // Only the eleventh has a path of its own.
        let rate = |it: usize| if it == 11 { 60_000 } else { 15_000 };
        for second in 0..4 {
            go_on(&mut reserve, &mut delivered, 1000 * second, rate);
        }
        let at_work = reserve.at_work.clone();
        assert!(at_work.contains(&11), "{at_work:?}");
        // All have been tried, and no more than eight are at work until it is time again.
        assert_eq!((at_work.len(), reserve.untried), (8, 0));
        let mut all = [at_work, reserve.spare.iter().copied().collect()].concat();
        all.sort_unstable();
        assert_eq!(all, (1..17).collect::<Vec<usize>>());
        go_on(&mut reserve, &mut delivered, 13_000, rate);
        assert!(reserve.at_work.contains(&11));
    }

    #[test]
    fn what_a_connection_delivers_before_it_has_its_speed_does_not_count() {
        let mut delivered = [0; 17];
        let mut reserve = Reserve::new(17, 8, at(0));
        // Each needs 150 ms to become as fast as its path allows; the eleventh has one of its own.
        let mut at_work_for = [0; 17];
        for ms in 0..5000 {
            for it in reserve.at_work.clone() {
                at_work_for[it] += 1;
                let speed = if it == 11 { 40_000 } else { 15_000 };
                delivered[it] += if at_work_for[it] > 150 { speed } else { 100 };
            }
            reserve.look(LARGE, Sending::Fed, |it| delivered[it], |_| None, at(ms));
            assert_eq!(reserve.on_trial().is_some(), reserve.at_work.len() == 9);
        }
        assert!(reserve.at_work.contains(&11), "{:?}", reserve.at_work);
        assert_eq!((reserve.at_work.len(), reserve.untried), (8, 0));
    }

    #[test]
    fn only_times_in_which_it_is_fed_count() {
        let mut delivered = [0; 17];
        let mut reserve = Reserve::new(17, 8, at(0));
        // Calls of 250 ms: in the last 100 of them, and the 50 until the next, the one on trial is given nothing. Only the eleventh has a way of
        // its own, and no more than five thirds of what each of the others has.
        for ms in 0..10_000 {
            let sending = match ms % 300 {
                0..150 => Sending::Fed,
                150..250 => Sending::Unfed,
                _ => Sending::Nothing,
            };
            for it in reserve.at_work.clone() {
                let has = match sending {
                    Sending::Fed => true,
                    Sending::Unfed => reserve.on_trial() != Some(it),
                    Sending::Nothing => false,
                };
                let speed = if it == 11 { 25_000 } else { 15_000 };
                delivered[it] += if has { speed } else { 0 };
            }
            reserve.look(LARGE, sending, |it| delivered[it], |_| None, at(ms));
        }
        assert!(reserve.at_work.contains(&11), "{:?}", reserve.at_work);
        assert_eq!((reserve.at_work.len(), reserve.untried), (8, 0));
    }

    #[test]
    fn calls_that_have_little_to_send_do_not_count() {
        let mut delivered = [0; 4];
        let mut reserve = Reserve::new(4, 2, at(0));
        // Of large calls, every other 10 ms, the third has twice as much as each of the others, of small ones nothing.
        for ms in 0..1300 {
            let large = ms % 20 < 10;
            let (owed, third) = if large { (LARGE, 30_000) } else { (ENOUGH, 0) };
            delivered = [0, delivered[1] + 15_000, delivered[2] + 15_000, delivered[3] + third];
            reserve.look(owed, Sending::Fed, |it| delivered[it], |_| None, at(ms));
        }
        assert!(reserve.at_work.contains(&3), "{:?}", reserve.at_work);
    }

    #[test]
    fn one_that_cannot_be_fed_does_not_stay_on_trial() {
        let mut reserve = Reserve::new(4, 2, at(0));
        let mut look = |ms: u64, sending| {
            reserve.look(LARGE, sending, |_| 0, |_| None, at(ms));
            reserve.at_work.clone()
        };
        assert_eq!(look(0, Sending::Unfed), [1, 2, 3]);
        // An hour without calls does not count, nor a minute in which it is given all it takes of a slow way.
        assert_eq!(look(1, Sending::Nothing), [1, 2, 3]);
        assert_eq!(look(3_600_000, Sending::Fed), [1, 2, 3]);
        assert_eq!(look(3_660_000, Sending::Unfed), [1, 2, 3]);
        assert_eq!(look(3_664_999, Sending::Unfed), [1, 2, 3]);
        assert_eq!(look(3_665_000, Sending::Unfed), [1, 2]);
    }

    #[test]
    fn those_that_are_as_fast_stay_in_reserve() {
        let mut delivered = [0; 17];
        let mut reserve = Reserve::new(17, 8, at(0));
        for second in 0..9 {
            go_on(&mut reserve, &mut delivered, 1000 * second, |_| 20_000);
        }
        assert_eq!(reserve.at_work, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_trial_waits_until_there_was_enough_to_send() {
        let mut delivered = [0; 4];
        let mut reserve = Reserve::new(4, 2, at(0));
        for second in 0..5 {
            go_on(&mut reserve, &mut delivered, 1000 * second, |_| 0);
        }
        assert_eq!(reserve.at_work, [1, 2, 3]);
        let mut none = Reserve::new(2, 8, at(0));
        none.look(LARGE, Sending::Fed, |_| 0, |_| None, at(0));
        assert_eq!(none.at_work, [1]);
        assert!(Reserve::new(0, 8, at(0)).at_work.is_empty());
    }

    #[test]
    fn when_most_have_become_slow_all_are_tried_again_once() {
        let mut reserve = Reserve::new(9, 4, at(0));
        reserve.untried = 0;
        let look = |reserve: &mut Reserve, rates: [f64; 4]| {
            let rate = |it: usize| rates.get(it - 1).copied();
            reserve.look(LARGE, Sending::Fed, |_| 0, rate, Instant::from_ps(1));
            reserve.untried
        };
        assert_eq!(look(&mut reserve, [9.0, 9.0, 9.0, 2.0]), 0);
        assert_eq!(look(&mut reserve, [1.0, 1.0, 9.0, 9.0]), 0);
        assert_eq!((look(&mut reserve, [1.0, 1.0, 1.0, 9.0]), reserve.on_trial()), (4, Some(5)));
        reserve.untried = 0;
        assert_eq!(look(&mut reserve, [1.0, 1.0, 1.0, 9.0]), 0);
    }

    #[test]
    fn little_goes_by_few_and_the_fastest() {
        let mut reserve = Reserve::new(17, 8, at(0));
        let rate = |it: usize| [3, 5, 6].contains(&it).then_some(it as f64);
        assert_eq!(reserve.carriers(LARGE, rate), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(reserve.carriers(8 * ENOUGH, rate).len(), 8);
        assert_eq!(reserve.carriers(4 * ENOUGH, rate), [6, 5, 3, 1]);
        assert_eq!(reserve.carriers(1, rate), [6, 5]);
        // No trial has begun in calls that are too small for one more.
        reserve.look(8 * ENOUGH, Sending::Fed, |_| 0, |_| None, at(0));
        assert_eq!(reserve.at_work.len(), 8);
        reserve.look(9 * ENOUGH, Sending::Fed, |_| 0, |_| None, at(0));
        assert_eq!(reserve.at_work.len(), 9);
        // Without a reserve all carry all.
        assert_eq!(Reserve::new(5, 4, at(0)).carriers(0, rate), [1, 2, 3, 4]);
    }
}
