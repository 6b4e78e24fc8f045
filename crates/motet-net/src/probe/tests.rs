//! Agents and a coordinator over loopback, and peers that do not play by the rules. The clock is
//! one that goes on by a microsecond each time it is read, so that nothing depends on the machine;
//! only the sockets' own timeouts are real.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration as Wall;

use motet_units::{Bandwidth, Duration, Instant};

use super::*;
use crate::builders::testing::is_connected;
use crate::probe::connection::ProbeError;
use crate::provenance::Provenance;

const TIMEOUT: Wall = Wall::from_millis(300);

/// A clock that goes on by a microsecond each time it is read.
fn clock() -> impl Clock {
    let reads = AtomicU64::new(0);
    move || Instant::from_ps(reads.fetch_add(1_000_000, Ordering::Relaxed))
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

fn host(name: &str, address: &str, rack: &str) -> Host {
    Host {
        name: name.to_owned(),
        address: address.to_owned(),
        rack: rack.to_owned(),
        dc: String::new(),
        gpus: 1,
    }
}

fn options(token: &str) -> RunOptions {
    let plan = ProbePlan { pings: 20, warm_up: 3, bytes: 4 << 20, streams: 2, deadline_ms: 60_000 };
    RunOptions { plan, token: token.to_owned(), timeout: TIMEOUT, parallel: 4 }
}

/// Ends the threads that listen, also where a test fails: a scope would wait for them.
struct Stop<'a>(&'a AtomicBool, Vec<&'a str>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        for address in &self.1 {
            let _ = TcpStream::connect(address);
        }
    }
}

/// Runs `test` with agents for `hosts` running; notes of the agents come back.
fn with_agents(
    listeners: &[(TcpListener, String)],
    token: &str,
    test: impl FnOnce(),
) -> Vec<String> {
    let (stop, notes, time) = (AtomicBool::new(false), Mutex::new(Vec::new()), clock());
    let agent = AgentOptions { token: token.to_owned(), timeout: TIMEOUT, max_connections: 16 };
    let note = |text: &str| notes.lock().unwrap().push(text.to_owned());
    std::thread::scope(|scope| {
        for (listener, _) in listeners {
            scope.spawn(|| serve(listener, &time, &agent, &stop, &note));
        }
        let _stop = Stop(&stop, listeners.iter().map(|it| it.1.as_str()).collect());
        test();
    });
    notes.into_inner().unwrap()
}

#[test]
fn a_network_comes_out() {
    let listeners: Vec<_> = (0..4).map(|_| listen()).collect();
    let hosts: Vec<Host> = listeners
        .iter()
        .enumerate()
        .map(|(index, it)| host(&format!("h{index}"), &it.1, if index < 2 { "a" } else { "b" }))
        .collect();
    let notes = with_agents(&listeners, "secret", || {
        let (options, time) = (options("secret"), clock());
        let greeted = greet(&hosts, &options, &time);
        assert!(greeted.iter().all(Result::is_ok), "{greeted:?}");
        let all: Vec<usize> = (0..4).collect();
        let chosen = sample(&hosts, &all, &History::default(), &SampleOptions::default());
        let done = AtomicU64::new(0);
        let count = |it: usize| {
            done.fetch_max(it as u64, Ordering::Relaxed);
        };
        let probed = run(&hosts, &chosen.pairs, &options, &time, &count);
        assert_eq!(done.into_inner(), chosen.pairs.len() as u64);
        for probe in &probed {
            let it = probe.outcome.as_ref().unwrap();
            // Two readings of the clock lie about a round trip at least.
            assert!(it.round_trip >= Duration::from_us(1), "{it:?}");
            assert!(it.round_trip < Duration::from_ms(100), "{it:?}");
            // 4 MiB in at least one reading of the clock, in pieces of at most 64 KiB.
            for rate in [it.there, it.back] {
                assert!(rate > Bandwidth::ZERO && rate < Bandwidth::gb_per_s(4 << 20), "{it:?}");
            }
        }
        let found = resolve("loopback", &hosts, &greeted, &probed, Model::Racks).unwrap();
        assert!(is_connected(&found.network));
        assert_eq!(found.network.ranks().len(), 4);
        let measured = |it: &crate::LinkSources| it.bandwidth.provenance == Provenance::Measured;
        assert!(found.links.iter().filter(|it| measured(it)).count() >= 8);
    });
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn another_token_is_refused_and_said_so() {
    let listeners = [listen()];
    let hosts = [host("a", &listeners[0].1, "r")];
    let notes = with_agents(&listeners, "secret", || {
        let greeted = greet(&hosts, &options("other"), &clock());
        let error = greeted[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("--token"), "{error}");
    });
    assert!(notes[0].contains("another token"), "{notes:?}");
}

/// A peer that does `work` with every connection until `stop`.
fn peer(listener: &TcpListener, stop: &AtomicBool, work: impl Fn(&mut TcpStream)) {
    while let Ok((mut stream, _)) = listener.accept() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        work(&mut stream);
    }
}

#[test]
fn bad_peers_end_in_errors_and_the_rest_goes_on() {
    let good: Vec<_> = (0..2).map(|_| listen()).collect();
    let bad: Vec<_> = (0..4).map(|_| listen()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop, bad.iter().map(|it| it.1.as_str()).collect());
        // One sends garbage, one closes at once, one never answers, one is friendly and then
        // answers a ping with something else.
        scope.spawn(|| peer(&bad[0].0, &stop, |it| drop(it.write_all(b"SSH-2.0-OpenSSH\r\n"))));
        scope.spawn(|| peer(&bad[1].0, &stop, |_| {}));
        scope.spawn(|| {
            peer(&bad[2].0, &stop, |it| {
                let _ = it.set_read_timeout(Some(TIMEOUT * 10));
                while it.read(&mut [0; 512]).is_ok_and(|it| it > 0) {}
            });
        });
        scope.spawn(|| {
            peer(&bad[3].0, &stop, |it| {
                let _ = it.write_all(&frame::encode(&Frame::Welcome));
                let _ = it.write_all(&frame::encode(&Frame::Pong { number: 77 }));
                let _ = it.set_read_timeout(Some(TIMEOUT));
                while it.read(&mut [0; 512]).is_ok_and(|it| it > 0) {}
            });
        });
        let mut hosts = vec![host("a", &good[0].1, "r"), host("b", &good[1].1, "r")];
        for (index, it) in bad.iter().enumerate() {
            hosts.push(host(&format!("bad{index}"), &it.1, "r"));
        }
        hosts.push(host("nowhere", "127.0.0.1:1", "r"));
        hosts.push(host("noname", "no-such-host.invalid:1", "r"));
        with_agents(&good, "", || {
            let (options, time) = (options(""), clock());
            let greeted = greet(&hosts, &options, &time);
            let expected = |it: &Result<(), ProbeError>| match it {
                Ok(()) => "ok",
                Err(ProbeError::Frame(_)) => "frame",
                Err(ProbeError::Closed) => "closed",
                Err(ProbeError::Silent) => "silent",
                Err(ProbeError::Unreachable { .. }) => "unreachable",
                Err(ProbeError::Unresolved { .. }) => "unresolved",
                Err(_) => "other",
            };
            let got: Vec<&str> = greeted.iter().map(expected).collect();
            let wanted =
                ["ok", "ok", "frame", "closed", "silent", "ok", "unreachable", "unresolved"];
            assert_eq!(got, wanted);
            // An agent that is sent to any of them reports it, and the good pair is measured.
            let pairs: Vec<Pair> = (1..hosts.len()).map(|it| Pair::new(0, it)).collect();
            let probed = run(&hosts, &pairs, &options, &time, &|_| {});
            assert!(probed[0].outcome.is_ok(), "{:?}", probed[0]);
            for probe in &probed[1..] {
                let error = probe.outcome.as_ref().unwrap_err().to_string();
                assert!(!error.is_empty(), "{error}");
            }
            let found = resolve("x", &hosts, &greeted, &probed, Model::Racks).unwrap();
            // The friendly one is in by its greeting, with figures of others.
            assert_eq!(found.network.ranks().len(), 3);
            assert_eq!(found.unseen.iter().filter(|it| it.what.starts_with("host ")).count(), 5);
        });
    });
}

#[test]
fn an_agent_survives_strange_clients() {
    let listeners = [listen()];
    let address = listeners[0].1.clone();
    let notes = with_agents(&listeners, "", || {
        let hello = frame::encode(&Frame::Hello { token: String::new() });
        let huge = frame::encode(&Frame::Send { bytes: u64::MAX });
        let plan = ProbePlan { pings: u32::MAX, ..ProbePlan::default() };
        let greedy = frame::encode(&Frame::Probe { target: address.clone(), plan });
        for (bytes, answers) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 0),
            (frame::encode(&Frame::Welcome), 0),
            ([hello.clone(), huge].concat(), 2),
            ([hello.clone(), greedy].concat(), 2),
            ([hello.clone(), vec![0; 3]].concat(), 1),
            (hello[..5].to_vec(), 0),
        ] {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut said = Vec::new();
            // A reset is as good an end as a close.
            let _ = stream.read_to_end(&mut said);
            let frames = said.windows(4).filter(|it| it == b"MTPR").count();
            assert_eq!(frames, answers, "{bytes:?}");
        }
        // And it still works.
        let hosts = [host("a", &address, "r")];
        assert_eq!(greet(&hosts, &options(""), &clock()), [Ok(())]);
    });
    assert!(notes.iter().any(|it| it.contains("does not speak")), "{notes:?}");
}

/// The whole probe has a deadline, however lively the peer is.
#[test]
fn a_peer_that_drips_runs_out_of_time() {
    let (listener, address) = listen();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop, vec![&address]);
        scope.spawn(|| {
            peer(&listener, &stop, |it| {
                // One byte of the header: there is progress, but not enough.
                let _ = it.write_all(b"M");
                let _ = it.set_read_timeout(Some(TIMEOUT));
                while it.read(&mut [0; 512]).is_ok_and(|it| it > 0) {}
            });
        });
        let time = clock();
        // Read once before the greeting is sent and once before the first byte is read.
        let deadline = Instant::from_ps(2_000_000);
        let opened = connection::Connection::open(&address, "", &time, TIMEOUT, deadline);
        assert_eq!(opened.err(), Some(ProbeError::Late));
    });
}

/// The handshake has a deadline of its own: a stranger that sends a byte now and then is cut off,
/// though no single step of it is late.
#[test]
fn a_stranger_that_drips_is_cut_off() {
    let (listener, address) = listen();
    let (stop, notes) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    // Goes on by 100 ms each time it is read, which the agent does before every step.
    let reads = AtomicU64::new(0);
    let time = move || Instant::from_ps(reads.fetch_add(100_000_000_000, Ordering::Relaxed));
    let agent = AgentOptions { token: "t".to_owned(), timeout: TIMEOUT, max_connections: 4 };
    let note = |text: &str| notes.lock().unwrap().push(text.to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &time, &agent, &stop, &note));
        let _stop = Stop(&stop, vec![&address]);
        let mut stream = TcpStream::connect(&address).unwrap();
        for byte in frame::encode(&Frame::Hello { token: "t".to_owned() }) {
            std::thread::sleep(Wall::from_millis(20));
            if stream.write_all(&[byte]).is_err() {
                break;
            }
        }
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
    });
    let notes = notes.into_inner().unwrap();
    assert!(notes.iter().any(|it| it.contains("took longer")), "{notes:?}");
}

/// Strangers that say nothing hold no place against one from the same address who knows the token, whose handshake
/// is long over before theirs must be.
#[test]
fn strangers_do_not_shut_out_who_knows_the_token() {
    let (listener, address) = listen();
    let (stop, notes, time) = (AtomicBool::new(false), Mutex::new(Vec::new()), clock());
    let timeout = Wall::from_secs(600);
    let agent = AgentOptions { token: "t".to_owned(), timeout, max_connections: 8 };
    let note = |text: &str| notes.lock().unwrap().push(text.to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &time, &agent, &stop, &note));
        let _stop = Stop(&stop, vec![&address]);
        let mut silent: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(&address).unwrap()).collect();
        let hosts = [host("a", &address, "r")];
        assert_eq!(greet(&hosts, &options("t"), &clock()), [Ok(())]);
        // The oldest was closed for it, at once; the others are let go by hand, for the agent waits for them.
        let mut said = Vec::new();
        let _ = silent.remove(0).read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
        drop(silent);
    });
    let notes = notes.into_inner().unwrap();
    assert!(notes.iter().any(|it| it.contains("its place was needed")), "{notes:?}");
}

/// Without a token an agent measures the way to no other machine.
#[test]
fn an_agent_without_a_token_stays_at_home() {
    let listeners = [listen()];
    let hosts = [host("a", &listeners[0].1, "r"), host("far", "192.0.2.1:7461", "r")];
    with_agents(&listeners, "", || {
        let probed = run(&hosts, &[Pair::new(0, 1)], &options(""), &clock(), &|_| {});
        let error = probed[0].outcome.as_ref().unwrap_err().to_string();
        assert!(error.contains("its own machine only"), "{error}");
    });
}
