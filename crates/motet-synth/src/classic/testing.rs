//! What the tests of this module share: networks by template, tasks, and judging a program.

use motet_collective::{CollectiveKind, Verified, bound};
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration, Rank};

use super::methods;
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::recipe::Recipe;
use crate::task::{Goal, SynthError, Task};

/// `"torus-2d rows=3 columns=5"`
pub(super) fn network(spec: &str) -> Network {
    let mut words = spec.split('|').flat_map(|it| it.split_whitespace());
    let template = find(words.next().unwrap()).unwrap();
    template.build(&Params::from_words(words).unwrap()).unwrap_or_else(|it| panic!("{spec}: {it}"))
}

/// Over all GPUs, with the last rank as root where there is one.
pub(super) fn task(network: &Network, kind: CollectiveKind, size: u64) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    let goal = match kind {
        CollectiveKind::AllToAllV => {
            let counts = (0..ranks * ranks).map(|it| it % 3).collect();
            Goal::all_to_all_v(ranks, counts)
        }
        CollectiveKind::SendRecv => {
            let next = |it: u32| (ranks > 1).then_some(Rank((it + 1) % ranks));
            Goal::send_recv((0..ranks).map(next).collect())
        }
        kind => Goal::rooted(kind, ranks, Rank(ranks - 1)),
    };
    Task::new(network, goal.unwrap(), Bytes::new(size))
}

pub(super) fn method(name: &str) -> &'static Recipe {
    methods().iter().find(|it| it.name == name).unwrap()
}

pub(super) fn make(method: &Recipe, task: &Task<'_>) -> Result<Lowered, SynthError> {
    (method.make)(task, &Fabric::new(task).unwrap())
}

/// Verified and simulated: how long the program takes.
pub(super) fn simulated(task: &Task<'_>, lowered: Lowered) -> Duration {
    let network = task.network;
    let program = Verified::new(lowered.program, Some(network)).unwrap_or_else(|it| panic!("{it}"));
    let routed = Routed::new(&program, network, SwitchForwarding::default()).unwrap();
    let prepared = Prepared::new(&routed);
    Simulation::new(&prepared, task.size).state(&task.state).run().unwrap().time
}

/// The time that the method's program takes.
pub(super) fn time(name: &str, network: &Network, kind: CollectiveKind, size: u64) -> Duration {
    let task = task(network, kind, size);
    let lowered = make(method(name), &task).unwrap_or_else(|it| panic!("{name} {kind}: {it}"));
    simulated(&task, lowered)
}

/// How many times the bound it takes.
pub(super) fn over_bound(name: &str, network: &Network, kind: CollectiveKind, size: u64) -> f64 {
    let task = task(network, kind, size);
    let bound = bound::bound(network, &task.goal.collective(1).unwrap()).unwrap();
    let least = bound.program_time(task.size);
    time(name, network, kind, size).as_us_f64() / least.as_us_f64()
}
