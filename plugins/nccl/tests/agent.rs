//! `MOTET_AGENT` in a job of four processes, through the C host: ranks switch together when what they use gets slow,
//! whatever strangers say, go on where there is no leader, and settle a switch without one that has died.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{SIGNATURE, command, manifest, passes, two_candidates, write_files, write_plan};
use motet_nccl::Loopback;
use motet_runtime::wire::{decode, encode};
use motet_runtime::{
    Candidate, Frame, Hello, Message, Method, Setting, Signature, Table, TableKnobs, Target,
};
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
    command.env("MOTET_AGENT_POLICY", "fastest");
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

/// A plan that was measured on a network: what is left to NCCL takes 120 µs there, the ring 80 and the tree 150.
fn measured_plan(folder: &TempDir) -> PathBuf {
    let network = Loopback { ranks: 4, ..Loopback::default() }.network().unwrap();
    let signature = Signature(motet_net::Signature::of(&network).as_u128());
    let mut entries = two_candidates().entries().to_vec();
    entries[0].key.signature = signature;
    let own = Setting { method: Method::Nccl { algorithm: None }, knobs: TableKnobs::default() };
    entries[0]
        .candidates
        .push(Candidate { setting: own, expected: motet_units::Duration::from_us(120) });
    let manifest = manifest("measured").replace(&SIGNATURE.to_string(), &signature.to_string());
    let mut csv = "nccl,collective,bytes,algorithm,protocol,channels,chunk,us\n".to_owned();
    for it in [",,,,120", "ring,simple,,,80", "tree,simple,,,150"] {
        csv += &format!("2.28.9,allreduce,1048576,{it}\n");
    }
    let plan = folder.path().join("measured");
    let table = Table::new(entries).unwrap().write();
    let network = motet_net::formats::cluster_toml::write(&network);
    let files = [("nccl/measured.csv", csv.as_str()), ("network.toml", network.as_str())];
    write_files(&plan, &[&files[..], &[("plan.json", &manifest), ("table", &table)]].concat());
    plan
}

#[test]
fn a_policy_tries_what_it_does_not_use_and_leaves_what_got_slow() {
    let folder = TempDir::new().unwrap();
    let mut command = job(&folder, &address(), 20_000, 6000);
    command.env_remove("MOTET_AGENT_POLICY").env("MOTET_PLAN", measured_plan(&folder));
    let text = passes(&mut command);
    let said = "the policy infer steers 1 entries, 1 of them by what the plan has measured";
    assert!(text.contains(said), "{text}");
    let found = switches(&text);
    assert_eq!(found[0], (0, RING), "{text}");
    // NCCL's own choice is tried, and left again by itself.
    let tried = found.windows(3).find(|it| it[1].1 == -1 && it[2].1 == RING);
    let tried = tried.unwrap_or_else(|| panic!("{text}"));
    assert!(tried[2].0 - tried[1].0 < 3000, "{text}");
    assert!(text.contains("all 4 ranks try another table for a few calls"), "{text}");
    assert_ne!(found.last().unwrap().1, RING, "{text}");
    assert!(text.contains("all 4 ranks go over to table"), "{text}");
}

#[test]
fn a_plan_without_a_network_is_led_by_what_is_fastest() {
    let folder = TempDir::new().unwrap();
    let mut command = job(&folder, &address(), 6000, 1500);
    let text = passes(command.env("MOTET_AGENT_POLICY", "no-such"));
    assert!(
        text.contains("MOTET_AGENT_POLICY=no-such is no policy; infer is used. Known are nccl, "),
        "{text}"
    );
    assert!(text.contains("no policy: ") && text.contains("network.toml"), "{text}");
    assert_eq!(switches(&text).iter().map(|it| it.1).collect::<Vec<_>>(), [RING, TREE], "{text}");
}

#[test]
fn who_loses_a_killed_leader_goes_on_or_fails() {
    let folder = TempDir::new().unwrap();
    let mut command = job(&folder, &address(), 6000, 1000);
    // Near the switch, wherever it is.
    let text = passes(command.arg("1400"));
    assert!(text.contains("no agent for this communicator any more"), "{text}");
}

/// What a leader does that vanishes in the middle of a switch.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Before it has told anyone.
    Silent,
    /// It has told one rank.
    TellsOne,
    /// As `Silent`, and no rank knows where the others are.
    Secretive,
}

/// A leader that has all four ranks agree to a switch, and is gone. Gives the operation of the switch.
fn vanishing_leader(listener: &TcpListener, fate: Fate) -> u64 {
    let mut ranks = BTreeMap::new();
    while ranks.len() < 4 {
        let mut link = Wire::new(listener.accept().unwrap().0);
        let Frame::Hello(hello) = link.next() else { panic!("no hello") };
        let Frame::Table { signature, text } = link.next() else { panic!("no table") };
        let place = format!("127.0.0.1:{}", hello.port);
        ranks.insert(hello.rank.0, (link, place, signature, text));
    }
    let places: Vec<String> = ranks
        .values()
        .map(|it| if fate == Fate::Secretive { String::new() } else { it.1.clone() })
        .collect();
    let (signature, text) = ranks.values().map(|it| (it.2, it.3.clone())).next().unwrap();
    let mut entries = Table::read(&text).unwrap().entries().to_vec();
    entries[0].candidates.swap(0, 1);
    let table = Table::new(entries).unwrap();
    let mut at = 0;
    for (link, ..) in ranks.values_mut() {
        let Frame::Standing { position, .. } = link.next() else { panic!("no standing") };
        at = at.max(position + 1000);
    }
    let target = Target::Table { checksum: table.checksum(), signature };
    for (link, ..) in ranks.values_mut() {
        link.send(&Frame::Peers(places.clone()));
        link.send(&Frame::Table { signature, text: table.write() });
        link.send(&Frame::Agreement(Message::Propose { round: 1, at, until: None, target }));
    }
    for (link, ..) in ranks.values_mut() {
        loop {
            match link.next() {
                Frame::Agreement(Message::Accept { round: 1, .. }) => break,
                Frame::Standing { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    if fate == Fate::TellsOne {
        let (link, ..) = ranks.get_mut(&2).unwrap();
        link.send(&Frame::Agreement(Message::Verdict { round: 1, commit: true }));
    }
    at
}

/// A connection of the made-up leader.
struct Wire(TcpStream, Vec<u8>);

impl Wire {
    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(stream, Vec::new())
    }

    fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        self.0.write_all(&bytes).unwrap();
    }

    fn next(&mut self) -> Frame {
        loop {
            if let Some((frame, length)) = decode(&self.1).unwrap() {
                self.1.drain(..length);
                return frame;
            }
            let mut part = [0; 4096];
            let count = self.0.read(&mut part).unwrap();
            assert!(count > 0, "a rank has gone");
            self.1.extend(&part[..count]);
        }
    }
}

/// Runs a job under a leader that vanishes; gives what it printed, and the operation of the switch.
fn without_leader(fate: Fate) -> (String, u64) {
    let folder = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut command = job(&folder, &address, 9000, 9000);
    let leader = std::thread::spawn(move || vanishing_leader(&listener, fate));
    let text = passes(&mut command);
    (text, leader.join().unwrap())
}

#[test]
fn ranks_that_all_wait_for_a_dead_leader_stay_together() {
    let (text, _) = without_leader(Fate::Silent);
    assert_eq!(switches(&text), [(0, RING)], "{text}");
    assert_eq!(text.matches("the ranks have settled the switch").count(), 4, "{text}");
}

#[test]
fn what_one_rank_has_heard_of_a_dead_leader_counts_for_all() {
    let (text, at) = without_leader(Fate::TellsOne);
    assert_eq!(switches(&text), [(0, RING), (u32::try_from(at).unwrap(), TREE)], "{text}");
    assert_eq!(text.matches("the ranks have settled the switch").count(), 3, "{text}");
}

#[test]
fn calls_that_nobody_can_decide_fail_in_the_end() {
    let (text, at) = without_leader(Fate::Secretive);
    assert_eq!(text.matches(&format!(": call {at} fails")).count(), 4, "{text}");
    assert_eq!(text.matches("a call fails: the agent's leader is gone").count(), 4, "{text}");
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
        Frame::Hello(Hello { communicator, rank, ranks, port: 0, token })
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
