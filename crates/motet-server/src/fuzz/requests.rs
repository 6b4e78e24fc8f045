//! [`check`]: whole requests over gRPC and HTTP, to a service that has everything but a socket: its routes,
//! its engine on a thread of its own, a store in memory, a simulated switch. The requests are made by one
//! tenant; another tenant has a job that holds circuits, which must not be touched.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, header};
use hyper_util::server::graceful::GracefulShutdown;
use motet_control::protocol::{
    GroupId, GroupSpec, JobId, Member, Notice, Registration, Report, Stance, TenantId,
};
use motet_control::{Circuit, Port, SwitchId};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tower_service::Service as _;

use crate::Config;
use crate::engine::{ConnectionId, Inbox, Message, Told};
use crate::http::check::Peer;
use crate::net::Door;
use crate::serve::{House, assemble};
use crate::store::Memory;

/// The token of the tenant that makes the requests.
pub const TOKEN: &str = "bbbbbbbbbbbbbbbbbbbb";
const CONFIG: &str = "listen = '127.0.0.1:0'\nstore = 'memory'\n[[switch]]\nname = 'rail0'\nports = 16\n\
    [[credential]]\ntoken = 'aaaaaaaaaaaaaaaaaaaa'\ntenant = 1\n\
    [[credential]]\ntoken = 'bbbbbbbbbbbbbbbbbbbb'\ntenant = 2\n";
/// A time-out, longer than anything takes.
const LONG: Duration = Duration::from_secs(20);
/// The most requests of one input; more would show nothing new.
const MOST: usize = 16;
/// The separator between requests of one input.
const BETWEEN: &str = "\n%%\n";
const CALLS: [&str; 4] = ["Register", "Leave", "Inspect", "Connect"];

/// The first byte says what the others are:
///
/// - 0: what a client sends on a connection;
/// - 1 to 4: the body of a gRPC call (`Register`, `Leave`, `Inspect`, `Connect`), of a tenant that has registered job 2;
/// - any other: HTTP requests as text, with `%%` on a line between them: method and path on a line, headers, an empty line, the
///   body. The token is added.
///
/// It is understood if some request was neither refused nor malformed.
///
/// # Errors
///
/// If the service panics, does not answer, fails (5xx), or touches another tenant's job.
pub fn check(bytes: &[u8]) -> Result<bool, String> {
    let Some((way, bytes)) = bytes.split_first() else { return Ok(false) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|it| it.to_string())?;
    runtime.block_on(async {
        let text = |it: &dyn std::fmt::Display| it.to_string();
        let config = Config::parse(CONFIG, std::path::Path::new("")).map_err(|it| text(&it))?;
        let access = Arc::new(config.check().map_err(|it| text(&it))?);
        let store = Arc::new(Memory::default());
        let house = assemble(&config, access, store, Box::new(|| 0)).map_err(|it| text(&it))?;
        let House { routes, inbox, metrics, engine, .. } = house;
        let mut other = Other::begin(&inbox).await?;
        let understood = match way {
            0 => {
                connection(Door { routes, tls: None, metrics, beginning: LONG / 2 }, bytes).await?
            }
            1..=4 => {
                let call = CALLS.get(usize::from(*way) - 1).unwrap_or(&"Register");
                let path = format!("/motet.control.v1.Control/{call}");
                let request = Request::post(path)
                    .header(header::CONTENT_TYPE, "application/grpc")
                    .header("te", "trailers")
                    .body(Body::from(bytes.to_vec()));
                answer(&routes, request.map_err(|it| text(&it))?).await?
            }
            _ => {
                let mut understood = false;
                for request in String::from_utf8_lossy(bytes).split(BETWEEN).take(MOST) {
                    let Some(request) = written(request) else { continue };
                    understood |= answer(&routes, request).await?;
                }
                understood
            }
        };
        other.is_unharmed(&inbox).await?;
        let (done, stopped) = oneshot::channel();
        inbox.send(Message::Stop(done)).map_err(|it| text(&it))?;
        stopped.await.map_err(|_| "the engine has ended before it was told to".to_owned())?;
        engine.join().map_err(|_| "the engine has panicked".to_owned())?;
        Ok(understood)
    })
}

/// Parses a request that is written as text; `None` if it is not one.
fn written(text: &str) -> Option<Request<Body>> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(Body::from(body.to_owned())).ok()
}

/// Makes a request; returns whether it was neither refused nor malformed.
async fn answer(routes: &Router, mut request: Request<Body>) -> Result<bool, String> {
    let token = format!("Bearer {TOKEN}").parse();
    let token = token.map_err(|_| "a token that is none".to_owned())?;
    request.headers_mut().insert(header::AUTHORIZATION, token);
    let what = format!("{} {}", request.method(), request.uri());
    // The answer to HEAD has the headers that GET's would have, and no body.
    let bodiless = request.method() == Method::HEAD;
    let mut routes = routes.clone();
    let answered = tokio::time::timeout(LONG, async {
        let response = routes.call(request).await.unwrap_or_else(|never| match never {});
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.map_err(|it| it.to_string())?;
        Ok::<_, String>(Response::from_parts(head, body))
    });
    let response = answered.await.map_err(|_| format!("{what}: no answer"))??;
    let (status, headers) = (response.status(), response.headers());
    if status.is_server_error() {
        let body = String::from_utf8_lossy(response.body());
        return Err(format!("{what}: {status}: {body}"));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if kind == Some("application/json")
        && !bodiless
        && serde_json::from_slice::<serde_json::Value>(response.body()).is_err()
    {
        return Err(format!("{what}: an answer that is not the JSON that it says it is"));
    }
    // If gRPC refuses a call at once, the status is in the headers.
    let grpc = headers.get("grpc-status").is_none_or(|it| it == "0");
    Ok(status.is_success() && grpc)
}

/// Sends bytes on a connection and closes it; returns whether the answer was a success.
async fn connection(door: Door, bytes: &[u8]) -> Result<bool, String> {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let graceful = GracefulShutdown::new();
    let peer = Peer { address: ([127, 0, 0, 1], 1).into(), certificate: None };
    let serve = crate::net::carry(far, peer, door, graceful.watcher());
    let client = async {
        // The service may have closed it already.
        let _ = near.write_all(bytes).await;
        let _ = near.shutdown().await;
        let mut answer = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut near, &mut answer).await;
        answer
    };
    let both = tokio::time::timeout(LONG, async { tokio::join!(serve, client) }).await;
    let ((), answer) = both.map_err(|_| "a connection does not end".to_owned())?;
    if answer.starts_with(b"HTTP/1.1 5") {
        return Err(String::from_utf8_lossy(&answer).into_owned());
    }
    Ok(answer.starts_with(b"HTTP/1.1 2"))
}

/// The other tenant, with job 1.
struct Other {
    job: Registration,
    notices: mpsc::Receiver<Vec<Notice>>,
    /// Kept so that the connection stays open; the engine would close the other end.
    _open: oneshot::Receiver<()>,
}

/// A job of two members that want one circuit.
fn pair(job: u64, tenant: u32, first: u32) -> Registration {
    let members = [Member(0), Member(1)];
    Registration {
        mode: None,
        job: JobId(job),
        tenant: TenantId(tenant),
        ports: members.iter().map(|it| (*it, Port::new(0, first + it.0))).collect(),
        groups: vec![GroupSpec {
            id: GroupId(0),
            members: members.to_vec(),
            circuits: Circuit::new(SwitchId(0), first, first + 1).into_iter().collect(),
        }],
    }
}

impl Other {
    async fn begin(inbox: &Inbox) -> Result<Self, String> {
        let stopped = |_| "the engine has ended".to_owned();
        for job in [pair(1, 1, 0), pair(2, 2, 2)] {
            inbox.register(job).await.map_err(stopped)?.map_err(|it| it.to_string())?;
        }
        let job = pair(1, 1, 0);
        let (sender, notices) = mpsc::channel(64);
        let (open, opened) = oneshot::channel();
        let connection = ConnectionId(u64::MAX);
        inbox.send(Message::Connect(connection, sender, open)).map_err(stopped)?;
        let (reply, joined) = oneshot::channel();
        let seats = vec![(job.job, Member(0)), (job.job, Member(1))];
        inbox.send(Message::Join { connection, seats, tenant: None, reply }).map_err(stopped)?;
        joined.await.map_err(|it| it.to_string())?.map_err(|it| it.to_string())?;
        let holds = |member| Report {
            job: job.job,
            member,
            group: GroupId(0),
            version: 1,
            stance: Stance::Holding,
            begun: 1,
            ended: 0,
            host: 0,
            run: 0,
        };
        let told = |it| Told { report: holds(it), traffic: None };
        let reports = vec![told(Member(0)), told(Member(1))];
        let room = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&room).try_acquire_owned().map_err(|it| it.to_string())?;
        inbox.send(Message::Reports(connection, reports, permit)).map_err(stopped)?;
        // The engine handles questions before reports. It gives the permit back when it has handled these.
        drop(room.acquire().await.map_err(|it| it.to_string())?);
        Ok(Self { job, notices, _open: opened })
    }

    async fn is_unharmed(&mut self, inbox: &Inbox) -> Result<(), String> {
        let job = self.job.clone();
        let look = inbox.look(move |it| {
            super::one_to_one(it.circuits())?;
            if it.registration(job.job) != Some(&job) {
                return Err("the other tenant's job is gone".to_owned());
            }
            let stance = |member| it.stance(job.job, GroupId(0), Member(member));
            if [stance(0), stance(1)] != [Some(Stance::Holding); 2] {
                return Err("the other tenant's members no longer hold their circuits".to_owned());
            }
            Ok(())
        });
        look.await.map_err(|it| it.to_string())??;
        match self.notices.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            it => Err(format!("the other tenant is told {it:?}")),
        }
    }
}
