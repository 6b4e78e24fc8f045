//! Properties of every policy: equal inputs lead to equal states, a policy is never much slower than NCCL's
//! default, and learning is of use.

use std::sync::Arc;

use motet_units::{Bytes, Duration, Seed};

use super::*;
use crate::env::testing::scenario;
use crate::env::{Environment, Episode, Load, Pattern, Scenario, Timeline};
use crate::eval::{Contender, Pace, Trial};
use crate::lstm::{Net, PolicyFile, Shape, Variant};
use crate::reward::Outcome;

const SIZES: [Bytes; 4] = [Bytes::kib(4), Bytes::kib(96), Bytes::kib(768), Bytes::mib(6)];

fn busy(calls: u64, seed: u64) -> Scenario {
    let load = Load { share: 0.3, delay: 6.0, ..Load::NONE };
    let episode = Episode { calls: (calls / 3, calls * 2 / 3), pattern: Pattern::Abrupt, load };
    let mut made = scenario(&SIZES, calls, Timeline { episodes: vec![episode] }, Seed::new(seed));
    for (at, it) in made.groups[0].error.iter_mut().flatten().enumerate() {
        *it = [0.8, 1.25, 1.0, 1.1][at % 4];
    }
    made
}

/// Two instances of a policy, as on two ranks, are fed the same for a million calls.
fn stay_equal(made: &Contender, calls: u64) {
    let name = made.name();
    let (mut here, mut there) = (made.make(Seed::new(7)), made.make(Seed::new(7)));
    let mut env = Environment::new(busy(calls, 3)).unwrap();
    let start = here.checksum();
    while !env.is_over() {
        let seen = env.observe();
        let (a, b) = (here.choose(&seen), there.choose(&seen));
        assert_eq!(a, b, "{name} at call {}", seen.call);
        let outcome = env.step(a).unwrap().outcome;
        here.learn(&seen, &a, &outcome);
        there.learn(&seen, &b, &outcome);
        if seen.call.is_multiple_of(65_536) {
            assert_eq!(here.checksum(), there.checksum(), "{name} at call {}", seen.call);
        }
    }
    assert_eq!(here.checksum(), there.checksum(), "{name}");
    let learns = !["nccl", "plan", "oracle"].contains(&name);
    assert_eq!(here.checksum() != start, learns, "{name}");
    here.reset();
    assert_eq!(here.checksum(), start, "{name} after a reset");
}

fn lstm() -> Contender {
    let net = Net::new(Shape { encoder: 4, hidden: 4 }, Seed::new(1));
    let file = PolicyFile { net, variant: Variant::FULL, seed: 1, updates: 0 };
    Contender::Lstm(Arc::new(file))
}

#[test]
fn instances_fed_alike_stay_bit_equal() {
    registered().iter().for_each(|it| stay_equal(&it.into(), 3000));
    stay_equal(&lstm(), 3000);
}

/// Over a million calls; half a minute where tests are optimized little.
#[test]
fn a_policy_behind_the_trigger_stays_bit_equal_over_a_million_calls() {
    stay_equal(&find("infer-triggered").unwrap().into(), 1_000_000);
}

/// The LSTM too, whose arithmetic is `f32`.
#[test]
fn the_lstm_stays_bit_equal_over_a_million_calls() {
    stay_equal(&lstm(), 1_000_000);
}

/// Ranks whose own measurements differ cannot drift apart, because their policies are fed only what the
/// leader has published, never their own times.
#[test]
fn ranks_whose_own_times_differ_stay_bit_equal() {
    const RANKS: usize = 4;
    let all = registered().iter().map(Contender::from).chain([lstm()]);
    for made in all {
        let mut ranks: Vec<_> = (0..RANKS).map(|_| made.make(Seed::new(7))).collect();
        let mut env = Environment::new(busy(900, 3)).unwrap();
        let mut differed = 0;
        while !env.is_over() {
            let seen = env.observe();
            let choices: Vec<Choice> = ranks.iter_mut().map(|it| it.choose(&seen)).collect();
            assert!(choices.iter().all(|it| *it == choices[0]), "{} {choices:?}", made.name());
            let outcome = env.step(choices[0]).unwrap().outcome;
            // Each rank measures another time; only the leader's is published.
            let own: Vec<Outcome> = (0..RANKS as u64)
                .map(|rank| {
                    let late = outcome.time.as_ps() / 1000 * ((seen.call * 7 + rank * 13) % 50);
                    Outcome { time: Duration::from_ps(outcome.time.as_ps() + late), ..outcome }
                })
                .collect();
            differed += usize::from(own.iter().any(|it| it.time != own[0].time));
            let published = own[0];
            for rank in &mut ranks {
                rank.learn(&seen, &choices[0], &published);
            }
        }
        assert!(differed > 800);
        let sums: Vec<_> = ranks.iter().map(|it| it.checksum()).collect();
        assert!(sums.iter().all(|it| *it == sums[0]), "{}", made.name());
    }
}

/// A policy that were fed its rank's own times would drift apart from the others, which is why only published
/// times are fed.
#[test]
fn local_timings_would_make_instances_differ() {
    let made = find("infer").unwrap();
    let (mut here, mut there) = (made.make(Seed::new(7)), made.make(Seed::new(7)));
    let mut env = Environment::new(busy(300, 3)).unwrap();
    while !env.is_over() {
        let seen = env.observe();
        let choice = here.choose(&seen);
        let mut outcome = env.step(choice).unwrap().outcome;
        here.learn(&seen, &choice, &outcome);
        outcome.time = outcome.time.saturating_mul(2);
        there.learn(&seen, &choice, &outcome);
    }
    assert_ne!(here.checksum(), there.checksum());
}

#[test]
fn policies_that_learn_gain_and_are_safe() {
    for it in registered() {
        for seed in 0..4 {
            let trial = Trial::run(&it.into(), busy(3000, seed), Pace::default()).unwrap();
            let (over, best) = (trial.taken / trial.default, trial.best / trial.default);
            match it.name {
                "nccl" => assert_eq!(over, 1.0),
                "oracle" => assert_eq!(over, best),
                // A table may be wrong about a machine.
                "plan" => assert!(over >= best),
                name => {
                    assert!(over < 1.02, "{name} takes {over} of NCCL's default");
                    assert!(over < best + 0.6 * (1.0 - best), "{name}: {over}, oracle {best}");
                }
            }
        }
    }
}

/// Deciding by tables that hold for many calls costs some of the gain, but never makes a job slower than
/// allowed.
#[test]
fn tables_that_are_published_now_and_then_are_safe_too() {
    let infer = find("infer").unwrap();
    for seed in 0..4 {
        let over = |epoch, lease| {
            let trial = Trial::run(&infer.into(), busy(4000, seed), Pace { epoch, lease }).unwrap();
            assert!(trial.taken / trial.default < 1.02, "{}", trial.taken / trial.default);
            trial.taken / trial.best
        };
        let (each, tables, longer) = (over(1, 1), over(32, 1), over(32, 4));
        assert!(tables < each + 0.02, "{tables}, call by call {each}");
        assert!(longer < each + 0.04, "{longer}, call by call {each}");
    }
}

/// Probes in quiet times, false alarms included, cost less than half a percent.
#[test]
fn false_alarms_cost_next_to_nothing() {
    let made = find("infer-triggered").unwrap();
    for seed in 0..4 {
        let quiet = scenario(&SIZES, 10_000, Timeline::default(), Seed::new(seed));
        let trial = Trial::run(&made.into(), quiet, Pace::default()).unwrap();
        assert!(trial.probing / trial.taken < 0.005, "{}", trial.probing / trial.taken);
    }
}

#[test]
fn after_an_abrupt_change_the_best_is_found_again() {
    let infer = find("infer").unwrap();
    let mut all: Vec<u64> = (0..10)
        .flat_map(|it| {
            Trial::run(&infer.into(), busy(3000, it), Pace::default()).unwrap().recoveries
        })
        .collect();
    all.sort_unstable();
    assert_eq!(all.len(), 20);
    assert!(all[10] <= 50, "{all:?}");
}
