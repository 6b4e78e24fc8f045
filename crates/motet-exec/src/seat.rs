//! A rank's side of a meeting at the store ([`meeting`](crate::meeting) has the other): it comes, hears whom to connect to,
//! says whether it could, and hears whether the group stands.

use motet_net::probe::Clock;
use motet_units::Duration;

use crate::error::ExecError;
use crate::handshake::{HandshakeError, Talk};
use crate::link::Link;
use crate::store::HANDSHAKE;
use crate::tls::Tls;
use crate::wire::{Join, Kind, Met, Roster};

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

/// Comes to the store over a connection.
pub(crate) fn join(
    link: &mut Link,
    tls: Option<&Tls>,
    token: &str,
    join: &Join,
    clock: &dyn Clock,
) -> Result<(), ExecError> {
    Talk::new(link, clock, HANDSHAKE).connect(tls, token, &join.encode()).map_err(failed)
}

/// Waits for what the store says next, as long as the others may take.
pub(crate) fn hear(link: &mut Link, clock: &dyn Clock, most: Duration) -> Result<Said, ExecError> {
    // The store takes some seconds more than the ranks to see that one of them says nothing.
    let most = most + HANDSHAKE + HANDSHAKE + HANDSHAKE;
    let mut talk = Talk::new(link, clock, most);
    let (kind, payload) = talk.expect_one(&[Kind::Roster, Kind::Go]).map_err(failed)?;
    if kind == Kind::Go {
        return Ok(Said::Go);
    }
    Roster::decode(&payload).map(Said::Roster).map_err(|_| failed(HandshakeError::Unexpected))
}

/// Tells the store how connecting to the others went.
pub(crate) fn tell(link: &mut Link, clock: &dyn Clock, met: &Met) -> Result<(), ExecError> {
    Talk::new(link, clock, HANDSHAKE).send(Kind::Met, &met.encode()).map_err(failed)
}
