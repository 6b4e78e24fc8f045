//! `motet serve` as a process: killed in the middle of changes, started again, told to stop.

#![cfg(all(feature = "server", unix))]
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
#[path = "../../motet-server/tests/common/mod.rs"]
mod common;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{LONG, Members, exchange, job, register};
use motet_control::seat::Go;
use motet_server::client::{Address, Client};

/// The service as a process of its own. It is killed when it is dropped.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_motet"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "json"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        Self { address: address.parse().unwrap(), child }
    }

    fn client(&self) -> Client {
        let url = format!("http://{}", self.address);
        Client::new(&Address { url, ..Address::default() }).unwrap()
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn get(&self, path: &str) -> serde_json::Value {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let (status, body) = exchange(self.address, request.as_bytes()).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A switch whose circuits are in a file, and which takes its time for each change.
fn configure(folder: &Path) -> std::path::PathBuf {
    std::fs::write(folder.join("rail0.json"), "[]").unwrap();
    let text = "store = 'store.redb'\n[[switch]]\nname = 'rail0'\nports = 8\n\
                [switch.sim]\nstate = 'rail0.json'\ncommand = '100 ms'\noptics = '100 ms'\n";
    let file = folder.join("motet.toml");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_change_it_loses_and_doubles_no_circuit() {
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    let state = || std::fs::read_to_string(folder.path().join("rail0.json")).unwrap();
    let job = job(1, 0, 0);
    let mut service = Service::start(&config);
    let client = service.client();
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    assert_eq!(state(), "[[0,1]]");
    // Before the switch moves, while old circuits are gone and new ones not there, and when all is done but not said.
    let moments: [(u64, Option<&str>); 4] = [(0, None), (50, None), (0, Some("[]")), (190, None)];
    for (turn, (wait, seen)) in moments.into_iter().enumerate() {
        let (group, pair, want) =
            if turn % 2 == 0 { (1, [1, 2], "[[1,2]]") } else { (0, [0, 1], "[[0,1]]") };
        for member in pair {
            members.call(member, group).await;
        }
        // Members answer recalls while the change goes on.
        let hear = async {
            loop {
                if members.hear().await.is_err() {
                    return;
                }
            }
        };
        let moment = async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            while seen.is_some_and(|it| it != state()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            service.kill();
        };
        let both = async { tokio::join!(hear, moment) };
        tokio::time::timeout(LONG, both).await.expect("the stream does not end");
        service = Service::start(&config);
        let client = service.client();
        let (seats, gone) = (members.seats, members.gone);
        members = Members::resume(&client, &job, &[0, 1, 2], seats).await.unwrap();
        members.gone = gone;
        for member in pair {
            assert_eq!(members.until_gone(member, group).await.unwrap(), Go::Circuits);
        }
        for member in pair {
            members.end(member, group).await;
        }
        // What the service believes is what the switch has.
        assert_eq!(state(), want);
        let circuits = service.get("/v1/circuits").await;
        assert_eq!(circuits.as_array().unwrap().len(), 1);
        assert_eq!(circuits[0]["a"], pair[0]);
    }
    let journal = service.get("/v1/journal?most=10000").await;
    let journal = journal.as_array().unwrap();
    let started: Vec<_> = journal.iter().filter(|it| it["event"] == "started").collect();
    assert_eq!(started.len(), 5);
    // At least the kill between old and new circuits left a change behind, and the journal names it.
    assert!(started.iter().any(|it| it["unfinished"] != serde_json::json!([])), "{started:?}");
    let changes: Vec<_> =
        journal.iter().filter(|it| it["event"] == "begun").map(|it| &it["change"]).collect();
    let mut once = changes.clone();
    once.dedup();
    assert_eq!(once, changes, "a change has the number of another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_it_says_so_and_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    let mut service = Service::start(&config);
    let job = job(1, 0, 0);
    let client = service.client();
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    let id = service.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(members.hear().await.unwrap_err().code(), tonic::Code::Unavailable);
    assert!(service.child.wait().unwrap().success());
    let service = Service::start(&config);
    let journal = service.get("/v1/journal").await;
    let events: Vec<_> = journal.as_array().unwrap().iter().map(|it| &it["event"]).collect();
    assert!(events.contains(&&serde_json::json!("stopped")), "{events:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("rail0.json")).unwrap(), "[[0,1]]");
}

#[test]
fn it_does_not_start_open_to_strangers() {
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    let output = Command::new(env!("CARGO_BIN_EXE_motet"))
        .args(["serve", "--listen", "0.0.0.0:0"])
        .arg(config)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no authentication") && said.contains("[[credential]]"), "{said}");
}
