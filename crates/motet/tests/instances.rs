//! The classic programs of every template stay right in instances, paths and turns included.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use motet_collective::program::in_instances;
use motet_collective::{CollectiveKind, verify};
use motet_net::builders::{self, Params};
use motet_synth::{Effort, Goal, Method, Task, synthesize};
use motet_units::{Bytes, Rank, Seed};

/// Above this a program says nothing that a smaller one does not, and takes long to prove.
const MOST_RANKS: usize = 8;
const MOST_TRANSFERS: usize = 2_000;

#[test]
fn classic_programs_stay_right_in_instances() {
    let mut seen = 0;
    for template in builders::templates() {
        let Ok(network) = template.build(&Params::new()) else { continue };
        let ranks = network.ranks().len();
        if !(2..=MOST_RANKS).contains(&ranks) {
            continue;
        }
        for kind in CollectiveKind::ALL {
            let Ok(goal) = Goal::rooted(kind, ranks as u32, Rank(0)) else { continue };
            let task = Task::new(&network, goal, Bytes::kib(64));
            let classic = Method::all().filter(|it| matches!(it, Method::Recipe(_)));
            for method in classic.filter(|it| it.does(kind)) {
                let effort = Effort::unlimited(Seed::new(1));
                let Ok(draft) = synthesize(&task, method, &effort) else { continue };
                if draft.program.transfers().len() > MOST_TRANSFERS {
                    continue;
                }
                let program = draft.prove(&task).unwrap().program;
                let copies = in_instances(&program, 2).unwrap();
                let report = verify::check(&copies, Some(&network));
                let name = format!("{} on {}", program.name(), template.name);
                assert!(report.is_right(), "{name} in 2 instances:\n{report}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 100, "only {seen} programs");
}
