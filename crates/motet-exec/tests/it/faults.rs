//! Whatever happens to a message, every rank ends with a right result or an error, within the stated time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::time::Duration as Wall;

use motet_collective::{Program, Verified};
use motet_exec::check::Data;
use motet_exec::wire::Kind;
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction};
use motet_units::{Duration, Seed};

use crate::programs;
use crate::proxy::{Fault, Proxy};
use crate::ranks::{clock, config, silent, store};

const RANKS: u32 = 3;
const CALL: Call =
    Call { element: Element::F32, elements: 300_000, reduction: Reduction::Sum, in_place: true };

/// What a rank comes to: how many calls went right, and the error that ended them.
type End = (u32, Option<ExecError>);

fn calls(config: &Config, program: &Verified<Program>, calls: u32) -> End {
    let mut group = match Group::join(config, clock(), silent()) {
        Ok(group) => group,
        Err(error) => return (0, Some(error)),
    };
    let mut operation = match group.register(program, CALL) {
        Ok(operation) => operation,
        Err(error) => return (0, Some(error)),
    };
    for call in 0..calls {
        let data = Data::new(program.collective(), CALL, Seed::new(u64::from(call)));
        data.fill(config.rank, operation.input_mut().unwrap());
        if let Err(error) = operation.run() {
            return (call, Some(error));
        }
        assert_eq!(data.wrong(config.rank, operation.output().unwrap()), (0, None));
        // Time for a sign of life, so that what was lost is missed.
        std::thread::sleep(Wall::from_millis(50));
    }
    (calls, None)
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Three ranks, of which rank 0 is reached through a proxy.
fn through(fault: Fault, kind: Kind, number: u32) -> (bool, Vec<End>) {
    let program = Verified::new(programs::ring_all_reduce(RANKS, 1), None).unwrap();
    let store = store();
    let port = free_port();
    let target = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let proxy = Proxy::start(target, fault, kind, number);
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..RANKS)
            .map(|rank| {
                let mut config = Config {
                    shared_memory: false,
                    checksums: true,
                    heartbeat: Duration::from_ms(200),
                    silence: Duration::from_ms(3_000),
                    deadline: Duration::from_ms(20_000),
                    ..config(&store, rank, RANKS)
                };
                if rank == 0 {
                    config.port = port;
                    config.advertise = Some(proxy.address.to_string());
                }
                let program = &program;
                scope.spawn(move || calls(&config, program, 6))
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    (proxy.struck.load(Ordering::Acquire), ends)
}

fn all_failed(fault: Fault, kind: Kind, number: u32, expected: &str) {
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = std::time::Instant::now();
    let (struck, ends) = through(fault, kind, number);
    assert!(struck, "{fault:?} of {kind:?} {number} never happened");
    assert!(start.elapsed() < Wall::from_secs(40), "{:?}", start.elapsed());
    let errors: Vec<String> =
        ends.iter().map(|it| it.1.as_ref().expect("all must fail").to_string()).collect();
    assert!(errors.iter().any(|it| it.contains(expected)), "{fault:?} {kind:?}: {errors:?}");
}

#[test]
fn without_a_fault_all_is_right() {
    let (struck, ends) = through(Fault::Nothing, Kind::Data, 3);
    assert!(!struck);
    assert_eq!(ends, vec![(6, None); 3]);
}

#[test]
fn what_is_late_is_right() {
    for kind in [Kind::Data, Kind::Started] {
        let (struck, ends) = through(Fault::Delay, kind, 2);
        assert!(struck);
        assert_eq!(ends, vec![(6, None); 3]);
    }
}

#[test]
fn lost_frames_are_missed() {
    all_failed(Fault::Drop, Kind::Data, 5, "loses or doubles");
    all_failed(Fault::Drop, Kind::Started, 3, "loses or doubles");
}

#[test]
fn doubled_frames_are_noticed() {
    all_failed(Fault::Duplicate, Kind::Data, 5, "loses or doubles");
    all_failed(Fault::Duplicate, Kind::Ping, 1, "loses or doubles");
}

#[test]
fn cut_connections_end_the_group() {
    all_failed(Fault::Cut, Kind::Data, 7, "closed the connection");
    all_failed(Fault::Cut, Kind::Register, 1, "closed the connection");
}

#[test]
fn changed_data_is_noticed() {
    all_failed(Fault::Corrupt, Kind::Data, 4, "data was changed on the way");
}

#[test]
fn silence_ends_the_group() {
    all_failed(Fault::Silence, Kind::Data, 6, "nothing was heard from it for 3.0 s");
}
