//! Replay is what the interpreter and the event engine say, to the picosecond: end, ranks, links;
//! one by one and in the wide pass; and the critical path has no gap.

use motet_collective::Verified;
use motet_net::{Network, NetworkState};
use motet_sim::replay::{CompileError, Reason, Replay, RunError};
use motet_sim::{Discipline, Prepared, Routed, SimError, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, Instant, Seed, Stream};
use proptest::prelude::*;
use rand::RngExt;

use crate::interpreter::{Outcome, interpret};
use crate::{networks, random_programs};

struct Case {
    network: Network,
    program: Verified<motet_collective::Program>,
    switches: SwitchForwarding,
    options: SimOptions,
    size: Bytes,
    states: Vec<NetworkState>,
}

fn case(stream: &mut Stream) -> Case {
    let network = networks::network(stream);
    let program = random_programs::program(&network, stream);
    let program = Verified::new(program, Some(&network)).unwrap_or_else(|it| panic!("{it}"));
    let switches = match stream.random_range(0..3) {
        0 => SwitchForwarding::StoreAndForward,
        _ => SwitchForwarding::CutThrough,
    };
    let options = SimOptions {
        discipline: Discipline::ProgramOrder,
        local_bandwidth: match stream.random_range(0..2) {
            0 => None,
            _ => Some(Bandwidth::from_bits_per_s(stream.random_range(1 << 30..1 << 42))),
        },
        launch: Duration::from_ns(stream.random_range(0..3) * 500),
    };
    let size = match stream.random_range(0..4) {
        0 => Bytes::new(stream.random_range(0..64)),
        1 => Bytes::mib(stream.random_range(1..64)),
        // 2⁵³ ps at these rates are passed now and then, and done again.
        2 => Bytes::gib(stream.random_range(1..8)),
        _ => Bytes::new(stream.random_range(0..1 << 24)),
    };
    let states = (0..stream.random_range(1..40)).map(|_| networks::state(&network, stream));
    Case { states: states.collect(), network, program, switches, options, size }
}

/// The chain leads from the launch to the end without a gap, over links of its transfers.
fn check_chain(replay: &Replay, routed: &Routed<'_>, launch: Duration, state: &NetworkState) {
    let path = replay.critical_path(state).unwrap();
    let mut at = Instant::START + launch;
    for (index, step) in path.steps.iter().enumerate() {
        assert_eq!(step.start, at, "step {index} of {path:?}");
        assert!(step.end > step.start);
        assert!(step.reason != Reason::Launch || index == 0);
        let hops = routed.hops(step.transfer.index());
        match step.link {
            Some(link) => assert!(hops.iter().any(|it| it.link == link)),
            None => assert!(hops.is_empty()),
        }
        at = step.end;
    }
    assert_eq!(at.as_ps(), path.end.as_ps());
    let sum: Duration = path.by_link().iter().map(|it| it.1).sum();
    assert!(sum <= path.end);
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let Case { network, program, switches, options, size, states } = case;
    let routed = Routed::new(program, network, *switches).unwrap();
    let replay = Replay::compile(&routed, *size, options).unwrap();
    let prepared = Prepared::new(&routed);
    let wide = replay.run_many(states);
    prop_assert_eq!(wide.len(), states.len());
    for (state, wide) in states.iter().zip(wide) {
        let expected = interpret(&routed, *size, options, state);
        prop_assert_eq!(&replay.run(state), &wide);
        let by_events = Simulation::new(&prepared, *size).state(state).options(*options).run();
        match (expected, replay.usage(state)) {
            (Some(expected), Ok(usage)) => {
                prop_assert_eq!(wide, Ok(usage.end));
                let by_events = by_events.map_err(|it| TestCaseError::fail(it.to_string()))?;
                prop_assert_eq!(by_events.time, usage.end);
                let busy: Vec<Duration> = by_events.links.iter().map(|it| it.busy).collect();
                prop_assert_eq!(&busy, &usage.busy);
                let ps = |it: Vec<Duration>| it.into_iter().map(Duration::as_ps).collect();
                let end = usage.end.as_ps();
                let got = Outcome { end, ranks: ps(usage.ranks), busy: ps(usage.busy) };
                prop_assert_eq!(got, expected);
                check_chain(&replay, &routed, options.launch, state);
            }
            (None, Err(error)) => {
                prop_assert_eq!(wide, Err(error.clone()));
                let RunError::NoBandwidth { transfer, link } = error else {
                    return Err(TestCaseError::fail(error.to_string()));
                };
                prop_assert!(state.bandwidth(link).is_zero());
                let never = matches!(by_events, Err(SimError::NeverEnds { .. }));
                prop_assert!(never || *size == Bytes::ZERO);
                let hops = routed.hops(transfer.index());
                prop_assert!(hops.iter().any(|it| it.link == link));
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn replay_is_what_the_model_says(seed: u64) {
        check(&case(&mut Seed::new(seed).stream("case")))?;
    }
}

#[test]
fn other_disciplines_are_the_event_engines() {
    let mut stream = Seed::new(1).stream("case");
    let Case { network, program, switches, mut options, size, .. } = case(&mut stream);
    let routed = Routed::new(&program, &network, switches).unwrap();
    for discipline in [Discipline::Fifo, Discipline::FairShare] {
        options.discipline = discipline;
        let refused = Replay::compile(&routed, size, &options).unwrap_err();
        assert_eq!(refused, CompileError::Discipline(discipline));
    }
}
