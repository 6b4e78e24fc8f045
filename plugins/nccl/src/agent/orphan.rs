//! [`Orphan`]: a rank that has lost the leader. While it does not know what has become of a switch, it asks the other
//! ranks for it; after that, and if it was never in doubt, it only answers.
//!
//! A rank that cannot find out in [`PATIENCE`] has its calls fail (`ncclRemoteError`) rather than wait in the plugin,
//! where `ncclCommAbort` does not reach them. It does not guess: another rank may know better.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use motet_runtime::{Communicator, Frame, Hello, Member};
use motet_units::Rank;

use super::Settings;
use super::link::Link;
use crate::log::Log;

/// How long to ask. A rank that lives notices in much less that the leader is gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a connection may take: the thread has others to serve.
const TRY: Duration = Duration::from_millis(250);

pub(super) struct Orphan {
    member: Member,
    /// By rank, the address at which each can be asked.
    peers: Vec<String>,
    asked: BTreeMap<u32, Link>,
    /// The rank to be reached next.
    next: u32,
    since: Instant,
    /// Whether nothing is left to ask: what has become of the switch is known, or given up.
    settled: bool,
}

impl Orphan {
    pub(super) fn new(member: Member, peers: Vec<String>, now: Instant) -> Self {
        let settled = !member.in_doubt();
        Self { member, peers, asked: BTreeMap::new(), next: 0, since: now, settled }
    }

    pub(super) const fn member(&mut self) -> &mut Member {
        &mut self.member
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.asked.values()
    }

    pub(super) fn step(
        &mut self,
        about: &Communicator,
        settings: &Settings,
        log: Log,
        turn: bool,
        now: Instant,
    ) {
        if self.settled {
            return;
        }
        self.reach_next(about, settings);
        self.hear();
        if !self.member.in_doubt() {
            self.settled = true;
            self.asked.clear();
            return log.info("the ranks have settled the switch of tables that was under way");
        }
        if now - self.since > PATIENCE {
            self.settled = true;
            self.asked.clear();
            self.member.runtime().despair();
            return log.warn(
                "no rank can be reached that knows whether tables are switched: calls fail; abort the communicator",
            );
        }
        if turn && let Some((_, ask)) = self.member.poll() {
            self.asked.retain(|_, link| link.send(&Frame::Agreement(ask)).is_ok());
        }
    }

    /// Connects to one of those that are not connected.
    fn reach_next(&mut self, about: &Communicator, settings: &Settings) {
        let rank = self.next;
        self.next = (rank + 1) % about.ranks.max(1);
        if rank == about.rank || self.asked.contains_key(&rank) {
            return;
        }
        let place = self.peers.get(rank as usize).filter(|it| !it.is_empty());
        let place = place.and_then(|it| it.to_socket_addrs().ok()?.next());
        let Some(place) = place else { return };
        let Ok(stream) = TcpStream::connect_timeout(&place, TRY) else { return };
        let Ok(mut link) = Link::new(stream) else { return };
        let hello = Hello {
            communicator: about.id,
            rank: Rank(about.rank),
            ranks: about.ranks,
            port: 0,
            token: settings.token.clone(),
        };
        let greeted = link.send(&Frame::Hello(hello));
        let asked = self.member.poll().map(|(_, ask)| link.send(&Frame::Agreement(ask)));
        if greeted.is_ok() && asked.is_none_or(|it| it.is_ok()) {
            self.asked.insert(rank, link);
        }
    }

    fn hear(&mut self) {
        let mut said = Vec::new();
        self.asked.retain(|_, link| match link.receive() {
            Ok(frames) => {
                said.extend(frames);
                link.flush().is_ok()
            }
            Err(_) => false,
        });
        for frame in said {
            if let Frame::Agreement(message) = frame {
                let _ = self.member.handle(message);
            }
        }
    }
}
