//! What the tests of the whole service share: a service on a port of its own, jobs, and members that speak to it.

use std::collections::BTreeMap;
use std::time::Duration;

use motet_control::circuit::ring;
use motet_control::protocol::{
    GroupId, GroupSpec, JobId, Member, Notice, Registration, Report, TenantId,
};
use motet_control::seat::{Go, Seat};
use motet_control::{Port, SwitchId};
use motet_server::Config;
use motet_server::api::v1;
use motet_server::client::{Address, Client};
use motet_server::serve::{Instead, Running, start_with};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Longer than anything may take, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

pub fn config(text: &str) -> Config {
    Config::parse(&format!("listen = '127.0.0.1:0'\n{text}"), std::path::Path::new("")).unwrap()
}

pub const ONE_SWITCH: &str = "store = 'memory'\n[[switch]]\nname = 'rail0'\nports = 64\n";

pub async fn service(text: &str, instead: Instead) -> Running {
    start_with(&config(text), instead).await.unwrap()
}

pub fn client(running: &Running, token: Option<&str>) -> Client {
    let url = format!("http://{}", running.address);
    Client::new(&Address { url, token: token.map(str::to_owned), ..Address::default() }).unwrap()
}

/// Two members with one port each, and two groups that want the same ports: the first connects both, the second has a
/// circuit between member 1's and member 2's.
pub fn job(number: u64, tenant: u32, first: u32) -> Registration {
    let switch = SwitchId(0);
    let pair = |id: u32, a: u32, b: u32| GroupSpec {
        id: GroupId(id),
        members: vec![Member(a), Member(b)],
        circuits: ring(switch, &[&[first + a], &[first + b]]).unwrap(),
    };
    Registration {
        job: JobId(number),
        tenant: TenantId(tenant),
        ports: (0..3).map(|it| (Member(it), Port { switch, number: first + it })).collect(),
        groups: vec![pair(0, 0, 1), pair(1, 1, 2)],
        mode: None,
    }
}

pub async fn register(client: &Client, job: &Registration) -> Result<(), tonic::Status> {
    client.calls().register(client.request(job.into())).await.map(drop)
}

/// Members of a job that share one stream.
pub struct Members {
    pub out: mpsc::Sender<v1::ToController>,
    pub replies: tonic::Streaming<v1::FromController>,
    pub seats: BTreeMap<(Member, GroupId), Seat>,
    /// What may go and was not asked for yet.
    pub gone: Vec<(Member, GroupId, Go)>,
    /// What is said of a group's traffic with its reports.
    pub traffic: BTreeMap<GroupId, v1::Traffic>,
}

impl Members {
    /// Connects, joins these members and reports all their seats.
    pub async fn connect(
        client: &Client,
        job: &Registration,
        members: &[u32],
    ) -> Result<Self, tonic::Status> {
        let mut seats = BTreeMap::new();
        for group in &job.groups {
            for member in group.members.iter().filter(|it| members.contains(&it.0)) {
                seats.insert((*member, group.id), Seat::new(job.job, *member, group.id));
            }
        }
        Self::resume(client, job, members, seats).await
    }

    /// The same with seats that have a past.
    pub async fn resume(
        client: &Client,
        job: &Registration,
        members: &[u32],
        seats: BTreeMap<(Member, GroupId), Seat>,
    ) -> Result<Self, tonic::Status> {
        let (out, stream) = mpsc::channel(64);
        let join = members.iter().map(|it| v1::Seat { job: job.job.0, member: *it }).collect();
        let reports = seats.values().map(|it| (&it.report()).into()).collect();
        out.send(v1::ToController { join, reports }).await.unwrap();
        let request = client.request(ReceiverStream::new(stream));
        let mut replies = client.calls().connect(request).await?.into_inner();
        let first = replies.message().await?.unwrap();
        assert_eq!(first.joined.len(), members.len());
        Ok(Self { out, replies, seats, gone: Vec::new(), traffic: BTreeMap::new() })
    }

    pub async fn send(&self, report: Option<Report>) {
        if let Some(report) = report {
            let traffic = self.traffic.get(&report.group).copied();
            let reports = vec![v1::Report { traffic, ..(&report).into() }];
            let message = v1::ToController { join: Vec::new(), reports };
            // A stream that has ended takes nothing more; `hear` says so.
            let _ = self.out.send(message).await;
        }
    }

    pub async fn call(&mut self, member: u32, group: u32) {
        let key = (Member(member), GroupId(group));
        let step = self.seats.get_mut(&key).unwrap().call();
        self.gone.extend(step.go.map(|it| (key.0, key.1, it)));
        self.send(step.report).await;
    }

    pub async fn end(&mut self, member: u32, group: u32) {
        let key = (Member(member), GroupId(group));
        let report = self.seats.get_mut(&key).unwrap().ended();
        self.send(report).await;
    }

    /// Hears notices, and answers recalls, until that call may go.
    pub async fn until_gone(&mut self, member: u32, group: u32) -> Result<Go, tonic::Status> {
        let wanted = (Member(member), GroupId(group));
        loop {
            if let Some(at) = self.gone.iter().position(|it| (it.0, it.1) == wanted) {
                return Ok(self.gone.remove(at).2);
            }
            self.hear().await?;
        }
    }

    /// One message of the controller.
    pub async fn hear(&mut self) -> Result<(), tonic::Status> {
        let message = tokio::time::timeout(LONG, self.replies.message()).await.expect("silence");
        let closed = || tonic::Status::unavailable("closed");
        for notice in message?.ok_or_else(closed)?.notices {
            let notice = Notice::try_from(notice).unwrap();
            let key = (notice.member, notice.group);
            let step = self.seats.get_mut(&key).unwrap().hear(notice.what);
            self.gone.extend(step.go.map(|it| (key.0, key.1, it)));
            self.send(step.report).await;
        }
        Ok(())
    }

    /// A whole call of a group of two, on both members.
    pub async fn whole_call(&mut self, group: u32, members: [u32; 2]) -> Result<Go, tonic::Status> {
        for member in members {
            self.call(member, group).await;
        }
        let mut went = Go::Host;
        for member in members {
            went = self.until_gone(member, group).await?;
        }
        for member in members {
            if went == Go::Circuits {
                self.end(member, group).await;
            }
        }
        Ok(went)
    }
}

/// GET over plain HTTP/1.1: status and body.
pub async fn get(running: &Running, path: &str, token: Option<&str>) -> (u16, String) {
    let token = token.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{token}\r\n");
    exchange(running.address, request.as_bytes()).await
}

pub async fn exchange(address: std::net::SocketAddr, request: &[u8]) -> (u16, String) {
    let answer = whole(address, request).await;
    let status = answer.get(9..12).and_then(|it| it.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |it| it.1).to_owned();
    (status, body)
}

/// The answer with its headers.
pub async fn whole(address: std::net::SocketAddr, request: &[u8]) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The circuits that the service says are set, as `[switch, a, b]`.
pub async fn circuits(running: &Running) -> Vec<[u32; 3]> {
    let look = running.inbox.look(|it| {
        let view = |it: motet_control::Circuit| [it.switch.0, it.numbers()[0], it.numbers()[1]];
        it.circuits().map(view).collect::<Vec<_>>()
    });
    look.await.unwrap()
}
