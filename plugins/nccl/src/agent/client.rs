//! [`Client`]: one rank of one communicator, and its connection to the leader. When that is lost, the rank asks the
//! others what has become of a switch under way (`motet_runtime::agreement` says why it cannot decide alone), and
//! answers when they ask; see [`Orphan`].

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use motet_runtime::{Communicator, Frame, Hello, Member, Message, Table, To, View};
use motet_units::Rank;

use super::Settings;
use super::link::{Broken, Link};
use super::orphan::Orphan;
use crate::log::Log;
use crate::registry;

/// How long to try to reach the leader.
const REACH: Duration = Duration::from_secs(60);
/// How long each try may take.
const TRY: Duration = Duration::from_millis(250);
/// How long a leader may leave a call waiting.
const SILENCE: Duration = Duration::from_secs(60);
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
    Orphan(Orphan),
    /// It has no plan, or no leader: the table that it has stays.
    Alone,
}

struct Joined {
    link: Link,
    member: Member,
    /// By rank, the address at which each can be asked.
    peers: Vec<String>,
    /// Since when the verdict on a call that waits has been asked for.
    waits: Option<Instant>,
}

impl Client {
    pub(super) const fn new(about: Communicator, log: Log) -> Self {
        Self { about, log, stage: Stage::New { since: None } }
    }

    pub(super) const fn is_of(&self, communicator: u64, rank: u32) -> bool {
        self.about.id == communicator && self.about.rank == rank
    }

    pub(super) const fn is_about(&self, communicator: u64) -> bool {
        self.about.id == communicator
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        let (own, asked) = match &self.stage {
            Stage::Joined(it) => (Some(&it.link), None),
            Stage::Orphan(it) => (None, Some(it.links())),
            Stage::New { .. } | Stage::Alone => (None, None),
        };
        own.into_iter().chain(asked.into_iter().flatten())
    }

    /// What this rank says to another that asks it, if it can say anything.
    pub(super) fn answer(&mut self, message: Message) -> Option<Message> {
        let Message::Ask { .. } = message else { return None };
        let member = match &mut self.stage {
            Stage::Joined(it) => &mut it.member,
            Stage::Orphan(it) => it.member(),
            Stage::New { .. } | Stage::Alone => return None,
        };
        member.handle(message).map(|it| it.1)
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
                if let Err(Broken(why)) = joined.step(self.about.rank, turn, now) {
                    self.lose(&why, now);
                }
            }
            Stage::Orphan(orphan) => orphan.step(&self.about, settings, self.log, turn, now),
        }
    }

    fn stop(&mut self, why: &str) {
        self.say_end(why);
        self.stage = Stage::Alone;
    }

    fn say_end(&self, why: &str) {
        self.log.warn(&format!(
            "no agent for this communicator any more: {why}; the table stays as it is"
        ));
    }

    /// The leader is gone.
    fn lose(&mut self, why: &str, now: Instant) {
        self.say_end(why);
        if let Stage::Joined(joined) = std::mem::replace(&mut self.stage, Stage::Alone) {
            let Joined { mut member, peers, .. } = joined;
            member.lose_leader(self.about.ranks);
            if member.in_doubt() {
                self.log
                    .warn("a switch of tables was under way; the ranks settle it among themselves");
            }
            self.stage = Stage::Orphan(Orphan::new(member, peers, now));
        }
    }

    /// Connects to the leader. `None` as long as the communicator has no tuner yet, or if it has no plan; an error if the leader
    /// cannot be reached.
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
        let port = settings.port;
        let hello = Hello { communicator: id, rank: Rank(rank), ranks, port, token };
        link.send(&Frame::Hello(hello)).map_err(broken)?;
        let (signature, text) = (view.signature(), view.table().write());
        link.send(&Frame::Table { signature, text }).map_err(broken)?;
        let member = Member::new(Rank(rank), runtime, ASK_AHEAD);
        Ok(Some(Joined { link, member, peers: Vec::new(), waits: None }))
    }
}

impl Joined {
    fn step(&mut self, rank: u32, turn: bool, now: Instant) -> Result<(), Broken> {
        for frame in self.link.receive()? {
            self.take(frame)?;
        }
        if turn {
            let runtime = self.member.runtime();
            for report in runtime.reports(Rank(rank)) {
                let standing = Frame::Standing { position: runtime.position(), report };
                self.link.send(&standing)?;
            }
        }
        match self.member.poll() {
            Some((to, ask)) => {
                self.link.send(&Frame::Agreement(ask))?;
                // A call waits: a leader that is silent for so long is as good as gone.
                let since = *self.waits.get_or_insert(now);
                if to == To::All && now - since > SILENCE {
                    return Err(Broken("it is silent".to_owned()));
                }
            }
            None => self.waits = None,
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
                // As long as there is a leader, what is for all goes to the leader alone.
                Some((To::Leader | To::All, answer)) => self.link.send(&Frame::Agreement(answer)),
                _ => Ok(()),
            },
            Frame::Peers(places) => {
                self.peers = places;
                Ok(())
            }
            Frame::Hello(_) | Frame::Standing { .. } => {
                Err(Broken("the leader speaks as a rank does".to_owned()))
            }
        }
    }
}
