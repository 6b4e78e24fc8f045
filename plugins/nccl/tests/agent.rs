//! `MOTET_AGENT` in a job of four processes, through the C host: ranks switch together when what they use gets slow,
//! whatever strangers say, and go on where there is no leader.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{command, manifest, passes, two_candidates, write_plan};
use motet_runtime::wire::encode;
use motet_runtime::{Frame, Hello, Message};
use motet_units::Rank;
use tempfile::TempDir;

/// A port that was free a moment ago.
fn address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A job of so many calls whose ring gets slow at `change`.
fn job(folder: &TempDir, address: &str, calls: u32, change: u32) -> Command {
    let plan = folder.path().join("plan");
    write_plan(&plan, &manifest("measured"), &two_candidates().write());
    let mut command = command(&["agent", &calls.to_string(), &change.to_string()]);
    command.env("MOTET_PLAN", plan).env("MOTET_PROFILE_EVERY", "4").env("MOTET_AGENT", address);
    command
}

/// At which calls another entry of NCCL's table was chosen, and which.
fn switches(text: &str) -> Vec<(u32, i32)> {
    let numbers = |it: &str| {
        let words: Vec<&str> = it.split(' ').collect();
        (words[1].parse().unwrap(), words[3].parse().unwrap())
    };
    text.lines().filter(|it| it.starts_with("from ")).map(numbers).collect()
}

const RING: i32 = 5;
const TREE: i32 = 2;

#[test]
fn all_ranks_leave_what_got_slow_at_the_same_call() {
    let folder = TempDir::new().unwrap();
    let text = passes(&mut job(&folder, &address(), 6000, 1500));
    let found = switches(&text);
    assert_eq!(found.iter().map(|it| it.1).collect::<Vec<_>>(), [RING, TREE], "{text}");
    assert!(found[1].0 > 1500, "{text}");
    assert_eq!(text.matches("the agent leads 4 ranks with table").count(), 1, "{text}");
    assert_eq!(text.matches("all 4 ranks go over to table").count(), 1, "{text}");
}

#[test]
fn nothing_changes_where_all_is_as_planned() {
    let folder = TempDir::new().unwrap();
    let text = passes(&mut job(&folder, &address(), 2500, 2500));
    assert_eq!(switches(&text), [(0, RING)], "{text}");
    assert!(text.contains("the agent leads 4 ranks"), "{text}");
}

#[test]
fn who_cannot_reach_a_leader_keeps_the_plan() {
    let folder = TempDir::new().unwrap();
    // An address of no host of ours: nobody can listen there.
    let text = passes(&mut job(&folder, "192.0.2.1:9", 500, 100));
    assert_eq!(switches(&text), [(0, RING)], "{text}");
}

#[test]
fn strangers_are_shown_the_door() {
    let folder = TempDir::new().unwrap();
    let address = address();
    let mut command = job(&folder, &address, 6000, 1500);
    command.env("MOTET_AGENT_TOKEN", "ours").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let connect = || loop {
        if let Ok(stream) = TcpStream::connect(&address) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let hello = |token: &str| {
        let token = token.to_owned();
        let (communicator, rank, ranks) = (77, Rank(0), 4);
        Frame::Hello(Hello { communicator, rank, ranks, token })
    };
    let verdict = Frame::Agreement(Message::Verdict { round: 1, commit: true });
    for first in [None, Some(hello("theirs")), Some(verdict)] {
        let mut bytes = Vec::new();
        match &first {
            Some(frame) => encode(frame, &mut bytes),
            None => bytes.extend(b"GET / HTTP/1.1\r\n\r\n"),
        }
        let mut stream = connect();
        stream.write_all(&bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Closed, or reset because it had not been read.
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(switches(&text).iter().map(|it| it.1).collect::<Vec<_>>(), [RING, TREE], "{text}");
}
