//! How ranks meet, at first and after a loss: ranks that come late, that die while they wait, that do not reach each other,
//! and strangers who take time or memory. At most one group ever goes on.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration as Wall;

use motet_collective::Verified;
use motet_exec::check::Data;
use motet_exec::wire::proof::{Side, prove};
use motet_exec::wire::{HEADER, Header, Join, Kind};
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction, Store};
use motet_units::{Duration, Seed};

use crate::programs;
use crate::proxy::relay;
use crate::ranks::{clock, config, notes, silent, store};

const CALL: Call =
    Call { element: Element::F32, elements: 1000, reduction: Reduction::Sum, in_place: true };

fn run_right(group: &mut Group) -> Result<(), ExecError> {
    let program = Verified::new(programs::ring_all_reduce(group.ranks(), 1), None).unwrap();
    let mut operation = group.register(&program, CALL)?;
    let data = Data::new(program.collective(), CALL, Seed::new(3));
    data.fill(group.rank(), operation.input_mut().unwrap());
    operation.run()?;
    assert_eq!(data.wrong(group.rank(), operation.output().unwrap()), (0, None));
    Ok(())
}

/// Runs until something is lost.
fn until_lost(group: &mut Group) -> ExecError {
    loop {
        if let Err(error) = run_right(group) {
            return error;
        }
    }
}

/// A rank that goes on after a loss: its new number, and of how many; or why not.
fn goes_on(group: Group, grace: u64) -> Result<(u32, u32), String> {
    let mut group = group.survivors(Duration::from_ms(grace)).map_err(|it| it.to_string())?;
    // A group of one has no ring.
    if group.ranks() > 1 {
        run_right(&mut group).map_err(|it| it.to_string())?;
    }
    Ok((group.rank(), group.ranks()))
}

fn soon(store: &Store, rank: u32, ranks: u32) -> Config {
    Config {
        shared_memory: false,
        heartbeat: Duration::from_ms(200),
        silence: Duration::from_ms(2_000),
        ..config(store, rank, ranks)
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Passes bytes on until it is told not to: from then on nothing arrives, and new connections get no answer.
struct Way {
    address: SocketAddr,
    broken: Arc<AtomicBool>,
}

impl Way {
    fn to(target: SocketAddr) -> Self {
        let broken = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&broken);
        let address = relay(target, move |from, to| pass(from, to, &said));
        Self { address, broken }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, broken: &AtomicBool) {
    let _ = to.set_nodelay(true);
    let mut room = [0; 8192];
    loop {
        let count = match from.read(&mut room) {
            Ok(count @ 1..) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A way that is broken hides that a side has gone, too.
            _ if broken.load(Ordering::Acquire) => {
                std::thread::sleep(Wall::from_secs(60));
                break;
            }
            _ => break,
        };
        if !broken.load(Ordering::Acquire) && to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

/// Rank 1 can be reached by rank 3 over a way that breaks; by the others over one that does not.
///
/// A rank says one address for all, so the way must tell who comes: it is told by the first frame that is not the same for all, the
/// Intro, which names the rank.
struct Switch {
    address: SocketAddr,
    broken: Arc<AtomicBool>,
}

impl Switch {
    fn to(target: SocketAddr, cut: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, broken) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let said = Arc::clone(&broken);
        let never = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            while let Ok((mut near, _)) = listener.accept() {
                let Ok(mut far) = TcpStream::connect(target) else { continue };
                let (said, never) = (Arc::clone(&said), Arc::clone(&never));
                std::thread::spawn(move || {
                    let hand = |from: &mut TcpStream, to: &mut TcpStream| {
                        let mut frame = vec![0; HEADER];
                        from.read_exact(&mut frame)?;
                        let header = Header::decode(frame[..].try_into().unwrap()).unwrap();
                        frame.resize(HEADER + header.length as usize, 0);
                        from.read_exact(&mut frame[HEADER..])?;
                        to.write_all(&frame)?;
                        Ok::<_, std::io::Error>(frame)
                    };
                    let mut begin = || {
                        hand(&mut near, &mut far)?;
                        hand(&mut far, &mut near)?;
                        // Who connects stands behind the proof, the group's name, and three numbers.
                        let intro = hand(&mut near, &mut far)?;
                        let at = HEADER + 32 + 2 + "motet".len() + 4 + 8 + 4;
                        Ok::<_, std::io::Error>(u32::from_be_bytes(
                            intro[at..at + 4].try_into().unwrap(),
                        ))
                    };
                    let Ok(rank) = begin() else { return };
                    let broken = if rank == cut { said } else { never };
                    let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                    for (from, to) in [(near, far), back] {
                        let broken = Arc::clone(&broken);
                        std::thread::spawn(move || pass(from, to, &broken));
                    }
                });
            }
        });
        Self { address, broken }
    }
}

/// Two and two ranks, of which 1 and 3 do not reach each other any more: three go on, and the fourth is told.
#[test]
fn a_way_that_breaks_leaves_one_group() {
    let store = store();
    let port = free_port();
    let switch = Switch::to(SocketAddr::from(([127, 0, 0, 1], port)), 3);
    let ended = &Barrier::new(4);
    let ends: Vec<Result<(u32, u32), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|rank| {
                let mut config = soon(&store, rank, 4);
                if rank == 1 {
                    config.port = port;
                    config.advertise = Some(switch.address.to_string());
                }
                let broken = &switch.broken;
                scope.spawn(move || {
                    let mut group = Group::join(&config, clock(), silent()).unwrap();
                    run_right(&mut group).unwrap();
                    ended.wait();
                    broken.store(true, Ordering::Release);
                    until_lost(&mut group);
                    goes_on(group, 4_000)
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(ends[..3], [Ok((0, 3)), Ok((1, 3)), Ok((2, 3))]);
    let why = ends[3].as_ref().unwrap_err();
    assert!(why.contains("rank 3 of the group `motet` was left out"), "{why}");
    assert!(why.contains("rank 1"), "{why}");
}

/// The same, but nobody knows of it before the ranks meet again: what broke is a way that was not used.
#[test]
fn a_way_that_is_found_broken_when_ranks_meet_again_leaves_one_group() {
    let store = store();
    let port = free_port();
    let target = SocketAddr::from(([127, 0, 0, 1], port));
    let way = Way::to(target);
    let ended = &Barrier::new(4);
    let ends: Vec<Option<Result<(u32, u32), String>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|rank| {
                let mut config = soon(&store, rank, 4);
                if rank == 2 {
                    // It is reached by rank 3 only, for lower ranks do not connect to it.
                    config.port = port;
                    config.advertise = Some(way.address.to_string());
                }
                let broken = &way.broken;
                scope.spawn(move || {
                    let mut group = Group::join(&config, clock(), silent()).unwrap();
                    run_right(&mut group).unwrap();
                    ended.wait();
                    if rank == 1 {
                        return None;
                    }
                    let lost = until_lost(&mut group);
                    assert_eq!(lost.culprit(), Some(1), "{lost}");
                    broken.store(true, Ordering::Release);
                    Some(goes_on(group, 4_000))
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    // Two of four are half, with the lowest.
    assert_eq!((&ends[0], &ends[2]), (&Some(Ok((0, 2))), &Some(Ok((1, 2)))));
    let why = ends[3].as_ref().unwrap().as_ref().unwrap_err();
    assert!(why.contains("it and rank 2 do not reach each other"), "{why}");
}

/// A rank that was stopped and wakes when the others have gone on does not make a group of its own.
#[test]
fn who_wakes_too_late_is_told_and_goes_nowhere() {
    for minority in [false, true] {
        let store = store();
        let (gone_on, has_gone_on) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let config = Config { minority, ..soon(&store, rank, 3) };
                let gone_on = gone_on.clone();
                if rank < 2 {
                    scope.spawn(move || {
                        let group = Group::join(&config, clock(), silent()).unwrap();
                        assert_eq!(goes_on(group, 500), Ok((rank, 2)));
                        gone_on.send(()).unwrap();
                    });
                }
            }
            let group =
                Group::join(&Config { minority, ..soon(&store, 2, 3) }, clock(), silent()).unwrap();
            has_gone_on.recv().unwrap();
            has_gone_on.recv().unwrap();
            let why = goes_on(group, 500).unwrap_err();
            assert!(why.contains("has gone on without rank 2, which came too late"), "{why}");
        });
    }
}

/// A store that was started anew remembers nothing; then it is the number of ranks that keeps the few from going on.
#[test]
fn fewer_than_half_go_on_only_if_they_are_told_to() {
    for minority in [false, true] {
        let store = store();
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let config = Config { minority, ..soon(&store, rank, 3) };
                scope.spawn(move || {
                    let group = Group::join(&config, clock(), silent()).unwrap();
                    if rank < 2 {
                        return;
                    }
                    let end = goes_on(group, 300);
                    match minority {
                        true => assert_eq!(end, Ok((0, 1))),
                        false => assert!(end.unwrap_err().contains("more than half")),
                    }
                });
            }
        });
    }
}

/// The same name is used for one group after another, and each may lose ranks.
#[test]
fn a_name_can_be_used_again() {
    let store = store();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let config = soon(&store, rank, 3);
                scope.spawn(move || {
                    let group = Group::join(&config, clock(), silent()).unwrap();
                    if rank < 2 {
                        assert_eq!(goes_on(group, 500), Ok((rank, 2)));
                    }
                });
            }
        });
    }
}

/// Shows the store what a rank shows; what it says then is up to the test.
fn enter(store: &Store, join: &Join) -> TcpStream {
    let mut stream = TcpStream::connect(store.address()).unwrap();
    let frame = |kind, payload: &[u8]| {
        let header = Header { length: payload.len() as u32, ..Header::new(kind) };
        [&header.encode()[..], payload].concat()
    };
    let ours = [7; 16];
    stream.write_all(&frame(Kind::Hello, &ours)).unwrap();
    let mut challenge = [0; HEADER + 16];
    stream.read_exact(&mut challenge).unwrap();
    let theirs = challenge[HEADER..].try_into().unwrap();
    let said = join.encode();
    let proof = prove("", Side::Connecting, [&ours, &theirs], &said);
    stream.write_all(&frame(Kind::Intro, &[&proof[..], &said].concat())).unwrap();
    let mut welcome = [0; HEADER + 32];
    stream.read_exact(&mut welcome).unwrap();
    stream
}

fn joins(rank: u32, ranks: u32) -> Join {
    Join {
        group: "motet".into(),
        generation: 0,
        meeting: 0,
        rank,
        ranks,
        address: "127.0.0.1:1".into(),
        host: String::new(),
        wait_ms: 60_000,
        grace_ms: 0,
        minority: false,
        apart: Vec::new(),
    }
}

/// What the store says next.
fn hear(stream: &mut TcpStream) -> (Kind, Vec<u8>) {
    stream.set_read_timeout(Some(Wall::from_secs(30))).unwrap();
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).unwrap();
    let header = Header::decode(&header).unwrap();
    let mut payload = vec![0; header.length as usize];
    stream.read_exact(&mut payload).unwrap();
    (header.kind, payload)
}

/// A rank that died while it waited and was started again takes its own place, and the group has its new address.
#[test]
fn a_rank_that_died_while_it_waited_can_come_again() {
    let store = store();
    drop(enter(&store, &joins(1, 2)));
    std::thread::scope(|scope| {
        for rank in [1, 0] {
            let config = config(&store, rank, 2);
            scope.spawn(move || {
                let mut group = Group::join(&config, clock(), silent()).unwrap();
                run_right(&mut group).unwrap();
            });
        }
    });
}

/// One that died for good is missed, and not taken into the group with an address where nobody is.
#[test]
fn a_rank_that_died_while_it_waited_is_missed() {
    let store = store();
    let mut second = enter(&store, &joins(1, 3));
    drop(enter(&store, &joins(2, 3)));
    std::thread::sleep(Wall::from_millis(500));
    let mut first = enter(&store, &Join { wait_ms: 300, ..joins(0, 3) });
    let (kind, why) = hear(&mut first);
    let why = String::from_utf8(why).unwrap();
    assert_eq!(kind, Kind::Refused);
    assert!(why.contains("only 2 of 3 ranks came in time; rank 2"), "{why}");
    // A rank that is there keeps its place.
    let config = Config { wait: Duration::from_ms(2_000), ..config(&store, 1, 3) };
    let why = Group::join(&config, clock(), silent()).map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("rank 1 of `motet` has come already"), "{why}");
    second.write_all(&[0]).unwrap();
}

/// Who comes last may come at the very end of the first one's time, and all still meet.
#[test]
fn the_last_may_come_at_the_end_of_the_first_ones_time() {
    let store = store();
    std::thread::scope(|scope| {
        let first = Config { wait: Duration::from_ms(3_000), ..config(&store, 0, 2) };
        let first = scope.spawn(move || Group::join(&first, clock(), silent()).map(|_| ()));
        // Rank 1 comes in time, but then takes longer than what is left: its place is held for it here.
        std::thread::sleep(Wall::from_millis(2_500));
        let mut second = enter(&store, &joins(1, 2));
        let (kind, roster) = hear(&mut second);
        assert_eq!(kind, Kind::Roster);
        let roster = motet_exec::wire::Roster::decode(&roster).unwrap();
        std::thread::sleep(Wall::from_millis(1_000));
        assert!(!first.is_finished(), "rank 0 has time after all have come");
        // What is left to say is that this one gives up, with the reason, which ends the first at once.
        let met = motet_exec::wire::Met {
            round: roster.round,
            missing: vec![1],
            why: "enough of it".into(),
        };
        let payload = met.encode();
        let header = Header { length: payload.len() as u32, ..Header::new(Kind::Met) };
        second.write_all(&[&header.encode()[..], &payload].concat()).unwrap();
        let why = first.join().unwrap().unwrap_err().to_string();
        assert!(why.contains("rank 1 gave up: enough of it"), "{why}");
    });
}

/// Times that overflow are taken for long ones, and harm neither the store nor its count of connections.
#[test]
fn hostile_times_harm_nobody() {
    let store = store();
    let hostile = Join { wait_ms: u64::MAX, grace_ms: u64::MAX, ..joins(0, 2) };
    let mut stream = enter(&store, &hostile);
    stream.set_read_timeout(Some(Wall::from_millis(500))).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    let other = Join { rank: 1, ..hostile };
    let _other = enter(&store, &other);
    assert_eq!(hear(&mut stream).0, Kind::Roster);
}

/// Before the token was shown nothing long is waited for, whatever it calls itself.
#[test]
fn strangers_cannot_announce_much() {
    let (heard, note) = notes();
    let store = Store::serve("127.0.0.1:0".parse().unwrap(), "secret", clock(), note).unwrap();
    let first = |kind, length| Header { length, ..Header::new(kind) }.encode();
    for (saying, expected) in [
        (first(Kind::Roster, 4 << 20), "something else than was due"),
        (first(Kind::Refused, 4 << 10), "something else than was due"),
        (first(Kind::Hello, 60 << 10), "61440 bytes"),
    ] {
        let mut stream = TcpStream::connect(store.address()).unwrap();
        stream.write_all(&saying).unwrap();
        // The store does not wait for what was announced.
        stream.set_read_timeout(Some(Wall::from_secs(3))).unwrap();
        let end = stream.read(&mut [0]);
        assert!(!matches!(&end, Err(it) if it.kind() == ErrorKind::WouldBlock), "{end:?}");
        for _ in 0..1000 {
            if heard.lock().unwrap().iter().any(|it| it.contains(expected)) {
                break;
            }
            std::thread::sleep(Wall::from_millis(10));
        }
        let heard = heard.lock().unwrap();
        assert!(heard.iter().any(|it| it.contains(expected)), "{expected}: {heard:?}");
    }
}

/// Who connects to a rank and says nothing is shown out when the ranks have met, and not waited for.
#[test]
fn a_silent_stranger_does_not_hold_up_the_ranks() {
    let store = store();
    let port = free_port();
    let (heard, note) = notes();
    std::thread::scope(|scope| {
        let first = Config { port, ..config(&store, 0, 2) };
        let first = scope.spawn(move || Group::join(&first, clock(), note).unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stranger = loop {
            match TcpStream::connect(address) {
                Ok(stranger) => break stranger,
                Err(_) => std::thread::sleep(Wall::from_millis(5)),
            }
        };
        let second = config(&store, 1, 2);
        let second = scope.spawn(move || Group::join(&second, clock(), silent()).unwrap());
        // Both, or each would wait for the other's farewell.
        let both = (first.join().unwrap(), second.join().unwrap());
        drop(stranger);
        drop(both.0);
        drop(both.1);
    });
    // Not that it said nothing in time, which is five seconds.
    let heard = heard.lock().unwrap();
    assert!(heard.iter().any(|it| it.contains("when the ranks had met")), "{heard:?}");
}

/// More connections than the process may have are an error with what to do, and no endless wait.
#[test]
#[cfg(target_os = "linux")]
fn too_few_descriptors_are_said_at_once() {
    // The limit is the process's, so it is a process of its own: this test once more.
    if std::env::var_os("MOTET_TEST_FEW").is_some() {
        let store = store();
        let end = Group::join(&Config { streams: 64, ..config(&store, 0, 1) }, clock(), silent());
        assert!(end.is_ok(), "a group of one needs no connections: {end:?}");
        let why: Vec<String> = crate::ranks::on_all(
            2,
            |it| Config { streams: 64, ..it },
            |group| group.map(|_| ()).unwrap_err().to_string(),
        );
        assert!(why.iter().any(|it| it.contains("ulimit -n")), "{why:?}");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let test = "meeting::too_few_descriptors_are_said_at_once";
    let script = format!("ulimit -n 64 && exec '{}' --exact {test} --nocapture", this.display());
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("MOTET_TEST_FEW", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// A store that ends does so at once, whoever waits there hears of it, and its port is free.
#[test]
fn a_store_that_ends_tells_who_waits() {
    let store = store();
    let mut waiting = enter(&store, &joins(0, 2));
    let _silent = TcpStream::connect(store.address()).unwrap();
    let address = store.address();
    drop(store);
    let (kind, why) = hear(&mut waiting);
    assert_eq!(kind, Kind::Refused);
    assert!(String::from_utf8(why).unwrap().contains("the store has ended"));
    assert!(TcpStream::connect(address).is_err());
}
