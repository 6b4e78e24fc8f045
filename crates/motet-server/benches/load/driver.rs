//! [`Driver`]: one client of the service, with all members of a job on one stream.

use std::time::{Duration, Instant};

use motet_control::circuit::ring;
use motet_control::protocol::{GroupId, GroupSpec, JobId, Member, Notice, Registration, TenantId};
use motet_control::seat::{Go, Seat};
use motet_control::{Port, SwitchId};
use motet_server::api::v1;
use motet_server::client::Client;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// A job of `quads` times four members with one port each: of each four, 0 and 1 go back and forth between 0–1 and 0–2, 1–3.
pub(crate) fn job(number: u64, quads: u32, switch: u32) -> Registration {
    let switch = SwitchId(switch);
    let pair = |id: u32, a: u32, b: u32| GroupSpec {
        id: GroupId(id),
        members: vec![Member(a), Member(b)],
        circuits: ring(switch, &[&[a], &[b]]).unwrap(),
    };
    let groups = (0..quads).flat_map(|it| {
        let (id, m) = (4 * it, 4 * it);
        [
            pair(id, m, m + 1),
            pair(id + 1, m + 2, m + 3),
            pair(id + 2, m, m + 2),
            pair(id + 3, m + 1, m + 3),
        ]
    });
    Registration {
        job: JobId(number),
        tenant: TenantId(0),
        ports: (0..4 * quads).map(|it| (Member(it), Port { switch, number: it })).collect(),
        groups: groups.collect(),
        mode: None,
    }
}

/// One client: all members of a job on one stream.
pub(crate) struct Driver {
    job: Registration,
    seats: Vec<Seat>,
    /// For each seat, all of its group.
    groups: Vec<Vec<usize>>,
    /// When it begins, as a share of the time between two asks of one member.
    offset: f64,
    asked: Vec<Option<Instant>>,
    /// When each seat was to ask. The next ask is to be a fixed time after that and not after the ask itself: asks that fell
    /// together once would stay together, and few large bursts would take the place of a steady load.
    meant: Vec<Instant>,
    out: mpsc::Sender<v1::ToController>,
    replies: tonic::Streaming<v1::FromController>,
    times: Vec<Duration>,
    refused: u64,
}

/// A seat's place: member m has two groups.
fn place(notice: &Notice) -> usize {
    let second = usize::from(notice.group.0 % 4 >= 2);
    2 * notice.member.0 as usize + second
}

impl Driver {
    pub(crate) async fn connect(client: &Client, job: Registration, offset: f64) -> Self {
        client.calls().register(client.request((&job).into())).await.unwrap();
        let mut seats = Vec::new();
        for member in 0..job.ports.len() as u32 {
            let mine = job.groups.iter().filter(|it| it.members.contains(&Member(member)));
            seats.extend(mine.map(|it| Seat::new(job.job, Member(member), it.id)));
        }
        let (out, stream) = mpsc::channel(4096);
        let join = (0..job.ports.len() as u32).map(|it| v1::Seat { job: job.job.0, member: it });
        out.send(v1::ToController { join: join.collect(), reports: Vec::new() }).await.unwrap();
        let request = client.request(ReceiverStream::new(stream));
        let mut replies = client.calls().connect(request).await.unwrap().into_inner();
        replies.message().await.unwrap().unwrap();
        let asked = vec![None; seats.len()];
        let same = |a: &Seat| {
            (0..).zip(&seats).filter(|b| b.1.group() == a.group()).map(|b| b.0).collect()
        };
        let groups = seats.iter().map(same).collect();
        let meant = vec![Instant::now(); seats.len()];
        let (times, refused) = (Vec::new(), 0);
        Self { job, seats, groups, offset, asked, meant, out, replies, times, refused }
    }

    /// The job ends.
    pub(crate) async fn leave(client: &Client, job: u64) {
        client.calls().leave(client.request(v1::LeaveRequest { job })).await.unwrap();
    }

    /// Until `end` every member asks for its next call at its time, or when the one before has ended if that is later; without
    /// a pace as soon as it has ended.
    pub(crate) async fn run(
        mut self,
        pace: Option<Duration>,
        begin: Instant,
        end: Instant,
    ) -> (Vec<Duration>, u64) {
        let members = self.job.ports.len();
        let mut reports = Vec::new();
        let mut due: Vec<(Instant, usize)> = Vec::new();
        let start = Instant::now();
        for member in 0..members {
            // Not all at once: fours one after the other, evenly over the time between two asks of one member.
            let share = (member / 4) as f64 / (members / 4) as f64;
            let wait = pace.unwrap_or_default().mul_f64((share + self.offset).fract());
            due.push((start + wait, 2 * member));
        }
        loop {
            let next = due.iter().map(|it| it.0).min().unwrap_or(end).min(end);
            tokio::select! {
                message = self.replies.message() => {
                    for notice in message.unwrap().unwrap().notices {
                        let notice = Notice::try_from(notice).unwrap();
                        let at = place(&notice);
                        let step = self.seats[at].hear(notice.what);
                        reports.extend(step.report.as_ref().map(v1::Report::from));
                        let Some(go) = step.go else { continue };
                        let now = Instant::now();
                        let group = &self.groups[at];
                        let since = group.iter().filter_map(|it| self.asked[*it]).max().unwrap();
                        if go == Go::Host { self.refused += 1 } else if now >= begin { self.times.push(now - since) }
                        if go == Go::Circuits {
                            reports.extend(self.seats[at].ended().as_ref().map(v1::Report::from));
                            reports.extend(self.seats[at].release().as_ref().map(v1::Report::from));
                        }
                        match pace {
                            // As fast as it goes.
                            None => self.ask(at ^ 1, &mut reports),
                            Some(pace) => due.push((self.meant[at] + pace, at ^ 1)),
                        }
                    }
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
            let now = Instant::now();
            if now >= end {
                return (self.times, self.refused);
            }
            let ready: Vec<(Instant, usize)> = due.extract_if(.., |it| it.0 <= now).collect();
            for (meant, at) in ready {
                self.meant[at] = meant;
                self.ask(at, &mut reports);
            }
            self.send(&mut reports).await;
        }
    }

    fn ask(&mut self, at: usize, reports: &mut Vec<v1::Report>) {
        self.asked[at] = Some(Instant::now());
        let step = self.seats[at].call();
        reports.extend(step.report.as_ref().map(v1::Report::from));
    }

    async fn send(&self, reports: &mut Vec<v1::Report>) {
        if !reports.is_empty() {
            let reports = std::mem::take(reports);
            self.out.send(v1::ToController { join: Vec::new(), reports }).await.unwrap();
        }
    }
}
