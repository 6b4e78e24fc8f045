//! Environments are reproducible, load changes what is best, and gates hold whatever a policy says.

use motet_units::{Bytes, Seed};

use super::testing::scenario;
use super::*;
use crate::policy::{Choice, Policy, fixed};
use crate::state::Library;

fn loaded(share: f64, delay: f64) -> Timeline {
    let load = Load { share, delay, ..Load::NONE };
    Timeline { episodes: vec![Episode { calls: (10, 20), pattern: Pattern::Abrupt, load }] }
}

const SIZES: [Bytes; 3] = [Bytes::kib(8), Bytes::kib(256), Bytes::mib(16)];

fn run(policy: &mut dyn Policy, scenario: Scenario) -> Vec<EnvStep> {
    let mut env = Environment::new(scenario).unwrap();
    let mut steps = Vec::new();
    while !env.is_over() {
        policy.told(env.means());
        let seen = env.observe();
        let choice = policy.choose(&seen);
        let step = env.step(choice).unwrap();
        policy.learn(&seen, &choice, &step.outcome);
        steps.push(step);
    }
    assert_eq!(env.step(Choice::DEFAULT), None);
    steps
}

#[test]
fn the_same_scenario_gives_the_same_outcomes() {
    let of = |seed| scenario(&SIZES, 60, loaded(0.25, 3.0), Seed::new(seed));
    let first = run(&mut fixed::NcclDefault, of(1));
    assert_eq!(first, run(&mut fixed::NcclDefault, of(1)));
    assert_ne!(first, run(&mut fixed::NcclDefault, of(2)));
    // Another policy meets the same loads.
    let oracle = run(&mut fixed::Oracle::default(), of(1));
    for (a, b) in first.iter().zip(&oracle) {
        assert_eq!((a.truth.best, a.truth.default), (b.truth.best, b.truth.default));
        assert_eq!(b.truth.taken, b.truth.best);
        assert!(a.truth.best <= a.truth.default);
    }
}

#[test]
fn load_slows_calls_and_changes_what_is_best() {
    let best = |timeline| {
        let steps = run(&mut fixed::NcclDefault, scenario(&SIZES, 30, timeline, Seed::new(1)));
        let at = |call: usize| (steps[call].truth.best, steps[call].truth.best_action);
        // Calls 3 to 5 are before the load, 12 to 14 under it.
        [0, 1, 2].map(|it| (at(3 + it), at(12 + it)))
    };
    let slow = best(loaded(0.125, 1.0));
    // Latency-bound calls hardly feel a loss of bandwidth; bulk takes eight times as long.
    assert!(slow[0].1.0 < 3.0 * slow[0].0.0, "{slow:?}");
    assert!(slow[2].1.0 > 6.0 * slow[2].0.0, "{slow:?}");
    let far = best(loaded(1.0, 20.0));
    assert!(far[0].1.0 > 6.0 * far[0].0.0 && far[2].1.0 < 6.0 * far[2].0.0, "{far:?}");
    assert!(slow.iter().chain(&far).any(|it| it.0.1 != it.1.1), "{slow:?} {far:?}");
}

#[test]
fn neighbours_are_felt_by_many_channels_and_faults_by_one_call() {
    let load = Load { neighbour: 1.0, ..Load::NONE };
    assert!((load.factor(32.0), load.factor(1.0)) == (2.0, 1.0 + 1.0 / 32.0));
    let fault = Load { fault: true, share: 0.5, ..Load::NONE };
    let episodes = vec![Episode { calls: (5, 9), pattern: Pattern::Abrupt, load: fault }];
    let timeline = Timeline { episodes };
    assert!(timeline.load(5).fault && !timeline.load(6).fault);
    assert_eq!((timeline.load(6).share, timeline.load(9).share), (0.5, 1.0));
    let steps = run(&mut fixed::NcclDefault, scenario(&SIZES[..1], 9, timeline, Seed::new(1)));
    let faults: Vec<bool> = steps.iter().map(|it| it.outcome.fault).collect();
    assert_eq!(faults.iter().position(|it| *it), Some(5));
    assert!(steps[5].truth.taken > 9.0 * steps[6].truth.taken);
}

#[test]
fn episodes_run_as_their_patterns_say() {
    let episode = |pattern| Episode { calls: (10, 20), pattern, load: Load::NONE };
    let drift = episode(Pattern::Drifting);
    assert_eq!((drift.strength(9), drift.strength(14), drift.strength(19)), (0.0, 0.5, 1.0));
    let beat = episode(Pattern::Periodic { period: 4, on: 1 });
    let on: Vec<u64> = (0..30).filter(|it| beat.strength(*it) > 0.0).collect();
    assert_eq!(on, [10, 14, 18]);
    assert_eq!(loaded(0.5, 1.0).changes(30), [10, 20]);
    assert_eq!(loaded(0.5, 1.0).changes(15), [10]);
}

#[test]
fn gates_hold_whatever_a_policy_says() {
    let mut other = scenario(&SIZES[..1], 1, Timeline::default(), Seed::new(1));
    let place = std::sync::Arc::get_mut(&mut other.groups[0].place).unwrap();
    place.topology.library = Library::Gloo;
    let mut env = Environment::new(other).unwrap();
    assert_eq!(env.observe().settled(), Some(Choice::DEFAULT));
    let step = env.step(Choice::best(5)).unwrap();
    assert_eq!(step.outcome.action, crate::Action::DEFAULT);
    let mut inside = scenario(&SIZES[..1], 1, Timeline::default(), Seed::new(1));
    let place = std::sync::Arc::get_mut(&mut inside.groups[0].place).unwrap();
    place.topology.in_network = true;
    let mut env = Environment::new(inside).unwrap();
    let step = env.step(Choice::best(5)).unwrap();
    assert_eq!(step.outcome.action, crate::Action::PASSTHROUGH);
}

/// Action 0 is NCCL's own choice, and the action that names this choice explicitly takes as long.
#[test]
fn the_default_is_nccls_own_choice() {
    let place = testing::sockets();
    for size in SIZES {
        let kind = motet_collective::CollectiveKind::AllReduce;
        let brief = place.brief(kind, size).unwrap();
        assert_ne!(brief.own, 0);
        assert_eq!(brief.nominal[brief.own], brief.nominal[0]);
        let tuned = motet_nccl::TunedCollective::AllReduce;
        let own = place.model().choose(tuned, size).unwrap();
        assert_eq!(brief.kernels[0], (own.algorithm, own.protocol));
        assert!(brief.nominal.iter().all(|it| *it > 0.0));
    }
}
