//! Reaching an address: what it stands for, and a connection to it, tried again as long as there is time. The other side
//! may not listen yet, or an address of several may lead nowhere.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::Instant;

use crate::error::ExecError;
use crate::handshake::left;

/// Between two attempts.
const PAUSE: Wall = Wall::from_millis(50);
/// The longest that one address is tried for before the next has its turn: a name may stand for an IPv6 address first
/// whose packets get lost, which would otherwise take all the time there is.
const TRY: Wall = Wall::from_secs(3);

/// The addresses that a text stands for.
pub(crate) fn resolve(address: &str) -> Result<Vec<SocketAddr>, ExecError> {
    let unresolved = |why: String| ExecError::Unresolved { address: address.to_owned(), why };
    let found: Vec<SocketAddr> =
        address.to_socket_addrs().map_err(|it| unresolved(it.to_string()))?.collect();
    if found.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(found) }
}

/// Connects, trying again until a time, or until `called_off` says that nobody needs it any more.
pub(crate) fn connect(
    who: &str,
    address: &str,
    clock: &dyn Clock,
    until: Instant,
    called_off: &dyn Fn() -> bool,
) -> Result<TcpStream, ExecError> {
    let why = loop {
        match try_all(&resolve(address)?, clock, until) {
            Ok(stream) => return Ok(stream),
            Err(why) if clock.now() >= until || called_off() => break why,
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    Err(ExecError::Unreachable { who: who.to_owned(), address: address.to_owned(), why })
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
    fn what_nobody_needs_any_more_is_not_tried_for_ever() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let asked = AtomicU64::new(0);
        let called_off = || asked.fetch_add(1, Ordering::Relaxed) == 1;
        let clock = || Instant::from_ps(1);
        let error = connect("rank 7", &free, &clock, Instant::NEVER, &called_off).unwrap_err();
        assert!(error.to_string().contains("rank 7"), "{error}");
    }
}
