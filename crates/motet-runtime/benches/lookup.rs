//! What a decision costs with 10,000 entries: alone, and while another thread swaps tables.
//! `cargo bench -p motet-runtime`. Criterion gives means of many; the lines before give the median
//! of single decisions, each timed by itself, less what timing takes.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to say")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration as Wall, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use motet_runtime::{
    Algorithm, Bucket, Call, Candidate, Choice, Collective, Entry, Key, Knobs, Method, Protocol,
    Runtime, Setting, Signature, Table, View,
};
use motet_units::{Bytes, Duration};

const ENTRIES: usize = 10_000;
const SIGNATURE: Signature = Signature(7);

fn keys() -> impl Iterator<Item = Key> {
    // Five collectives, 1 B to 1 GiB, and as many numbers of ranks as it takes.
    (2u32..).flat_map(|ranks| {
        Collective::ALL[..5].iter().flat_map(move |collective| {
            (0..31).filter_map(Bucket::new).map(move |bucket| Key {
                signature: SIGNATURE,
                collective: *collective,
                ranks,
                bucket,
            })
        })
    })
}

fn view(version: u32) -> Arc<View> {
    // Of 7 × 3 × 6 × 5 = 630 settings, as of a knob space's better part.
    let candidate = |number: usize| {
        let knobs = Knobs {
            protocol: Some(Protocol::ALL[number % 3]),
            channels: Some(1 << (number / 21 % 6)),
            threads: Some(version * 32),
            buffer: Some(Bytes::kib(256 << (number / 126 % 5))),
        };
        let method = Method::Nccl { algorithm: Some(Algorithm::ALL[number / 3 % 7]) };
        Candidate { setting: Setting { method, knobs }, expected: Duration::from_us(80) }
    };
    let entry = |(number, key)| Entry { key, candidates: vec![candidate(number), candidate(0)] };
    let entries = keys().take(ENTRIES).enumerate().map(entry);
    Arc::new(View::new(Table::new(entries.collect()).unwrap(), SIGNATURE))
}

/// Calls that jump about the table, as calls of different sizes do.
fn calls() -> Vec<Call> {
    let keys: Vec<Key> = keys().take(ENTRIES).collect();
    let call = |key: Key| Call {
        collective: key.collective,
        bytes: Bytes::new((1 << key.bucket.log2()) + 3),
        ranks: key.ranks,
    };
    (0..ENTRIES).map(|it| call(keys[it * 6151 % ENTRIES])).collect()
}

fn decide(runtime: &Runtime, call: &Call) -> u32 {
    let decision = runtime.decide(runtime.begin(), call).unwrap();
    match decision.choice() {
        Choice::Setting(it) => it.knobs.threads.unwrap(),
        Choice::LibraryDefault(_) => 0,
    }
}

/// Runs `work` while another thread swaps tables, once every `pause`.
fn while_swapping<T>(runtime: &Runtime, pause: Wall, work: impl FnOnce() -> T) -> T {
    let views = [view(1), view(2)];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for it in views.iter().cycle() {
                if stop.load(Relaxed) {
                    return;
                }
                runtime.install(Arc::clone(it));
                let since = Instant::now();
                while since.elapsed() < pause {
                    std::hint::spin_loop();
                }
            }
        });
        let result = work();
        stop.store(true, Relaxed);
        result
    })
}

/// How often something took so many ns; keeping every time would push the table out of the cache.
struct Histogram(Vec<u32>);

impl Histogram {
    fn add(&mut self, time: Wall) {
        let last = self.0.len() - 1;
        self.0[(time.as_nanos() as usize).min(last)] += 1;
    }

    fn percentile(&self, percent: u64) -> usize {
        let all: u64 = self.0.iter().copied().map(u64::from).sum();
        let mut below = 0;
        let reached = self.0.iter().position(|it| {
            below += u64::from(*it);
            below * 100 > all * percent
        });
        reached.unwrap_or(self.0.len())
    }
}

/// The median and the 99th percentile of single decisions, in ns, less the median of timing
/// nothing.
fn print_percentiles(name: &str, runtime: &Runtime) {
    let calls = calls();
    let [mut nothing, mut decisions] = [(); 2].map(|()| Histogram(vec![0; 4096]));
    for call in calls.iter().cycle().take(100 * ENTRIES) {
        let start = Instant::now();
        let ready = Instant::now();
        black_box(decide(runtime, black_box(call)));
        let end = Instant::now();
        nothing.add(ready - start);
        decisions.add(end - ready);
    }
    let clock = nothing.percentile(50);
    let [median, high] = [50, 99].map(|it| decisions.percentile(it).saturating_sub(clock));
    println!("{name}: median {median} ns, 99th percentile {high} ns (clock {clock} ns)");
}

fn lookup(c: &mut Criterion) {
    let runtime = Runtime::default();
    runtime.install(view(1));
    assert_ne!(decide(&runtime, &calls()[17]), 0);
    let swaps = [("swaps every 100 µs", 100), ("swaps without pause", 0)];
    print_percentiles("decide, alone", &runtime);
    for (name, pause) in swaps {
        while_swapping(&runtime, Wall::from_micros(pause), || {
            print_percentiles(&format!("decide, {name}"), &runtime);
        });
    }
    let calls = calls();
    let mut group = c.benchmark_group("decide, 10,000 entries");
    group.sample_size(50).warm_up_time(Wall::from_secs(1)).measurement_time(Wall::from_secs(4));
    let mut next = calls.iter().cycle();
    group.bench_function("alone", |b| {
        b.iter(|| decide(&runtime, black_box(next.next().unwrap())));
    });
    for (name, pause) in swaps {
        while_swapping(&runtime, Wall::from_micros(pause), || {
            group.bench_function(name, |b| {
                b.iter(|| decide(&runtime, black_box(next.next().unwrap())));
            });
        });
    }
    group.finish();
    c.bench_function("read 10,000 entries", |b| {
        let text = view(1).table().write();
        b.iter(|| Table::read(black_box(&text)).unwrap());
    });
}

criterion_group!(benches, lookup);
criterion_main!(benches);
