//! The agent of a host: answers round trips, takes and gives streams, and measures the way to
//! another agent when asked to. A connection has a thread; there is a limit to both.
//!
//! Whoever reaches the agent can make it send data and connect to others, so it belongs into a
//! network of one's own. The token is against mix-ups, not against attackers: it goes in the clear.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as Wall;

use super::Clock;
use super::connection::{Connection, ProbeError, after};
use super::frame::{Frame, Plan};
use super::session::measure;

/// How an agent behaves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// What others must say; empty for anything.
    pub token: String,
    /// For each step of a conversation.
    pub timeout: Wall,
    pub max_connections: usize,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { token: String::new(), timeout: Wall::from_secs(5), max_connections: 64 }
    }
}

/// No conversation is longer: a probe's deadline and as much again for the streams of others.
const LONGEST_MS: u64 = 2 * Plan::MAX_DEADLINE_MS;
/// After a failed accept (no file descriptors, say), before the next.
const PAUSE: Wall = Wall::from_millis(50);

/// Serves until `stop` is set and one more connection comes. `note` gets a line about each
/// conversation that went wrong.
pub fn serve(
    listener: &TcpListener,
    clock: &dyn Clock,
    options: &AgentOptions,
    stop: &AtomicBool,
    note: &(dyn Fn(&str) + Sync),
) {
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Acquire) {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    note(&format!("cannot accept a connection: {error}"));
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            if stop.load(Ordering::Acquire) {
                break;
            }
            if open.fetch_add(1, Ordering::AcqRel) >= options.max_connections {
                open.fetch_sub(1, Ordering::AcqRel);
                note(&format!("{peer}: turned away, there are too many connections"));
                continue;
            }
            let open = &open;
            let work = move || {
                if let Err(error) = converse(stream, clock, options) {
                    note(&format!("{peer}: {error}"));
                }
                open.fetch_sub(1, Ordering::AcqRel);
            };
            let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
            if let Err(error) = spawned {
                open.fetch_sub(1, Ordering::AcqRel);
                note(&format!("{peer}: turned away, no thread: {error}"));
            }
        }
    });
}

/// One conversation, to its end.
fn converse(
    stream: TcpStream,
    clock: &dyn Clock,
    options: &AgentOptions,
) -> Result<(), ProbeError> {
    let deadline = after(clock.now(), LONGEST_MS);
    let mut connection = Connection::new(stream, clock, options.timeout, deadline)?;
    match connection.receive()? {
        Frame::Hello { token } if same(&token, &options.token) => {
            connection.send(&Frame::Welcome)?;
        }
        Frame::Hello { .. } => {
            let why = "the token is not that of the agent; give both the same with --token";
            connection.send(&Frame::Failed { why: why.to_owned() })?;
            return Err(ProbeError::Refused("it said another token".to_owned()));
        }
        _ => return Err(ProbeError::Unexpected),
    }
    loop {
        let asked = match connection.receive() {
            Ok(frame) => frame,
            // The other side is done.
            Err(ProbeError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        answer(&mut connection, asked, clock, options)?;
    }
}

fn answer(
    connection: &mut Connection<'_>,
    asked: Frame,
    clock: &dyn Clock,
    options: &AgentOptions,
) -> Result<(), ProbeError> {
    match asked {
        Frame::Ping { number } => connection.send(&Frame::Pong { number }),
        Frame::Send { bytes } | Frame::Fetch { bytes } if bytes > Plan::MAX_BYTES => {
            let why = format!("more than {} bytes are not taken at once", Plan::MAX_BYTES);
            connection.send(&Frame::Failed { why: why.clone() })?;
            Err(ProbeError::Refused(why))
        }
        Frame::Send { bytes } => {
            let came = connection.receive_data(bytes)?;
            let (first, last) = (came.first.as_ps(), came.last.as_ps());
            connection.send(&Frame::Took { bytes: came.bytes, first, last })
        }
        Frame::Fetch { bytes } => connection.send_data(bytes),
        Frame::Probe { target, plan } => {
            let measured = measure(&target, &plan, &options.token, clock, options.timeout);
            connection.send(&match measured {
                Ok(it) => Frame::Result {
                    round_trip_ps: it.round_trip.as_ps(),
                    there: it.there.bits_per_s(),
                    back: it.back.bits_per_s(),
                },
                Err(error) => Frame::Failed { why: error.to_string() },
            })
        }
        _ => Err(ProbeError::Unexpected),
    }
}

/// Compares in a time that does not tell how much of it was right.
fn same(given: &str, token: &str) -> bool {
    if token.is_empty() {
        return true;
    }
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differ = given.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differ == 0
}
