//! The shape that a plan can say: every transfer one step of one lane.
//!
//! [`is_one_sided`] tells whether a program has it already, [`normal`] writes such a program down
//! in the one way that [`super::read()`] would read it.

use std::collections::BTreeMap;

use motet_units::Rank;

use super::limits;
use super::switch_write::SwitchSlots;
use crate::program::{
    Action, Event, Forms, Hints, Lane, LaneKind, Program, ProgramBuilder, Protocol, TransferId,
};

/// Whether each transfer is sent and arrives in one step of one lane that can do it: a threadblock
/// moves within its GPU, copies to another or reduces from another; a port copies to one other.
pub(super) fn is_one_sided(program: &Program, by_port: impl Fn(Rank, Rank) -> bool) -> bool {
    let mut seen = 0;
    for lane in program.lanes() {
        let mut peer = None;
        for pair in lane.events.chunks(2) {
            let [sent, arrived] = pair else { return false };
            let id = sent.transfer();
            if !sent.is_sent() || *arrived != id.arrived() {
                return false;
            }
            let it = program.transfer(id);
            let fits = match lane.kind {
                LaneKind::Port { .. } => {
                    let first = *peer.get_or_insert(it.dst.rank);
                    !it.is_local()
                        && it.action == Action::Copy
                        && it.src.rank == lane.rank
                        && first == it.dst.rank
                }
                LaneKind::Block if it.is_in_switch() => {
                    let asked = if it.src.is_switch() { it.src.rank } else { it.dst.rank };
                    asked == lane.rank
                }
                LaneKind::Block if it.is_local() => true,
                LaneKind::Block => {
                    // The executor's `get` mixes its offsets up; only equal ones are safe.
                    let pulled = it.dst.rank == lane.rank;
                    let pulls = it.action == Action::Reduce || it.src.offset == it.dst.offset;
                    let pushes = it.src.rank == lane.rank && it.action == Action::Copy;
                    (pushes || pulled && pulls) && !by_port(it.src.rank, it.dst.rank)
                }
            };
            if !fits {
                return false;
            }
            seen += 1;
        }
    }
    seen == program.transfers().len()
}

/// The program with lanes sorted and transfers numbered lane by lane, waits moved to whole steps
/// (a step starts when it is sent and is over when it has arrived) and none that is implied. What
/// a plan cannot say (paths, LL128, serving both call forms) is left out.
pub(super) fn normal(program: &Program) -> Program {
    let lanes = sorted_lanes(program);
    let mut new_ids = vec![TransferId(u32::MAX); program.transfers().len()];
    let mut builder = empty(program);
    let mut slots = SwitchSlots::default();
    for event in lanes.iter().flat_map(|it| &it.events).filter(|it| it.is_sent()) {
        let mut transfer = *program.transfer(event.transfer());
        transfer.path = None;
        slots.rename(&mut transfer);
        new_ids[event.transfer().index()] = builder.add(transfer);
    }
    slots.settle(&mut builder);
    for event in (0..new_ids.len() * 2).map(Event::from_index) {
        for awaited in program.deps(event) {
            let (waiter, awaited) =
                (new_ids[event.transfer().index()], new_ids[awaited.transfer().index()]);
            if waiter != awaited {
                builder.wait(waiter.sent(), awaited.arrived());
            }
        }
    }
    let renamed = |lane: Lane| {
        let ids =
            lane.events.iter().filter(|it| it.is_sent()).map(|it| new_ids[it.transfer().index()]);
        let events = ids.flat_map(|it| [it.sent(), it.arrived()]).collect();
        Lane { events, ..lane }
    };
    builder.set_lanes(lanes.into_iter().map(renamed).collect());
    builder.build().without_implied_waits()
}

/// Everything but transfers, waits and lanes.
fn empty(program: &Program) -> ProgramBuilder {
    let forms = if program.forms().out_of_place { Forms::OUT_OF_PLACE } else { Forms::IN_PLACE };
    let protocol = match program.hints().protocol {
        Protocol::Ll => Protocol::Ll,
        Protocol::Simple | Protocol::Ll128 => Protocol::Simple,
    };
    let largest = limits::largest_size(program);
    let max_size = program.hints().max_size.map_or(largest, |it| it.min(largest));
    let hints = Hints { protocol, max_size: Some(max_size), ..*program.hints() };
    let mut builder =
        ProgramBuilder::new(program.name(), program.collective().clone()).forms(forms).hints(hints);
    for rank in (0..program.collective().ranks()).map(Rank) {
        builder.set_scratch(rank, program.scratch_chunks(rank));
    }
    builder
}

/// Threadblocks by rank, each followed by its ports by peer, without those that do nothing; the
/// ports between two ranks are numbered.
fn sorted_lanes(program: &Program) -> Vec<Lane> {
    let old = program.lanes();
    let peer = |lane: &Lane| lane.events.first().map(|it| program.transfer(it.transfer()).dst.rank);
    let mut blocks: Vec<usize> =
        (0..old.len()).filter(|it| old[*it].kind == LaneKind::Block).collect();
    blocks.sort_by_key(|it| old[*it].rank);
    let mut lanes: Vec<Lane> = Vec::with_capacity(old.len());
    let mut posting: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
    for block in blocks {
        let of_block = LaneKind::Port { block: block as u32 };
        let mut ports: Vec<&Lane> =
            old.iter().filter(|it| it.kind == of_block && !it.events.is_empty()).collect();
        ports.sort_by_key(|it| (peer(it), it.channel));
        if old[block].events.is_empty() && ports.is_empty() {
            continue;
        }
        let index = lanes.len() as u32;
        lanes.push(Lane { channel: 0, ..old[block].clone() });
        for port in ports {
            let Some(peer) = peer(port) else { continue };
            let count = posting.entry((port.rank, peer)).or_insert(0);
            lanes.push(Lane {
                kind: LaneKind::Port { block: index },
                channel: *count,
                ..port.clone()
            });
            *count += 1;
        }
    }
    lanes
}
