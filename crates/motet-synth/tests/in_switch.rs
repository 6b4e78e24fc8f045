//! The method `in-switch`: near its bound where switches serve programs, refused where they do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use motet_collective::CollectiveKind;
use motet_collective::bound::HeldAgainst;
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_synth::{Effort, Goal, Method, Synthesis, Task, synthesize};
use motet_units::{Bytes, Rank, Seed};
use proptest::prelude::*;

fn template(kind: &str, words: &[&str]) -> Network {
    find(kind).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

fn made(task: &Task<'_>, method: Method) -> Synthesis {
    synthesize(task, method, &Effort::normal(Seed::new(1))).unwrap().prove(task).unwrap()
}

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
];

/// What issue 14 asks for: within 2% of the bound on one H100 box.
#[test]
fn within_two_percent_on_one_box() {
    for network in [template("dgx-h100", &[]), template("dgx-h200", &["detail=full"])] {
        for kind in KINDS {
            let goal = Goal::rooted(kind, 8, Rank(3)).unwrap();
            let task = Task::new(&network, goal, Bytes::gib(1)).with_switches();
            let made = made(&task, Method::InSwitch);
            let bound = task.bound().unwrap();
            assert_eq!(bound.held_against(&made.program), HeldAgainst::WholeGroup, "{kind}");
            let least = bound.least(HeldAgainst::WholeGroup, task.size).as_ps() as f64;
            let ratio = made.time.as_ps() as f64 / least;
            assert!((1.0..1.02).contains(&ratio), "{kind}: {ratio}");
        }
    }
}

/// 450 GB/s both ways: a ninth of what crosses a link is the sum that comes back to be stored.
#[test]
fn the_bound_of_nvls() {
    let network = template("dgx-h100", &[]);
    let of = |kind| {
        let task = Task::new(&network, Goal::new(kind, 8).unwrap(), Bytes::gib(1));
        task.bound().unwrap().in_switch.unwrap().algbw().unwrap().to_f64()
    };
    assert!((of(CollectiveKind::AllReduce) - 400.0).abs() < 1e-9);
    assert!((of(CollectiveKind::AllGather) - 450.0).abs() < 1e-9);
    assert!((of(CollectiveKind::ReduceScatter) - 450.0).abs() < 1e-9);
    let older = template("dgx-a100", &[]);
    let task = Task::new(&older, Goal::new(CollectiveKind::AllReduce, 8).unwrap(), Bytes::gib(1));
    assert_eq!(task.bound().unwrap().in_switch, None);
}

#[test]
fn auto_takes_it_where_it_pays_and_may() {
    let network = template("dgx-h100", &[]);
    let goal = |kind| Goal::new(kind, 8).unwrap();
    let task = Task::new(&network, goal(CollectiveKind::AllReduce), Bytes::gib(1));
    assert_eq!(made(&task.clone().with_switches(), Method::Auto).method.name(), "in-switch");
    assert_ne!(made(&task, Method::Auto).method.name(), "in-switch");
    // GPUs need not send their own part to themselves.
    let task = Task::new(&network, goal(CollectiveKind::AllGather), Bytes::gib(1)).with_switches();
    assert_ne!(made(&task, Method::Auto).method.name(), "in-switch");
    // Neither between boxes nor over links that may not be used.
    let two = template("dgx-h100", &["count=2", "fabric=direct"]);
    let goal = Goal::new(CollectiveKind::AllReduce, 16).unwrap();
    let task = Task::new(&two, goal, Bytes::gib(1)).with_switches();
    let refused = synthesize(&task, Method::InSwitch, &Effort::normal(Seed::new(1))).unwrap_err();
    assert!(refused.to_string().contains("reached by all ranks"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Proved right, and never faster than its bound (`prove` refuses what is).
    #[test]
    fn right_at_any_size(kind in 0usize..5, ranks in 2u32..9, size in 1u64..200_000_000) {
        let network = template("dgx-b200", &[]);
        let goal = Goal::rooted(KINDS[kind], ranks, Rank(ranks - 1)).unwrap();
        let task = Task::new(&network, goal, Bytes::new(size)).with_switches();
        let made = made(&task, Method::InSwitch);
        prop_assert!(made.program.uses_switches());
    }
}
