//! `motet serve` as a process: killed in the middle of changes, started again, told to stop.

#![cfg(all(feature = "server", unix))]
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
#[path = "../../motet-server/tests/common/mod.rs"]
mod common;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{LONG, Members, exchange, job, register};
use motet_control::protocol::Registration;
use motet_control::seat::Go;
use motet_control::{Circuit, Port, SwitchId};
use motet_server::client::{Address, Client};

/// The service as a process of its own. It is killed when it is dropped.
struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(config: &Path) -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_motet")), config)
    }

    /// With a program that runs the service.
    fn start_as(mut program: Command, config: &Path) -> Self {
        let mut child = program
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

const RAILS: [&str; 2] = ["rail0.json", "rail1.json"];

/// Two switches whose circuits are in files, and which take their time for each change, the second more than the first.
fn configure(folder: &Path) -> std::path::PathBuf {
    let mut text = "store = 'store.redb'\n".to_owned();
    for (rail, optics) in RAILS.iter().zip(["100 ms", "250 ms"]) {
        std::fs::write(folder.join(rail), "[]").unwrap();
        text += &format!(
            "[[switch]]\nname = '{rail}'\nports = 8\n[switch.sim]\nstate = '{rail}'\ncommand = '100 ms'\noptics = '{optics}'\n"
        );
    }
    let file = folder.join("motet.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// The job of all these tests, with the same circuits on both switches.
fn on_both(mut job: Registration) -> Registration {
    let second = SwitchId(1);
    let ports = job.ports.iter().map(|(member, it)| (*member, Port { switch: second, ..*it }));
    job.ports.extend(ports.collect::<Vec<_>>());
    for group in &mut job.groups {
        let circuits = group.circuits.iter().map(|it| {
            let [a, b] = it.numbers();
            Circuit::new(second, a, b).unwrap()
        });
        group.circuits.extend(circuits.collect::<Vec<_>>());
    }
    job
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_change_it_loses_and_doubles_no_circuit() {
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    let state = || RAILS.map(|it| std::fs::read_to_string(folder.path().join(it)).unwrap());
    let job = on_both(job(1, 0, 0));
    let mut service = Service::start(&config);
    let client = service.client();
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    assert_eq!(state(), ["[[0,1]]"; 2]);
    // Before switches move, while old circuits are gone and new ones not there, when the first switch is done and the second is
    // not, and when all is done but not said.
    let moments: [(u64, Option<[&str; 2]>); 5] =
        [(0, None), (50, None), (0, Some(["[]", "[]"])), (0, Some(["[[0,1]]", "[]"])), (340, None)];
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
        assert_eq!(state(), [want; 2]);
        let circuits = service.get("/v1/circuits").await;
        let circuits = circuits.as_array().unwrap();
        assert!(
            circuits.len() == 2 && circuits.iter().all(|it| it["a"] == pair[0]),
            "{circuits:?}"
        );
    }
    let journal = service.get("/v1/journal?most=10000").await;
    let journal = journal.as_array().unwrap();
    let started: Vec<_> = journal.iter().filter(|it| it["event"] == "started").collect();
    assert_eq!(started.len(), 6);
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

/// How long files of a process may get: as on a disk that is full, or has room again. `prlimit` is util-linux'.
fn room(child: &Child, bytes: &str) -> std::io::Result<std::process::ExitStatus> {
    let limit = format!("--fsize={bytes}:unlimited");
    Command::new("prlimit").args(["--pid", &child.id().to_string(), &limit]).status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_keeps_everything_back_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let config = configure(folder.path());
    // What would end the process otherwise: a write that fails is to be an error, as on a full disk.
    let mut program = Command::new("sh");
    program.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_motet")]);
    let service = Service::start_as(program, &config);
    if let Err(error) = room(&service.child, "unlimited") {
        motet_testdata::skip(&format!("prlimit cannot be started: {error}"));
        return;
    }
    let client = service.client();
    let (first, second) = (job(1, 0, 0), job(2, 0, 4));
    register(&client, &first).await.unwrap();
    let mut members = Members::connect(&client, &first, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    assert!(room(&service.child, "0").unwrap().success());
    // A job waits for the database itself, and what follows waits behind it.
    let waiting = tokio::spawn({
        let (client, second) = (client.clone(), second.clone());
        async move { register(&client, &second).await }
    });
    let healthz = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let full = async {
        while exchange(service.address, healthz).await.0 != 503 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, full).await.expect("nobody notices that the disk is full");
    members.call(1, 1).await;
    members.call(2, 1).await;
    let gone = members.until_gone(1, 1);
    assert!(tokio::time::timeout(Duration::from_millis(500), gone).await.is_err());
    assert!(!waiting.is_finished());
    assert!(room(&service.child, "unlimited").unwrap().success());
    assert_eq!(members.until_gone(1, 1).await.unwrap(), Go::Circuits);
    tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(exchange(service.address, healthz).await.0, 200);
    service.kill();
    let service = Service::start(&config);
    assert_eq!(service.get("/v1/jobs").await.as_array().unwrap().len(), 2);
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
