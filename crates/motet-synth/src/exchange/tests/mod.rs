//! Programs that the exchange methods make: right, and close to the bound.

mod figures;
mod properties;

use motet_collective::{Bound, Verified, bound};
use motet_net::builders::{Params, find};
use motet_net::{Location, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Prepared, Routed, Simulation, SwitchForwarding};
use motet_units::{Duration, Rank};

use super::{Exchange, Options, synthesize};
use crate::task::{Goal, Task};

pub(super) fn template(name: &str, words: &[&str]) -> Network {
    find(name).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

/// Makes the program, has it proved right, simulates it, and holds its schedule to the simulator.
pub(super) fn made(task: &Task<'_>, options: &Options) -> (Exchange, Duration) {
    let made = synthesize(task, options).unwrap_or_else(|it| panic!("{it}"));
    let program = made.program.clone();
    let verified = Verified::new(program, Some(task.network)).unwrap_or_else(|it| panic!("{it}"));
    let routed = Routed::new(&verified, task.network, SwitchForwarding::CutThrough).unwrap();
    let outcome = Simulation::new(&Prepared::new(&routed), task.size).run().unwrap();
    // It may be done sooner than planned: the plan holds a job back until its way is free.
    assert!(outcome.time <= made.makespan, "{} > {}", outcome.time, made.makespan);
    (made, outcome.time)
}

pub(super) fn bound_of(task: &Task<'_>) -> Bound {
    bound::bound(task.network, &task.goal.collective(1).unwrap()).unwrap()
}

/// How close to the bound the program comes: 1 at the bound.
pub(super) fn ratio(task: &Task<'_>, options: &Options) -> f64 {
    let (_, time) = made(task, options);
    bound_of(task).time(task.size).as_ps() as f64 / time.as_ps() as f64
}

pub(super) fn node(name: String, kind: NodeKind) -> Node {
    let mut node = Node::new(name, kind);
    node.location = Location::default();
    node
}

pub(super) fn peers(pairs: &[(u32, u32)], ranks: usize) -> Goal {
    let mut peers = vec![None; ranks];
    for (from, to) in pairs {
        peers[*from as usize] = Some(Rank(*to));
    }
    Goal::send_recv(peers).unwrap()
}

pub(super) fn builder() -> NetworkBuilder {
    NetworkBuilder::new("test")
}
