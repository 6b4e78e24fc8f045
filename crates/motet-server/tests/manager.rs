//! Managers between ranks and the service: ranks speak on a Unix socket as the shim library will, blocking and without
//! tokio.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

#[allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a module of several tests"
)]
mod common;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::LONG;
use motet_control::manager::Network;
use motet_control::protocol::{GroupId, JobId};
use motet_control::shim::{Call, Mode, Tell};
use motet_control::wire::Frame;
use motet_runtime::Collective;
use motet_server::client::{Address, Client};
use motet_server::job::{CircuitSpec, GroupSpec, JobSpec, PortSpec};
use motet_server::manager::{ManagerError, Settings, run};
use motet_server::serve::Instead;
use motet_units::{Bytes, Rank};
use tokio::sync::watch;

/// Three members with two ranks each; two groups that want the same ports.
fn spec() -> JobSpec {
    let group = |id: u32, a: u32, b: u32| GroupSpec {
        id,
        members: vec![a, b],
        circuits: vec![CircuitSpec { switch: 0, a, b }],
        ranks: vec![vec![2 * a, 2 * a + 1], vec![2 * b, 2 * b + 1]],
        name: String::new(),
    };
    JobSpec {
        job: 5,
        ports: (0..3).map(|it| PortSpec { member: it, switch: 0, number: it }).collect(),
        groups: vec![group(0, 0, 1), group(1, 1, 2)],
        mode: Mode::OnDemand,
        ..JobSpec::default()
    }
}

/// A rank, as the shim will be.
struct Shim {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Shim {
    fn connect(socket: &Path, job: u64, rank: u32) -> Self {
        let began = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(_) if began.elapsed() < LONG => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut shim = Self { stream, bytes: Vec::new() };
        shim.say(Frame::Hello { job: JobId(job), rank: Rank(rank) });
        shim
    }

    fn say(&mut self, frame: Frame) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Nothing when the manager has closed the connection.
    fn hear(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, length)) = Frame::read(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return Some(frame);
            }
            let mut more = [0; 256];
            let count = self.stream.read(&mut more).unwrap();
            if count == 0 {
                return None;
            }
            self.bytes.extend(&more[..count]);
        }
    }

    fn call(&mut self, group: u32) {
        let bytes = Bytes::new(1 << 30);
        let call = Call { group: GroupId(group), collective: Collective::AllGather, bytes };
        self.say(Frame::Tell(Tell::Call { call, run: 2 }));
    }

    /// Until the call may go; what else was said meanwhile.
    fn until_go(&mut self) -> (Network, Vec<Frame>) {
        let mut others = Vec::new();
        loop {
            match self.hear().unwrap() {
                Frame::Go { network, .. } => return (network, others),
                other => others.push(other),
            }
        }
    }
}

/// All ranks of the group make a call, and it goes the same way on all of them.
fn whole_call(shims: &mut [Shim], group: u32) -> Network {
    let ranks = if group == 0 { 0..4 } else { 2..6 };
    for shim in &mut shims[ranks.clone()] {
        shim.call(group);
    }
    let went: Vec<Network> = shims[ranks.clone()].iter_mut().map(|it| it.until_go().0).collect();
    assert!(went.windows(2).all(|it| it[0] == it[1]), "{went:?}");
    for shim in &mut shims[ranks] {
        shim.say(Frame::Tell(Tell::Ended(GroupId(group))));
    }
    went[0]
}

/// Ten turns that took turns on a port, of which the last has not ended: eight windows, each between traffic that managers have
/// told of.
async fn windows_are_told(running: &motet_server::Running) {
    let (status, body) = common::get(running, "/v1/jobs/5/timeline", None).await;
    assert_eq!(status, 200, "{body}");
    let timeline: serde_json::Value = serde_json::from_str(&body).unwrap();
    let all = |name: &str| timeline[name].as_array().unwrap().clone();
    let (phases, windows) = (all("phases"), all("windows"));
    assert_eq!((phases.len(), windows.len(), all("changes").len()), (10, 8, 10), "{body}");
    let us = |it: &serde_json::Value| it.as_u64().unwrap();
    for phase in phases.iter().take(9) {
        let (held, ended) = (us(&phase["held_us"]), us(&phase["ended_us"]));
        let traffic = &phase["traffic"];
        let (from, to) = (us(&traffic["began_us"]), us(&traffic["ended_us"]));
        // Times are cut to whole microseconds.
        assert!(held <= from + 1 && from <= to && to <= ended, "{phase}");
    }
    for pair in windows.windows(2) {
        assert!(pair[0]["to_us"].as_u64() <= pair[1]["from_us"].as_u64(), "{pair:?}");
    }
    let (_, body) = common::get(running, "/v1/jobs", None).await;
    assert!(body.contains(r#""mode":"on_demand","members":3,"present":3,"absent":[]"#), "{body}");
}

type Managing = tokio::task::JoinHandle<Result<(), ManagerError>>;

/// A manager for each member.
fn manage(
    address: std::net::SocketAddr,
    sockets: &[PathBuf],
    patience: Duration,
    stopped: &watch::Receiver<bool>,
) -> Vec<Managing> {
    let start = |(member, socket): (u32, &PathBuf)| {
        let url = format!("http://{address}");
        let client = Client::new(&Address { url, ..Address::default() }).unwrap();
        let settings = Settings { spec: spec(), member, socket: socket.clone(), patience };
        tokio::spawn(run(settings, client, stopped.clone()))
    };
    (0..).zip(sockets).map(start).collect()
}

/// The manager of a host whose ranks are done ends the job. Where others still make calls it begins again, and ends with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_others_go_on_when_the_first_host_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let running = common::service(common::ONE_SWITCH, Instead::default()).await;
    let (stop, stopped) = watch::channel(false);
    let socket = |member: u32| folder.path().join(format!("{member}.sock"));
    let sockets: Vec<PathBuf> = (0..3).map(socket).collect();
    let mut managers = manage(running.address, &sockets, LONG, &stopped);
    let shims = tokio::task::spawn_blocking(move || {
        let mut shims: Vec<Shim> =
            (0..6).map(|rank| Shim::connect(&sockets[rank as usize / 2], 5, rank)).collect();
        assert_eq!(whole_call(&mut shims, 1), Network::Rails);
        // Group 0 takes a port from it: for its next call it must ask.
        assert_eq!(whole_call(&mut shims, 0), Network::Rails);
        for shim in &mut shims[..2] {
            shim.say(Frame::Bye);
        }
        shims
    });
    let mut shims = shims.await.unwrap();
    tokio::time::timeout(LONG, managers.remove(0)).await.unwrap().unwrap().unwrap();
    let shims = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            assert_eq!(whole_call(&mut shims, 1), Network::Rails);
        }
        for shim in &mut shims[2..] {
            shim.say(Frame::Bye);
        }
        shims
    });
    let _shims = shims.await.unwrap();
    for manager in managers {
        tokio::time::timeout(LONG, manager).await.unwrap().unwrap().unwrap();
    }
    let jobs = running.inbox.look(|it| it.registrations().count()).await.unwrap();
    assert_eq!(jobs, 0);
    drop(stop);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ranks_get_circuits_and_pass_while_the_controller_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "store = '{0}/store'\n[[switch]]\nname = 'rail0'\nports = 8\n[switch.sim]\nstate = '{0}/rail0.json'\n",
        folder.path().display()
    );
    std::fs::write(folder.path().join("rail0.json"), "[]").unwrap();
    let first = common::service(&text, Instead::default()).await;
    let address = first.address;
    let socket = |member: u32| -> PathBuf { folder.path().join(format!("{member}.sock")) };
    let (stop, stopped) = watch::channel(false);
    let sockets: Vec<PathBuf> = (0..3).map(socket).collect();
    let managers = manage(address, &sockets, Duration::from_millis(500), &stopped);
    let shims = tokio::task::spawn_blocking(move || {
        // A stranger, and a rank of another job: turned away.
        let mut stranger = Shim::connect(&sockets[0], 99, 0);
        assert_eq!(stranger.hear(), None);
        let mut shims: Vec<Shim> =
            (0..6).map(|rank| Shim::connect(&sockets[rank as usize / 2], 5, rank)).collect();
        for shim in &mut shims {
            assert_eq!(shim.hear(), Some(Frame::Welcome(Mode::OnDemand)));
        }
        for _ in 0..5 {
            assert_eq!(whole_call(&mut shims, 0), Network::Rails);
            assert_eq!(whole_call(&mut shims, 1), Network::Rails);
        }
        shims
    });
    let mut shims = shims.await.unwrap();
    windows_are_told(&first).await;
    first.stop().await;
    let shims = tokio::task::spawn_blocking(move || {
        // Group 0 must ask, and nobody answers: after a while its calls pass.
        for shim in &mut shims[..4] {
            shim.call(0);
        }
        for shim in &mut shims[..4] {
            let (network, said) = shim.until_go();
            assert_eq!((network, said.as_slice()), (Network::Host, &[Frame::Pass][..]));
            shim.say(Frame::Tell(Tell::Ended(GroupId(0))));
        }
        // From then on they do not wait.
        assert_eq!(whole_call(&mut shims, 0), Network::Host);
        shims
    });
    let mut shims = shims.await.unwrap();
    let again = text.replacen("store", &format!("listen = '{address}'\nstore"), 1);
    let config = motet_server::Config::parse(&again, Path::new("")).unwrap();
    let second = motet_server::start(&config).await.unwrap();
    let shims = tokio::task::spawn_blocking(move || {
        for shim in &mut shims {
            while shim.hear() != Some(Frame::Resume) {}
        }
        for _ in 0..5 {
            assert_eq!(whole_call(&mut shims, 0), Network::Rails);
            assert_eq!(whole_call(&mut shims, 1), Network::Rails);
        }
        for shim in &mut shims {
            shim.say(Frame::Bye);
        }
        shims
    });
    let _shims = shims.await.unwrap();
    // All ranks have said goodbye: managers end, and the job leaves.
    for manager in managers {
        tokio::time::timeout(LONG, manager).await.unwrap().unwrap().unwrap();
    }
    let jobs = second.inbox.look(|it| it.registrations().count()).await.unwrap();
    assert_eq!(jobs, 0);
    drop(stop);
    second.stop().await;
}
