//! Networks that change during a run: bandwidth, failures, circuits, background traffic.

use motet_collective::{Program, Verified};
use motet_net::state::{BandwidthRange, RangeTable};
use motet_net::{LinkChange, Network, NetworkState, NodeKind, StateEvent, StateTrace};
use motet_sim::changes::{CircuitSchedule, Resampled, merge};
use motet_sim::event::SimError;
use motet_sim::{Discipline, Outcome, Prepared, Routed, SimOptions, Simulation};
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId, Seed};

use crate::programs;
use crate::support::{Log, Told, funnel, line, send, template, verified};

const DISCIPLINES: [Discipline; 3] =
    [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare];

fn at(ps: u64, link: u32, change: LinkChange) -> StateEvent {
    StateEvent { at: Instant::from_ps(ps), link: LinkId(link), change }
}

/// bit/ps.
fn rate(bits: u64) -> LinkChange {
    LinkChange::Bandwidth(Bandwidth::from_bits_per_s(bits * 1_000_000_000_000))
}

fn run_all(
    program: &Verified<Program>,
    network: &Network,
    size: u64,
    state: &NetworkState,
    changes: &[StateEvent],
) -> Vec<Result<Outcome, SimError>> {
    let routed = Routed::new(program, network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let run = |discipline| {
        let options = SimOptions { discipline, ..SimOptions::default() };
        let simulation = Simulation::new(&prepared, Bytes::new(size)).options(options);
        simulation.state(state).changes(changes.iter().copied()).run()
    };
    DISCIPLINES.map(run).into()
}

/// One link of 8 bit/ps and 5 ps.
fn one_link() -> (Network, Verified<Program>) {
    let network = line(&[NodeKind::Gpu, NodeKind::Gpu], &[(8_000_000_000_000, 5)]);
    (network, verified(send(2, 0, 1, None)))
}

#[test]
fn what_is_left_goes_on_at_the_new_rate() {
    let (network, program) = one_link();
    let nominal = NetworkState::nominal(&network);
    let time = |size, changes: &[StateEvent]| {
        let outcomes = run_all(&program, &network, size, &nominal, changes);
        let times: Vec<u64> = outcomes.into_iter().map(|it| it.unwrap().time.as_ps()).collect();
        assert!(times.iter().all(|it| *it == times[0]), "{times:?}");
        times[0]
    };
    // 100 bytes: 800 bits, 100 ps at 8 bit/ps.
    assert_eq!(time(100, &[]), 105);
    // 320 bits by 40; 480 left at 3 bit/ps.
    assert_eq!(time(100, &[at(40, 0, rate(3))]), 40 + 160 + 5);
    // 320 bits by 40, then 10 ps at 7 = 70; 410 left at 8: 51.25, rounded up.
    assert_eq!(time(100, &[at(40, 0, rate(7)), at(50, 0, rate(8))]), 50 + 52 + 5);
    // Down from 40 to 90, twice said, and a new rate while down.
    let outage = [
        at(40, 0, LinkChange::Down),
        at(50, 0, LinkChange::Down),
        at(60, 0, rate(4)),
        at(90, 0, LinkChange::Up),
    ];
    assert_eq!(time(100, &outage), 90 + 120 + 5);
    // Changes at the beginning, at the very end, and after.
    assert_eq!(time(100, &[at(0, 0, rate(4)), at(200, 0, rate(1)), at(900, 0, rate(1))]), 205);
    // Up with no bandwidth is as good as down.
    assert_eq!(time(100, &[at(0, 0, rate(0)), at(1000, 0, rate(800))]), 1001 + 5);
}

/// Two streams of 800 bits at 1 bit/ps come to a link of 8 bit/ps: the second has it when the link,
/// at the rates it had, could have sent the first.
#[test]
fn a_link_is_taken_for_what_its_own_rate_needs() {
    let (network, program) = funnel(2, (1_000_000_000_000, 0), (8_000_000_000_000, 5));
    let program = verified(program);
    let nominal = NetworkState::nominal(&network);
    let run = |changes: &[StateEvent]| {
        let outcomes = run_all(&program, &network, 300, &nominal, changes);
        let figures = |it: &Result<Outcome, SimError>| {
            let outcome = it.as_ref().unwrap();
            (outcome.time.as_ps(), outcome.links[2].busy.as_ps())
        };
        // Not fair shares, which a slow link holds up at any time.
        assert_eq!(figures(&outcomes[0]), figures(&outcomes[1]));
        figures(&outcomes[0])
    };
    assert_eq!(run(&[]), (805, 200));
    // The second has 400 bits left at 150, and 4 bit/ps from there on.
    assert_eq!(run(&[at(150, 2, rate(4))]), (805, 250));
    // The first has 400 bits left when the link fails, and takes it until 1050.
    let outage = [at(50, 2, LinkChange::Down), at(1000, 2, LinkChange::Up)];
    assert_eq!(run(&outage), (1050 + 100 + 5, 1150));
    // An outage after both have had their time.
    assert_eq!(run(&[at(300, 2, LinkChange::Down), at(900, 2, LinkChange::Up)]), (805, 200));
}

#[test]
fn a_run_may_start_in_the_middle_of_a_trace() {
    let (network, program) = one_link();
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let changes = [at(10, 0, rate(1)), at(1000, 0, rate(2)), at(1100, 0, rate(4))];
    for discipline in DISCIPLINES {
        let options = SimOptions { discipline, ..SimOptions::default() };
        let simulation = Simulation::new(&prepared, Bytes::new(100)).options(options);
        let outcome = simulation.changes(changes).starting_at(Instant::from_ps(1050)).run();
        // 50 ps at 2, then 700 bits at 4.
        assert_eq!(outcome.unwrap().time, Duration::from_ps(50 + 175 + 5), "{discipline:?}");
    }
}

#[test]
fn an_observer_hears_of_changes_in_time_order() {
    let (network, program) = one_link();
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let changes = [at(0, 0, rate(4)), at(30, 0, LinkChange::Down), at(60, 0, LinkChange::Up)];
    for discipline in DISCIPLINES {
        let mut log = Log::default();
        let options = SimOptions { discipline, ..SimOptions::default() };
        let simulation = Simulation::new(&prepared, Bytes::new(100)).options(options);
        simulation.changes(changes).run_with(&mut log).unwrap();
        let heard: Vec<(u64, u64)> = log
            .0
            .iter()
            .filter_map(|(at, told)| match told {
                Told::Changed(_, rate) => Some((at.as_ps(), rate.bits_per_s() / 1_000_000_000_000)),
                _ => None,
            })
            .collect();
        assert_eq!(heard, [(0, 4), (30, 0), (60, 4)]);
        assert!(log.0.windows(2).all(|it| it[0].0 <= it[1].0));
    }
}

/// Rank 0 to rank 1 over a circuit that is set while the transfer waits, taken away in the
/// middle of it, and set again.
#[test]
fn circuits_come_and_go() {
    let (network, program) = one_link();
    let delay = Duration::from_ps(20);
    let mut circuits = CircuitSchedule::new(&network, [LinkId(0)], [], delay).unwrap();
    let at = Instant::from_ps;
    circuits.reconfigure(at(100), [LinkId(0)]).unwrap();
    circuits.reconfigure(at(150), []).unwrap();
    circuits.reconfigure(at(300), [LinkId(0)]).unwrap();
    let mut state = NetworkState::nominal(&network);
    circuits.begin(&mut state);
    let trace = circuits.trace(&network).unwrap();
    for outcome in run_all(&program, &network, 100, &state, trace.events()) {
        // 30 ps from 120 to 150, then 70 more from 320 on.
        assert_eq!(outcome.unwrap().time, Duration::from_ps(320 + 70 + 5));
    }
}

#[test]
fn resampled_background_is_a_trace_without_end() {
    let network = template("ring", &["gpus=5"]);
    let program = verified(programs::ring_all_reduce(5, 1));
    let range = BandwidthRange { low: Bandwidth::gbit_per_s(20), high: Bandwidth::gbit_per_s(200) };
    let table = RangeTable::new(&network, |_, _| range).unwrap();
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let source = |seed| {
        let stream = Seed::new(seed).stream("background");
        Resampled::new(&network, &table, stream, Duration::from_us(1)).unwrap()
    };
    let mut times = Vec::new();
    for (discipline, seed) in DISCIPLINES.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let options = SimOptions { discipline, ..SimOptions::default() };
        let simulation = || Simulation::new(&prepared, Bytes::mib(1)).options(options);
        let endless = simulation().changes(source(seed)).run().unwrap();
        let trace = StateTrace::new(&network, source(seed).take(50_000).collect()).unwrap();
        let listed = simulation().changes(trace.events().iter().copied()).run().unwrap();
        assert_eq!(endless, listed);
        // An outage on top, from another source: later, never earlier.
        let outage = [at(5, 0, LinkChange::Down), at(1_000_000_000_000, 0, LinkChange::Up)];
        let both = simulation().changes(merge(source(seed), outage)).run().unwrap();
        assert!(both.time > Duration::from_ms(1000) && endless.time < Duration::from_ms(1));
        times.push(endless.time);
    }
    assert_eq!(times[0], times[2], "a ring has no contention");
    assert_ne!(times[0], times[1]);
}
