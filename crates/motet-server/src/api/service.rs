//! [`ControlService`]: answers gRPC calls, by asking the engine.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use motet_control::controller::RegisterError;
use motet_control::protocol::{JobId, Member, Notice, Registration, Report};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

use super::convert::{MOST_REPORTS, Malformed};
use super::v1;
use super::v1::control_server::Control;
use crate::auth::Caller;
use crate::engine::{Ago, ConnectionId, Inbox, JoinError, Message, Told};
use crate::metrics::Metrics;

/// How many reports of one connection may wait for the engine.
const UNDER_WAY: usize = 1024;
/// How many messages a client may leave unread before its connection is closed.
const UNREAD: usize = 256;

/// The gRPC service.
#[derive(Clone, Debug)]
pub struct ControlService {
    inbox: Inbox,
    metrics: Arc<Metrics>,
    connections: Arc<AtomicU64>,
}

impl ControlService {
    #[must_use]
    pub fn new(inbox: Inbox, metrics: Arc<Metrics>) -> Self {
        Self { inbox, metrics, connections: Arc::default() }
    }

    fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
        // Every route passes the check first, which adds the caller. If one did not, nobody may be let in
        // because of that.
        let none = || Status::unauthenticated("the request has no caller");
        request.extensions().get::<Caller>().cloned().ok_or_else(none)
    }

    fn refuse(&self, caller: &Caller, kind: &'static str, status: Status) -> Status {
        self.metrics.refuse(kind);
        warn!(%caller, kind, "refused: {}", status.message());
        status
    }

    fn check_job(&self, caller: &Caller, job: JobId) -> Result<(), Status> {
        if caller.speaks_for(job) {
            return Ok(());
        }
        let status = Status::permission_denied(format!("this token does not speak for {job}"));
        Err(self.refuse(caller, "wrong_job", status))
    }
}

/// The status of a call that the engine does not answer because it is stopping.
fn stopped(it: impl std::fmt::Display) -> Status {
    Status::unavailable(it.to_string())
}

fn malformed(it: &Malformed) -> Status {
    Status::invalid_argument(it.to_string())
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let caller = Self::caller(&request)?;
        let it = Registration::try_from(request.into_inner())
            .map_err(|it| self.refuse(&caller, "malformed", malformed(&it)))?;
        self.check_job(&caller, it.job)?;
        if !caller.may_register(it.tenant) {
            let status = Status::permission_denied(format!("this token is not {}'s", it.tenant));
            return Err(self.refuse(&caller, "wrong_tenant", status));
        }
        match self.inbox.register(it).await.map_err(stopped)? {
            Ok(()) => Ok(Response::new(v1::RegisterResponse {})),
            Err(why @ RegisterError::Exists(_)) => Err(Status::already_exists(why.to_string())),
            Err(why) => Err(Status::failed_precondition(why.to_string())),
        }
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveResponse>, Status> {
        let caller = Self::caller(&request)?;
        let job = JobId(request.into_inner().job);
        self.check_job(&caller, job)?;
        let mine = caller.clone();
        let may = self
            .inbox
            .look(move |it| it.registration(job).is_none_or(|it| mine.may_register(it.tenant)));
        if !may.await.map_err(stopped)? {
            let status = Status::permission_denied(format!("{job} is another tenant's"));
            return Err(self.refuse(&caller, "wrong_tenant", status));
        }
        self.inbox.leave(job).await.map_err(stopped)?;
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn inspect(
        &self,
        request: Request<v1::InspectRequest>,
    ) -> Result<Response<v1::InspectResponse>, Status> {
        let caller = Self::caller(&request)?;
        let job = JobId(request.into_inner().job);
        let look = self.inbox.look(move |it| {
            let registration =
                it.registration(job).filter(|it| caller.may_see(it.job, it.tenant))?;
            let groups = it.groups(job).map(Into::into).collect();
            let ports = u32::try_from(registration.ports.len()).unwrap_or(u32::MAX);
            Some(v1::InspectResponse { tenant: registration.tenant.0, ports, groups })
        });
        let found = look.await.map_err(stopped)?;
        found.map(Response::new).ok_or_else(|| Status::not_found(format!("there is no {job}")))
    }

    type ConnectStream = Replies;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ToController>>,
    ) -> Result<Response<Replies>, Status> {
        let caller = Self::caller(&request)?;
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed));
        let (notices, unread) = mpsc::channel(UNREAD);
        let (out, replies) = mpsc::channel(4);
        let (open, closed) = oneshot::channel();
        self.inbox.send(Message::Connect(id, notices, open)).map_err(stopped)?;
        let conversation = {
            let room = Arc::new(Semaphore::new(UNDER_WAY));
            Conversation {
                id,
                caller,
                service: self.clone(),
                seats: BTreeSet::new(),
                room,
                out,
                closed,
            }
        };
        tokio::spawn(conversation.run(request.into_inner()));
        Ok(Response::new(Replies { unread, replies, done: false, ended: false }))
    }
}

/// The messages to one client: notices from the engine, confirmed joins, and the error that ends the
/// conversation.
#[derive(Debug)]
pub struct Replies {
    unread: mpsc::Receiver<Vec<Notice>>,
    replies: mpsc::Receiver<Result<v1::FromController, Status>>,
    /// Whether the client's side of the conversation has ended.
    done: bool,
    ended: bool,
}

impl Stream for Replies {
    type Item = Result<v1::FromController, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.replies.poll_recv(context) {
            Poll::Ready(Some(reply)) => {
                self.ended = reply.is_err();
                return Poll::Ready(Some(reply));
            }
            Poll::Ready(None) => self.done = true,
            Poll::Pending => {}
        }
        match self.unread.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            // The engine has closed it: too much was left unread, or the service stops.
            Poll::Ready(None) => {
                self.ended = true;
                if self.done {
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(Status::unavailable("the controller closed the connection"))))
            }
            Poll::Ready(Some(first)) => {
                let mut notices: Vec<v1::Notice> = first.iter().map(Into::into).collect();
                while let Ok(more) = self.unread.try_recv() {
                    notices.extend(more.iter().map(v1::Notice::from));
                }
                Poll::Ready(Some(Ok(v1::FromController { notices, joined: Vec::new() })))
            }
        }
    }
}

/// The client's side of one connection, from beginning to end.
struct Conversation {
    id: ConnectionId,
    caller: Caller,
    service: ControlService,
    seats: BTreeSet<(JobId, Member)>,
    /// Limits how many of its reports wait for the engine.
    room: Arc<Semaphore>,
    /// Fires when the engine closes the connection.
    closed: oneshot::Receiver<()>,
    out: mpsc::Sender<Result<v1::FromController, Status>>,
}

impl Conversation {
    async fn run(mut self, mut said: Streaming<v1::ToController>) {
        let metrics = Arc::clone(&self.service.metrics);
        metrics.connections.inc();
        let end = self.listen(&mut said).await;
        metrics.connections.dec();
        match end {
            Ok(()) => info!(caller = %self.caller, connection = self.id.0, "disconnected"),
            Err(status) => {
                warn!(caller = %self.caller, connection = self.id.0, "disconnected: {}", status.message());
                let _ = self.out.try_send(Err(status));
            }
        }
        // If the engine has stopped, there is nothing to tell.
        let _ = self.service.inbox.send(Message::Gone(self.id));
    }

    async fn listen(&mut self, said: &mut Streaming<v1::ToController>) -> Result<(), Status> {
        loop {
            let message = tokio::select! {
                message = said.message() => message.map_err(|it| self.misread(it))?,
                () = self.out.closed() => None,
                _ = &mut self.closed => {
                    let why = "the controller closed the connection: it stops, too much was left unread, or a member speaks elsewhere by now; \
                               connect again";
                    return Err(Status::unavailable(why));
                }
            };
            let Some(message) = message else { return Ok(()) };
            if !message.join.is_empty() {
                self.join(message.join).await?;
            }
            if !message.reports.is_empty() {
                self.reports(message.reports).await?;
            }
        }
    }

    /// The status of a message that could not be read. It counts as a refusal if the message is malformed or
    /// too long, but not if the connection has broken.
    fn misread(&self, status: Status) -> Status {
        match status.code() {
            tonic::Code::OutOfRange => self.service.refuse(&self.caller, "oversized", status),
            tonic::Code::Internal => self.service.refuse(&self.caller, "malformed", status),
            _ => status,
        }
    }

    async fn join(&mut self, seats: Vec<v1::Seat>) -> Result<(), Status> {
        let asked: Vec<(JobId, Member)> =
            seats.iter().map(|it| (JobId(it.job), Member(it.member))).collect();
        for (job, _) in &asked {
            self.service.check_job(&self.caller, *job)?;
        }
        let (reply, answer) = oneshot::channel();
        let tenant = self.caller.tenant();
        let join = Message::Join { connection: self.id, seats: asked.clone(), tenant, reply };
        self.service.inbox.send(join).map_err(stopped)?;
        answer.await.map_err(stopped)?.map_err(|why: JoinError| {
            self.service.refuse(&self.caller, "no_such_seat", Status::not_found(why.to_string()))
        })?;
        self.seats.extend(asked);
        let joined = v1::FromController { notices: Vec::new(), joined: seats };
        self.out.send(Ok(joined)).await.map_err(stopped)
    }

    async fn reports(&mut self, reports: Vec<v1::Report>) -> Result<(), Status> {
        let refuse = |kind, status| self.service.refuse(&self.caller, kind, status);
        if reports.len() > MOST_REPORTS {
            let most = format!("more than {MOST_REPORTS} reports in one message");
            return Err(refuse("oversized", Status::invalid_argument(most)));
        }
        let mut all = Vec::with_capacity(reports.len());
        for report in reports {
            let traffic =
                report.traffic.map(|it| Ago { began: it.began_us_ago, ended: it.ended_us_ago });
            let report = Report::try_from(report);
            let report = report.map_err(|it| refuse("malformed", malformed(&it)))?;
            if !self.seats.contains(&(report.job, report.member)) {
                let who =
                    format!("{} of {} has not joined on this stream", report.member, report.job);
                return Err(refuse("not_joined", Status::permission_denied(who)));
            }
            all.push(Told { report, traffic });
        }
        // Wait until the engine has handled enough earlier reports; meanwhile nothing more is read from this
        // client.
        let count = u32::try_from(all.len().min(UNDER_WAY)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(count);
        let permit = permit.await.map_err(stopped)?;
        self.service.inbox.send(Message::Reports(self.id, all, permit)).map_err(stopped)
    }
}

impl From<motet_control::controller::GroupView> for v1::GroupState {
    fn from(it: motet_control::controller::GroupView) -> Self {
        let count = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Self {
            group: it.group.0,
            circuits: count(it.circuits),
            set: count(it.set),
            queued: it.queued,
            changing: it.changing,
            away: count(it.away),
            asking: count(it.asking),
            holding: count(it.holding),
            unknown: count(it.unknown),
        }
    }
}
