//! [`Laid`]: a program as the steps of thread blocks, worked out once and then priced for any size.
//!
//! Every event of the program must stand in a lane, that is, belong to a thread block, as it does in
//! NCCL's own rings and trees ([`own`](crate::own)) and in programs read from a runtime's file.
//! [`fuse`](super::fuse) says which consecutive events of a lane are one step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use motet_collective::program::LaneKind;
use motet_collective::{Collective, Event, Program, Transfer, TransferId};
use motet_graph::Rows;
use motet_net::{Network, NodeKind};
use motet_sim::{Hop, Routed, names};
use motet_units::{LinkId, Rank};

use super::error::PriceError;
use super::fuse::Fuser;
use super::terms::Kernels;
use crate::constants::Hardware;
use crate::kinds::Protocol;

/// Stands for "no connection": of transfers within a rank, and of those that need no receiving step.
pub(super) const NONE: u32 = u32::MAX;

/// Whether a program is priced with NCCL's constants for rings or for trees: see
/// [`terms`](super::terms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every channel is a ring through all ranks, or a chain along one.
    Ring,
    /// On every channel each rank has at most one to send to and one to receive from, and something
    /// is passed on: rings inside servers, say, and pairs between them.
    Chains,
    /// Everything else.
    Tree,
}

/// One step of a thread block.
#[derive(Clone, Debug, Default)]
pub(super) struct Op {
    pub(super) lane: u32,
    /// The transfers that arrive in this step, that it sends, and that it does alone from end to end.
    pub(super) ins: Vec<u32>,
    pub(super) outs: Vec<u32>,
    pub(super) whole: Vec<u32>,
    /// Steps of other lanes that must be over.
    pub(super) waits: Vec<u32>,
    /// Chunks that it moves.
    pub(super) count: u32,
}

/// The route of a transfer from the step that sends it to the step that receives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneRoute {
    pub(super) count: u32,
    pub(super) connection: u32,
    /// Its links: `legs[first..end]`.
    pub(super) first: u32,
    pub(super) end: u32,
    /// The steps that it is sent and arrives in.
    pub(super) sender: u32,
    pub(super) receiver: u32,
    /// The latency of its links in picoseconds, and how many times it passes from GPU to GPU over each
    /// kind of [`Hardware`].
    pub(super) latency: u64,
    pub(super) segments: [u8; 3],
    pub(super) rank: u32,
}

/// A link that the program uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) id: LinkId,
    pub(super) bits_per_s: u64,
}

/// One link of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    /// Its number among the links used.
    pub(super) link: u32,
    pub(super) starts_segment: bool,
}

/// A program on a network, laid out on thread blocks. [`price`](Laid::price) says how long it takes.
#[derive(Clone, Debug)]
pub struct Laid {
    pub(super) kernels: Arc<Kernels>,
    pub(super) collective: Collective,
    pub(super) protocol: Protocol,
    pub(super) shape: Shape,
    pub(super) channels: u32,
    /// Lane by lane, each in its order.
    pub(super) ops: Vec<Op>,
    /// The steps of each lane: `ops[first..end]`.
    pub(super) lanes: Vec<(u32, u32)>,
    pub(super) routes: Vec<LaneRoute>,
    pub(super) legs: Vec<Leg>,
    pub(super) links: Vec<Wire>,
    /// By connection: from whom to whom.
    pub(super) connections: Vec<(Rank, Rank)>,
    /// By step: the steps of other lanes that wait for it.
    pub(super) followers: Rows,
    blocks: (Rank, u32),
    pub(super) without_bandwidth: Option<String>,
    pub(super) loads: Loads,
    pub(super) network_links: usize,
}

/// How many chunks one iteration moves, for a lower estimate of its time without simulating it.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    /// By link used.
    pub(super) links: Vec<u64>,
    /// The most that any rank sends, and the most that any thread block moves.
    pub(super) rank: u64,
    pub(super) block: u64,
}

impl Laid {
    /// Compiles a program all of whose events stand in lanes.
    pub fn new(routed: &Routed<'_>, kernels: Arc<Kernels>) -> Result<Self, PriceError> {
        let program: &Program = routed.program();
        if let Some(index) = program.transfers().iter().position(Transfer::is_in_switch) {
            return Err(PriceError::InSwitch { transfer: index as u32 });
        }
        let lane_of = lane_of(program)?;
        let (ops, lanes, op_of) = steps(program, &lane_of);
        let mut routes = Routes::new(routed.network(), kernels.rates());
        let mut connections: BTreeMap<(Rank, Rank, u32), u32> = BTreeMap::new();
        for (index, transfer) in program.transfers().iter().enumerate() {
            let id = TransferId::from_index(index);
            let (sender, receiver) = (op_of[id.sent().index()], op_of[id.arrived().index()]);
            let two_sided = !transfer.is_local() && sender != receiver;
            let channel = program.lanes()[lane_of[id.sent().index()] as usize].channel;
            let connection = if two_sided {
                let next = connections.len() as u32;
                let key = (transfer.src.rank, transfer.dst.rank, channel);
                *connections.entry(key).or_insert(next)
            } else {
                NONE
            };
            let ends = Ends { connection, sender, receiver, rank: transfer.src.rank };
            routes.add(routed.hops(index), transfer.count, ends);
        }
        let mut ends = vec![(Rank(0), Rank(0)); connections.len()];
        for ((from, to, _), index) in &connections {
            ends[*index as usize] = (*from, *to);
        }
        let waits = (0u32..)
            .zip(&ops)
            .flat_map(|(index, op)| op.waits.iter().map(move |it| (*it as usize, index)));
        let followers = Rows::group(ops.len(), waits);
        let lacking = routes.links.iter().find(|it| it.bits_per_s == 0);
        let loads = loads(&routes, &ops, &lanes);
        Ok(Self {
            collective: program.collective().clone(),
            protocol: program.hints().protocol,
            shape: shape(program, &lane_of),
            channels: program.lanes().iter().map(|it| it.channel + 1).max().unwrap_or(1),
            blocks: blocks(program),
            without_bandwidth: lacking.map(|it| names::link(routed.network(), it.id)),
            loads,
            network_links: routed.network().links().len(),
            ops,
            lanes,
            routes: routes.routes,
            legs: routes.legs,
            links: routes.links,
            connections: ends,
            followers,
            kernels,
        })
    }

    /// The protocol that the program says it runs under.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.channels
    }

    /// The rank with the most thread blocks, and how many.
    #[must_use]
    pub const fn blocks(&self) -> (Rank, u32) {
        self.blocks
    }

    /// How many steps it has in all.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.ops.len()
    }
}

/// The lane of each event.
fn lane_of(program: &Program) -> Result<Vec<u32>, PriceError> {
    let mut lane_of = vec![NONE; program.transfers().len() * 2];
    for (index, lane) in program.lanes().iter().enumerate() {
        for event in &lane.events {
            lane_of[event.index()] = index as u32;
        }
    }
    match lane_of.iter().position(|it| *it == NONE) {
        Some(event) => Err(PriceError::NotLaidOut { transfer: (event / 2) as u32 }),
        None => Ok(lane_of),
    }
}

/// The steps of all lanes, the range of steps of each lane, and the step of each event.
fn steps(program: &Program, lane_of: &[u32]) -> (Vec<Op>, Vec<(u32, u32)>, Vec<u32>) {
    let lane = |event: Event| lane_of[event.index()];
    let mut awaited = vec![false; lane_of.len()];
    for event in (0..lane_of.len()).map(Event::from_index) {
        for other in program.deps(event).iter().filter(|it| lane(**it) != lane(event)) {
            awaited[other.index()] = true;
        }
    }
    let fuser = Fuser { program, awaited: &awaited };
    let (mut ops, mut lanes, mut op_of) = (Vec::new(), Vec::new(), vec![NONE; lane_of.len()]);
    for (index, it) in program.lanes().iter().enumerate() {
        let first = ops.len() as u32;
        let mut events = it.events.as_slice();
        for length in fuser.steps(it) {
            let (own, rest) = events.split_at(length);
            for event in own {
                op_of[event.index()] = ops.len() as u32;
            }
            ops.push(op(program, index as u32, own));
            events = rest;
        }
        lanes.push((first, ops.len() as u32));
    }
    for (event, own) in (0..lane_of.len()).map(Event::from_index).zip(op_of.clone()) {
        let others = program.deps(event).iter().filter(|it| lane(**it) != lane(event));
        ops[own as usize].waits.extend(others.map(|it| op_of[it.index()]));
    }
    for op in &mut ops {
        op.waits.sort_unstable();
        op.waits.dedup();
    }
    (ops, lanes, op_of)
}

fn op(program: &Program, lane: u32, events: &[Event]) -> Op {
    let mut op = Op { lane, ..Op::default() };
    let both = |it: &Event| {
        let other = if it.is_sent() { it.transfer().arrived() } else { it.transfer().sent() };
        events.contains(&other)
    };
    // A copy that stages a sum costs no more than the sum.
    let fused = events.len() > 2;
    for event in events {
        let transfer = program.transfer(event.transfer());
        op.count = op.count.max(transfer.count);
        match (both(event), event.is_sent()) {
            (true, true) if fused && transfer.is_local() => {}
            (true, true) => op.whole.push(event.transfer().0),
            (true, false) => {}
            (false, true) => op.outs.push(event.transfer().0),
            (false, false) => op.ins.push(event.transfer().0),
        }
    }
    op
}

/// The connection of a transfer, the steps that send and receive it, and the rank that sends it.
struct Ends {
    connection: u32,
    sender: u32,
    receiver: u32,
    rank: Rank,
}

/// The routes of transfers and the links they use.
struct Routes<'a> {
    network: &'a Network,
    rates: &'a [u64],
    routes: Vec<LaneRoute>,
    legs: Vec<Leg>,
    links: Vec<Wire>,
    number: Vec<u32>,
}

impl<'a> Routes<'a> {
    fn new(network: &'a Network, rates: &'a [u64]) -> Self {
        let number = vec![NONE; network.links().len()];
        let (routes, legs, links) = (Vec::new(), Vec::new(), Vec::new());
        Self { network, rates, routes, legs, links, number }
    }

    fn add(&mut self, hops: &[Hop], count: u32, ends: Ends) {
        let first = self.legs.len() as u32;
        let (mut latency, mut segments, mut over) = (0u64, [0u8; 3], Hardware::NvLink);
        for (index, hop) in hops.iter().enumerate() {
            let spec = &self.network.link(hop.link).spec;
            let hardware = Hardware::of_class(spec.class);
            over = if self.leaves_gpu(hop) { hardware } else { over.max(hardware) };
            latency = latency.saturating_add(spec.latency.as_ps());
            if hops.get(index + 1).is_none_or(|it| self.leaves_gpu(it)) {
                let segments = &mut segments[over as usize];
                *segments = segments.saturating_add(1);
            }
            let link = self.number(hop.link);
            self.legs.push(Leg { link, starts_segment: hop.starts_segment });
        }
        let end = self.legs.len() as u32;
        let Ends { connection, sender, receiver, rank } = ends;
        let rank = rank.0;
        self.routes.push(LaneRoute {
            count,
            connection,
            first,
            end,
            sender,
            receiver,
            latency,
            segments,
            rank,
        });
    }

    fn number(&mut self, id: LinkId) -> u32 {
        let number = &mut self.number[id.index()];
        if *number == NONE {
            *number = self.links.len() as u32;
            self.links.push(Wire { id, bits_per_s: self.rates[id.index()] });
        }
        *number
    }

    /// Whether a thread block feeds a hop; a switch that stores and forwards has none.
    fn leaves_gpu(&self, hop: &Hop) -> bool {
        let from = self.network.link(hop.link).from;
        self.network.node(from).kind == NodeKind::Gpu
    }
}

fn loads(routes: &Routes<'_>, ops: &[Op], lanes: &[(u32, u32)]) -> Loads {
    let mut links = vec![0u64; routes.links.len()];
    let mut ranks: BTreeMap<u32, u64> = BTreeMap::new();
    for route in &routes.routes {
        for leg in &routes.legs[route.first as usize..route.end as usize] {
            links[leg.link as usize] += u64::from(route.count);
        }
        if route.end > route.first {
            *ranks.entry(route.rank).or_default() += u64::from(route.count);
        }
    }
    let lane = |(first, end): &(u32, u32)| {
        let own = &ops[*first as usize..*end as usize];
        own.iter().map(|it| u64::from(it.count)).sum::<u64>()
    };
    let block = lanes.iter().map(lane).max().unwrap_or(0);
    Loads { links, rank: ranks.into_values().max().unwrap_or(0), block }
}

/// Whether channels are rings, chains, or something else.
fn shape(program: &Program, lane_of: &[u32]) -> Shape {
    let between = || {
        let transfers = program.transfers().iter().enumerate().filter(|it| !it.1.is_local());
        transfers.map(|(index, it)| {
            let lane = lane_of[TransferId::from_index(index).sent().index()];
            (program.lanes()[lane as usize].channel, it)
        })
    };
    // By channel and rank: whom it sends to, and from whom it receives.
    let (mut next, mut before) = (BTreeMap::new(), BTreeMap::new());
    let mut sent_from = BTreeSet::new();
    for (channel, it) in between() {
        let (src, dst) = (it.src.rank, it.dst.rank);
        if *next.entry((channel, src)).or_insert(dst) != dst
            || *before.entry((channel, dst)).or_insert(src) != src
        {
            return Shape::Tree;
        }
        sent_from.insert((channel, it.src));
    }
    let ranks = program.collective().ranks() as usize;
    let channels: BTreeSet<u32> = next.keys().map(|it| it.0).collect();
    if channels.iter().all(|it| reached(*it, &next, &before) == ranks) {
        return Shape::Ring;
    }
    match between().any(|(channel, it)| sent_from.contains(&(channel, it.dst))) {
        true => Shape::Chains,
        false => Shape::Tree,
    }
}

/// How many ranks a walk along a channel comes through, from its beginning if it has one.
fn reached(
    channel: u32,
    next: &BTreeMap<(u32, Rank), Rank>,
    before: &BTreeMap<(u32, Rank), Rank>,
) -> usize {
    let own = || next.range((channel, Rank(0))..=(channel, Rank(u32::MAX))).map(|it| it.0.1);
    let start = own().find(|it| !before.contains_key(&(channel, *it))).or_else(|| own().next());
    let Some(start) = start else { return 0 };
    let walk = std::iter::successors(Some(start), |it| next.get(&(channel, *it)).copied());
    1 + walk.skip(1).take_while(|it| *it != start).count()
}

/// The rank with the most thread blocks.
fn blocks(program: &Program) -> (Rank, u32) {
    let mut counts = vec![0u32; program.collective().ranks() as usize];
    for lane in program.lanes().iter().filter(|it| it.kind == LaneKind::Block) {
        counts[lane.rank.index()] += 1;
    }
    let most = (0..counts.len()).rev().max_by_key(|it| counts[*it]).unwrap_or(0);
    (Rank(most as u32), counts.get(most).copied().unwrap_or(0))
}
