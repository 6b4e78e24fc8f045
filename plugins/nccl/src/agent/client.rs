//! [`Client`]: one rank of one communicator, and its connection to the leader.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use motet_runtime::{Communicator, Frame, Hello, Member, Table, To, View};
use motet_units::Rank;

use super::Settings;
use super::link::{Broken, Link};
use crate::log::Log;
use crate::registry;

/// How long to try to reach the leader, and how long each try may take.
const REACH: Duration = Duration::from_secs(60);
const TRY: Duration = Duration::from_millis(250);
/// How many operations before a switch whose verdict is late the rank asks for it.
const ASK_AHEAD: u64 = 16;

pub(super) struct Client {
    about: Communicator,
    log: Log,
    stage: Stage,
}

enum Stage {
    /// Until its tuner is there and the leader can be reached.
    New {
        since: Option<Instant>,
    },
    Joined(Joined),
    /// It has no plan, or no leader: the table that it has stays.
    Alone,
}

struct Joined {
    link: Link,
    member: Member,
}

impl Client {
    pub(super) const fn new(about: Communicator, log: Log) -> Self {
        Self { about, log, stage: Stage::New { since: None } }
    }

    pub(super) const fn is_of(&self, communicator: u64, rank: u32) -> bool {
        self.about.id == communicator && self.about.rank == rank
    }

    pub(super) const fn link(&self) -> Option<&Link> {
        match &self.stage {
            Stage::Joined(it) => Some(&it.link),
            Stage::New { .. } | Stage::Alone => None,
        }
    }

    /// Does what can be done now; `turn` is when a report is due.
    pub(super) fn step(&mut self, settings: &Settings, turn: bool, now: Instant) {
        match &mut self.stage {
            Stage::New { since } if turn => {
                let since = *since.get_or_insert(now);
                match self.join(settings) {
                    Ok(Some(joined)) => self.stage = Stage::Joined(joined),
                    Ok(None) => {}
                    Err(why) if now - since > REACH => self.stop(&why),
                    Err(_) => {}
                }
            }
            Stage::New { .. } | Stage::Alone => {}
            Stage::Joined(joined) => {
                if let Err(Broken(why)) = joined.step(self.about.rank, turn) {
                    let waits = joined.member.in_doubt();
                    self.stop(&why);
                    if waits {
                        // See `motet_runtime::agreement`: ranks that guess may guess differently.
                        self.log.warn(
                            "a switch of tables was under way: calls wait for ever; end the job",
                        );
                    }
                }
            }
        }
    }

    fn stop(&mut self, why: &str) {
        self.log.warn(&format!(
            "no agent for this communicator any more: {why}; the table stays as it is"
        ));
        self.stage = Stage::Alone;
    }

    /// `None` as long as the tuner is not there; why not, if the leader cannot be reached.
    fn join(&mut self, settings: &Settings) -> Result<Option<Joined>, String> {
        let Communicator { id, rank, ranks, .. } = self.about;
        let Some(runtime) = registry::only(id) else { return Ok(None) };
        let Some(view) = runtime.table() else {
            self.log.info("no agent for a communicator without a plan");
            self.stage = Stage::Alone;
            return Ok(None);
        };
        let address = &settings.address;
        let wrong = |it: std::io::Error| format!("MOTET_AGENT={address}: {it}");
        let place = settings
            .place
            .ok_or_else(|| format!("MOTET_AGENT={address} is no address; give HOST:PORT"))?;
        let stream = TcpStream::connect_timeout(&place, TRY).map_err(wrong)?;
        let broken = |Broken(it): Broken| it;
        let mut link = Link::new(stream).map_err(broken)?;
        let token = settings.token.clone();
        let hello = Hello { communicator: id, rank: Rank(rank), ranks, token };
        link.send(&Frame::Hello(hello)).map_err(broken)?;
        let (signature, text) = (view.signature(), view.table().write());
        link.send(&Frame::Table { signature, text }).map_err(broken)?;
        Ok(Some(Joined { link, member: Member::new(Rank(rank), runtime, ASK_AHEAD) }))
    }
}

impl Joined {
    fn step(&mut self, rank: u32, turn: bool) -> Result<(), Broken> {
        for frame in self.link.receive()? {
            self.take(frame)?;
        }
        if turn {
            let runtime = self.member.runtime();
            let report = runtime.report(Rank(rank));
            let standing = Frame::Standing { position: runtime.position(), report };
            self.link.send(&standing)?;
        }
        if let Some((_, ask)) = self.member.poll() {
            self.link.send(&Frame::Agreement(ask))?;
        }
        self.link.flush()
    }

    fn take(&mut self, frame: Frame) -> Result<(), Broken> {
        match frame {
            Frame::Table { signature, text } => {
                let table = Table::read(&text).map_err(|it| Broken(it.to_string()))?;
                self.member.prepare(Arc::new(View::new(table, signature)));
                Ok(())
            }
            Frame::Agreement(message) => match self.member.handle(message) {
                // The leader is the only one that this rank can reach, and all that it needs.
                Some((To::Leader | To::All, answer)) => self.link.send(&Frame::Agreement(answer)),
                _ => Ok(()),
            },
            Frame::Hello(_) | Frame::Standing { .. } => {
                Err(Broken("the leader speaks as a rank does".to_owned()))
            }
        }
    }
}
