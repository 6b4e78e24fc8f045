//! [`choose`]: the best circuits and program for one phase, chosen together. This goes beyond the paper, which always uses rings.
//!
//! With more than two ports per NIC a ring has parallel circuits. The extra ports could instead connect each GPU to those that
//! are d places further round the ring, for one or more distances d (a circulant graph). Such a network looks the same from every
//! GPU. Each assignment of ports to distances is tried: synthesis makes a program for it, the verifier proves it right and the
//! simulator times it. The fastest wins.

use motet_collective::CollectiveKind;
use motet_net::{BuildError, LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, Seed};
use motet_workload::{Refusal, Refusals};

use super::MOST_PORTS;
use super::switching::Ports;
use crate::alone::{Alone, Topology};
use crate::error::RailsError;
use crate::machine::Wire;

/// The largest group for which alternatives are tried: their number, and the time to make a program for each, grow fast.
pub const MOST_MEMBERS: u32 = 32;

/// One way to set the circuits of a phase, and the time of its collective over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Pairs (distance, ports): each member has so many ports toward the member that many places further, and as many toward the one
    /// that many places before.
    pub distances: Vec<(u32, u32)>,
    pub time: Duration,
    /// The method that made the program.
    pub method: &'static str,
}

/// The question: a collective over members of a rail, and the ports of their NICs.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub kind: CollectiveKind,
    pub members: u32,
    pub ports: Ports,
    pub latency: Duration,
    pub size: Bytes,
}

/// The time over a ring, and all alternatives, fastest first.
pub fn choose(phase: &Phase, seed: Seed) -> Result<(Duration, Vec<Chosen>), RailsError> {
    refuse(phase)?;
    let width = if phase.members == 2 { phase.ports.count } else { phase.ports.count / 2 };
    let wire = Wire { bandwidth: phase.ports.bandwidth(width), latency: phase.latency };
    let mut alone = Alone::default();
    let ring = alone.time(phase.kind, phase.members, Topology::Ring(wire), phase.size)?;
    let mut found = Vec::new();
    for distances in ways(phase.members, phase.ports.count) {
        let network = circulant(phase, &distances).map_err(crate::AloneError::from)?;
        match timed(phase, &network, seed) {
            Ok((time, method)) => found.push(Chosen { distances, time, method }),
            // Some assignments do not connect all members.
            Err(SynthError::Impossible(_)) => {}
            Err(it) => return Err(it.into()),
        }
    }
    found.sort_by(|a, b| (a.time, &a.distances).cmp(&(b.time, &b.distances)));
    Ok((ring.work + ring.latency, found))
}

fn refuse(phase: &Phase) -> Result<(), RailsError> {
    let refuse =
        |problem: String, nearest: String| Err(Refusals(vec![Refusal { problem, nearest }]).into());
    match (phase.members, phase.ports.count) {
        (members, _) if !(2..=MOST_MEMBERS).contains(&members) => refuse(
            format!("circuits chosen for a group of {members}"),
            format!("choose 2 to {MOST_MEMBERS}"),
        ),
        (members, ports) if ports == 0 || ports > MOST_PORTS || (members > 2 && ports < 2) => {
            refuse(
                format!("circuits for {members} members with {ports} ports each"),
                format!("choose 2 to {MOST_PORTS} ports"),
            )
        }
        _ => Ok(()),
    }
}

/// All assignments of ports to distances. A distance takes one port in each direction, except half way round, where both directions
/// lead to the same member and take one port.
fn ways(members: u32, ports: u32) -> Vec<Vec<(u32, u32)>> {
    fn fill(
        members: u32,
        from: u32,
        left: u32,
        so_far: &mut Vec<(u32, u32)>,
        all: &mut Vec<Vec<(u32, u32)>>,
    ) {
        for distance in from..=members / 2 {
            let each = if 2 * distance == members { 1 } else { 2 };
            for count in 1..=left / each {
                so_far.push((distance, count));
                fill(members, distance + 1, left - count * each, so_far, all);
                so_far.pop();
            }
        }
        // A single remaining port can only be used toward the member half way round, which exists if their number is even.
        if left == 0 || (left == 1 && members % 2 == 1) {
            all.push(so_far.clone());
        }
    }
    let mut all = Vec::new();
    fill(members, 1, ports, &mut Vec::new(), &mut all);
    all
}

fn circulant(phase: &Phase, distances: &[(u32, u32)]) -> Result<Network, BuildError> {
    let mut builder = NetworkBuilder::new("circuits");
    let mut gpus = Vec::new();
    for rank in 0..phase.members {
        gpus.push(builder.add_node(Node::new(format!("g{rank}"), NodeKind::Gpu))?);
    }
    for (distance, count) in distances {
        let bandwidth = phase.ports.bandwidth(*count);
        let circuit = LinkSpec::new(LinkClass::Optical, bandwidth, phase.latency);
        let half = 2 * distance == phase.members;
        for from in 0..if half { *distance } else { phase.members } {
            let to = (from + distance) % phase.members;
            builder.add_duplex(gpus[from as usize], gpus[to as usize], circuit)?;
        }
    }
    builder.build()
}

fn timed(
    phase: &Phase,
    network: &Network,
    seed: Seed,
) -> Result<(Duration, &'static str), SynthError> {
    let goal = Goal::new(phase.kind, phase.members)?;
    let task = Task::new(network, goal, phase.size);
    let made = synthesize(&task, Method::Auto, &Effort::normal(seed))?.prove(&task)?;
    Ok((made.time, made.method.name()))
}

#[cfg(test)]
mod tests {
    use CollectiveKind::{AllGather, AllToAll};
    use motet_units::Bandwidth;

    use super::*;

    fn phase(kind: CollectiveKind, size: Bytes) -> Phase {
        Phase {
            kind,
            members: 8,
            ports: Ports::of(Bandwidth::gbit_per_s(400), 4),
            latency: Duration::from_ns(2600),
            size,
        }
    }

    #[test]
    fn all_ports_are_given_out() {
        assert_eq!(ways(2, 4), [[(1, 4)]]);
        // One each way to the next, or both to the opposite one.
        assert_eq!(ways(4, 2), [vec![(1, 1)], vec![(2, 2)]]);
        for way in ways(8, 4) {
            let used: u32 =
                way.iter().map(|(far, count)| if *far == 4 { *count } else { 2 * count }).sum();
            assert_eq!(used, 4, "{way:?}");
        }
        // Two of three distances (or one twice), one and both others half way round, or all four there.
        assert_eq!(ways(8, 4).len(), 6 + 3 + 1);
        assert_eq!(ways(5, 3), [[(1, 1)], [(2, 1)]]);
    }

    /// Neighbours at odd distances make every other GPU one hop away and the rest two: an exchange has 10 hops in place of 16,
    /// over as many circuits.
    #[test]
    fn exchanges_want_other_circuits_than_rings() {
        let (ring, found) = choose(&phase(AllToAll, Bytes::mib(64)), Seed::new(1)).unwrap();
        let best = &found[0];
        let gain = ring.as_ps() as f64 / best.time.as_ps() as f64;
        assert!(gain > 1.5 && gain < 1.7, "{gain} {best:?}");
        // What is chosen is at least as good as the ring among its own candidates.
        let own = found.iter().find(|it| it.distances == [(1, 2)]).unwrap();
        assert!(best.time <= own.time);
    }

    /// A ring already uses all ports all the time for large AllGathers: nothing is to be gained but latency.
    #[test]
    fn large_gathers_are_as_fast_on_rings() {
        let (ring, found) = choose(&phase(AllGather, Bytes::mib(256)), Seed::new(1)).unwrap();
        let gain = ring.as_ps() as f64 / found[0].time.as_ps() as f64;
        assert!((0.98..1.02).contains(&gain), "{gain} {:?}", found[0]);
        let (ring, found) = choose(&phase(AllGather, Bytes::kib(8)), Seed::new(1)).unwrap();
        let gain = ring.as_ps() as f64 / found[0].time.as_ps() as f64;
        assert!(gain > 2.0, "{gain} {:?}", found[0]);
    }
}
