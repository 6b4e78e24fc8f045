//! [`Etcd`]: a store in etcd, for a controller with others standing by to replace it.
//!
//! etcd decides which service leads: a service campaigns (etcd's election API) under a lease that it keeps
//! alive, and waits until it is elected. Every write is a transaction on the condition that the service still
//! leads. So a service that has lost its lease, because it hung or was cut off, can write nothing any more,
//! and therefore carries out nothing.
//!
//! Keys below the prefix: `leader` (etcd's election), `jobs/NUMBER`, and `journal/NUMBER` with the records of one batch from that
//! number on.
//!
//! Requests to etcd are made on a thread with an async runtime, because the engine's thread has none. The
//! engine waits for their answers, as for a disk.

mod session;

#[allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
mod election;
#[allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
#[rustfmt::skip]
mod rpc;

use std::sync::mpsc as blocking;

use serde::Deserialize;
use tokio::sync::mpsc;
use tracing::info;

use super::{Batch, Saved, Store, StoreError};
use crate::record::Record;
use session::Session;

/// How to reach etcd.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`, of one or all servers.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// How long a controller may be silent before another takes its place, in seconds.
    #[serde(default = "ttl")]
    pub lease: i64,
    /// For `https`: the certificate authority of etcd's certificates, in PEM.
    pub ca: Option<std::path::PathBuf>,
    /// For `https`: our own certificate, in PEM; `key` has its private key.
    pub certificate: Option<std::path::PathBuf>,
    pub key: Option<std::path::PathBuf>,
}

fn prefix() -> String {
    "/motet".to_owned()
}

const fn ttl() -> i64 {
    5
}

/// A request to the thread.
enum Task {
    Load(blocking::Sender<Result<Saved, StoreError>>),
    Commit(Batch, blocking::Sender<Result<(), StoreError>>),
    Records(Option<u64>, usize, blocking::Sender<Result<Vec<Record>, StoreError>>),
}

/// A store in etcd.
pub struct Etcd {
    tasks: mpsc::UnboundedSender<Task>,
    place: String,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Etcd {
    /// Waits until this service leads. At least `journal` records are kept. The second value is whether it
    /// had to wait; then another service may have led before, and may have given a switch an order just
    /// before its end.
    ///
    /// # Errors
    ///
    /// If etcd cannot be reached or refuses.
    pub async fn lead(config: &EtcdConfig, journal: u64) -> Result<(Self, bool), StoreError> {
        let place = config.endpoints.join(", ");
        let (tasks, waiting) = mpsc::unbounded_channel();
        let (elected, answer) = tokio::sync::oneshot::channel();
        let config = config.clone();
        let thread = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(serve(&config, journal, elected, waiting));
        };
        let failed = |problem: String| StoreError {
            place: place.clone(),
            problem,
            remedy: "check that etcd runs and can be reached from here",
            lost: false,
        };
        let spawned = std::thread::Builder::new().name("etcd".to_owned()).spawn(thread);
        spawned.map_err(|it| failed(it.to_string()))?;
        let waited = answer.await.map_err(|_| failed("its thread has ended".to_owned()))??;
        Ok((Self { tasks, place }, waited))
    }

    fn ask<T>(
        &self,
        task: impl FnOnce(blocking::Sender<Result<T, StoreError>>) -> Task,
    ) -> Result<T, StoreError> {
        let (reply, answer) = blocking::channel();
        let gone = || StoreError {
            place: self.place.clone(),
            problem: "its thread has ended".to_owned(),
            remedy: "restart the service",
            lost: true,
        };
        self.tasks.send(task(reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

/// Waits to lead, and then handles requests until the store is dropped.
async fn serve(
    config: &EtcdConfig,
    journal: u64,
    elected: tokio::sync::oneshot::Sender<Result<bool, StoreError>>,
    mut waiting: mpsc::UnboundedReceiver<Task>,
) {
    let mut session = match Session::lead(config, journal).await {
        Ok((session, waited)) => {
            info!(endpoints = ?config.endpoints, "leads");
            let _ = elected.send(Ok(waited));
            session
        }
        Err(error) => {
            let _ = elected.send(Err(error));
            return;
        }
    };
    while let Some(task) = waiting.recv().await {
        // Whoever asked may have gone.
        match task {
            Task::Load(reply) => drop(reply.send(session.load().await)),
            Task::Commit(batch, reply) => drop(reply.send(session.commit(&batch).await)),
            Task::Records(from, most, reply) => {
                drop(reply.send(session.records(from, most).await));
            }
        }
    }
    session.resign().await;
}

impl Store for Etcd {
    fn load(&self) -> Result<Saved, StoreError> {
        self.ask(Task::Load)
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.ask(|reply| Task::Commit(batch.clone(), reply))
    }

    fn records(&self, from: Option<u64>, most: usize) -> Result<Vec<Record>, StoreError> {
        self.ask(|reply| Task::Records(from, most, reply))
    }
}
