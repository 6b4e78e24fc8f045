//! From a routed program to [`Knobbed`]: connections, the waits of one iteration and those from
//! one iteration to the next.

use std::collections::BTreeMap;

use motet_collective::Event;
use motet_collective::program::LaneKind;
use motet_net::{Network, NodeKind};
use motet_units::{LinkId, Rank};

use super::{Followers, Hop, Knobbed, LOCAL, Moved, Wire};
use crate::{Hardware, KnobModel};
use motet_sim::Routed;
use motet_sim::names;

pub(super) fn compile(routed: &Routed<'_>, model: KnobModel) -> Knobbed {
    let (program, network) = (routed.program(), routed.network());
    let lane_of = lane_of(routed);
    let mut ways = Ways::new(network);
    let mut connections: BTreeMap<(Rank, Rank, u32), u32> = BTreeMap::new();
    let mut transfers = Vec::with_capacity(program.transfers().len());
    for (index, transfer) in program.transfers().iter().enumerate() {
        let first = ways.hops.len() as u32;
        ways.add(routed, index);
        let connection = if transfer.is_local() {
            LOCAL
        } else {
            let lane = lane_of[index * 2].map(|it| program.lanes()[it as usize].channel);
            let next = connections.len() as u32;
            let key = (transfer.src.rank, transfer.dst.rank, lane.unwrap_or(0));
            *connections.entry(key).or_insert(next)
        };
        let end = ways.hops.len() as u32;
        transfers.push(Moved { connection, count: transfer.count, first, end });
    }
    let mut ends = vec![(Rank(0), Rank(0)); connections.len()];
    for ((from, to, _), index) in &connections {
        ends[*index as usize] = (*from, *to);
    }
    let order = Order::new(routed, &lane_of, &transfers, ends.len());
    let events = transfers.len() * 2;
    let count = |pairs: &[(u32, u32)]| {
        let mut waits = vec![0u32; events];
        for (_, to) in pairs {
            waits[*to as usize] += 1;
        }
        waits
    };
    let mut waits = count(&order.same);
    // An arrival waits to reach its destination too.
    for arrival in waits.iter_mut().skip(1).step_by(2) {
        *arrival += 1;
    }
    let lacking = ways.links.iter().find(|it| it.bits_per_s == 0);
    Knobbed {
        model,
        collective: program.collective().clone(),
        waits,
        again: count(&order.next),
        followers: followers(events, &order.same),
        next_followers: followers(events, &order.next),
        channels: channels(routed),
        blocks: blocks(routed, &order.implied, &ends),
        without_bandwidth: lacking.map(|it| names::link(network, it.id)),
        network_links: network.links().len(),
        transfers,
        hops: ways.hops,
        links: ways.links,
        connections: ends,
    }
}

/// The lane of each event.
fn lane_of(routed: &Routed<'_>) -> Vec<Option<u32>> {
    let mut lane_of = vec![None; routed.graph().events()];
    for (index, lane) in routed.program().lanes().iter().enumerate() {
        for event in &lane.events {
            lane_of[event.index()] = Some(index as u32);
        }
    }
    lane_of
}

/// The ways of transfers and the links they use.
struct Ways<'a> {
    network: &'a Network,
    hops: Vec<Hop>,
    links: Vec<Wire>,
    number: Vec<Option<u32>>,
}

impl<'a> Ways<'a> {
    fn new(network: &'a Network) -> Self {
        let number = vec![None; network.links().len()];
        Self { network, hops: Vec::new(), links: Vec::new(), number }
    }

    fn number(&mut self, id: LinkId) -> u32 {
        let spec = &self.network.link(id).spec;
        let links = &mut self.links;
        *self.number[id.index()].get_or_insert_with(|| {
            let (bits_per_s, latency) = (spec.bandwidth.bits_per_s(), spec.latency.as_ps());
            links.push(Wire { id, bits_per_s, latency });
            links.len() as u32 - 1
        })
    }

    /// The hops of a transfer. From one GPU to the next it goes over the slowest hardware between.
    fn add(&mut self, routed: &Routed<'_>, transfer: usize) {
        let hops = routed.hops(transfer);
        let mut over = Hardware::NvLink;
        for (index, hop) in hops.iter().enumerate() {
            let hardware = Hardware::of_class(self.network.link(hop.link).spec.class);
            over = if self.leaves_gpu(hop) { hardware } else { over.max(hardware) };
            let ends = hops.get(index + 1).is_none_or(|it| self.leaves_gpu(it));
            let (link, fed) = (self.number(hop.link), self.leaves_gpu(hop));
            let starts_segment = hop.starts_segment;
            self.hops.push(Hop { link, starts_segment, fed, over: ends.then_some(over) });
        }
    }

    /// Whether a thread block feeds a hop; a switch that stores and forwards has none.
    fn leaves_gpu(&self, hop: &motet_sim::Hop) -> bool {
        let from = self.network.link(hop.link).from;
        self.network.node(from).kind == NodeKind::Gpu
    }
}

/// Pairs (awaited, waiting) of events, of one iteration and from one to the next.
struct Order {
    same: Vec<(u32, u32)>,
    next: Vec<(u32, u32)>,
    /// For each connection, whether it has transfers in no lane.
    implied: Vec<bool>,
}

impl Order {
    fn new(
        routed: &Routed<'_>,
        lane_of: &[Option<u32>],
        transfers: &[Moved],
        connections: usize,
    ) -> Self {
        let mut order = Self { same: Vec::new(), next: Vec::new(), implied: Vec::new() };
        let graph = routed.graph();
        for event in 0..graph.events() {
            let own = Event::from_index(event).transfer().sent().index();
            let preds = graph.preds(event).iter().filter(|it| **it as usize != own);
            order.same.extend(preds.map(|it| (*it, event as u32)));
        }
        for lane in routed.program().lanes() {
            if let (Some(first), Some(last)) = (lane.events.first(), lane.events.last()) {
                order.next.push((last.index() as u32, first.index() as u32));
            }
        }
        // Of each connection the first and the latest sending in no lane, in program order.
        let mut sendings: Vec<Option<(u32, u32)>> = vec![None; connections];
        let free = routed.sequence().iter().filter(|it| it.is_sent());
        for event in free.filter(|it| lane_of[it.index()].is_none()) {
            let at = event.index() as u32;
            match transfers[event.transfer().index()].connection {
                LOCAL => order.next.push((at, at)),
                connection => {
                    let slot = &mut sendings[connection as usize];
                    if let Some((_, before)) = *slot {
                        order.same.push((before, at));
                    }
                    *slot = Some((slot.map_or(at, |it| it.0), at));
                }
            }
        }
        order.next.extend(sendings.iter().flatten().map(|(first, last)| (*last, *first)));
        order.implied = sendings.iter().map(Option::is_some).collect();
        order
    }
}

fn followers(events: usize, pairs: &[(u32, u32)]) -> Followers {
    let mut starts = vec![0u32; events + 1];
    for (awaited, _) in pairs {
        starts[*awaited as usize + 1] += 1;
    }
    for event in 0..events {
        starts[event + 1] += starts[event];
    }
    let mut fill = starts.clone();
    let mut list = vec![0; pairs.len()];
    for (awaited, waiting) in pairs {
        let slot = &mut fill[*awaited as usize];
        list[*slot as usize] = *waiting;
        *slot += 1;
    }
    Followers { starts, list }
}

/// The channels that the program's lanes name; one if it has none.
fn channels(routed: &Routed<'_>) -> u32 {
    let lanes = routed.program().lanes().iter();
    lanes.map(|it| it.channel.saturating_add(1)).max().unwrap_or(1)
}

/// The rank with the most thread blocks: its lanes, and what connections without lanes need, a
/// block having one peer to send to and one to receive from.
fn blocks(routed: &Routed<'_>, implied: &[bool], ends: &[(Rank, Rank)]) -> (Rank, u32) {
    let ranks = routed.program().collective().ranks() as usize;
    let (mut lanes, mut out, mut back) = (vec![0u32; ranks], vec![0u32; ranks], vec![0u32; ranks]);
    for lane in routed.program().lanes().iter().filter(|it| it.kind == LaneKind::Block) {
        lanes[lane.rank.index()] += 1;
    }
    for ((from, to), implied) in ends.iter().zip(implied) {
        if *implied {
            out[from.index()] += 1;
            back[to.index()] += 1;
        }
    }
    let blocks = |it: usize| lanes[it].saturating_add(out[it].max(back[it])).max(1);
    let most = (0..ranks).rev().max_by_key(|it| blocks(*it)).unwrap_or(0);
    (Rank(most as u32), if ranks == 0 { 1 } else { blocks(most) })
}
