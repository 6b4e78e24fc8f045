//! The verifier's first step: does everything that the program names exist? Ranges must lie inside
//! their buffers, waits and lanes name events of the program, paths lead from sender to receiver.
//!
//! Transfers that are not sound here take no further part in the data checks (they would read
//! and write outside memory); everything else about the program is still checked.

use motet_net::Network;
use motet_units::{LinkId, NodeId, Rank};

use crate::collective::InPlace;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::in_switch::Serving;
use crate::program::{Buffer, Event, Lane, LaneKind, Program, Slot, Transfer, TransferId};

/// For each transfer whether its ranges are inside their buffers.
pub(super) fn check(
    program: &Program,
    network: Option<&Network>,
    report: &mut Report,
) -> Vec<bool> {
    let sizes = BufferSizes::new(program);
    let sound = program
        .transfers()
        .iter()
        .enumerate()
        .map(|(index, transfer)| ranges(&sizes, TransferId::from_index(index), transfer, report))
        .collect();
    waits(program, report);
    lanes(program, report);
    if let Some(network) = network {
        PathCheck::new(program, network).check(report);
    }
    sound
}

/// How many chunks each buffer has, of all ranks.
struct BufferSizes {
    of: Vec<[u32; 4]>,
}

impl BufferSizes {
    fn new(program: &Program) -> Self {
        let size = |rank| Buffer::ALL.map(|it| buffer_size(program, Slot::new(rank, it, 0)));
        Self { of: (0..program.collective().ranks()).map(Rank).map(size).collect() }
    }

    /// `None` if there is no such rank.
    fn get(&self, slot: Slot) -> Option<u32> {
        self.of.get(slot.rank.index()).map(|it| it[slot.buffer as usize])
    }

    fn holds(&self, slot: Slot, count: u32) -> bool {
        let last = u64::from(slot.offset) + u64::from(count);
        self.get(slot).is_some_and(|it| last <= u64::from(it))
    }
}

fn ranges(sizes: &BufferSizes, id: TransferId, transfer: &Transfer, report: &mut Report) -> bool {
    let is_usual = transfer.count > 0 && !transfer.src.is_switch();
    if is_usual
        && sizes.holds(transfer.src, transfer.count)
        && sizes.holds(transfer.dst, transfer.count)
    {
        return true;
    }
    let mut sound = true;
    let mut wrong = |message: String| {
        report.push(Diagnostic::error(Finding::OutOfRange, message).of(id));
        sound = false;
    };
    if transfer.count == 0 {
        wrong(format!("transfer {} moves no chunk", id.0));
    }
    if transfer.src.is_switch()
        && transfer.dst.is_switch()
        && transfer.src.rank != transfer.dst.rank
    {
        wrong(format!(
            "transfer {} goes from the switch slot of rank {} to that of rank {}; a switch slot \
             serves one rank only",
            id.0, transfer.src.rank, transfer.dst.rank
        ));
    }
    for (end, slot) in [("reads", transfer.src), ("writes", transfer.dst)] {
        let Some(size) = sizes.get(slot) else {
            let ranks = sizes.of.len();
            wrong(format!("transfer {} {end} at rank {}, of {ranks} ranks", id.0, slot.rank));
            continue;
        };
        if u64::from(slot.offset) + u64::from(transfer.count) > u64::from(size) {
            let last = u64::from(slot.offset) + u64::from(transfer.count);
            wrong(format!(
                "transfer {} {end} chunks {} to {} of the {} of rank {}, which has {size}",
                id.0,
                slot.offset,
                last.saturating_sub(1),
                slot.buffer.name(),
                slot.rank,
            ));
        }
    }
    sound
}

/// How many chunks the buffer of `slot` has, whichever call form it is used in: in-place calls
/// alias the smaller buffer to a part of the larger one and change no size.
pub(super) fn buffer_size(program: &Program, slot: Slot) -> u32 {
    match slot.buffer {
        Buffer::Input => program.collective().input_chunks(slot.rank),
        Buffer::Output => program.collective().output_chunks(slot.rank),
        Buffer::Scratch => program.scratch_chunks(slot.rank),
        Buffer::Switch => program.switch_chunks(slot.rank),
    }
}

fn waits(program: &Program, report: &mut Report) {
    let events = program.transfers().len() * 2;
    for event in (0..events).map(Event::from_index) {
        for awaited in program.deps(event) {
            let id = event.transfer();
            if awaited.index() >= events {
                let message = format!(
                    "transfer {} waits for transfer {}, which does not exist",
                    id.0,
                    awaited.transfer().0
                );
                report.push(Diagnostic::error(Finding::BadWait, message).of(id));
            }
        }
    }
}

fn lanes(program: &Program, report: &mut Report) {
    let mut seen = vec![false; program.transfers().len() * 2];
    for (index, lane) in program.lanes().iter().enumerate() {
        if let LaneKind::Port { block } = lane.kind {
            let owner = program.lanes().get(block as usize);
            if owner.is_none_or(|it| it.rank != lane.rank || it.kind != LaneKind::Block) {
                report.push(Diagnostic::error(
                    Finding::BadLane,
                    format!("port lane {index} belongs to no threadblock lane of its rank"),
                ));
            }
        }
        for event in &lane.events {
            lane_event(program, index, lane, *event, &mut seen, report);
        }
    }
}

fn lane_event(
    program: &Program,
    index: usize,
    lane: &Lane,
    event: Event,
    seen: &mut [bool],
    report: &mut Report,
) {
    let id = event.transfer();
    let mut bad = |message: String| {
        report.push(Diagnostic::error(Finding::BadLane, message).of(id));
    };
    let Some(slot) = seen.get_mut(event.index()) else {
        return bad(format!("lane {index} runs transfer {}, which does not exist", id.0));
    };
    if std::mem::replace(slot, true) {
        bad(format!("transfer {} is in the lanes twice (again in lane {index})", id.0));
    }
    let transfer = program.transfer(id);
    if lane.rank != transfer.src.rank && lane.rank != transfer.dst.rank {
        bad(format!(
            "lane {index} of rank {} runs transfer {}, which is between ranks {} and {}",
            lane.rank, id.0, transfer.src.rank, transfer.dst.rank
        ));
    }
}

/// Checks that transfers can go where they go.
struct PathCheck<'a> {
    program: &'a Program,
    network: &'a Network,
    /// What each GPU reaches, by source, found when first asked for.
    reached: Vec<Option<Vec<bool>>>,
}

impl<'a> PathCheck<'a> {
    fn new(program: &'a Program, network: &'a Network) -> Self {
        Self { program, network, reached: vec![None; network.nodes().len()] }
    }

    fn check(&mut self, report: &mut Report) {
        let ranks = self.program.collective().ranks() as usize;
        let gpus = self.network.ranks().len();
        if gpus < ranks {
            report.push(Diagnostic::error(
                Finding::NoPath,
                format!("the program has {ranks} ranks and the network only {gpus} GPUs"),
            ));
            return;
        }
        if let Some(signature) = self.program.network() {
            let here = motet_net::signature::Signature::of(self.network);
            if signature != here {
                report.push(Diagnostic::error(
                    Finding::NoPath,
                    format!("the program's paths are for network {signature}, this one is {here}"),
                ));
                return;
            }
        }
        if self.program.uses_switches() {
            for unserved in Serving::find(self.program, self.network).1 {
                report.push(Diagnostic::error(Finding::NoPath, unserved.to_string()));
            }
        }
        for (index, transfer) in self.program.transfers().iter().enumerate() {
            if let Err(message) = self.transfer(transfer) {
                let id = TransferId::from_index(index);
                let message = format!("transfer {index}: {message}");
                report.push(Diagnostic::error(Finding::NoPath, message).of(id));
            }
        }
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<(), String> {
        if transfer.is_in_switch() && transfer.path.is_some() {
            return Err("a path is given, and the way to a switch is the network's".to_owned());
        }
        // What goes through a switch was looked at above.
        if transfer.is_local() || transfer.is_in_switch() {
            return Ok(());
        }
        let end = |rank: Rank| self.network.gpu(rank);
        let (Some(src), Some(dst)) = (end(transfer.src.rank), end(transfer.dst.rank)) else {
            // Reported as out of range already.
            return Ok(());
        };
        let ranks = format!("rank {} to rank {}", transfer.src.rank, transfer.dst.rank);
        match transfer.path {
            None if self.reaches(src, dst) => Ok(()),
            None => Err(format!("no path leads from {ranks} in this network")),
            Some(path) => {
                let links = self.program.paths().get(path as usize);
                let links = links.ok_or_else(|| format!("path {path} does not exist"))?;
                self.walk(links, src, dst).map_err(|it| format!("path from {ranks}: {it}"))
            }
        }
    }

    fn walk(&self, links: &[LinkId], src: NodeId, dst: NodeId) -> Result<(), String> {
        let mut at = src;
        for link in links {
            if link.index() >= self.network.links().len() {
                return Err(format!("link {link} does not exist"));
            }
            let it = self.network.link(*link);
            if it.from != at {
                let name = |id| &self.network.node(id).name;
                return Err(format!(
                    "link {link} starts at `{}`, not at `{}`",
                    name(it.from),
                    name(at)
                ));
            }
            at = it.to;
        }
        if at == dst { Ok(()) } else { Err(format!("ends at `{}`", self.network.node(at).name)) }
    }

    fn reaches(&mut self, src: NodeId, dst: NodeId) -> bool {
        let network = self.network;
        let reached = self.reached[src.index()].get_or_insert_with(|| {
            let mut reached = vec![false; network.nodes().len()];
            reached[src.index()] = true;
            let mut stack = vec![src];
            while let Some(node) = stack.pop() {
                for link in network.outgoing(node) {
                    let to = network.link(*link).to;
                    if !std::mem::replace(&mut reached[to.index()], true) {
                        stack.push(to);
                    }
                }
            }
            reached
        });
        reached[dst.index()]
    }
}

/// Whether the collective has an in-place form at all; used by [`super::memory`].
pub(super) fn has_in_place(program: &Program) -> bool {
    let collective = program.collective();
    (0..collective.ranks()).map(Rank).any(|it| {
        matches!(
            collective.in_place(it),
            Some(InPlace::InputInOutput { .. } | InPlace::OutputInInput { .. })
        )
    })
}
