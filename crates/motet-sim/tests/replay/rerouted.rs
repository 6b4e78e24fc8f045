//! A program whose routes are given at the run takes as long as the same program with these
//! routes written into it.

use motet_collective::{TransferId, Verified};
use motet_net::{Metric, Search, Transit};
use motet_sim::replay::{FlowMemory, FlowReplay, FlowRoute, FlowTimes, RunError};
use motet_sim::{Prepared, Routed, SimError, Simulation, SwitchForwarding};
use motet_units::{Bytes, Seed};
use proptest::prelude::*;
use rand::RngExt;

use crate::{networks, random_programs};

fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut stream = Seed::new(seed).stream("rerouted");
    let network = networks::network(&mut stream);
    let program = random_programs::program(&network, &mut stream);
    let program = Verified::new(program, Some(&network)).unwrap_or_else(|it| panic!("{it}"));
    let switches = SwitchForwarding::CutThrough;
    let size = Bytes::new(stream.random_range(0..1 << 26));
    let routed = Routed::new(&program, &network, switches).unwrap();
    let compiled = FlowReplay::compile(&routed, size, switches, 1);
    // Another way for each flow, and the same written into the program; flows are in the order in
    // which the program first sends them.
    let mut builder = program.to_builder();
    let mut known = Vec::new();
    let mut flow_of = vec![usize::MAX; program.transfers().len()];
    for event in routed.sequence().iter().filter(|it| it.is_sent()) {
        let transfer = program.transfer(event.transfer());
        if transfer.is_local() {
            continue;
        }
        let key = (transfer.src.rank, transfer.dst.rank, transfer.path);
        let flow = known.iter().position(|it| *it == key).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        });
        flow_of[event.transfer().index()] = flow;
    }
    let mut routes = Vec::new();
    for (number, flow) in compiled.flows().iter().enumerate() {
        let (from, to) = (network.ranks()[flow.from.index()], network.ranks()[flow.to.index()]);
        let found =
            Search::new(&network, Metric::Latency).through(Transit::All).k_shortest(from, to, 4);
        let links = found[stream.random_range(0..found.len())].links().to_vec();
        routes.push(FlowRoute::new(&network, &links, switches));
        let path = builder.add_path(links);
        for (index, of) in flow_of.iter().enumerate() {
            if *of == number {
                builder.transfer_mut(TransferId::from_index(index)).path = Some(path);
            }
        }
    }
    let written =
        Verified::new(builder.build(), Some(&network)).unwrap_or_else(|it| panic!("{it}"));
    let routed = Routed::new(&written, &network, switches).unwrap();
    let prepared = Prepared::new(&routed);
    let routes: Vec<&FlowRoute> = routes.iter().collect();
    let (mut times, mut memory) = (FlowTimes::default(), FlowMemory::default());
    for _ in 0..4 {
        let state = networks::state(&network, &mut stream);
        compiled.see(&state, &mut times);
        let run = compiled.run(&routes, &times, &mut memory);
        match Simulation::new(&prepared, size).state(&state).run() {
            Ok(outcome) => prop_assert_eq!(run, Ok(outcome.time)),
            Err(SimError::NeverEnds { .. }) => {
                prop_assert!(matches!(run, Err(RunError::NoBandwidth { .. })), "{:?}", run);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_way_given_is_a_way_written(seed in any::<u64>()) {
        check(seed)?;
    }
}
