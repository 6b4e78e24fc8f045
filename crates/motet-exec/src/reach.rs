//! Reaching an address: looks its name up and connects, again and again as long as there is time. The other side
//! may not listen yet, its name may not be known yet, or one of a name's several addresses may lead nowhere.
//!
//! How long one look-up takes only the system decides, by its resolver's settings.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::Instant;

use crate::error::ExecError;
use crate::handshake::left;

/// How long to sleep between two attempts.
const PAUSE: Wall = Wall::from_millis(50);
/// The longest that one address is tried for before the next has its turn: a name may stand for an IPv6 address first
/// whose packets get lost, which would otherwise take all the time there is.
const TRY: Wall = Wall::from_secs(3);

/// How long to sleep before a name is looked up again that has no address: name servers are not this program's own.
const LOOK_UP: Wall = Wall::from_millis(500);

/// The addresses that a text stands for, at least one.
fn look_up(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    if found.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(found) }
}

fn unresolved(address: &str, error: &io::Error) -> ExecError {
    ExecError::Unresolved { address: address.to_owned(), why: error.to_string() }
}

/// The addresses that a text stands for, at least one.
pub(crate) fn resolve(address: &str) -> Result<Vec<SocketAddr>, ExecError> {
    look_up(address).map_err(|it| unresolved(address, &it))
}

/// Connects, trying again until a time, or until `called_off` says that nobody needs it any more.
pub(crate) fn connect(
    who: &str,
    address: &str,
    clock: &dyn Clock,
    until: Instant,
    called_off: &dyn Fn() -> bool,
) -> Result<TcpStream, ExecError> {
    connect_by(&mut || look_up(address), (who, address), clock, until, called_off)
}

/// The same; `look_up` finds the addresses.
fn connect_by(
    look_up: &mut dyn FnMut() -> io::Result<Vec<SocketAddr>>,
    (who, address): (&str, &str),
    clock: &dyn Clock,
    until: Instant,
    called_off: &dyn Fn() -> bool,
) -> Result<TcpStream, ExecError> {
    loop {
        let (error, pause) = match look_up() {
            Ok(all) => match try_all(&all, clock, until) {
                Ok(stream) => return Ok(stream),
                Err(why) => {
                    let (who, address) = (who.to_owned(), address.to_owned());
                    (ExecError::Unreachable { who, address, why }, PAUSE)
                }
            },
            // What has not the form of an address never will.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                return Err(unresolved(address, &error));
            }
            Err(error) => (unresolved(address, &error), LOOK_UP),
        };
        let left = left(clock, until);
        match left {
            Some(left) if !called_off() => std::thread::sleep(left.min(pause)),
            _ => return Err(error),
        }
    }
}

/// Tries each of some addresses once.
fn try_all(all: &[SocketAddr], clock: &dyn Clock, until: Instant) -> Result<TcpStream, String> {
    let mut why = String::new();
    for address in all {
        let left = left(clock, until).unwrap_or(Wall::from_millis(1));
        match TcpStream::connect_timeout(address, left.min(TRY)) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// An address that answers nothing: a listener whose queue is full. What fills it must be kept.
    #[cfg(target_os = "linux")]
    fn black_hole() -> (SocketAddr, Vec<socket2::Socket>) {
        use socket2::{Domain, Socket, Type};
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut kept = vec![listener];
        for _ in 0..4 {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into());
            kept.push(socket);
        }
        (address, kept)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_address_that_leads_nowhere_does_not_take_all_the_time() {
        let (nowhere, _kept) = black_hole();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
        let start = std::time::Instant::now();
        let clock = || Instant::from_ps(start.elapsed().as_nanos() as u64 * 1000);
        let until = clock() + motet_units::Duration::from_ms(30_000);
        let stream = try_all(&[nowhere, good], &clock, until).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert!(clock() < until, "the address that leads nowhere has taken all the time");
    }

    #[test]
    fn a_name_that_is_not_known_yet_is_looked_up_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let clock = || Instant::from_ps(1);
        let mut asked = 0;
        let mut look_up = || {
            asked += 1;
            if asked < 3 { Err(io::Error::other("no answer")) } else { Ok(vec![good]) }
        };
        let store = ("the store", "store.example:1");
        let end = connect_by(&mut look_up, store, &clock, Instant::NEVER, &|| false);
        assert_eq!((end.unwrap().peer_addr().unwrap(), asked), (good, 3));
        // Until there is no time left; a text that is no address is refused at once.
        let mut unknown = || Err(io::Error::other("no answer"));
        let error = connect_by(&mut unknown, store, &clock, clock(), &|| false).unwrap_err();
        assert!(error.to_string().contains("store.example:1"), "{error}");
        let error = connect("the store", "store", &clock, Instant::NEVER, &|| false).unwrap_err();
        assert!(matches!(error, ExecError::Unresolved { .. }), "{error}");
    }

    #[test]
    fn what_nobody_needs_any_more_is_not_tried_for_ever() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let asked = AtomicU64::new(0);
        let called_off = || asked.fetch_add(1, Ordering::Relaxed) == 1;
        let clock = || Instant::from_ps(1);
        let error = connect("rank 7", &free, &clock, Instant::NEVER, &called_off).unwrap_err();
        assert!(error.to_string().contains("rank 7"), "{error}");
    }
}
