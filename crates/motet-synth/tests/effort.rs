//! Effort and time: a limit never leaves the caller without a program, and without a clock the same
//! effort gives the same program.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_net::formats::cluster_toml;
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Rank, Seed};

const KINDS: [CollectiveKind; 9] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
    CollectiveKind::Gather,
    CollectiveKind::Scatter,
    CollectiveKind::AllToAll,
    CollectiveKind::SendRecv,
];

fn build(words: &str) -> Network {
    let (name, params) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(params.split_whitespace()).unwrap();
    find(name).unwrap().build(&params).unwrap()
}

fn task(network: &Network, kind: CollectiveKind, size: Bytes) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    let goal = match kind {
        CollectiveKind::SendRecv => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        _ => Goal::rooted(kind, ranks, Rank(0)),
    };
    Task::new(network, goal.unwrap(), size)
}

#[test]
fn whenever_time_is_up_there_is_a_right_program() {
    let network = build("mi250 count=1");
    for kind in KINDS {
        let task = task(&network, kind, Bytes::mib(1));
        // Time is up when the clock is first looked at, at the second time, and so on.
        for looks in [0, 1, 2, 5, 20] {
            let looked = AtomicU32::new(0);
            let out_of_time = || looked.fetch_add(1, Ordering::Relaxed) >= looks;
            let effort = Effort { out_of_time: &out_of_time, ..Effort::unlimited(Seed::new(1)) };
            let draft = synthesize(&task, Method::Auto, &effort).unwrap();
            draft.prove(&task).unwrap();
        }
    }
}

#[test]
fn a_single_method_without_time_says_so() {
    let network = build("mi250 count=1");
    let task = task(&network, CollectiveKind::AllGather, Bytes::mib(1));
    let effort = Effort { out_of_time: &|| true, ..Effort::unlimited(Seed::new(1)) };
    let found = synthesize(&task, Method::Forest, &effort);
    assert_eq!(found.unwrap_err(), SynthError::OutOfTime { method: "forest" });
}

#[test]
fn the_same_effort_gives_the_same_program() {
    let network = build("dgx-h100 count=2");
    for kind in [CollectiveKind::AllReduce, CollectiveKind::Broadcast, CollectiveKind::SendRecv] {
        for work in [0, 10_000, 300_000] {
            let task = task(&network, kind, Bytes::mib(1));
            let effort = Effort { work: Some(work), ..Effort::unlimited(Seed::new(1)) };
            let made = || synthesize(&task, Method::Auto, &effort).unwrap();
            let (one, other) = (made(), made());
            assert_eq!(one.method.name(), other.method.name());
            assert_eq!(one.program, other.program);
            one.prove(&task).unwrap();
        }
    }
}

#[test]
fn who_waits_is_told_what_is_tried() {
    let network = build("dgx-h100 count=2");
    let task = task(&network, CollectiveKind::AllReduce, Bytes::mib(1));
    let told = Mutex::new(Vec::new());
    let progress = |it: &motet_synth::Progress| told.lock().unwrap().push(it.clone());
    let effort = Effort { progress: &progress, ..Effort::normal(Seed::new(1)) };
    let made = synthesize(&task, Method::Auto, &effort).unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), made.tried.len());
    assert!(told[0].best.is_none());
    assert!(told.iter().all(|it| it.best.is_none_or(|best| best.1 >= made.makespan)));
}

/// Links from 1 bit/s to 64 Tbit/s: what made an exchange run for minutes.
#[test]
fn links_of_any_speed_are_no_endless_work() {
    let link = |from: &str, to: &str, bandwidth: &str, latency: &str| {
        format!(
            "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nbandwidth = \"{bandwidth}\"\nlatency = \
             \"{latency}\"\nduplex = true\n"
        )
    };
    let mut text = String::new();
    for (name, kind) in
        [("g0", "gpu"), ("g1", "gpu"), ("x0", "spine"), ("x1", "border"), ("x2", "nic")]
    {
        text += &format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
    }
    text += &link("g0", "g1", "1 bit/s", "10 ms");
    text += &link("g1", "x2", "3 MB/s", "1 ps");
    text += &link("x2", "x0", "1 bit/s", "3 us");
    text += &link("x0", "x1", "1 kbit/s", "10 ms");
    text += &link("g1", "x1", "900 GB/s", "1 ps");
    text += &link("x1", "g0", "64 Tbit/s", "3 us");
    let network = cluster_toml::read(&text, &|it| Err(it.to_owned())).unwrap().network;
    for size in [1, 1000, 1 << 20] {
        let task = task(&network, CollectiveKind::AllToAll, Bytes::new(size));
        let made = synthesize(&task, Method::Exchange, &Effort::normal(Seed::new(1))).unwrap();
        made.prove(&task).unwrap();
    }
}
