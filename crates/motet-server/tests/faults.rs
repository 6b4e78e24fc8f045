//! What goes wrong around the service: the store, switches, clients, clocks, restarts. It recovers by itself, and the journal
//! says what happened.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

#[allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a module of several tests"
)]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{LONG, Members, ONE_SWITCH, circuits, client, get, job, register, service};
use motet_control::seat::Go;
use motet_server::record::Record;
use motet_server::serve::{Instead, Running};
use motet_server::store::{Batch, Memory, Saved, Store, StoreError};

/// A store whose disk is full while `full` says so.
#[derive(Debug, Default)]
struct Full {
    inner: Memory,
    full: AtomicBool,
    /// How often it was to force to the disk what it has.
    forced: AtomicU64,
}

impl Store for Full {
    fn load(&self) -> Result<Saved, StoreError> {
        self.inner.load()
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.full.load(Ordering::SeqCst) {
            let problem = "no space left on device".to_owned();
            let (place, remedy) = ("the store".to_owned(), "make room");
            return Err(StoreError { place, problem, remedy, lost: false });
        }
        self.forced.fetch_add(u64::from(batch.durable), Ordering::SeqCst);
        self.inner.commit(batch)
    }

    fn records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, StoreError> {
        self.inner.records(from, most)
    }
}

async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(LONG, wait).await.is_ok(), "{what} does not happen");
}

async fn events(running: &Running) -> Vec<String> {
    let (_, body) = get(running, "/v1/journal?most=10000", None).await;
    let records: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
    let numbers: Vec<u64> = records.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|it| it[1] == it[0] + 1), "gaps in {numbers:?}");
    records.iter().map(|it| it["event"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_while_the_store_is_full_and_nothing_is_lost() {
    let store = Arc::new(Full::default());
    let instead = Instead { store: Some(store.clone()), ..Instead::default() };
    // A switch has less time to answer than the store is full for: its orders do not leave before that.
    let text = format!("{ONE_SWITCH}[policy]\nanswer = '200 ms'\n");
    let running = service(&text, instead).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    store.full.store(true, Ordering::SeqCst);
    members.call(1, 1).await;
    members.call(2, 1).await;
    let waiting = members.until_gone(1, 1);
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    let (status, text) = get(&running, "/healthz", None).await;
    assert_eq!((status, text.as_str()), (503, "the store fails; see the log\n"));
    store.full.store(false, Ordering::SeqCst);
    assert_eq!(members.until_gone(1, 1).await.unwrap(), Go::Circuits);
    assert_eq!(circuits(&running).await, [[0, 1, 2]]);
    assert_eq!(get(&running, "/healthz", None).await.0, 200);
    assert_eq!(events(&running).await.iter().filter(|it| *it == "done").count(), 2);
    running.stop().await;
}

/// The disk is waited for when all is quiet, and not whenever the engine waits for a timer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_do_not_wait_for_the_disk() {
    let store = Arc::new(Full::default());
    let instead = Instead { store: Some(store.clone()), ..Instead::default() };
    // Groups are gathered for longer than anything else takes, so that the engine has nothing to do meanwhile.
    let running = service(&format!("{ONE_SWITCH}[policy]\ngather = '2 ms'\n"), instead).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    let before = store.forced.load(Ordering::SeqCst);
    for _ in 0..20 {
        members.whole_call(0, [0, 1]).await.unwrap();
        members.whole_call(1, [1, 2]).await.unwrap();
    }
    // Once for each half second that a busy machine stood still.
    let forced = store.forced.load(Ordering::SeqCst) - before;
    assert!(forced <= 10, "{forced} times in 40 changes");
    until("forcing it when all is quiet", async || store.forced.load(Ordering::SeqCst) > before)
        .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_take_the_packet_network_while_a_switch_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("rail0.json");
    let switch = format!("{ONE_SWITCH}[switch.sim]\nstate = '{}'\n", state.display());
    let running =
        service(&format!("{switch}[policy]\nretry = '50 ms'\n"), Instead::default()).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    // The file is not there: the switch cannot be reached.
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Host);
    std::fs::write(&state, "[[7,9]]").unwrap();
    until("reading the switch", async || circuits(&running).await == [[0, 7, 9]]).await;
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "[[0,1],[7,9]]");
    std::fs::remove_file(&state).unwrap();
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Host);
    let (_, body) = get(&running, "/v1/switches", None).await;
    assert!(body.contains(r#""contact":"down""#), "{body}");
    let events = events(&running).await;
    for event in ["switch_lost", "refused", "switch_read", "granted", "failed"] {
        assert!(events.iter().any(|it| it == event), "no {event} in {events:?}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_members_vanish_gives_its_ports_back() {
    let running = service(&format!("absence = '1 s'\n{ONE_SWITCH}"), Instead::default()).await;
    let client = client(&running, None);
    let first = job(1, 0, 0);
    register(&client, &first).await.unwrap();
    let mut members = Members::connect(&client, &first, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    drop(members);
    let second = job(2, 0, 0);
    let refused = register(&client, &second).await.unwrap_err();
    assert!(refused.message().contains("is used by job 1"), "{refused:?}");
    until("the end of the first job", async || register(&client, &second).await.is_ok()).await;
    until("taking down its circuits", async || circuits(&running).await.is_empty()).await;
    let events = events(&running).await;
    assert!(events.contains(&"abandoned".to_owned()) && events.contains(&"left".to_owned()));
    running.stop().await;
}

/// One host is cut off for longer than `absence`: its job counts as ended. The others' streams are still open, and would wait on
/// them for ever; so they are closed, and all begin again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_stayed_begin_again_when_a_job_was_given_up() {
    let running = service(&format!("absence = '1 s'\n{ONE_SWITCH}"), Instead::default()).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut stays = Members::connect(&client, &job, &[1, 2]).await.unwrap();
    let cut_off = Members::connect(&client, &job, &[0]).await.unwrap();
    let seats = cut_off.seats.clone();
    drop((cut_off.out, cut_off.replies));
    until("the end of the job", async || get(&running, "/v1/jobs/1", None).await.0 == 404).await;
    stays.call(1, 0).await;
    let closed = stays.hear().await.unwrap_err();
    assert_eq!(closed.code(), tonic::Code::Unavailable, "{closed:?}");
    // As managers do: register, join, report.
    register(&client, &job).await.unwrap();
    let mut seats = seats;
    seats.extend(stays.seats);
    let mut all = Members::resume(&client, &job, &[0, 1, 2], seats).await.unwrap();
    all.call(0, 0).await;
    assert_eq!(all.until_gone(0, 0).await.unwrap(), Go::Circuits);
    assert_eq!(all.until_gone(1, 0).await.unwrap(), Go::Circuits);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_changes_nothing_but_the_journals_times() {
    let at = Arc::new(AtomicU64::new(1_000_000));
    let clock = Arc::clone(&at);
    let wall = Box::new(move || clock.load(Ordering::SeqCst));
    let running = service(ONE_SWITCH, Instead { wall, ..Instead::default() }).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    for jump in [0, u64::MAX / 2, 5, 1 << 40] {
        at.store(jump, Ordering::SeqCst);
        assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
        assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    }
    // Numbers have no gaps, which `events` checks; the job is still there.
    assert_eq!(events(&running).await.iter().filter(|it| *it == "done").count(), 8);
    assert_eq!(get(&running, "/v1/jobs/1", None).await.0, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_jobs_and_circuits_and_asks_members() {
    let folder = tempfile::tempdir().unwrap();
    let (state, store) = (folder.path().join("rail0.json"), folder.path().join("store"));
    std::fs::write(&state, "[]").unwrap();
    let text = format!(
        "store = '{}'\n[[switch]]\nname = 'rail0'\nports = 64\n[switch.sim]\nstate = '{}'\n",
        store.display(),
        state.display()
    );
    let first = service(&text, Instead::default()).await;
    let job = job(1, 0, 0);
    let there = client(&first, None);
    register(&there, &job).await.unwrap();
    let mut members = Members::connect(&there, &job, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    first.stop().await;
    // The stream ends, the seats stay: members still hold what they were granted.
    let closed = members.hear().await.unwrap_err();
    assert_eq!(closed.code(), tonic::Code::Unavailable, "{closed:?}");
    let second = service(&text, Instead::default()).await;
    until("reading the switch", async || circuits(&second).await == [[0, 0, 1]]).await;
    let (_, body) = get(&second, "/v1/jobs/1/groups", None).await;
    assert!(body.contains(r#""unknown":2"#), "{body}");
    let there = client(&second, None);
    let seats = members.seats;
    let mut members = Members::resume(&there, &job, &[0, 1, 2], seats).await.unwrap();
    // Held over the restart: it goes without asking anybody.
    members.call(0, 0).await;
    members.call(1, 0).await;
    assert_eq!(members.gone.len(), 2);
    members.gone.clear();
    members.end(0, 0).await;
    members.end(1, 0).await;
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "[[1,2]]");
    let events = events(&second).await;
    assert_eq!(events.iter().filter(|it| *it == "started").count(), 2);
    assert!(events.contains(&"stopped".to_owned()));
    second.stop().await;
}
