//! The agent of a host: answers round trips, takes and gives streams, and measures the way to
//! another agent when asked to. A connection has a thread; there is a limit to both.
//!
//! An agent sends gigabytes and connects to others when asked, so it does nothing for whoever does
//! not know its token:
//!
//! - A connection must say the token within [`AgentOptions::timeout`], counted from its beginning
//!   and not from byte to byte, or it is closed. Those who have not said it yet share half of the
//!   places ([`places`](super::places)), and where those are taken the oldest gives way; one address never has more
//!   than half.
//! - An agent without a token serves its own machine only: it turns other addresses away and
//!   measures the way to no other machine.
//!
//! The token goes over the wire in the clear: whoever can listen on the network can use it.

use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Wall;

use super::Clock;
use super::connection::{Connection, ProbeError, after};
use super::frame::{Frame, ProbePlan};
use super::places::{Close, Place, Places};
use super::session::measure;

/// How an agent behaves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// What others must say. Empty for anything, but then only for peers on this machine.
    pub token: String,
    /// For each step of a conversation, and for the whole of its handshake.
    pub timeout: Wall,
    /// Connections at once, at most.
    pub max_connections: usize,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { token: String::new(), timeout: Wall::from_secs(5), max_connections: 64 }
    }
}

/// No conversation is longer: a probe's deadline and as much again for the streams of others.
const LONGEST_MS: u64 = 2 * ProbePlan::MAX_DEADLINE_MS;
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
    let places = Places::new(options.max_connections);
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
            let place = match turned_away(peer.ip(), options) {
                Some(why) => Err(why),
                None => places.enter(peer.ip(), close(&stream)),
            };
            let mut place = match place {
                Ok(place) => place,
                Err(why) => {
                    note(&format!("{peer}: turned away, {why}"));
                    continue;
                }
            };
            let work = move || match converse(stream, clock, options, &mut place) {
                Ok(()) => {}
                Err(_) if place.gave_way() => {
                    note(&format!(
                        "{peer}: closed, it had not said the token when its place was needed"
                    ));
                }
                Err(error) => note(&format!("{peer}: {error}")),
            };
            let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
            if let Err(error) = spawned {
                note(&format!("{peer}: turned away, no thread: {error}"));
            }
        }
    });
}

/// Closes a connection in whatever its thread is at.
fn close(stream: &TcpStream) -> Close {
    let other = stream.try_clone();
    Box::new(move || {
        // Without a second handle, or where the peer has gone already, the handshake's deadline ends it.
        if let Ok(stream) = other {
            let _ = stream.shutdown(Shutdown::Both);
        }
    })
}

/// Why a peer is not even listened to.
fn turned_away(peer: IpAddr, options: &AgentOptions) -> Option<&'static str> {
    let stranger = options.token.is_empty() && !peer.to_canonical().is_loopback();
    stranger.then_some("without a token only this machine is served")
}

/// One conversation, to its end.
fn converse(
    stream: TcpStream,
    clock: &dyn Clock,
    options: &AgentOptions,
    place: &mut Place<'_>,
) -> Result<(), ProbeError> {
    let handshake = u64::try_from(options.timeout.as_millis()).unwrap_or(LONGEST_MS);
    let (now, longest) = (clock.now(), handshake.min(LONGEST_MS));
    let mut connection = Connection::new(stream, clock, options.timeout, after(now, longest))?;
    match connection.receive()? {
        Frame::Hello { token } if same(&token, &options.token) => {
            place.is_known();
            connection.extend(after(now, LONGEST_MS));
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
        Frame::Send { bytes } | Frame::Fetch { bytes } if bytes > ProbePlan::MAX_BYTES => {
            let why = format!("more than {} bytes are not taken at once", ProbePlan::MAX_BYTES);
            connection.send(&Frame::Failed { why: why.clone() })?;
            Err(ProbeError::Refused(why))
        }
        Frame::Send { bytes } => {
            let came = connection.receive_data(bytes)?;
            let (first, last) = (came.first.as_ps(), came.last.as_ps());
            connection.send(&Frame::Took { bytes: came.bytes, first, last })
        }
        Frame::Fetch { bytes } => connection.send_data(bytes),
        Frame::Probe { target, .. } if options.token.is_empty() && !is_here(&target) => {
            let why = "without a token an agent measures on its own machine only";
            connection.send(&Frame::Failed { why: why.to_owned() })
        }
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

/// Whether all addresses of `target` are of this machine's loopback.
fn is_here(target: &str) -> bool {
    target.to_socket_addrs().is_ok_and(|mut it| it.all(|it| it.ip().to_canonical().is_loopback()))
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
