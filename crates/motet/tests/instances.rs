//! The classic programs of every template stay right in instances, paths and turns included.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use motet_collective::program::in_instances;
use motet_collective::{CollectiveKind, verify};
use motet_net::Network;
use motet_net::builders::{self, Params};
use motet_synth::{Effort, Goal, Method, Task, synthesize};
use motet_units::{Bytes, Rank, Seed};
use rayon::prelude::*;

/// Above this a program says nothing that a smaller one does not, and takes long to prove.
const MOST_RANKS: usize = 8;
const MOST_TRANSFERS: usize = 2_000;

#[test]
fn classic_programs_stay_right_in_instances() {
    let networks = builders::templates().iter().filter_map(|it| it.build(&Params::new()).ok());
    let small = |it: &Network| (2..=MOST_RANKS).contains(&it.ranks().len());
    let networks: Vec<Network> = networks.filter(small).collect();
    let seen: usize = networks
        .par_iter()
        .flat_map(|network| {
            CollectiveKind::ALL.par_iter().map(move |kind| stay_right(network, *kind))
        })
        .sum();
    assert!(seen >= 100, "only {seen} programs");
}

/// Checks all classic programs of a collective, and gives how many there are.
fn stay_right(network: &Network, kind: CollectiveKind) -> usize {
    let Ok(goal) = Goal::rooted(kind, network.ranks().len() as u32, Rank(0)) else { return 0 };
    let task = Task::new(network, goal, Bytes::kib(64));
    let classic = Method::all().filter(|it| matches!(it, Method::Recipe(_)) && it.does(kind));
    let mut seen = 0;
    for method in classic {
        let effort = Effort::unlimited(Seed::new(1));
        let Ok(draft) = synthesize(&task, method, &effort) else { continue };
        if draft.program.transfers().len() > MOST_TRANSFERS {
            continue;
        }
        let program = draft.prove(&task).unwrap().program;
        let copies = in_instances(&program, 2).unwrap();
        let report = verify::check(&copies, Some(network));
        let name = format!("{} on {}", program.name(), network.name());
        assert!(report.is_right(), "{name} in 2 instances:\n{report}");
        seen += 1;
    }
    seen
}
