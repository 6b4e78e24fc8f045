//! Threads that read while others swap: every answer is of one table, and of the right one. The
//! work is bounded, not the time.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

use motet_runtime::{
    Bucket, Call, Candidate, Checksum, Choice, Collective, Entry, Key, Leader, Member, Message,
    Method, Reason, Runtime, Seen, Setting, Signature, Table, TableKnobs, Target, View,
};
use motet_units::{Bytes, Duration, Rank};

const SIGNATURE: Signature = Signature(7);
const RANKS: u32 = 40;
const BUCKETS: u8 = 31;

const fn threads(version: u32) -> u32 {
    (version % 32 + 1) * 32
}

/// Of a bucket's and a number of ranks' own, so that neighbours are told apart as well.
const fn buffer(version: u32, bucket: u8, ranks: u32) -> Bytes {
    Bytes::new(((version as u64) << 32) | ((ranks as u64) << 8) | bucket as u64)
}

/// A table of which every field of every setting says its version.
fn view(version: u32) -> Arc<View> {
    let candidate = |key: &Key| Candidate {
        setting: Setting {
            method: Method::Program {
                name: format!("v{version}").into(),
                checksum: Checksum(u64::from(version)),
            },
            knobs: TableKnobs {
                protocol: None,
                channels: Some(version),
                threads: Some(threads(version)),
                buffer: Some(buffer(version, key.bucket.log2(), key.ranks)),
                chunk: None,
            },
        },
        expected: Duration::from_ps(u64::from(version)),
    };
    let keys = (1..=RANKS).flat_map(|ranks| {
        (0..BUCKETS).filter_map(Bucket::new).map(move |bucket| Key {
            signature: SIGNATURE,
            collective: Collective::AllGather,
            ranks,
            bucket,
        })
    });
    let entries = keys.map(|key| Entry { key, candidates: vec![candidate(&key)] });
    Arc::new(View::new(Table::new(entries.collect()).unwrap(), SIGNATURE))
}

fn call(number: u64) -> Call {
    let ranks = number as u32 % RANKS + 1;
    let bytes = Bytes::new(1 << (number % u64::from(BUCKETS)));
    Call { collective: Collective::AllGather, bytes, ranks }
}

/// The version that every field of a decision agrees on; decided with what was seen, if that is kept.
fn version(runtime: &Runtime, seen: Option<&mut Seen>, operation: u64, call: &Call) -> Option<u32> {
    let decision = match seen {
        Some(seen) => runtime.decide_with(seen, operation, call),
        None => runtime.decide(operation, call),
    };
    let decision = decision.ok()?;
    let Choice::Setting(it) = decision.choice() else {
        assert_eq!(decision.choice(), Choice::LibraryDefault(Reason::NoTable));
        return Some(0);
    };
    let version = it.knobs.channels.unwrap();
    let Method::Program { name, checksum } = &it.method else { panic!("{it:?}") };
    assert_eq!(**name, *format!("v{version}"));
    assert_eq!(checksum.0, u64::from(version));
    assert_eq!(it.knobs.threads, Some(threads(version)));
    let bucket = Bucket::of(call.bytes).log2();
    assert_eq!(it.knobs.buffer, Some(buffer(version, bucket, call.ranks)));
    runtime.record(decision.ticket().unwrap(), Duration::from_ps(1));
    Some(version)
}

#[test]
fn no_read_is_torn_or_mixed() {
    const SWAPS: usize = 20_000;
    const READS: u64 = 200_000;
    let views: Vec<_> = (1..=16).map(view).collect();
    let runtime = Runtime::default();
    let done = AtomicBool::new(false);
    let reads: u64 = thread::scope(|scope| {
        let read = |first: u64| {
            let mut reads = 0;
            let mut seen = (first > 0).then(|| Seen::new(&runtime));
            while !done.load(SeqCst) {
                let call = call(first + reads);
                let version = version(&runtime, seen.as_mut(), runtime.begin(), &call);
                assert!(version.is_some_and(|it| it as usize <= views.len()));
                reads += 1;
            }
            reads
        };
        let readers = [0, 1, 2].map(|it| scope.spawn(move || read(it)));
        let mut swaps = 0;
        while swaps < SWAPS || runtime.position() < READS {
            runtime.install(Arc::clone(&views[swaps % views.len()]));
            swaps += 1;
        }
        done.store(true, SeqCst);
        readers.map(|it| it.join().unwrap()).iter().sum()
    });
    assert_eq!(runtime.position(), reads);
}

/// A calling and a control thread, which race for the fence at every switch.
#[test]
fn switches_happen_at_their_operation() {
    const ROUNDS: u32 = 300;
    let views: Vec<_> = (1..=ROUNDS).map(view).collect();
    let runtime = Arc::new(Runtime::default());
    let done = AtomicBool::new(false);
    let (decided, switches) = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut decided: Vec<u32> = Vec::new();
            let mut seen = Seen::new(&runtime);
            while !done.load(SeqCst) {
                let operation = runtime.begin();
                assert_eq!(operation, decided.len() as u64);
                let version = loop {
                    match version(&runtime, Some(&mut seen), operation, &call(operation)) {
                        Some(version) => break version,
                        None => thread::yield_now(),
                    }
                };
                decided.push(version);
            }
            decided
        });
        let mut member = Member::new(Rank(0), Arc::clone(&runtime), 0);
        let mut leader = Leader::new(1, 1);
        let mut switches: Vec<(u64, u32)> = Vec::new();
        for (version, view) in (1..).zip(&views) {
            member.prepare(Arc::clone(view));
            let target = Target::Table { checksum: view.table().checksum(), signature: SIGNATURE };
            let at = runtime.position() + u64::from(version % 4);
            let proposal = leader.propose(at, target).unwrap().1;
            let answer = member.handle(proposal).unwrap().1;
            let verdict = leader.handle(answer).unwrap().1;
            if verdict == (Message::Verdict { round: u64::from(version), commit: true }) {
                switches.push((at, version));
            }
            member.handle(verdict);
            // The next proposal is refused until this switch has been made.
            while switches.last().is_some_and(|it| runtime.position() <= it.0) {
                thread::yield_now();
            }
        }
        done.store(true, SeqCst);
        (calling.join().unwrap(), switches)
    });
    assert!(!switches.is_empty());
    for (operation, version) in (0..).zip(&decided) {
        let made = switches.iter().rev().find(|it| it.0 <= operation);
        assert_eq!(*version, made.map_or(0, |it| it.1), "operation {operation}");
    }
}

/// Tables come and go, so that new ones lie where old ones were; what is decided never goes back to
/// a table that was left, and is of the new one as soon as it is in use.
#[test]
fn what_was_seen_is_not_taken_for_what_is_there() {
    const SWAPS: u32 = 10_000;
    let runtime = Runtime::default();
    // Made before, so that one swap follows the other closely.
    let views: Vec<_> = (1..=SWAPS).map(small).collect();
    let (made, done) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut seen = Seen::new(&runtime);
            let mut last = 0;
            while !done.load(SeqCst) {
                let least = made.load(SeqCst);
                let call =
                    Call { collective: Collective::AllReduce, bytes: Bytes::kib(1), ranks: 1 };
                let decision = runtime.decide_with(&mut seen, runtime.begin(), &call).unwrap();
                if let Choice::Setting(it) = decision.choice() {
                    let version = it.knobs.buffer.unwrap().get() as u32;
                    assert!(version >= last && version >= least, "{version} after {last}, {least}");
                    last = version;
                }
            }
        });
        for (version, view) in (1..).zip(views) {
            runtime.install(view);
            made.store(version, SeqCst);
            // Now and then time enough to use a table that is no longer there, if one were.
            let at = runtime.position() + 2;
            while version % 64 == 0 && runtime.position() < at {
                thread::yield_now();
            }
        }
        done.store(true, SeqCst);
    });
}

/// A table of one entry.
fn small(version: u32) -> Arc<View> {
    let bucket = Bucket::of(Bytes::kib(1));
    let key = Key { signature: SIGNATURE, collective: Collective::AllReduce, ranks: 1, bucket };
    let knobs = TableKnobs { buffer: Some(Bytes::new(version.into())), ..TableKnobs::default() };
    let setting = Setting { method: Method::Nccl { algorithm: None }, knobs };
    let candidates = vec![Candidate { setting, expected: Duration::from_ps(1) }];
    Arc::new(View::new(Table::new(vec![Entry { key, candidates }]).unwrap(), SIGNATURE))
}
