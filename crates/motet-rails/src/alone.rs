//! [`Alone`]: how long a collective takes with the network to itself, found by simulating a program for it.
//!
//! A group on a rail sees one of two networks: a *star*, every GPU by its NIC to a switch that passes all on, or a
//! *ring* of optical circuits, each GPU to its two neighbours both ways (two GPUs: one circuit of all ports).
//! AllGather, ReduceScatter and AllReduce are NCCL's own rings; on circuits half of the data goes each way round, so that both
//! directions of every circuit are used. AllToAll sends directly on a star; over circuits each message takes the shorter way round
//! and is forwarded by the GPUs between. Every program is verified, and run by the event engine.
//!
//! Rings are regular, so their time has a closed form; it takes over where a group is larger than
//! [`MOST_SIMULATED`], and a test holds the two equal below.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use motet_collective::{
    Collective, CollectiveError, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, Verified,
};
use motet_nccl::connect::Channels;
use motet_nccl::kinds::{Algorithm, Protocol};
use motet_nccl::own;
use motet_net::{BuildError, LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{
    Discipline, Prepared, RouteError, Routed, SimError, SimOptions, Simulation, SwitchForwarding,
};
use motet_synth::{Effort, Goal, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, NodeId, Rank, Rounding, Seed};

use crate::machine::Wire;

/// Groups of up to so many ranks are simulated; above, programs of rings have hundreds of thousands of
/// transfers that all say the same.
pub const MOST_SIMULATED: u32 = 32;

/// Trees over more ranks than this are not timed, so that a step is still simulated in seconds.
pub const MOST_TREES: u32 = 64;

/// The network that connects a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// Each rank has a link to one switch; the wire's latency is that of both links on the way.
    Star(Wire),
    /// Circuits between neighbours of a ring, with this bandwidth each way. Two ranks have one circuit.
    Ring(Wire),
}

impl Topology {
    const fn wire(self) -> Wire {
        match self {
            Self::Star(it) | Self::Ring(it) => it,
        }
    }
}

/// How long a collective takes, split into data and latency, because sharing a link stretches only the former.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The time for which the busiest link carries data.
    pub work: Duration,
    pub latency: Duration,
}

/// Why a collective cannot be timed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AloneError {
    #[error("{kind} over {ranks} ranks is not among the collectives that jobs are timed with")]
    NotTimed { kind: CollectiveKind, ranks: u32 },
    #[error("a wire without bandwidth carries nothing; give it some")]
    NoBandwidth,
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    #[error(transparent)]
    Network(#[from] BuildError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error("a program of {kind} is not right, which is a fault in Motet: {report}")]
    Wrong { kind: CollectiveKind, report: String },
}

type Key = (CollectiveKind, u32, Topology);

/// The times of collectives, each computed once and kept.
#[derive(Debug, Default)]
pub struct Alone {
    programs: BTreeMap<Key, (Verified<Program>, Network)>,
    times: BTreeMap<(Key, Bytes), Timing>,
    trees: BTreeMap<(u32, Wire, Bytes), Option<Timing>>,
}

impl Alone {
    /// How long `kind` takes over so many ranks; the size is in nccl-tests' sense.
    pub fn time(
        &mut self,
        kind: CollectiveKind,
        ranks: u32,
        topology: Topology,
        size: Bytes,
    ) -> Result<Timing, AloneError> {
        if ranks < 2 || size.is_zero() {
            return Ok(Timing::default());
        }
        if topology.wire().bandwidth.is_zero() {
            return Err(AloneError::NoBandwidth);
        }
        if ranks > MOST_SIMULATED {
            return closed_form(kind, ranks, topology, size);
        }
        let key = (kind, ranks, topology);
        if let Some(known) = self.times.get(&(key, size)) {
            return Ok(*known);
        }
        let (program, network) = match self.programs.entry(key) {
            Entry::Occupied(it) => it.into_mut(),
            Entry::Vacant(it) => it.insert(made(kind, ranks, topology)?),
        };
        let timing = simulated(program, network, size)?;
        self.times.insert((key, size), timing);
        Ok(timing)
    }
}

impl Alone {
    /// How long an AllReduce over so many ranks on a packet switch takes by two binary trees, each rank a leaf of one, pipelined;
    /// `None` where there are too few ranks for a tree or too many to simulate one.
    pub fn by_trees(
        &mut self,
        ranks: u32,
        wire: Wire,
        size: Bytes,
    ) -> Result<Option<Timing>, AloneError> {
        if !(3..=MOST_TREES).contains(&ranks) || size.is_zero() || wire.bandwidth.is_zero() {
            return Ok(None);
        }
        if let Some(known) = self.trees.get(&(ranks, wire, size)) {
            return Ok(*known);
        }
        let network = network(ranks, Topology::Star(wire))?;
        let task = Task::new(&network, Goal::new(CollectiveKind::AllReduce, ranks)?, size);
        let method = "double-tree".parse().ok();
        // Any seed will do, because building trees involves no random choice.
        let effort = Effort::unlimited(Seed::new(1));
        let timing = match method.map(|it| synthesize(&task, it, &effort)) {
            None | Some(Err(SynthError::NotForMethod { .. })) => None,
            Some(found) => Some(simulated(&found?.prove(&task)?.program, &network, size)?),
        };
        self.trees.insert((ranks, wire, size), timing);
        Ok(timing)
    }
}

fn simulated(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
) -> Result<Timing, AloneError> {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough)?;
    let prepared = Prepared::new(&routed);
    // Forwarding GPUs send messages in the order of arrival. For rings that is the program's order anyway.
    let options = SimOptions { discipline: Discipline::Fifo, ..SimOptions::default() };
    let outcome = Simulation::new(&prepared, size).options(options).run()?;
    let work = outcome.links.iter().map(|it| it.busy).max().unwrap_or(Duration::ZERO);
    Ok(Timing { work, latency: outcome.time - work })
}

fn made(
    kind: CollectiveKind,
    ranks: u32,
    topology: Topology,
) -> Result<(Verified<Program>, Network), AloneError> {
    let network = network(ranks, topology)?;
    let program = program(kind, ranks, topology)?;
    let program = Verified::new(program, Some(&network))
        .map_err(|it| AloneError::Wrong { kind, report: it.report.to_string() })?;
    Ok((program, network))
}

fn network(ranks: u32, topology: Topology) -> Result<Network, BuildError> {
    let mut builder = NetworkBuilder::new("group");
    let mut gpus: Vec<NodeId> = Vec::new();
    for rank in 0..ranks {
        gpus.push(builder.add_node(Node::new(format!("g{rank}"), NodeKind::Gpu))?);
    }
    match topology {
        Topology::Star(wire) => {
            let switch = builder.add_node(Node::new("switch", NodeKind::Leaf))?;
            let half = Duration::from_ps(wire.latency.as_ps() / 2);
            let link = |latency| LinkSpec::new(LinkClass::Other, wire.bandwidth, latency);
            for gpu in gpus {
                builder.add_link(gpu, switch, link(half))?;
                builder.add_link(switch, gpu, link(wire.latency - half))?;
            }
        }
        Topology::Ring(wire) => {
            let circuit = LinkSpec::new(LinkClass::Optical, wire.bandwidth, wire.latency);
            let circuits = if ranks == 2 { 1 } else { gpus.len() };
            for at in 0..circuits {
                builder.add_duplex(gpus[at], gpus[(at + 1) % gpus.len()], circuit)?;
            }
        }
    }
    builder.build()
}

fn program(kind: CollectiveKind, ranks: u32, topology: Topology) -> Result<Program, AloneError> {
    let forth: Vec<Rank> = (0..ranks).map(Rank).collect();
    let mut rings = vec![forth.clone()];
    if matches!(topology, Topology::Ring(_)) && ranks > 2 {
        rings.push(forth.into_iter().rev().collect());
    }
    match kind {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce => {
            let count = rings.len() as u32;
            let channels = Channels::of_rings(rings);
            own::program(&channels, kind, Algorithm::Ring, Protocol::Simple, count)?
                .ok_or(AloneError::NotTimed { kind, ranks })
        }
        CollectiveKind::AllToAll => Ok(exchange(ranks, topology)?),
        CollectiveKind::SendRecv if ranks == 2 => {
            let collective = Collective::send_recv(1, vec![Some(Rank(1)), None])?;
            let mut builder = ProgramBuilder::new("send", collective);
            builder.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(1), 0), 1));
            Ok(builder.build())
        }
        _ => Err(AloneError::NotTimed { kind, ranks }),
    }
}

/// AllToAll, nearest ranks first. On a star rank r sends to r + 1, then r + 2 and so on, so that no rank receives from two at a
/// time. On a ring each message is forwarded from GPU to GPU the shorter way round; a message to the opposite rank is split in two
/// chunks, one for each way.
fn exchange(ranks: u32, topology: Topology) -> Result<Program, CollectiveError> {
    let collective = Collective::new(CollectiveKind::AllToAll, ranks, 2)?;
    let mut builder = ProgramBuilder::new("exchange", collective);
    for rank in (0..ranks).map(Rank) {
        builder.add(Transfer::copy(
            Slot::input(rank, 2 * rank.0),
            Slot::output(rank, 2 * rank.0),
            2,
        ));
    }
    let circuits = matches!(topology, Topology::Ring(_)) && ranks > 2;
    if circuits {
        // Every message has scratch space of its own at each GPU that forwards it.
        (0..ranks).for_each(|it| builder.set_scratch(Rank(it), 2 * ranks * ranks));
    }
    for distance in 1..ranks {
        for from in 0..ranks {
            let to = (from + distance) % ranks;
            let direct = (from, to, 2 * to, 2 * from);
            if !circuits {
                let (src, dst) =
                    (Slot::input(Rank(from), direct.2), Slot::output(Rank(to), direct.3));
                builder.add(Transfer::copy(src, dst, 2));
            } else if 2 * distance == ranks {
                carry(&mut builder, ranks, (from, to), (0, 1), 1);
                carry(&mut builder, ranks, (from, to), (1, 1), ranks - 1);
            } else {
                let step = if 2 * distance < ranks { 1 } else { ranks - 1 };
                carry(&mut builder, ranks, (from, to), (0, 2), step);
            }
        }
    }
    Ok(builder.build())
}

/// Forwards chunks of the message `from` → `to` round the ring, `step` places at a time.
fn carry(
    builder: &mut ProgramBuilder,
    ranks: u32,
    (from, to): (u32, u32),
    (first, count): (u32, u32),
    step: u32,
) {
    let place = 2 * (from * ranks + to) + first;
    let (mut at, mut before) = (from, None);
    while at != to {
        let next = (at + step) % ranks;
        let src = match at == from {
            true => Slot::input(Rank(at), 2 * to + first),
            false => Slot::scratch(Rank(at), place),
        };
        let dst = match next == to {
            true => Slot::output(Rank(to), 2 * from + first),
            false => Slot::scratch(Rank(next), place),
        };
        let after: Vec<_> = before.into_iter().collect();
        before = Some(builder.add_after(Transfer::copy(src, dst, count), &after));
        at = next;
    }
}

/// The time by formula instead of simulation. In each of a ring's n − 1 steps every link carries one chunk, so it takes
/// (n − 1)(β + α), and AllReduce twice that. An AllToAll keeps every link busy to the end.
fn closed_form(
    kind: CollectiveKind,
    ranks: u32,
    topology: Topology,
    size: Bytes,
) -> Result<Timing, AloneError> {
    let (wire, n) = (topology.wire(), u64::from(ranks));
    let circuits = matches!(topology, Topology::Ring(_)) && ranks > 2;
    let beta = |parts: u64| {
        let chunk = size.div_ceil(parts);
        let time = wire.bandwidth.transfer_time(chunk, Rounding::Up);
        time.ok_or(AloneError::NoBandwidth)
    };
    let ways = if circuits { 2 } else { 1 };
    let (work, hops) = match kind {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            (beta(ways * n)?.saturating_mul(n - 1), n - 1)
        }
        CollectiveKind::AllReduce => (beta(ways * n)?.saturating_mul(2 * (n - 1)), 2 * (n - 1)),
        CollectiveKind::AllToAll if circuits => {
            // Counted in half messages, each rank's data makes n²/4 hops in each direction; n ranks share n links, so each
            // link carries n²/4 halves.
            (beta(2 * n)?.saturating_mul(n * n / 4), n / 2)
        }
        CollectiveKind::AllToAll => (beta(2 * n)?.saturating_mul(2 * (n - 1)), 1),
        CollectiveKind::SendRecv => (beta(1)?, 1),
        _ => return Err(AloneError::NotTimed { kind, ranks }),
    };
    Ok(Timing { work, latency: wire.latency.saturating_mul(hops) })
}

#[cfg(test)]
mod tests {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv};
    use motet_units::Bandwidth;

    use super::*;

    const WIRE: Wire =
        Wire { bandwidth: Bandwidth::gbit_per_s(200), latency: Duration::from_ns(2600) };

    /// Rings and messages take to the picosecond what their formula says, on both networks.
    #[test]
    fn rings_are_their_closed_form() {
        let mut alone = Alone::default();
        for topology in [Topology::Star(WIRE), Topology::Ring(WIRE)] {
            for ranks in [2, 3, 4, 7, 16, MOST_SIMULATED] {
                for kind in [AllGather, ReduceScatter, AllReduce] {
                    for bytes in [4, 1000, 109_068_288, 525_336_577] {
                        let size = Bytes::new(bytes);
                        let found = alone.time(kind, ranks, topology, size).unwrap();
                        let formula = closed_form(kind, ranks, topology, size).unwrap();
                        assert_eq!(found, formula, "{kind} {ranks} {topology:?} {bytes}");
                    }
                }
            }
            let size = Bytes::mib(32);
            let found = alone.time(SendRecv, 2, topology, size).unwrap();
            assert_eq!(found, closed_form(SendRecv, 2, topology, size).unwrap());
        }
    }

    /// An exchange's busiest link carries what the formula says, and it is busy nearly all the time.
    #[test]
    fn exchanges_are_close_to_theirs() {
        let mut alone = Alone::default();
        for topology in [Topology::Star(WIRE), Topology::Ring(WIRE)] {
            for ranks in [2, 3, 4, 5, 8, 16] {
                let size = Bytes::mib(64);
                let found = alone.time(AllToAll, ranks, topology, size).unwrap();
                let formula = closed_form(AllToAll, ranks, topology, size).unwrap();
                let name = format!("{ranks} {topology:?}: {found:?} {formula:?}");
                let (work, expected) = (found.work.as_ps() as f64, formula.work.as_ps() as f64);
                assert!((work / expected - 1.0).abs() < 1e-3, "{name}");
                let all = (found.work + found.latency).as_ps() as f64;
                assert!(all < 1.35 * (formula.work + formula.latency).as_ps() as f64, "{name}");
            }
        }
    }

    /// Circuits of half the NIC each way round carry a ring as fast as the whole NIC does on a switch.
    #[test]
    fn two_half_circuits_are_a_nic() {
        let half = Wire { bandwidth: Bandwidth::gbit_per_s(100), ..WIRE };
        let mut alone = Alone::default();
        let size = Bytes::new(16 * 1_000_000);
        for kind in [AllGather, ReduceScatter, AllReduce] {
            let star = alone.time(kind, 8, Topology::Star(WIRE), size).unwrap();
            assert_eq!(star, alone.time(kind, 8, Topology::Ring(half), size).unwrap());
        }
    }
}
