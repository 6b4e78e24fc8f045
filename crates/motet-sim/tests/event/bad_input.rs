//! What cannot be run is refused with a clear message; nothing hangs or panics.

use motet_net::{LinkChange, NetworkState, NodeKind, StateEvent};
use motet_sim::event::SimError;
use motet_sim::{Discipline, Prepared, RouteError, Routed, SimOptions, Simulation};
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId};

use crate::programs;
use crate::support::{line, run, send, template, verified};

const DISCIPLINES: [Discipline; 3] =
    [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare];

fn options(discipline: Discipline) -> SimOptions {
    SimOptions { discipline, ..SimOptions::default() }
}

#[test]
fn too_few_gpus_and_partitions() {
    let program = verified(programs::ring_all_reduce(6, 1));
    let small = template("ring", &["gpus=5"]);
    let error = Routed::new(&program, &small, Default::default()).unwrap_err();
    assert_eq!(error, RouteError::Ranks { ranks: 6, gpus: 5 });
    let one_way = line(&[NodeKind::Gpu, NodeKind::Gpu], &[(1, 1)]);
    let back = verified(send(2, 1, 0, None));
    let error = Routed::new(&back, &one_way, Default::default()).unwrap_err();
    assert!(matches!(error, RouteError::NoPath { .. }));
}

#[test]
fn links_that_never_return() {
    let network = template("ring", &["gpus=4"]);
    let program = verified(programs::ring_all_reduce(4, 1));
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let mut down = NetworkState::nominal(&network);
    down.set_up(LinkId(2), false);
    let fails =
        [StateEvent { at: Instant::from_ps(700_000), link: LinkId(2), change: LinkChange::Down }];
    for discipline in DISCIPLINES {
        let run = || Simulation::new(&prepared, Bytes::mib(1)).options(options(discipline));
        let error = run().state(&down).run().unwrap_err();
        assert!(
            matches!(error, SimError::NeverEnds { link: LinkId(2), at: Instant::START, .. }),
            "{discipline:?}: {error}"
        );
        let error = run().changes(fails).run().unwrap_err();
        assert!(
            matches!(error, SimError::NeverEnds { link: LinkId(2), .. }),
            "{discipline:?}: {error}"
        );
        assert_eq!(
            error.to_string(),
            "transfer 1 (reduce rank 1 output[0] to rank 2 output[0]) never ends: link gpu1 → gpu2 \
             has no bandwidth from 700 ns on; bring the link back or route around it"
        );
        // Nothing to carry needs no bandwidth.
        let nothing = Simulation::new(&prepared, Bytes::ZERO).options(options(discipline));
        assert_eq!(nothing.state(&down).run().unwrap().time, Duration::from_us(3));
    }
}

#[test]
fn sizes_beyond_the_clock() {
    let network = template("ring", &["gpus=3"]);
    let whole = verified(programs::tree_broadcast(3, 7));
    for discipline in DISCIPLINES {
        let most = Bytes::new(u64::MAX);
        let error = run(&whole, &network, most, options(discipline)).unwrap_err();
        assert_eq!(error, SimError::TooLarge { size: most }, "{discipline:?}");
        let error = run(&whole, &network, Bytes::new(u64::MAX / 2), options(discipline));
        assert!(matches!(error, Err(SimError::TooLong { .. })), "{discipline:?}: {error:?}");
        let late = SimOptions { launch: Duration::MAX, ..options(discipline) };
        assert!(run(&whole, &network, Bytes::new(8), late).is_err());
    }
}

#[test]
fn ranks_that_cannot_copy() {
    let network = template("ring", &["gpus=3"]);
    let program = verified(programs::ring_all_gather(3, 1));
    for discipline in DISCIPLINES {
        let local = |bits| SimOptions {
            local_bandwidth: Some(Bandwidth::from_bits_per_s(bits)),
            ..options(discipline)
        };
        let error = run(&program, &network, Bytes::mib(1), local(0)).unwrap_err();
        assert_eq!(error, SimError::NoLocalBandwidth);
        let error = run(&program, &network, Bytes::gib(99), local(1)).unwrap_err();
        assert_eq!(error, SimError::LocalTooLong);
    }
}

#[test]
fn states_and_changes_of_other_networks() {
    let network = template("ring", &["gpus=3"]);
    let program = verified(programs::ring_all_gather(3, 1));
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let other = NetworkState::nominal(&template("ring", &["gpus=4"]));
    let error = Simulation::new(&prepared, Bytes::mib(1)).state(&other).run().unwrap_err();
    assert_eq!(error, SimError::WrongState { links: 8, network: 6 });
    let change = |ps, link| StateEvent {
        at: Instant::from_ps(ps),
        link: LinkId(link),
        change: LinkChange::Bandwidth(Bandwidth::gbit_per_s(1)),
    };
    for discipline in DISCIPLINES {
        let run = |changes: Vec<StateEvent>| {
            let simulation = Simulation::new(&prepared, Bytes::mib(1)).options(options(discipline));
            simulation.changes(changes).run().unwrap_err()
        };
        let unknown = run(vec![change(5, 6)]);
        assert_eq!(unknown, SimError::UnknownLink { link: LinkId(6), links: 6 });
        let unsorted = run(vec![change(5, 0), change(4, 0)]);
        assert!(matches!(unsorted, SimError::ChangesOutOfOrder { .. }));
    }
}

/// A size that the chunks do not divide is rounded up, and the outcome says so.
#[test]
fn sizes_that_chunks_do_not_divide() {
    let network = template("ring", &["gpus=3"]);
    let program = verified(programs::ring_all_gather(3, 1));
    let ran = |size| run(&program, &network, Bytes::new(size), SimOptions::default()).unwrap();
    assert_eq!(ran(3001).time, ran(3003).time);
    assert!(ran(3001).rounded_up && !ran(3003).rounded_up);
    assert_eq!(ran(3001).chunk, Bytes::new(1001));
}
