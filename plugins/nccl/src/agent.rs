//! `MOTET_AGENT=HOST:PORT`: while a job runs, its ranks tell a leader what they measure, and switch together to the
//! better tables that it makes. What is said and how they agree is `motet-runtime`'s ([`Group`](motet_runtime::Group),
//! [`Member`](motet_runtime::Member)); here are the connections.
//!
//! The leader is a thread in one of the job's own processes: the first on `HOST` that can listen there ([`server`]).
//! So nothing must be started beside the job, and a leader dies only with a part of the job. Every rank of every
//! communicator has a connection to it ([`client`]), also within the leader's process. What makes tables there is a policy
//! of `motet-agent` ([`pilots`]). Ranks that lose the leader ask one another ([`orphan`], [`desk`]). All of it is one thread of a
//! process. It must not be held up, for calls may wait for it: the address is looked up once, before anything else,
//! and only making a connection takes time, a quarter of a second at most.
//!
//! Only communicators whose plan, id and rank are known take part: MOTET_PLAN is for them, and both plugins are
//! loaded by NCCL 2.28 or later. Whatever fails leaves the ranks with the table that they have.

mod client;
mod desk;
mod link;
mod orphan;
mod pilots;
mod server;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use motet_runtime::Communicator;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::log::Log;
use client::Client;
use desk::Desk;
use server::Server;

/// How often ranks report their times, and the leader decides.
const TURN: Duration = Duration::from_millis(50);
/// How long the thread waits for its sockets at a time.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// How long the end of the last communicator waits for the thread.
const PATIENCE: Duration = Duration::from_secs(2);

static STATE: Mutex<State> =
    Mutex::new(State { orders: Vec::new(), thread: None, stop: false, running: false });
static CHANGED: Condvar = Condvar::new();

struct State {
    orders: Vec<Order>,
    thread: Option<JoinHandle<()>>,
    stop: bool,
    running: bool,
}

enum Order {
    Join(Communicator, Log),
    Leave { communicator: u64, rank: u32 },
}

/// What `MOTET_AGENT` and `MOTET_AGENT_TOKEN` say.
struct Settings {
    address: String,
    /// The address, resolved; `None` if the resolver has none.
    place: Option<SocketAddr>,
    token: String,
    /// The port at which other ranks can ask those of this process ([`desk`]); 0 if there is none.
    port: u16,
    /// What `MOTET_AGENT_POLICY` says.
    policy: Option<String>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the user wants an agent.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("MOTET_AGENT").is_some_and(|it| !it.is_empty())
}

fn settings() -> Option<Settings> {
    let text = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let token = text("MOTET_AGENT_TOKEN").unwrap_or_default();
    let (address, policy) = (text("MOTET_AGENT")?, text("MOTET_AGENT_POLICY"));
    Some(Settings { address, place: None, token, port: 0, policy })
}

/// A communicator begins.
pub(crate) fn join(about: &Communicator, log: Log) {
    if !is_wanted() {
        return;
    }
    let Some(mut settings) = settings() else {
        return log.warn("MOTET_AGENT is not text; give HOST:PORT");
    };
    if about.ranks < 2 {
        return;
    }
    let mut state = state();
    state.orders.push(Order::Join(about.clone(), log));
    if state.running {
        return;
    }
    state.stop = false;
    let spawned = std::thread::Builder::new().name("motet-agent".to_owned()).spawn(move || {
        settings.place = settings.address.to_socket_addrs().ok().and_then(|mut it| it.next());
        run(settings, log);
    });
    match spawned {
        Ok(thread) => (state.thread, state.running) = (Some(thread), true),
        Err(error) => log.warn(&format!("no agent: no thread can be started: {error}")),
    }
}

/// A communicator ends.
pub(crate) fn leave(communicator: u64, rank: u32) {
    let mut state = state();
    if state.running {
        state.orders.push(Order::Leave { communicator, rank });
    }
}

/// The last communicator has ended: so must the thread, as the library may go.
pub(crate) fn end() {
    let mut state = state();
    let Some(thread) = state.thread.take() else { return };
    state.stop = true;
    let waited = CHANGED.wait_timeout_while(state, PATIENCE, |it| it.running);
    let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
    drop(state);
    if !late.timed_out() {
        // It has said that it ends; nothing is left to do but to return.
        let _ = thread.join();
    }
}

#[allow(clippy::disallowed_methods, reason = "reports go out by the clock")]
fn run(mut settings: Settings, log: Log) {
    let mut server = Server::listen(&settings, log);
    let mut desk = Desk::open();
    settings.port = desk.as_ref().map_or(0, Desk::port);
    let mut clients: Vec<Client> = Vec::new();
    let mut turned = Instant::now();
    loop {
        let (orders, stop) = {
            let mut state = state();
            (std::mem::take(&mut state.orders), state.stop)
        };
        for order in orders {
            match order {
                Order::Join(about, log) => clients.push(Client::new(about, log)),
                Order::Leave { communicator, rank } => {
                    clients.retain(|it| !it.is_of(communicator, rank));
                }
            }
        }
        let now = Instant::now();
        let turn = now - turned >= TURN;
        if turn {
            turned = now;
        }
        clients.iter_mut().for_each(|it| it.step(&settings, turn, now));
        if let Some(desk) = &mut desk {
            desk.step(&settings.token, &mut clients, now);
        }
        if let Some(server) = &mut server {
            server.step(turn, now);
        }
        if stop {
            if let Some(server) = &mut server {
                server.close();
            }
            let mut state = state();
            state.running = false;
            CHANGED.notify_all();
            return;
        }
        wait(&clients, desk.as_ref(), server.as_ref());
    }
}

/// Waits until a socket is ready, but no longer than [`NAP`].
fn wait(clients: &[Client], desk: Option<&Desk>, server: Option<&Server>) {
    let links = clients.iter().flat_map(Client::links);
    let links = links.chain(desk.into_iter().flat_map(Desk::links));
    let links = links.chain(server.into_iter().flat_map(Server::links));
    let mut waited: Vec<PollFd<'_>> =
        links.map(|it| PollFd::new(it.stream(), it.waits_for())).collect();
    waited.extend(server.map(|it| PollFd::new(it.listener(), PollFlags::IN)));
    waited.extend(desk.map(|it| PollFd::new(it.listener(), PollFlags::IN)));
    // A signal may end it early, which is as good.
    let _ = poll(&mut waited, Some(&NAP));
}
