//! A rank's side of a meeting at the store ([`meeting`](crate::meeting) has the other): it comes, hears whom to connect to,
//! says whether it could, and hears whether the group stands.

use std::time::Duration as Wall;

use motet_net::probe::Clock;
use motet_units::Duration;

use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk};
use crate::link::{Link, Look, look};
use crate::mesh::AGAIN;
use crate::store::HANDSHAKE;
use crate::tls::Tls;
use crate::wire::{Join, Kind, Met, Roster};

/// How long to wait between two checks whether joining was abandoned.
const LOOK: Wall = Wall::from_millis(100);

/// What the store says.
pub(crate) enum Said {
    /// Connect to these.
    Roster(Roster),
    /// All have: the group stands.
    Go,
}

fn failed(error: HandshakeError) -> ExecError {
    let who = "the store".to_owned();
    match error {
        HandshakeError::Refused(why) => ExecError::Refused { who, why },
        error => ExecError::Handshake { who, why: error.to_string() },
    }
}

/// Comes to the store over a connection, or if that is closed before the store has answered, over another that `reach` makes, as
/// long as `goes_on` says so.
pub(crate) fn join(
    link: &mut Link,
    reach: &dyn Fn() -> Result<Link, ExecError>,
    (tls, token): (Option<&Tls>, &str),
    join: &Join,
    clock: &dyn Clock,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), ExecError> {
    for tries in 1.. {
        match Talk::new(link, clock, HANDSHAKE).connect(tls, token, &join.encode()) {
            Err(error) if error.may_pass(tries) && goes_on() => {
                std::thread::sleep(AGAIN);
                *link = reach()?;
            }
            joined => return joined.map_err(failed),
        }
    }
    Ok(())
}

/// Waits for what the store says next, as long as the others may take, or until `abandoned` says that nobody needs the group any
/// more.
pub(crate) fn hear(
    link: &mut Link,
    clock: &dyn Clock,
    most: Duration,
    abandoned: &dyn Fn() -> bool,
) -> Result<Said, ExecError> {
    // The store takes some seconds more than the ranks to see that one of them says nothing.
    let most = most + HANDSHAKE + HANDSHAKE + HANDSHAKE;
    let until = clock.now() + most;
    loop {
        if abandoned() {
            return Err(ExecError::Abandoned);
        }
        if link.holds_some() || look(&link.socket, LOOK) != Look::Nothing {
            break;
        }
        if clock.now() >= until {
            return Err(failed(HandshakeError::Late));
        }
    }
    let mut talk = Talk::new(link, clock, most);
    let (kind, payload) =
        talk.expect_one(&[Kind::Roster, Kind::Go, Kind::Refused]).map_err(failed)?;
    if kind == Kind::Go {
        return Ok(Said::Go);
    }
    Roster::decode(&payload).map(Said::Roster).map_err(|_| failed(HandshakeError::Unexpected))
}

/// Tells the store how connecting to the others went.
pub(crate) fn tell(link: &mut Link, clock: &dyn Clock, met: &Met) -> Result<(), ExecError> {
    Talk::new(link, clock, HANDSHAKE).send(Kind::Met, &met.encode()).map_err(failed)
}
