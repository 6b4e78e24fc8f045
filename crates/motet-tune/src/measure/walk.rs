//! [`walk`]: measures all points of a plan within a budget, then takes a second look at those where a setting was
//! faster than NCCL's own choice.
//!
//! At the smallest size of a collective every algorithm with every protocol is tried; what NCCL does not offer there
//! it offers at no size. At every other size those that it offers are tried again, for one round at least: what is
//! four times as slow at 1 MiB may be the fastest at 8 MiB. If there is too little time for all of them, those are
//! tried that did best at the nearest smaller size. The best few are then also timed with other numbers of channels,
//! and all of these race each other.

use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration};

use super::point::Point;
use super::race::{MOST_ROUNDS, Race};
use super::{Bench, Setting, Task, Tried};

/// Numbers of channels that are asked for, beside NCCL's own number.
const CHANNELS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// How many algorithms with protocols are tried with other numbers of channels, and how many times as slow as the best
/// these may be.
const EXPANDED: usize = 3;
const EXPANDED_WITHIN: f64 = 1.3;
/// Rounds that are run before other numbers of channels are tried.
const FIRST_ROUNDS: usize = 3;
/// How long a setting should run in a round, and with how many calls at most.
const SAMPLE: Duration = Duration::from_us(4000);
const MOST_CALLS: u64 = 40;
/// An algorithm with a protocol is tried only if there is time for this many rounds with it; a number of channels only
/// if there is time for the second many.
const LEAST_ROUNDS: u64 = 2;
const AFFORDED_ROUNDS: u64 = 4;
/// The share of the budget for the first look; the rest is for the second.
const FIRST_LOOK_PERCENT: u64 = 75;
/// The rounds of a race in the second look.
const CONFIRMING_ROUNDS: usize = 9;

/// Progress of the measurement.
#[derive(Clone, Copy, Debug)]
pub enum WalkEvent<'a> {
    Measuring(Task),
    Measured(&'a Point),
    Confirming(Task),
    Confirmed(&'a Point),
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The tasks to measure, in any order.
    pub tasks: Vec<Task>,
    /// Points that a run which was stopped has measured already.
    pub known: Vec<Point>,
}

/// Measures all tasks, smallest sizes first, as far as the budget goes. `each` is told of every point when it is
/// finished.
///
/// # Errors
/// When the bench fails; points that `each` was told of are complete.
pub fn walk<B: Bench>(
    bench: &mut B,
    walk: Walk,
    each: &mut dyn FnMut(WalkEvent<'_>),
) -> Result<Vec<Point>, B::Error> {
    let mut tasks = walk.tasks;
    tasks.sort_by_key(|it| (it.size, it.kind.name()));
    let mut points = walk.known;
    let known = |points: &[Point], task: &Task| points.iter().any(|it| it.task() == *task);
    tasks.retain(|it| !known(&points, it));
    let all = bench.left();
    let reserved = Duration::from_ps(all.as_ps() / 100 * (100 - FIRST_LOOK_PERCENT));
    for (at, task) in tasks.iter().enumerate() {
        let left = bench.left() - reserved;
        if left.is_zero() {
            break;
        }
        let weights: u64 = tasks[at..].iter().map(weight).sum();
        let share = left.as_ps() / weights.max(1) * weight(task);
        each(WalkEvent::Measuring(*task));
        let smaller = smaller(&points, task);
        let begun = bench.left();
        let point = Measuring { bench, task: *task, until: share, begun }.point(&smaller)?;
        each(WalkEvent::Measured(&point));
        points.push(point);
    }
    points.sort_by_key(|it| (it.collective.name(), it.size_bytes));
    confirm(bench, &mut points, each)?;
    Ok(points)
}

/// How much of the budget a task gets relative to others. It grows with the size, as large calls are slow, but not in
/// proportion.
fn weight(task: &Task) -> u64 {
    2 + (task.size.get() / Bytes::mib(4).get()).min(32)
}

/// The points of the same collective at smaller sizes, the largest first.
fn smaller<'a>(points: &'a [Point], task: &Task) -> Vec<&'a Point> {
    let smaller = |it: &&Point| it.collective == task.kind && it.size_bytes < task.size.get();
    let mut found: Vec<&Point> = points.iter().filter(smaller).collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.size_bytes));
    found
}

/// The second look, on fresh communicators: a winner that is not faster there too is given up for NCCL's own choice.
fn confirm<B: Bench>(
    bench: &mut B,
    points: &mut [Point],
    each: &mut dyn FnMut(WalkEvent<'_>),
) -> Result<(), B::Error> {
    let open = |it: &Point| it.winner.is_some() && !it.confirmed;
    if !points.iter().any(open) || bench.left().is_zero() {
        return Ok(());
    }
    bench.renew()?;
    // Small calls are quick, and gain most.
    let mut order: Vec<usize> = (0..points.len()).filter(|it| open(&points[*it])).collect();
    order.sort_by_key(|it| points[*it].size_bytes);
    for at in order {
        if bench.left().is_zero() {
            break;
        }
        let point = &mut points[at];
        let Some(winner) = point.winner else { continue };
        each(WalkEvent::Confirming(point.task()));
        let settings = [Setting::Own, winner];
        let right = matches!(bench.try_once(point.task(), winner)?, Tried::Right(_));
        let mut race = Race::new(settings.len());
        let calls = calls(point.of(Setting::Own).map(super::point::Times::median));
        while right && race.rounds() < CONFIRMING_ROUNDS && !race.standing().is_empty() {
            let round: Vec<Setting> = race.round().iter().map(|it| settings[*it]).collect();
            race.add(&bench.time(point.task(), &round, calls)?);
        }
        for (number, setting) in settings.into_iter().enumerate() {
            point.add(setting, race.times(number));
        }
        if race.winner().is_some() {
            point.confirmed = true;
        } else {
            point.winner = None;
        }
        each(WalkEvent::Confirmed(point));
    }
    Ok(())
}

fn calls(time: Option<Duration>) -> u32 {
    let time = time.unwrap_or(Duration::ZERO).as_ps().max(1);
    // At most forty.
    (SAMPLE.as_ps() / time).clamp(1, MOST_CALLS) as u32
}

/// One point being measured.
struct Measuring<'a, B> {
    bench: &'a mut B,
    task: Task,
    /// How much of the budget the point may take, in ps, and how much of it was left when the point began.
    until: u64,
    begun: Duration,
}

impl<B: Bench> Measuring<'_, B> {
    fn point(mut self, smaller: &[&Point]) -> Result<Point, B::Error> {
        let mut point = Point {
            collective: self.task.kind,
            size_bytes: self.task.size.get(),
            own_is: None,
            times: Vec::new(),
            winner: None,
            confirmed: false,
            wrong: Vec::new(),
        };
        self.offered(&mut point, vec![Setting::Own])?;
        // Ranks' first calls are slower; this one only says how many there is time for.
        let time = self.bench.time(self.task, &[Setting::Own], 1)?.first().copied();
        let mut first = first(smaller);
        first.truncate(self.affordable(time, LEAST_ROUNDS).max(1));
        let first = self.offered(&mut point, first)?;
        let mut settings = vec![Setting::Own];
        settings.extend(first);
        let race = self.race(&mut point, &settings, calls(time), FIRST_ROUNDS)?;
        let second = expanded(&settings, &race);
        let known = |it: &Setting| settings.contains(it);
        let (old, mut new): (Vec<Setting>, Vec<Setting>) = second.into_iter().partition(known);
        let time = point.of(Setting::Own).map(super::point::Times::median);
        new.truncate(self.affordable(time, AFFORDED_ROUNDS));
        let new = self.offered(&mut point, new)?;
        let mut settings = vec![Setting::Own];
        settings.extend(old.into_iter().chain(new));
        let race = self.race(&mut point, &settings, calls(time), MOST_ROUNDS)?;
        point.winner = race.winner().map(|it| settings[it]);
        Ok(point)
    }

    /// How many settings can race for `rounds` rounds in the time left for the point, if each takes as long as NCCL's
    /// own choice.
    fn affordable(&self, own: Option<Duration>, rounds: u64) -> usize {
        let round = own.map_or(0, |it| it.as_ps() * u64::from(calls(own) + 1));
        let spent = (self.begun - self.bench.left()).as_ps();
        let left = self.until.saturating_sub(spent);
        usize::try_from(left / (round * rounds).max(1)).unwrap_or(usize::MAX)
    }

    /// Tries each setting once, and returns those that run and give right results.
    fn offered(&mut self, point: &mut Point, all: Vec<Setting>) -> Result<Vec<Setting>, B::Error> {
        let mut offered = Vec::new();
        for setting in all {
            match self.bench.try_once(self.task, setting)? {
                Tried::Right(own) => {
                    point.own_is = point.own_is.or(own);
                    offered.push(setting);
                }
                Tried::NotOffered => {}
                Tried::Wrong => point.wrong.push(setting),
            }
        }
        Ok(offered)
    }

    /// Races settings until the race is over, `rounds` rounds have been run, or the time is up.
    fn race(
        &mut self,
        point: &mut Point,
        settings: &[Setting],
        calls: u32,
        rounds: usize,
    ) -> Result<Race, B::Error> {
        let mut race = Race::new(settings.len());
        loop {
            let round: Vec<Setting> = race.round().iter().map(|it| settings[*it]).collect();
            race.add(&self.bench.time(self.task, &round, calls)?);
            let spent = (self.begun - self.bench.left()).as_ps();
            // Two rounds at least, or nothing could be said at all.
            let late = race.rounds() >= 2 && spent >= self.until;
            if race.is_over() || race.rounds() >= rounds || late {
                break;
            }
        }
        for (number, setting) in settings.iter().enumerate() {
            point.add(*setting, race.times(number));
        }
        Ok(race)
    }
}

/// The settings to begin with: the winner of the nearest smaller size, then all algorithms with protocols that were
/// timed at smaller sizes, by their ratio at the nearest of them. At the smallest size, all there are.
fn first(smaller: &[&Point]) -> Vec<Setting> {
    let all = Algorithm::ALL.into_iter().flat_map(|algorithm| {
        Protocol::ALL.map(|protocol| Setting::Asked { algorithm, protocol, channels: None })
    });
    if smaller.is_empty() {
        return all.collect();
    }
    let ratio = |point: &Point, setting: Setting| {
        let time = |it: Setting| point.of(it).map(|it| it.median().as_us_f64());
        Some(time(setting)? / time(Setting::Own)?.max(1e-6))
    };
    let last = |setting: Setting| smaller.iter().find_map(|it| ratio(it, setting));
    let mut known: Vec<(f64, Setting)> = all.filter_map(|it| Some((last(it)?, it))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let winner = smaller.first().and_then(|it| it.winner);
    let mut chosen: Vec<Setting> = winner.into_iter().collect();
    chosen.extend(known.into_iter().map(|it| it.1).filter(|it| Some(*it) != winner));
    chosen
}

/// The best settings of a race; the algorithms and protocols of the first few also with other numbers of channels.
fn expanded(settings: &[Setting], race: &Race) -> Vec<Setting> {
    let standing = race.standing();
    let best = standing.first().map_or(1.0, |it| it.1).min(1.0);
    let near = |it: &(usize, f64)| it.1 <= best * EXPANDED_WITHIN;
    let mut chosen: Vec<Setting> = Vec::new();
    let mut bases: Vec<Setting> = Vec::new();
    for (number, _) in standing.into_iter().filter(near) {
        let setting = settings[number];
        chosen.push(setting);
        let Setting::Asked { algorithm, protocol, .. } = setting else { continue };
        let base = Setting::Asked { algorithm, protocol, channels: None };
        if bases.len() < EXPANDED && !bases.contains(&base) {
            bases.push(base);
        }
    }
    for base in bases {
        let more = CHANNELS.map(|it| base.with_channels(it));
        chosen.extend(more.into_iter().filter(|it| !settings.contains(it)));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_collective::CollectiveKind;
    use motet_units::Seed;
    use rand::RngExt as _;

    /// NCCL as it might be: Tree/LL is best up to 64 KiB, Ring/Simple with one channel above, Tree/Simple from 16 MiB on, and in between nothing
    /// gains. In the second session Ring/LL128, which has seemed fastest at 2 KiB, is slow.
    struct Made {
        left: u64,
        session: u32,
        draws: motet_units::Stream,
        wrong: Option<Setting>,
        calls: u64,
    }

    fn asked(algorithm: Algorithm, protocol: Protocol, channels: Option<u32>) -> Setting {
        Setting::Asked { algorithm, protocol, channels }
    }

    fn made(left: Duration) -> Made {
        let draws = Seed::new(3).stream("noise");
        Made { left: left.as_ps(), session: 1, draws, wrong: None, calls: 0 }
    }

    impl Made {
        fn us(&self, task: Task, setting: Setting) -> f64 {
            let base = 100.0 + task.size.get() as f64 / 5000.0;
            let factor = match setting {
                Setting::Asked { algorithm: Algorithm::Tree, protocol: Protocol::Ll, .. } => {
                    if task.size <= Bytes::kib(64) { 0.6 } else { 2.0 }
                }
                Setting::Asked {
                    algorithm: Algorithm::Ring,
                    protocol: Protocol::Simple,
                    channels,
                } => match channels {
                    Some(1) if task.size < Bytes::mib(4) && task.size > Bytes::kib(64) => 0.8,
                    _ => 1.1,
                },
                Setting::Asked { protocol: Protocol::Ll128, .. } if task.size == Bytes::kib(2) => {
                    if self.session == 1 {
                        0.5
                    } else {
                        1.5
                    }
                }
                // Hopeless up to 4 MiB, and the best from 16 MiB on.
                Setting::Asked {
                    algorithm: Algorithm::Tree, protocol: Protocol::Simple, ..
                } => {
                    if task.size >= Bytes::mib(16) {
                        0.7
                    } else {
                        4.0
                    }
                }
                Setting::Own => 1.0,
                _ => 1.4,
            };
            base * factor
        }
    }

    impl Bench for Made {
        type Error = String;

        fn try_once(&mut self, _: Task, setting: Setting) -> Result<Tried, String> {
            Ok(match setting {
                _ if Some(setting) == self.wrong => Tried::Wrong,
                Setting::Asked { algorithm: Algorithm::Tree | Algorithm::Ring, .. } => {
                    Tried::Right(None)
                }
                Setting::Own => Tried::Right(Some(asked(Algorithm::Ring, Protocol::Ll, None))),
                Setting::Asked { .. } => Tried::NotOffered,
            })
        }

        fn time(
            &mut self,
            task: Task,
            settings: &[Setting],
            calls: u32,
        ) -> Result<Vec<Duration>, String> {
            let mut times = Vec::new();
            for setting in settings {
                assert_ne!(Some(*setting), self.wrong, "what is wrong is not timed");
                let noise = 1.0 + 0.06 * (self.draws.random::<f64>() - 0.5);
                let time = Duration::from_ps((self.us(task, *setting) * noise * 1e6) as u64);
                self.left = self.left.saturating_sub(time.as_ps() * u64::from(calls + 1));
                self.calls += 1;
                times.push(time);
            }
            Ok(times)
        }

        fn renew(&mut self) -> Result<(), String> {
            self.session += 1;
            Ok(())
        }

        fn left(&self) -> Duration {
            Duration::from_ps(self.left)
        }
    }

    fn tasks() -> Vec<Task> {
        let kinds = [CollectiveKind::AllReduce, CollectiveKind::AllGather];
        let sizes = (10..=26).map(|it| Bytes::new(1 << it));
        sizes.flat_map(|size| kinds.map(|kind| Task { kind, size })).collect()
    }

    fn points(bench: &mut Made, known: Vec<Point>) -> Vec<Point> {
        walk(bench, Walk { tasks: tasks(), known }, &mut |_| {}).unwrap()
    }

    #[test]
    fn the_best_is_found_everywhere_and_what_gains_once_only_is_not_kept() {
        let mut bench = made(Duration::from_ms(120_000));
        let points = points(&mut bench, Vec::new());
        assert_eq!((points.len(), bench.session), (tasks().len(), 2));
        for point in &points {
            let choice = point.choice();
            let expected = match point.size_bytes {
                2048 => Setting::Own,
                0..=0x1_0000 => asked(Algorithm::Tree, Protocol::Ll, None),
                0x1_0001..0x40_0000 => asked(Algorithm::Ring, Protocol::Simple, Some(1)),
                0x100_0000.. => asked(Algorithm::Tree, Protocol::Simple, None),
                _ => Setting::Own,
            };
            let base = |it| match it {
                // Of equals any number of channels.
                Setting::Asked { algorithm: Algorithm::Tree, protocol, .. } => {
                    asked(Algorithm::Tree, protocol, None)
                }
                other => other,
            };
            assert_eq!(base(choice), expected, "{:?}", point.task());
            assert_eq!(point.own_is, Some(asked(Algorithm::Ring, Protocol::Ll, None)));
        }
    }

    #[test]
    fn a_budget_is_kept_and_what_is_known_is_not_measured_again() {
        let mut bench = made(Duration::from_ms(4000));
        let first = points(&mut bench, Vec::new());
        assert!(!first.is_empty() && first.len() < tasks().len(), "{}", first.len());
        let known = first.clone();
        let mut bench = made(Duration::from_ms(120_000));
        let second = points(&mut bench, known);
        assert_eq!(second.len(), tasks().len());
        for point in first.iter().filter(|it| it.confirmed) {
            assert!(second.contains(point));
        }
        let mut none = made(Duration::ZERO);
        assert_eq!(points(&mut none, Vec::new()), []);
        assert_eq!(none.calls, 0);
    }

    #[test]
    fn what_gives_wrong_results_is_never_chosen() {
        let wrong = asked(Algorithm::Tree, Protocol::Ll, None);
        let mut bench = Made { wrong: Some(wrong), ..made(Duration::from_ms(120_000)) };
        for point in points(&mut bench, Vec::new()) {
            assert!(point.of(wrong).is_none() && point.choice() != wrong);
            assert!(point.size_bytes > 1024 || point.wrong == [wrong]);
        }
    }
}
