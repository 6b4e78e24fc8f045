//! What a registered rank costs in memory.

use std::path::Path;
use std::time::Instant;

use motet_control::circuit::ring;
use motet_control::protocol::{GroupId, GroupSpec, JobId, Member, Registration, TenantId};
use motet_control::{Port, SwitchId};
use motet_server::Config;
use motet_server::api::v1;
use motet_server::client::{Address, Client};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|it| it.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// One job of 36,864 ranks, each a member with two ports in three groups.
pub(crate) async fn memory() {
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
