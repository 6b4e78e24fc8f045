//! The manager of a scale-up domain as a program (`motet manager`). The ranks of one job on one host connect
//! to it over a Unix socket (`motet_control::wire`), and it connects to the controller over gRPC. All its
//! decisions are made in `motet_control::manager`.
//!
//! If the controller cannot be reached for longer than the manager's patience, ranks are told to pass: until
//! the controller is back, no call waits any more. So a lost controller costs a job its circuits at worst.
//!
//! - [`ranks`]: the socket; [`upstream`]: the connection to the controller, made again whenever it breaks;
//! - `traffic`: when calls went over circuits, for the dashboard.

pub mod ranks;
mod traffic;
pub mod upstream;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use motet_control::Manager;
use motet_control::manager::{Network, Said};
use motet_control::protocol::{JobId, Member, Notice};
use motet_control::shim::{Mode, Tell};
use motet_control::wire::Frame;
use motet_units::Rank;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::v1;
use crate::client::Client;
use crate::job::JobSpec;

/// How often the manager checks its time-outs.
const TICK: Duration = Duration::from_millis(100);
/// How often reports that were not answered are repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// A manager's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub spec: JobSpec,
    pub member: u32,
    pub socket: PathBuf,
    /// How long the controller may be gone before ranks are told to pass.
    pub patience: Duration,
}

/// An event that a manager handles.
#[derive(Debug)]
pub enum Event {
    /// A rank has said hello; frames for it go through the channel.
    Rank(Rank, mpsc::Sender<Frame>),
    Frame(Rank, Frame),
    /// A rank's connection has ended. The sender identifies the connection, because the rank may have
    /// connected again meanwhile.
    Gone(Rank, mpsc::Sender<Frame>),
    /// The controller can be reached; messages for it go through the channel.
    Up(mpsc::Sender<v1::ToController>),
    Notices(Vec<Notice>),
    Down,
}

/// Why a manager does not run.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    #[error("{0}")]
    Spec(String),
    #[error("the socket {0}: {1}; check that its folder exists, and that no other manager has it")]
    Socket(PathBuf, std::io::Error),
}

/// Runs a manager until it is told to stop, or all its ranks have said goodbye.
///
/// # Errors
///
/// If the job's description is invalid or the socket cannot be made.
pub async fn run(
    settings: Settings,
    client: Client,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ManagerError> {
    let registration = settings.spec.registration().map_err(ManagerError::Spec)?;
    let job = registration.job;
    let groups = settings.spec.ranks(settings.member).map_err(ManagerError::Spec)?;
    let (events, mut inbox) = mpsc::channel(4096);
    let listener = ranks::bind(&settings.socket)
        .map_err(|it| ManagerError::Socket(settings.socket.clone(), it))?;
    let socket = tokio::spawn(ranks::listen(listener, job, events.clone()));
    let up = upstream::Upstream { client: client.clone(), registration, member: settings.member };
    let (over, ends) = watch::channel(false);
    let mut up = tokio::spawn(up.run(events, ends));
    info!(%job, member = settings.member, socket = %settings.socket.display(), "manages");
    let member = Member(settings.member);
    let mut desk = Desk {
        job,
        mode: settings.spec.mode,
        patience: settings.patience,
        manager: Manager::new(job, member, groups, settings.spec.rule()),
        ranks: BTreeMap::new(),
        ended: 0,
        controller: None,
        lost: Some(Instant::now()),
        passing: false,
        said: Instant::now(),
        runs: traffic::Runs::default(),
    };
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            event = inbox.recv() => match event {
                Some(event) => desk.take(event),
                None => break,
            },
            _ = tick.tick() => desk.tick(),
            _ = stop.changed() => break,
        }
        if desk.is_over() {
            info!(%job, "all ranks have said goodbye; the job leaves");
            // First make sure that the upstream task does not register the job again.
            let _ = over.send(true);
            let _ = tokio::time::timeout(AGAIN, &mut up).await;
            let leave = client.request(v1::LeaveRequest { job: job.0 });
            let mut calls = client.calls();
            let left = tokio::time::timeout(AGAIN, calls.leave(leave)).await;
            if !matches!(left, Ok(Ok(_))) {
                warn!(%job, "the controller did not hear that the job has left; it will find out");
            }
            break;
        }
    }
    socket.abort();
    up.abort();
    // Nobody listens on the socket any more, so only its file is left.
    let _ = std::fs::remove_file(&settings.socket);
    Ok(())
}

/// The state machine, with the connections to ranks and to the controller.
struct Desk {
    job: JobId,
    mode: Mode,
    patience: Duration,
    manager: Manager,
    ranks: BTreeMap<Rank, mpsc::Sender<Frame>>,
    /// Ranks that have said goodbye.
    ended: usize,
    controller: Option<mpsc::Sender<v1::ToController>>,
    /// When the controller was lost; `None` while it can be reached.
    lost: Option<Instant>,
    passing: bool,
    said: Instant,
    runs: traffic::Runs,
}

impl Desk {
    fn is_over(&self) -> bool {
        self.ended > 0 && self.ranks.is_empty()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Rank(rank, sender) => {
                self.ranks.insert(rank, sender);
                self.tell(rank, Frame::Welcome(self.mode));
                if self.passing {
                    self.tell(rank, Frame::Pass);
                }
            }
            Event::Frame(rank, Frame::Tell(tell)) => {
                let said = self.told(rank, tell);
                self.say(said);
                if self.passing {
                    let said = self.manager.give_up();
                    self.say(said);
                }
            }
            Event::Frame(rank, Frame::Bye) => {
                self.ended += usize::from(self.ranks.remove(&rank).is_some());
            }
            // Ranks can send no other frames.
            Event::Frame(..) => {}
            Event::Gone(rank, sender) => {
                if self.ranks.get(&rank).is_some_and(|it| it.same_channel(&sender)) {
                    warn!(%rank, "the rank is gone without a goodbye");
                    self.ranks.remove(&rank);
                }
            }
            Event::Up(sender) => self.up(sender),
            Event::Notices(notices) => {
                for notice in notices {
                    let said = self.manager.hear(&notice);
                    self.say(said);
                }
            }
            Event::Down => {
                self.controller = None;
                self.lost.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Handles a shim's message, and records when calls over circuits have ended.
    fn told(&mut self, rank: Rank, tell: Tell) -> Vec<Said> {
        let Tell::Ended(group) = tell else { return self.manager.tell(rank, tell) };
        let before = self.manager.ended(group);
        let said = self.manager.tell(rank, tell);
        if self.manager.ended(group) > before {
            self.runs.ended(group, Instant::now());
        }
        said
    }

    fn up(&mut self, sender: mpsc::Sender<v1::ToController>) {
        self.controller = Some(sender);
        let long = self.lost.take().is_some_and(|it| it.elapsed() > self.patience);
        if long {
            // The circuits may belong to others by now.
            self.manager.let_go();
        }
        if std::mem::take(&mut self.passing) {
            info!(job = %self.job, "the controller is back");
            self.tell_all(Frame::Resume);
        }
        let reports = self.manager.reports().map(|it| (&it).into()).collect();
        self.report(reports);
    }

    fn tick(&mut self) {
        let long = self.lost.is_some_and(|it| it.elapsed() > self.patience);
        if long && !self.passing {
            warn!(job = %self.job, "the controller is gone for {:?}; calls pass", self.patience);
            self.passing = true;
            self.tell_all(Frame::Pass);
            let said = self.manager.give_up();
            self.say(said);
        }
        if self.controller.is_some() && self.said.elapsed() > AGAIN {
            let reports: Vec<v1::Report> = self.manager.again().map(|it| (&it).into()).collect();
            self.said = Instant::now();
            if !reports.is_empty() {
                self.report(reports);
            }
        }
    }

    fn say(&mut self, said: Vec<Said>) {
        let now = Instant::now();
        let mut reports = Vec::new();
        for it in said {
            match it {
                Said::Report(report) => reports.push(self.runs.with(&report, now)),
                Said::Go { rank, group, network } => {
                    if network == Network::Rails {
                        self.runs.goes(group, rank, now);
                    }
                    self.tell(rank, Frame::Go { group, network });
                }
            }
        }
        if !reports.is_empty() {
            self.said = Instant::now();
            self.report(reports);
        }
    }

    fn report(&mut self, reports: Vec<v1::Report>) {
        let Some(controller) = &self.controller else { return };
        let message = v1::ToController { join: Vec::new(), reports };
        if controller.try_send(message).is_err() {
            // The controller's connection takes no more messages. All state is reported again when it is
            // back.
            self.controller = None;
            self.lost.get_or_insert_with(Instant::now);
        }
    }

    fn tell(&mut self, rank: Rank, frame: Frame) {
        let Some(sender) = self.ranks.get(&rank) else { return };
        if sender.try_send(frame).is_err() {
            warn!(%rank, "the rank does not read what it is told; its connection is closed");
            self.ranks.remove(&rank);
        }
    }

    fn tell_all(&mut self, frame: Frame) {
        let all: Vec<Rank> = self.ranks.keys().copied().collect();
        for rank in all {
            self.tell(rank, frame);
        }
    }
}
