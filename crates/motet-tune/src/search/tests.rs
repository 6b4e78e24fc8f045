//! Every method on surfaces that are made up: what must hold whatever the method.

use std::collections::BTreeMap;

use motet_units::{Duration, Seed};
use proptest::prelude::*;

use super::*;
use crate::profile::{Measured, Profile, Recorded};
use crate::space::Dimension;

/// Three categories, two lines, one of which restarts; a fifth of the points are not there.
fn space() -> Space {
    let dimensions = vec![
        Dimension::categorical("kind", 3),
        Dimension::logarithmic("channels", [1, 2, 4, 8, 16]),
        Dimension::logarithmic("threads", (1..=16).map(|it| it * 32)).with_restarts(),
    ];
    Space::new(dimensions, |it| (it[0] + it[1] + it[2]) % 5 != 1).unwrap()
}

/// A valley in every category, at another place and of another depth; category 2 with most
/// channels cannot run.
fn surface(space: &Space) -> Recorded {
    let time = |it: usize| {
        let [kind, channels, threads] = space.point(it) else { panic!("three dimensions") };
        if *kind == 2 && *channels == 4 {
            return Err("too many blocks".to_owned());
        }
        let off = |at: u16, best: u16| f64::from(at.abs_diff(best)).powi(2);
        let far = 6.0 * off(*channels, kind + 1) + off(*threads, 12 - 3 * kind);
        Ok(Duration::from_us((1000.0 * (1.0 + 0.3 * f64::from(*kind)) * (1.0 + far / 40.0)) as u64))
    };
    Recorded::new((0..space.len()).map(time).collect())
}

fn noisy(space: &Space, seed: u64) -> Measured<Recorded> {
    Measured::with_noise(surface(space), 0.05, Seed::new(seed))
}

fn settings(method: Method, seed: u64) -> Settings {
    let budget = Some(Budget { trials: 5000, iterations: 30_000 });
    Settings { method, seed, budget, ..Settings::default() }
}

#[test]
fn every_method_finds_the_valley() {
    let space = space();
    let surface = surface(&space);
    let (_, best) = surface.best().unwrap();
    for method in Method::ALL {
        let outcome = Search::new(&space, settings(method, 1)).run(&mut noisy(&space, 1)).unwrap();
        let found = surface.times()[outcome.best.unwrap()].clone().unwrap();
        let ratio = found.as_us_f64() / best.as_us_f64();
        // Those that draw at random, or stop at the edge of a hole, may miss it by some.
        let may_miss = matches!(method, Method::Random | Method::Literal | Method::Coordinate);
        let most = if may_miss { 1.3 } else { 1.05 };
        assert!(ratio <= most, "{method}: {ratio}");
        assert_eq!(outcome.history.last().unwrap().cost, outcome.cost);
        assert_eq!(outcome.history.last().unwrap().recommended, outcome.best);
    }
}

#[test]
fn without_noise_one_iteration_is_enough() {
    let space = space();
    for method in [Method::Surrogate, Method::Mraco, Method::Grid] {
        let settings = Settings { method, seed: 5, ..Settings::exact() };
        let mut profiler = Measured::exactly(surface(&space));
        let outcome = Search::new(&space, settings).run(&mut profiler).unwrap();
        assert_eq!(outcome.best, Some(surface(&space).best().unwrap().0), "{method}");
        assert_eq!(outcome.stop, Some(Stop::Converged), "{method}");
        assert!(outcome.cost.iterations <= space.len() as u64);
    }
}

/// Coordinate descent needs nothing but that nothing is in its way.
#[test]
fn descent_along_coordinates() {
    let space = Space::new(space().dimensions().to_vec(), |_| true).unwrap();
    let mut profiler = Measured::exactly(surface(&space));
    let outcome = Search::new(&space, settings(Method::Coordinate, 0)).run(&mut profiler).unwrap();
    assert_eq!(outcome.best, Some(surface(&space).best().unwrap().0));
    assert!(outcome.cost.trials < 60, "{:?}", outcome.cost);
}

/// Facts about Algorithm 1 as printed: 169 profiles in rungs, 141 at full length, and what
/// they cost.
#[test]
fn the_printed_algorithm_costs_what_it_says() {
    let space = space();
    let times = vec![Ok(Duration::from_us(5)); space.len()];
    let settings = Settings { budget: None, ..settings(Method::Literal, 2) };
    let mut search = Search::new(&space, settings);
    let outcome =
        search.run(&mut Measured::with_noise(Recorded::new(times), 0.05, Seed::new(2))).unwrap();
    // Batches of rungs and of full profiles alternate.
    let count = |odd: usize| {
        let batches = search.ledger().batches().iter().skip(odd).step_by(2);
        let trials: Vec<&Trial> = batches.flatten().collect();
        let iterations: u32 = trials.iter().map(|it| it.request.iterations).sum();
        (trials.len(), iterations)
    };
    assert_eq!((count(0), count(1)), ((169, 10_309), (141, 11_421)));
    assert_eq!((outcome.cost.trials, outcome.cost.iterations), (310, 21_730));
}

#[test]
fn one_round_of_hyperband_costs_what_its_brackets_say() {
    let space = space();
    let mut search = Search::new(&space, settings(Method::Hyperband, 3));
    let mut profiler = Measured::exactly(surface(&space));
    // 5 + 4 + 3 + 2 + 1 rungs.
    for _ in 0..15 {
        assert!(search.step(&mut profiler).unwrap());
    }
    let all = |s: u32| {
        let rungs = brackets::bracket(s, 81, 3);
        let before = |at: usize| if at > 0 { rungs[at - 1].iterations } else { 0 };
        let rungs = rungs.iter().enumerate();
        rungs.map(|(at, it)| u64::from(it.points * (it.iterations - before(at)))).sum::<u64>()
    };
    let impossible =
        search.ledger().profiled().iter().filter(|it| search.ledger().record(**it).impossible);
    let most = (0..=4).map(all).sum::<u64>();
    let cost = search.ledger().cost();
    assert!(cost.iterations <= most && cost.iterations > most - 81 * impossible.count() as u64);
}

/// Where a new communicator costs something, MRACO and the surrogate need fewer.
#[test]
fn restarts_are_shared() {
    let space = space();
    let restarts = |method, restart| {
        let settings = Settings { restart, ..settings(method, 4) };
        let cost = Search::new(&space, settings).run(&mut noisy(&space, 4)).unwrap().cost;
        cost.restarts
    };
    let (free, dear) = (Duration::ZERO, Duration::from_ms(250));
    for method in [Method::Mraco, Method::Surrogate] {
        let (free, dear) = (restarts(method, free), restarts(method, dear));
        assert!(dear < free, "{method}: {dear} and {free}");
    }
    let groups =
        (0..space.len()).map(|it| space.group(it)).collect::<std::collections::BTreeSet<_>>();
    let grid = Search::new(&space, settings(Method::Grid, 4)).run(&mut noisy(&space, 4)).unwrap();
    assert_eq!(grid.cost.restarts as usize, groups.len());
}

/// A profiler that gives out after so many batches.
struct Failing<P> {
    inner: P,
    left: u32,
}

impl<P: Profiler> Profiler for Failing<P> {
    fn profile(&mut self, request: Request) -> Result<Profile, ProfileError> {
        self.inner.profile(request)
    }

    fn profile_batch(&mut self, requests: &[Request]) -> Vec<Result<Profile, ProfileError>> {
        if self.left == 0 {
            return vec![
                Err(ProfileError::Failed("the socket is closed".to_owned()));
                requests.len()
            ];
        }
        self.left -= 1;
        self.inner.profile_batch(requests)
    }
}

#[test]
fn a_failed_profiler_costs_nothing_and_the_search_goes_on() {
    let space = space();
    for method in [Method::Surrogate, Method::Mraco, Method::Hyperband] {
        let whole = Search::new(&space, settings(method, 6)).run(&mut noisy(&space, 6)).unwrap();
        let mut search = Search::new(&space, settings(method, 6));
        let error = search.run(&mut Failing { inner: noisy(&space, 6), left: 2 }).unwrap_err();
        assert_eq!(error.to_string(), "profiling failed: the socket is closed");
        assert_eq!(search.run(&mut noisy(&space, 6)).unwrap(), whole, "{method}");
    }
}

#[test]
fn states_of_other_searches_are_refused() {
    let space = space();
    let mut search = Search::new(&space, settings(Method::Mraco, 7));
    search.step(&mut noisy(&space, 7)).unwrap();
    let state = search.state();
    Search::resume(&space, &state).unwrap();
    let other = Space::new(space.dimensions().to_vec(), |_| true).unwrap();
    assert_eq!(Search::resume(&other, &state).unwrap_err(), ResumeError::Space);
    let newer = State { version: VERSION + 1, ..state.clone() };
    assert_eq!(Search::resume(&space, &newer).unwrap_err(), ResumeError::Version);
    let seed = Settings { seed: 8, ..state.settings };
    let differs = Search::resume(&space, &State { settings: seed, ..state }).unwrap_err();
    assert_eq!(differs, ResumeError::Differs { step: 0 });
}

#[test]
fn nothing_runs() {
    let space = space();
    for method in Method::ALL {
        let none = Recorded::new(vec![Err("no".to_owned()); space.len()]);
        let outcome =
            Search::new(&space, settings(method, 1)).run(&mut Measured::exactly(none)).unwrap();
        assert_eq!(
            (outcome.best, outcome.mean, outcome.stop),
            (None, None, Some(Stop::Converged)),
            "{method}"
        );
        assert_eq!(outcome.cost.iterations, 0);
    }
}

#[test]
fn names() {
    for method in Method::ALL {
        assert_eq!(method.name().parse::<Method>().unwrap(), method);
        assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
    }
    assert!("anneal".parse::<Method>().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Killed after any step and resumed from what was written: the same to the last byte. No
    /// point is profiled beyond full length, nor more than once in a batch.
    #[test]
    fn resumed_is_uninterrupted(which in 0_usize..6, seed in 0_u64..1000, after in 0_usize..30) {
        let space = space();
        let settings = settings(Method::ALL[which], seed);
        let mut search = Search::new(&space, settings);
        let mut written = serde_json::to_string(&search.state()).unwrap();
        for step in 0.. {
            if step == after {
                written = serde_json::to_string(&search.state()).unwrap();
            }
            if !search.step(&mut noisy(&space, seed)).unwrap() {
                break;
            }
        }
        let state: State = serde_json::from_str(&written).unwrap();
        let mut resumed = Search::resume(&space, &state).unwrap();
        let outcome = resumed.run(&mut noisy(&space, seed)).unwrap();
        prop_assert_eq!(&outcome, &search.outcome());
        prop_assert_eq!(
            serde_json::to_string(&resumed.state()).unwrap(),
            serde_json::to_string(&search.state()).unwrap()
        );
        for batch in search.ledger().batches() {
            let mut points = BTreeMap::new();
            batch.iter().for_each(|it| *points.entry(it.request.point).or_insert(0) += 1);
            prop_assert!(points.values().all(|it| *it == 1));
        }
        if settings.method != Method::Literal {
            for it in 0..space.len() {
                prop_assert!(search.ledger().record(it).iterations <= settings.most_iterations);
            }
        }
    }
}
