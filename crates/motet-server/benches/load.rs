//! Load over gRPC, with service and clients on one machine: how many circuit requests a second, how long each waits, and what a
//! registered rank costs in memory. `cargo bench -p motet-server --bench load`
//!
//! A *request* is a member's ask that is answered by a grant after circuits were really changed: pairs of members go back
//! and forth between two groups that want the same ports, so every grant needs a change in two phases on the
//! (simulated) switch, and every change is written to the store. Time is from the moment when the last member of the group has
//! asked, at the client, to the moment when the client has the grant.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement may fail, and prints"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use motet_control::circuit::ring;
use motet_control::protocol::{GroupId, GroupSpec, JobId, Member, Notice, Registration, TenantId};
use motet_control::seat::{Go, Seat};
use motet_control::{Port, SwitchId};
use motet_server::Config;
use motet_server::api::v1;
use motet_server::client::{Address, Client};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// A job of `quads` times four members with one port each: of each four, 0 and 1 go back and forth between 0–1 and 0–2, 1–3.
fn job(number: u64, quads: u32, switch: u32) -> Registration {
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
struct Driver {
    job: Registration,
    seats: Vec<Seat>,
    /// For each seat, all of its group.
    groups: Vec<Vec<usize>>,
    /// When it begins, as a share of the time between two asks of one member.
    offset: f64,
    asked: Vec<Option<Instant>>,
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
    async fn connect(client: &Client, job: Registration, offset: f64) -> Self {
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
        Self { job, seats, groups, offset, asked, out, replies, times: Vec::new(), refused: 0 }
    }

    /// Every member asks for its next call as soon as the one before has ended, until `end`.
    async fn run(
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
                        let own = self.asked[at].unwrap();
                        if go == Go::Host { self.refused += 1 } else if now >= begin { self.times.push(now - since) }
                        if go == Go::Circuits {
                            reports.extend(self.seats[at].ended().as_ref().map(v1::Report::from));
                            reports.extend(self.seats[at].release().as_ref().map(v1::Report::from));
                        }
                        match pace {
                            // As fast as it goes.
                            None => self.ask(at ^ 1, &mut reports),
                            Some(pace) => due.push((own + pace, at ^ 1)),
                        }
                    }
                }
                () = tokio::time::sleep_until(next.into()) => {}
            }
            let now = Instant::now();
            if now >= end {
                return (self.times, self.refused);
            }
            let ready: Vec<usize> = due.iter().filter(|it| it.0 <= now).map(|it| it.1).collect();
            due.retain(|it| it.0 > now);
            for at in ready {
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

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|it| it.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// `rate`: asks a second over all members, or as many as there can be.
async fn load(folder: &Path, clients: u32, quads: u32, rate: Option<f64>, seconds: u64) {
    let switches: String = (0..clients)
        .map(|it| format!("[[switch]]\nname = 's{it}'\nports = {}\n", 4 * quads))
        .collect();
    let store = folder.join(format!("load-{clients}-{quads}-{rate:?}.redb"));
    let text = format!("listen = '127.0.0.1:0'\nstore = '{}'\n{switches}", store.display());
    let config = Config::parse(&text, Path::new("")).unwrap();
    let running = motet_server::start(&config).await.unwrap();
    let url = format!("http://{}", running.address);
    let members = clients * 4 * quads;
    let pace = rate.map(|it| Duration::from_secs_f64(f64::from(members) / it));
    let begin = Instant::now() + Duration::from_secs(1);
    let end = begin + Duration::from_secs(seconds);
    let mut tasks = Vec::new();
    for number in 0..clients {
        let client = Client::new(&Address { url: url.clone(), ..Address::default() }).unwrap();
        let offset = f64::from(number) / f64::from(clients * quads);
        let driver = Driver::connect(&client, job(u64::from(number), quads, number), offset).await;
        tasks.push(tokio::spawn(driver.run(pace, begin, end)));
    }
    let (mut times, mut refused) = (Vec::new(), 0);
    for task in tasks {
        let (these, more) = task.await.unwrap();
        times.extend(these);
        refused += more;
    }
    let changes =
        running.metrics.changes.get_or_create(&motet_server::metrics::Kind { kind: "done" }).get();
    let text = running.metrics.text();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|it| it.strip_prefix(name));
        line.and_then(|it| it.trim().parse().ok()).unwrap_or(f64::NAN)
    };
    let (commits, spent) = (value("motet_commit_seconds_count"), value("motet_commit_seconds_sum"));
    running.stop().await;
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let asked = rate.map_or("as many as go".to_owned(), |it| format!("{it:.0}/s asked"));
    println!(
        "{clients} connections, {members} members, {asked}: {:.0} requests/s granted in {seconds} s, {refused} refused, \
         p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms; {changes} changes, {commits} commits of {:.2} ms",
        times.len() as f64 / seconds as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        1e3 * spent / commits
    );
}

/// One job of 36,864 ranks, each a member with two ports in three groups.
async fn memory() {
    const RANKS: u32 = 36_864;
    let before = kib("VmRSS");
    let switches: String = (0..8)
        .map(|it| format!("[[switch]]\nname = 's{it}'\nports = {}\n", 2 * RANKS / 8))
        .collect();
    let text = format!("listen = '127.0.0.1:0'\nstore = 'memory'\n{switches}");
    let config = Config::parse(&text, Path::new("")).unwrap();
    let running = motet_server::start(&config).await.unwrap();
    let mut groups = Vec::new();
    let ports = |rank: u32| [2 * (rank / 8), 2 * (rank / 8) + 1];
    for size in [8u32, 16, 64] {
        for rail in 0..8 {
            for first in (0..RANKS / 8).step_by(size as usize) {
                let ranks: Vec<u32> =
                    (first..(first + size).min(RANKS / 8)).map(|it| 8 * it + rail).collect();
                let stations: Vec<[u32; 2]> = ranks.iter().map(|it| ports(*it)).collect();
                let stations: Vec<&[u32]> = stations.iter().map(<[u32; 2]>::as_slice).collect();
                groups.push(GroupSpec {
                    id: GroupId(groups.len() as u32),
                    members: ranks.iter().copied().map(Member).collect(),
                    circuits: ring(SwitchId(rail), &stations).unwrap(),
                });
            }
        }
    }
    let all =
        (0..RANKS).flat_map(|rank| ports(rank).map(|it| (Member(rank), Port::new(rank % 8, it))));
    let (ports, count) = (all.collect(), groups.len());
    let job = Registration { job: JobId(1), tenant: TenantId(0), ports, groups, mode: None };
    let client =
        Client::new(&Address { url: format!("http://{}", running.address), ..Address::default() })
            .unwrap();
    client.calls().register(client.request((&job).into())).await.unwrap();
    let registered = kib("VmRSS");
    // All ranks speak: one stream for each eight, as managers have, and eight streams on a connection to spare files.
    let mut streams = Vec::new();
    let (clients, began) = (RANKS / 8, Instant::now());
    let mut client = client;
    for first in 0..clients {
        if first % 8 == 0 {
            let url = format!("http://{}", running.address);
            client = Client::new(&Address { url, ..Address::default() }).unwrap();
        }
        let (out, stream) = mpsc::channel(4);
        let join = (8 * first..8 * first + 8).map(|it| v1::Seat { job: 1, member: it }).collect();
        out.send(v1::ToController { join, reports: Vec::new() }).await.unwrap();
        let mut replies = client
            .calls()
            .connect(client.request(ReceiverStream::new(stream)))
            .await
            .unwrap()
            .into_inner();
        replies.message().await.unwrap().unwrap();
        streams.push((out, replies));
    }
    println!(
        "{RANKS} ranks as members in {count} groups: {} MiB for service and client together ({} MiB before, {} MiB registered); \
         at most {} MiB; {clients} streams joined in {:.1} s",
        kib("VmRSS") / 1024,
        before / 1024,
        registered / 1024,
        kib("VmHWM") / 1024,
        began.elapsed().as_secs_f64()
    );
    drop(streams);
    running.stop().await;
}

fn main() {
    let folder = std::env::var_os("MOTET_LOAD_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // `cargo bench … -- 11000` for that many a second only.
        let only = std::env::args().find_map(|it| it.parse::<f64>().ok());
        if only.is_none() {
            memory().await;
        }
        for rate in [Some(2_000.0), Some(11_000.0), Some(20_000.0), None] {
            if only.is_none() || only == rate {
                load(folder.path(), 4, 16, rate, 10).await;
            }
        }
        if only.is_none() {
            load(folder.path(), 64, 4, Some(11_000.0), 10).await;
        }
    });
}
