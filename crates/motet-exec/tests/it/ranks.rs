//! Ranks as threads: each joins a group at a store of the test's own.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant as Wall;

use motet_exec::{Config, ExecError, Group, Note, SharedClock, Store, Tls};
use motet_units::{Duration, Instant};

/// A clock from the start of the process.
pub(crate) fn clock() -> SharedClock {
    static START: OnceLock<Wall> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = *START.get_or_init(Wall::now);
    Arc::new(move || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000) + 1)
    })
}

/// Lines that were noted.
pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

pub(crate) fn notes() -> (Notes, Note) {
    let notes = Notes::default();
    let kept = Arc::clone(&notes);
    (notes, Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned())))
}

pub(crate) fn silent() -> Note {
    Arc::new(|_: &str| {})
}

/// Settings for tests: nothing takes long, and nothing is so short that a busy machine fails it.
pub(crate) fn config(store: &Store, rank: u32, ranks: u32) -> Config {
    Config {
        serve_store: false,
        wait: Duration::from_ms(60_000),
        deadline: Duration::from_ms(60_000),
        silence: Duration::from_ms(20_000),
        ..Config::new(store.address().to_string(), rank, ranks)
    }
}

pub(crate) fn store() -> Store {
    Store::serve("127.0.0.1:0".parse().unwrap(), "", clock(), silent()).unwrap()
}

/// Runs `work` on every rank at once, each with its group, and returns what each returned.
pub(crate) fn on_all<T: Send>(
    ranks: u32,
    change: impl Fn(Config) -> Config + Sync,
    work: impl Fn(Result<Group, ExecError>) -> T + Sync,
) -> Vec<T> {
    on_all_with(None, ranks, change, work)
}

/// The same over TLS.
pub(crate) fn on_all_with<T: Send>(
    tls: Option<Tls>,
    ranks: u32,
    change: impl Fn(Config) -> Config + Sync,
    work: impl Fn(Result<Group, ExecError>) -> T + Sync,
) -> Vec<T> {
    let address = "127.0.0.1:0".parse().unwrap();
    let store = Store::serve_with(address, "", tls.clone(), clock(), silent()).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (store, tls, change, work) = (&store, &tls, &change, &work);
                scope.spawn(move || {
                    let tls = tls.clone();
                    let config = change(Config { tls, ..config(store, rank, ranks) });
                    work(Group::join(&config, clock(), silent()))
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}
