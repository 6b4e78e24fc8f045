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
    Algorithm, Bucket, Call, Candidate, Choice, Collective, Entry, Key, Method, Protocol, Runtime,
    Seen, Setting, Signature, Table, TableKnobs, View,
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
        let knobs = TableKnobs {
            protocol: Some(Protocol::ALL[number % 3]),
            channels: Some(1 << (number / 21 % 6)),
            threads: Some(version * 32),
            buffer: Some(Bytes::kib(256 << (number / 126 % 5))),
            chunk: None,
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

fn decide(runtime: &Runtime, seen: &mut Seen, call: &Call) -> u32 {
    let decision = runtime.decide_with(seen, runtime.begin(), call).unwrap();
    match decision.choice() {
        Choice::Setting(it) => it.knobs.threads.unwrap(),
        Choice::LibraryDefault(_) => 0,
    }
}

/// How another thread swaps meanwhile: what to call it, the pause after each swap in µs, and among how
/// many tables: more than two are more than a reader keeps, so that each is as good as new to it.
const SWAPS: [(&str, u64, u32); 3] = [
    ("swaps every 100 µs", 100, 8),
    ("swaps without pause", 0, 8),
    ("swaps of two tables without pause", 0, 2),
];

/// Runs `work` while another thread swaps tables; says how often it did.
fn while_swapping(runtime: &Runtime, pause: u64, tables: u32, work: impl FnOnce()) -> u64 {
    let pause = Wall::from_micros(pause);
    let views: Vec<_> = (1..=tables).map(view).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            for (swaps, it) in (0..).zip(views.iter().cycle()) {
                if stop.load(Relaxed) {
                    return swaps;
                }
                runtime.install(Arc::clone(it));
                let since = Instant::now();
                while since.elapsed() < pause {
                    std::hint::spin_loop();
                }
            }
            0
        });
        work();
        stop.store(true, Relaxed);
        swapping.join().unwrap()
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
/// nothing; and how many of them were by another table than the one before. If these are few where
/// tables are swapped without pause, the swapping thread had no core of its own meanwhile, and the
/// times say nothing.
fn print_percentiles(name: &str, runtime: &Runtime) {
    let calls = calls();
    let (mut seen, mut last, mut others) = (Seen::new(runtime), 0, 0);
    let [mut nothing, mut decisions] = [(); 2].map(|()| Histogram(vec![0; 4096]));
    for call in calls.iter().cycle().take(100 * ENTRIES) {
        let start = Instant::now();
        let ready = Instant::now();
        let version = black_box(decide(runtime, &mut seen, black_box(call)));
        let end = Instant::now();
        others += u32::from(version != last);
        last = version;
        nothing.add(ready - start);
        decisions.add(end - ready);
    }
    let clock = nothing.percentile(50);
    let [median, high] = [50, 99].map(|it| decisions.percentile(it).saturating_sub(clock));
    println!("{name}: median {median} ns, 99th percentile {high} ns (clock {clock} ns)");
    println!("  {others} of {} by another table than the one before", 100 * ENTRIES);
}

fn lookup(c: &mut Criterion) {
    let runtime = Runtime::default();
    runtime.install(view(1));
    let mut seen = Seen::new(&runtime);
    assert_ne!(decide(&runtime, &mut seen, &calls()[17]), 0);
    print_percentiles("decide, alone", &runtime);
    for (name, pause, tables) in SWAPS {
        let swaps = while_swapping(&runtime, pause, tables, || {
            print_percentiles(&format!("decide, {name}"), &runtime);
        });
        println!("  {swaps} swaps meanwhile");
    }
    let calls = calls();
    let mut group = c.benchmark_group("decide, 10,000 entries");
    group.sample_size(50).warm_up_time(Wall::from_secs(1)).measurement_time(Wall::from_secs(4));
    let mut next = calls.iter().cycle();
    group.bench_function("alone", |b| {
        b.iter(|| decide(&runtime, &mut seen, black_box(next.next().unwrap())));
    });
    for (name, pause, tables) in SWAPS {
        while_swapping(&runtime, pause, tables, || {
            group.bench_function(name, |b| {
                b.iter(|| decide(&runtime, &mut seen, black_box(next.next().unwrap())));
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
