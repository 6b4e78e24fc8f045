//! Whatever happens to a frame, every rank ends with a right result or an error, within the stated time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration as Wall;

use motet_collective::{Program, TransferId, Verified};
use motet_exec::check::Data;
use motet_exec::wire::Kind;
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction};
use motet_units::{Duration, Seed};

use crate::programs;
use crate::proxy::{Fault, Proxy};
use crate::ranks::{clock, config, silent, store};

const RANKS: u32 = 3;
const CALLS: u32 = 6;
const CALL: Call =
    Call { element: Element::F32, elements: 300_000, reduction: Reduction::Sum, in_place: true };
/// How long a rank may be silent, in seconds.
const SILENCE: u64 = 2;
/// How long a handshake may take, which is no setting.
const HANDSHAKE: u64 = 5;
/// How long all ranks may take to connect, where that is what fails.
const WAIT: u64 = 2;
/// How much longer than stated things may take in a test, for a busy machine.
const MARGIN: u64 = 4;

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

/// One thing that goes wrong, and where.
#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    /// At which frame of which kind.
    kind: Kind,
    number: u32,
    /// Connections for data to each rank, and as many in reserve, if there is more than one.
    streams: u32,
    shared: bool,
    /// Between rank 1 and the store, and not between rank 0 and the others.
    at_store: bool,
    /// How many calls rank 2 makes.
    last_makes: u32,
}

impl Case {
    const fn new(fault: Fault, kind: Kind, number: u32) -> Self {
        let (streams, shared, at_store, last_makes) = (1, false, false, CALLS);
        Self { fault, kind, number, streams, shared, at_store, last_makes }
    }

    fn config(self, config: Config) -> Config {
        Config {
            shared_memory: self.shared,
            checksums: true,
            streams: self.streams,
            reserve: if self.streams > 1 { self.streams } else { 0 },
            heartbeat: Duration::from_ms(200),
            silence: Duration::from_ms(1000 * SILENCE),
            deadline: Duration::from_ms(20_000),
            ..config
        }
    }

    /// What each rank comes to, and how long it took from the fault to the last one's end; `None` if it never happened.
    fn run(self) -> (Option<Wall>, Vec<End>) {
        let mut program = programs::ring_all_reduce(RANKS, 1).to_builder();
        // Rank 1 sends only after rank 0 has, of which it gets notice.
        program.wait(TransferId(1).sent(), TransferId(0).sent());
        let program = Verified::new(program.build(), None).unwrap();
        let store = store();
        let port = free_port();
        let rank_0 = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let target = if self.at_store { store.address() } else { rank_0 };
        let proxy = Proxy::start(target, self.fault, self.kind, self.number);
        let ends = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..RANKS)
                .map(|rank| {
                    let mut config = self.config(config(&store, rank, RANKS));
                    if self.at_store {
                        config.wait = Duration::from_ms(1000 * WAIT);
                    }
                    match rank {
                        0 if !self.at_store => {
                            config.port = port;
                            config.advertise = Some(proxy.address.to_string());
                        }
                        1 if self.at_store => config.store = proxy.address.to_string(),
                        _ => {}
                    }
                    let makes = if rank + 1 == RANKS { self.last_makes } else { CALLS };
                    let program = &program;
                    scope.spawn(move || calls(&config, program, makes))
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        (proxy.struck.get().map(std::time::Instant::elapsed), ends)
    }

    /// Each rank has made all its calls or has an error, and no later than so many seconds after the fault. Returns the errors.
    fn ends_within(self, seconds: u64) -> Vec<String> {
        let (took, ends) = self.run();
        let took = took.unwrap_or_else(|| panic!("{self:?} never happened"));
        assert!(took < Wall::from_secs(seconds + MARGIN), "{self:?}: {took:?}");
        for (rank, (made, error)) in ends.iter().enumerate() {
            let makes = if rank as u32 + 1 == RANKS { self.last_makes } else { CALLS };
            assert!(error.is_some() || *made == makes, "{self:?}: {ends:?}");
        }
        ends.iter().filter_map(|it| it.1.as_ref()).map(ToString::to_string).collect()
    }

    /// All ranks have an error, and one of them is this.
    fn fails(self, expected: &str) {
        let errors = self.ends_within(SILENCE);
        assert_eq!(errors.len(), RANKS as usize, "{self:?}: {errors:?}");
        assert!(errors.iter().any(|it| it.contains(expected)), "{self:?}: {errors:?}");
    }
}

/// Several at once, because most of the time they wait.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let check = &check;
            scope.spawn(move || check(case));
        }
    });
}

#[test]
fn without_a_fault_all_is_right() {
    for streams in [1, 2] {
        let case = Case { streams, ..Case::new(Fault::Nothing, Kind::Data, 3) };
        assert_eq!(case.run(), (None, vec![(CALLS, None); 3]));
    }
}

#[test]
fn what_is_late_is_right() {
    for kind in [Kind::Data, Kind::Started] {
        let (struck, ends) = Case::new(Fault::Delay, kind, 2).run();
        assert!(struck.is_some());
        assert_eq!(ends, vec![(CALLS, None); 3]);
    }
}

const GAP: &str = "loses or doubles";

#[test]
fn lost_frames_are_missed() {
    let cases = [(Kind::Data, 5), (Kind::Started, 3), (Kind::Notice, 2), (Kind::Register, 1)];
    let cases = cases.map(|(kind, number)| Case::new(Fault::Drop, kind, number));
    at_once(cases, |it| it.fails(GAP));
}

#[test]
fn doubled_frames_are_noticed() {
    let cases = [(Kind::Data, 5), (Kind::Ping, 1), (Kind::Notice, 2), (Kind::Register, 1)];
    let cases = cases.map(|(kind, number)| Case::new(Fault::Duplicate, kind, number));
    at_once(cases, |it| it.fails(GAP));
}

#[test]
fn frames_about_shared_memory_are_missed_too() {
    for kind in [Kind::Offer, Kind::Taken] {
        let cases = [Fault::Drop, Fault::Duplicate]
            .map(|fault| Case { shared: true, ..Case::new(fault, kind, 5) });
        at_once(cases, |it| it.fails(GAP));
    }
}

#[test]
fn over_several_connections_and_some_in_reserve_too() {
    let case = |fault| Case { streams: 2, ..Case::new(fault, Kind::Data, 9) };
    at_once([Fault::Drop, Fault::Duplicate], |it| case(it).fails(GAP));
    // Whether that is seen by reading or by writing is chance.
    at_once([Fault::Cut], |it| case(it).fails("is gone: "));
    at_once([Fault::Corrupt], |it| case(it).fails("data was changed on the way"));
    at_once([Fault::Silence], |it| case(it).fails("nothing was heard from it for 2.0 s"));
}

#[test]
fn cut_connections_end_the_group() {
    let cases = [Case::new(Fault::Cut, Kind::Data, 7), Case::new(Fault::Cut, Kind::Register, 1)];
    at_once(cases, |it| it.fails("closed the connection"));
}

#[test]
fn changed_data_is_noticed() {
    Case::new(Fault::Corrupt, Kind::Data, 4).fails("data was changed on the way");
}

#[test]
fn silence_ends_the_group() {
    Case::new(Fault::Silence, Kind::Data, 6).fails("nothing was heard from it for 2.0 s");
}

/// Rank 2 leaves before the others have made their calls, and one of these does not hear why the other ends.
#[test]
fn an_end_that_is_not_told_right_is_an_end() {
    let cases = [Fault::Drop, Fault::Duplicate, Fault::Cut]
        .map(|fault| Case { last_makes: 2, ..Case::new(fault, Kind::Abort, 0) });
    at_once(cases, |it| assert_eq!(it.ends_within(SILENCE).len(), 2, "{it:?}"));
}

#[test]
fn a_farewell_that_goes_wrong_holds_nobody_up() {
    let cases =
        [Fault::Drop, Fault::Duplicate, Fault::Cut].map(|fault| Case::new(fault, Kind::Bye, 1));
    at_once(cases, |it| assert_eq!(it.ends_within(SILENCE), Vec::<String>::new(), "{it:?}"));
}

/// Frames of the store, and of handshakes between ranks. Where a connection is cut during the handshake another is made.
#[test]
fn what_goes_wrong_while_ranks_meet_ends_in_time() {
    let both = |kind| [Fault::Drop, Fault::Cut].map(|fault| Case::new(fault, kind, 0));
    let at_store = [Kind::Roster, Kind::Met, Kind::Go].into_iter().flat_map(both);
    let at_store = at_store.map(|it| Case { at_store: true, ..it });
    let at_rank = [Kind::Hello, Kind::Challenge, Kind::Intro, Kind::Welcome];
    let cases: Vec<Case> = at_store.chain(at_rank.into_iter().flat_map(both)).collect();
    at_once(cases, |it| {
        let errors = match it.at_store {
            // The store gives ranks two handshakes' time more than they give each other, and they the store three.
            true => it.ends_within(2 * WAIT + 3 * HANDSHAKE),
            false => it.ends_within(HANDSHAKE + SILENCE),
        };
        // Who gets no Welcome tries again too, but the other side has taken the connection and does not wait for another.
        let may_be_made_good = !it.at_store && it.kind != Kind::Welcome;
        // A frame that never comes is missed by both sides at about the same time. If the accepting side closes
        // first, the other tries again, and all is right; if not, it gives up.
        if !may_be_made_good || it.fault == Fault::Cut {
            assert_eq!(errors.is_empty(), may_be_made_good, "{it:?}: {errors:?}");
        }
    });
}
