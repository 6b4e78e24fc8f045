//! What deciding costs: on the call path, where a call's knobs are looked up in the table that was published last
//! (at most 150 ns), and off it, where a policy chooses, learns what came of it (at most 1 ms) and its choices become a table.
//! `cargo bench -p motet-agent`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to say")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use motet_agent::env::{Atlas, Environment, Family};
use motet_agent::eval::Contender;
use motet_agent::lstm::{Net, PolicyFile, Shape, Variant};
use motet_agent::policy::{Policy, registered};
use motet_agent::{Observation, Outcome};
use motet_runtime::{
    Bucket, Call, Candidate, Choice, Collective, Entry, Key, Method, Runtime, Seen, Setting,
    Signature, Table, TableKnobs, View,
};
use motet_units::{Bytes, Duration, Seed};

/// Calls that a policy has seen before it is timed: enough for everything it keeps to be there.
const BEFORE: u64 = 1500;

const SIGNATURE: Signature = Signature(7);

/// A table as a policy publishes it: three collectives, sizes from 1 KiB to 64 MiB, one number of ranks.
fn published() -> Runtime {
    let collectives = &Collective::ALL[..3];
    let key = |collective: &Collective, bucket: Bucket| Key {
        signature: SIGNATURE,
        collective: *collective,
        ranks: 8,
        bucket,
    };
    let setting = |channels: u32| Setting {
        method: Method::Nccl { algorithm: Some(motet_runtime::Algorithm::Ring) },
        knobs: TableKnobs {
            protocol: Some(motet_runtime::Protocol::Simple),
            channels: Some(channels),
            threads: None,
            buffer: None,
            chunk: None,
        },
    };
    let entries = collectives.iter().flat_map(|it| {
        (10..=26).filter_map(Bucket::new).map(move |bucket| Entry {
            key: key(it, bucket),
            candidates: vec![Candidate { setting: setting(4), expected: Duration::from_us(80) }],
        })
    });
    let runtime = Runtime::default();
    let table = Table::new(entries.collect()).unwrap();
    runtime.install(Arc::new(View::new(table, SIGNATURE)));
    runtime
}

fn lookup(c: &mut Criterion) {
    let runtime = published();
    let mut seen = Seen::new(&runtime);
    let calls: Vec<Call> = (0..256_u64)
        .map(|it| Call {
            collective: Collective::ALL[it as usize % 3],
            bytes: Bytes::new((1 << (10 + it * 7 % 17)) + 3),
            ranks: 8,
        })
        .collect();
    let mut next = calls.iter().cycle();
    c.bench_function("on the path: look a call up in the published table", |b| {
        b.iter(|| {
            let call = black_box(next.next().unwrap());
            let decision = runtime.decide_with(&mut seen, runtime.begin(), call).unwrap();
            matches!(decision.choice(), Choice::Setting(_))
        });
    });
}

/// A policy in the middle of a scenario with a change: what it has kept, and a call with its outcome.
fn in_the_middle(contender: &Contender) -> (Box<dyn Policy>, Vec<(Observation, Outcome)>) {
    let atlas = Atlas::default();
    let scenario = Family::Abrupt.draw(&atlas, Seed::new(1).numbered(3), 2 * BEFORE).unwrap();
    let mut env = Environment::new(scenario).unwrap();
    let mut policy = contender.make(Seed::new(1));
    let mut calls = Vec::new();
    while !env.is_over() {
        let seen = env.observe();
        policy.told(env.means());
        let choice = policy.choose(&seen);
        let outcome = env.step(choice).unwrap().outcome;
        policy.learn(&seen, &choice, &outcome);
        if seen.call >= BEFORE {
            calls.push((seen, outcome));
        }
        if calls.len() == 64 {
            break;
        }
    }
    (policy, calls)
}

fn policies(c: &mut Criterion) {
    let net = Net::new(Shape { encoder: 32, hidden: 32 }, Seed::new(1));
    let file = PolicyFile { net, variant: Variant::FULL, seed: 1, updates: 0 };
    let lstm = Contender::Lstm(Arc::new(file));
    let all = registered().iter().map(Contender::from).chain([lstm]);
    let mut group = c.benchmark_group("off the path");
    group.sample_size(20);
    for contender in all.filter(|it| !["nccl", "oracle"].contains(&it.name())) {
        let (mut policy, calls) = in_the_middle(&contender);
        let mut next = calls.iter().cycle();
        group.bench_function(format!("{}: choose", contender.name()), |b| {
            b.iter(|| policy.choose(black_box(&next.next().unwrap().0)));
        });
        // An update is what one call costs a policy: it chooses and learns what came of it.
        group.bench_function(format!("{}: choose and learn", contender.name()), |b| {
            b.iter(|| {
                let (seen, outcome) = black_box(next.next().unwrap());
                let choice = policy.choose(seen);
                policy.learn(seen, &choice, outcome);
                choice
            });
        });
    }
    group.finish();
}

criterion_group!(benches, lookup, policies);
criterion_main!(benches);
