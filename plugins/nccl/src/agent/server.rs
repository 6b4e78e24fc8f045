//! [`Server`]: where the ranks of a job's communicators meet. Each communicator whose ranks are all there with the
//! same table has a [`Group`], which leads it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use motet_runtime::{Frame, Group, Hello, Signature, Table, To};
use motet_units::Rank;

use super::Settings;
use super::link::{Broken, Link};
use super::pilots::{Making, Who, at_first};
use crate::log::Log;

/// The most connections. Each rank of each communicator has one.
const MOST_PEERS: usize = 1 << 14;
/// How long a stranger may be silent.
const INTRODUCTION: Duration = Duration::from_secs(5);

pub(super) struct Server {
    listener: TcpListener,
    token: String,
    log: Log,
    who: Who,
    /// Connections that have not said who they are, and since when they are there.
    strangers: Vec<(Link, Instant)>,
    gatherings: BTreeMap<u64, Gathering>,
}

/// The ranks of a communicator that have come, and the group that leads them once all have.
struct Gathering {
    ranks: u32,
    peers: BTreeMap<u32, Link>,
    /// The table that each came with.
    tables: BTreeMap<u32, (Signature, Table)>,
    /// The address at which each can be asked by others.
    places: BTreeMap<u32, String>,
    who: Who,
    group: Option<Group>,
    making: Option<Making>,
    /// Whether there will be no group: a rank has gone, or ranks have different tables.
    spoilt: bool,
}

impl Server {
    /// `None` if the address is another host's, or another process of the job was first.
    pub(super) fn listen(settings: &Settings, log: Log) -> Option<Self> {
        let listener = TcpListener::bind(&settings.address).ok()?;
        listener.set_nonblocking(true).ok()?;
        log.info(&format!("the agent listens at {}", settings.address));
        let token = settings.token.clone();
        let who = Who::asked(settings.policy.as_deref(), log);
        let (strangers, gatherings) = (Vec::new(), BTreeMap::new());
        Some(Self { listener, token, log, who, strangers, gatherings })
    }

    pub(super) const fn listener(&self) -> &TcpListener {
        &self.listener
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        let peers = self.gatherings.values().flat_map(|it| it.peers.values());
        self.strangers.iter().map(|it| &it.0).chain(peers)
    }

    pub(super) fn step(&mut self, turn: bool, now: Instant) {
        self.accept(now);
        self.introduce(now);
        for gathering in self.gatherings.values_mut() {
            gathering.step(turn, self.log);
        }
        self.gatherings.retain(|_, it| !it.peers.is_empty());
    }

    /// Ends what is under way, so that no rank waits for a verdict.
    pub(super) fn close(&mut self) {
        for gathering in self.gatherings.values_mut() {
            let parting = gathering.group.as_mut().and_then(Group::part);
            gathering.send(parting);
        }
    }

    fn accept(&mut self, now: Instant) {
        while self.links().count() < MOST_PEERS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if let Ok(link) = Link::new(stream) {
                self.strangers.push((link, now));
            }
        }
    }

    /// Lets connections in that begin with a right Hello, and closes those that say anything else, or nothing for too long.
    fn introduce(&mut self, now: Instant) {
        for (mut link, since) in std::mem::take(&mut self.strangers) {
            let Ok(frames) = link.receive() else { continue };
            let mut frames = frames.into_iter();
            match frames.next() {
                None if now - since < INTRODUCTION => self.strangers.push((link, since)),
                Some(Frame::Hello(hello)) if hello.token == self.token => {
                    self.let_in(hello, link, frames);
                }
                _ => {}
            }
        }
    }

    fn let_in(&mut self, hello: Hello, link: Link, frames: impl Iterator<Item = Frame>) {
        let Hello { communicator, rank: Rank(rank), ranks, port, .. } = hello;
        let who = self.who;
        let gathering = self.gatherings.entry(communicator).or_insert_with(|| Gathering {
            ranks,
            peers: BTreeMap::new(),
            tables: BTreeMap::new(),
            places: BTreeMap::new(),
            who,
            group: None,
            making: None,
            spoilt: false,
        });
        if gathering.ranks != ranks || gathering.peers.contains_key(&rank) {
            return;
        }
        let host = link.stream().peer_addr().ok().filter(|_| port != 0);
        let place = host.map(|it| std::net::SocketAddr::new(it.ip(), port).to_string());
        gathering.places.insert(rank, place.unwrap_or_default());
        gathering.peers.insert(rank, link);
        for frame in frames {
            gathering.take(rank, frame, self.log);
        }
    }
}

impl Gathering {
    fn step(&mut self, turn: bool, log: Log) {
        let mut gone = Vec::new();
        let ranks: Vec<u32> = self.peers.keys().copied().collect();
        for rank in ranks {
            let Some(link) = self.peers.get_mut(&rank) else { continue };
            match link.receive().and_then(|frames| link.flush().map(|()| frames)) {
                Ok(frames) => frames.into_iter().for_each(|it| self.take(rank, it, log)),
                Err(Broken(_)) => gone.push(rank),
            }
        }
        for rank in gone {
            self.peers.remove(&rank);
            self.spoilt = true;
            let parting = self.group.as_mut().and_then(Group::part);
            self.send(parting);
        }
        if turn && let Some(group) = &mut self.group {
            if let Some(pilot) = self.making.as_ref().and_then(|it| it.done(log)) {
                self.making = None;
                group.steer_by(pilot);
            }
            let sent = group.turn();
            group.reasons().iter().for_each(|it| log.info(it));
            self.send(sent);
        }
    }

    fn take(&mut self, rank: u32, frame: Frame, log: Log) {
        if let Frame::Table { signature, text } = frame {
            return self.take_table(rank, signature, &text, log);
        }
        let Some(group) = &mut self.group else { return };
        let (before, trials) = (group.switches(), group.trials());
        let answer = group.handle(Rank(rank), frame);
        if group.trials() != trials && trials == 0 {
            log.info(&format!(
                "all {} ranks try another table for a few calls (said once)",
                self.ranks
            ));
        }
        if group.switches() != before {
            let checksum = group.table().checksum();
            log.info(&format!("all {} ranks go over to table {checksum}", self.ranks));
        }
        self.send(answer);
    }

    /// With the table of the last rank to come, the group can begin.
    fn take_table(&mut self, rank: u32, signature: Signature, text: &str, log: Log) {
        let Ok(table) = Table::read(text) else {
            self.spoilt = true;
            return;
        };
        self.tables.insert(rank, (signature, table));
        if self.spoilt || self.group.is_some() || self.tables.len() < self.ranks as usize {
            return;
        }
        let Some((signature, table)) = self.tables.values().next().cloned() else { return };
        let same =
            |it: &(Signature, Table)| it.0 == signature && it.1.checksum() == table.checksum();
        if !self.tables.values().all(same) {
            self.spoilt = true;
            log.warn("no agent for a communicator whose ranks have different plans; copy one plan to all hosts");
            return;
        }
        log.info(&format!("the agent leads {} ranks with table {}", self.ranks, table.checksum()));
        self.making = Making::begin(self.who, table.clone(), signature);
        self.group = Some(Group::new(self.ranks, table, signature, at_first(self.who)));
        let places: Vec<String> = self.places.values().cloned().collect();
        self.send([(To::All, Frame::Peers(places))]);
    }

    fn send(&mut self, sent: impl IntoIterator<Item = (To, Frame)>) {
        for (to, frame) in sent {
            let meant = |rank: &u32| to == To::All || to == To::Rank(Rank(*rank));
            for (_, link) in self.peers.iter_mut().filter(|it| meant(it.0)) {
                // A link that is broken is found so when it is next received from.
                let _ = link.send(&frame);
            }
        }
    }
}
