//! [`Inbox`]: the engine's message queue, by which connections, switches and HTTP handlers reach it.

use std::sync::mpsc::{Receiver, Sender};

use motet_control::controller::{Answer, RegisterError};
use motet_control::protocol::{JobId, Member, Notice, Registration, Report, TenantId};
use motet_control::{Controller, SwitchId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::seats::{Presence, Seats};
use crate::timeline::{History, Moment};

/// The unique number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A message to the engine.
pub enum Message {
    Register(Registration, oneshot::Sender<Result<(), RegisterError>>),
    Leave(JobId, oneshot::Sender<()>),
    /// A connection begins. The engine sends it notices through the first channel, in batches, and drops the
    /// second one to close the connection.
    Connect(ConnectionId, mpsc::Sender<Vec<Notice>>, oneshot::Sender<()>),
    /// These members use this connection from now on, and no longer another. With a tenant, only its jobs are
    /// accepted.
    Join {
        connection: ConnectionId,
        seats: Vec<(JobId, Member)>,
        tenant: Option<TenantId>,
        reply: oneshot::Sender<Result<(), JoinError>>,
    },
    Gone(ConnectionId),
    /// Reports of members that have joined on that connection. The permit is dropped when all messages that
    /// follow from them have been sent, which limits how many reports of a connection are under way.
    Reports(ConnectionId, Vec<Told>, OwnedSemaphorePermit),
    Switch(SwitchId, Answer),
    /// A question about the controller or the engine, answered on the engine's thread.
    Look(Box<dyn FnOnce(&Sight<'_>) + Send>),
    Stop(oneshot::Sender<()>),
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Register(..) => "Register",
            Self::Leave(..) => "Leave",
            Self::Connect(..) => "Connect",
            Self::Join { .. } => "Join",
            Self::Gone(..) => "Gone",
            Self::Reports(..) => "Reports",
            Self::Switch(..) => "Switch",
            Self::Look(..) => "Look",
            Self::Stop(..) => "Stop",
        })
    }
}

/// A report, and when its member's last calls ran, for the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub report: Report,
    pub traffic: Option<Ago>,
}

/// A run of calls over circuits: how many microseconds before the report the first call began and the last
/// one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ago {
    pub began: u64,
    pub ended: u64,
}

/// A read-only view of the engine.
#[derive(Debug)]
pub struct Sight<'a> {
    pub controller: &'a Controller,
    pub history: &'a History,
    pub now: Moment,
    pub(super) seats: &'a Seats,
}

impl Sight<'_> {
    /// How many members a job has, and how many have a connection.
    #[must_use]
    pub fn presence(&self, job: JobId) -> Presence {
        self.seats.presence(job)
    }

    /// The members of a job that have no connection, at most the first `most` of them.
    #[must_use]
    pub fn absent(&self, job: JobId, most: usize) -> Vec<Member> {
        self.seats.absent(job, most)
    }
}

/// Why a member cannot join on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("{0} is not registered; register it and connect again")]
    NoSuchJob(JobId),
    #[error("{1} is no member of {0}; see the job's registration")]
    NoSuchMember(JobId, Member),
}

/// The engine has stopped.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the controller is stopping; connect again when it is back")]
pub struct Stopped;

/// The sending end of the engine's message queue.
#[derive(Clone, Debug)]
pub struct Inbox {
    sender: Sender<Message>,
}

pub(super) fn channel() -> (Inbox, Receiver<Message>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    (Inbox { sender }, receiver)
}

impl Inbox {
    /// Sends a message to the engine. It is never lost while the engine runs.
    ///
    /// # Errors
    ///
    /// If the engine has stopped.
    pub fn send(&self, message: Message) -> Result<(), Stopped> {
        self.sender.send(message).map_err(|_| Stopped)
    }

    /// Asks a question about the controller.
    ///
    /// # Errors
    ///
    /// If the engine has stopped.
    pub async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Controller) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.see(|sight| question(sight.controller)).await
    }

    /// Asks a question about the engine.
    ///
    /// # Errors
    ///
    /// If the engine has stopped.
    pub async fn see<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Sight<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Look(Box::new(move |sight| {
            // Whoever asked may have gone.
            let _ = reply.send(question(sight));
        })))?;
        answer.await.map_err(|_| Stopped)
    }

    /// Registers a job. The answer comes when the registration is in the store.
    ///
    /// # Errors
    ///
    /// If the engine has stopped.
    pub async fn register(&self, it: Registration) -> Result<Result<(), RegisterError>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Register(it, reply))?;
        answer.await.map_err(|_| Stopped)
    }

    /// Ends a job. The answer comes when its end is in the store.
    ///
    /// # Errors
    ///
    /// If the engine has stopped.
    pub async fn leave(&self, job: JobId) -> Result<(), Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Leave(job, reply))?;
        answer.await.map_err(|_| Stopped)
    }
}
