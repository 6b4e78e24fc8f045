//! Lowering: lanes and channels that an MSCCL runtime can run.
//!
//! A program whose lanes suit the runtime keeps them. Any other gets new ones: its events are
//! put into one order in which they can all happen with the connections' finite buffers
//! ([`schedule`]), and [`lanes`] deals them out to threadblocks. Each threadblock runs its events
//! in that order, with transfers too large for a step cut first ([`cut`]) and those that would hold up
//! others put into scratch ([`staged`]), so the order itself is a way for all of them to end and
//! nothing can deadlock.
//! What a program leaves open stays open between threadblocks.

mod cut;
mod lanes;
mod schedule;
mod staged;

use super::Options;
use super::limits::COUNT_LIMIT;
use super::steps::XmlSteps;
use crate::collective::CollectiveKind;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::graph::NONE;
use crate::program::{Event, LaneKind, Program, in_instances};
use crate::verify::Verified;

/// Gives a program lanes and channels that an MSCCL runtime can run, in the canonical form that
/// reading the written file gives. Paths are kept, though the format has none.
///
/// # Errors
/// What the format cannot say, each with its reason.
pub fn lower(program: &Verified<Program>, options: &Options) -> Result<Verified<Program>, Report> {
    prove(unproved(program, options)?, program, options)
}

/// The program as [`lower`] gives it, not proved yet: whether it fits a file is cheaper to see.
pub(super) fn unproved(program: &Program, options: &Options) -> Result<Program, Report> {
    let mut report = Report::default();
    let kind = program.collective().kind();
    if matches!(kind, CollectiveKind::AllToAllV | CollectiveKind::SendRecv) {
        let message = format!("MSCCL runtimes have no {kind} with sizes or peers of its own");
        report.push(Diagnostic::error(Finding::Limit, message));
        return Err(report);
    }
    if program.uses_switches() {
        let message = "MSCCL runtimes cannot have switches copy or reduce; synthesize with a method \
                       that leaves that to the GPUs (`--method forest`), or export to MSCCL++";
        report.push(Diagnostic::error(Finding::Limit, message));
        return Err(report);
    }
    let lowered = laned(program, options);
    waits_between_ranks(&lowered, &mut report);
    if !report.is_right() {
        return Err(report);
    }
    match copies(&lowered, options)? {
        None => Ok(lowered),
        Some(copies) if unsuited(&copies, options).is_none() => Ok(copies),
        Some(_) => together(program, options),
    }
}

/// Proves what [`unproved`] made of a program.
pub(super) fn prove(
    lowered: Program,
    program: &Program,
    options: &Options,
) -> Result<Verified<Program>, Report> {
    match Verified::new(lowered, None) {
        Err(_) if options.instances > 1 => {
            // What the copies' transfers are cut into may hold up a connection.
            let together = together(program, options)?;
            Verified::new(together, None).map_err(|rejected| rejected.report)
        }
        proved => proved.map_err(|rejected| rejected.report),
    }
}

/// The copies of a program with lanes found for all of them at once.
fn together(program: &Program, options: &Options) -> Result<Program, Report> {
    Ok(laned(copies(program, options)?.as_ref().unwrap_or(program), options))
}

/// The program in as many instances as asked for, in canonical form; `None` if that is one.
fn copies(program: &Program, options: &Options) -> Result<Option<Program>, Report> {
    if options.instances <= 1 {
        return Ok(None);
    }
    let made = in_instances(program, options.instances).map_err(|error| {
        let mut report = Report::default();
        let message = format!("in {} instances {error}", options.instances);
        report.push(Diagnostic::error(Finding::Limit, message));
        report
    })?;
    Ok(Some(made.in_lane_order().without_implied_waits()))
}

/// The program with lanes that suit the runtime, in canonical form.
fn laned(program: &Program, options: &Options) -> Program {
    // A program without lanes is not worth the look.
    let kept = (!program.lanes().is_empty() || program.transfers().is_empty())
        .then(|| at_step_ends(program).without_implied_waits())
        .filter(|it| unsuited(it, options).is_none());
    let laned = match kept {
        Some(kept) => kept.in_lane_order(),
        None => {
            let bare = schedule::without_lanes(program);
            let large = bare.transfers().iter().any(|it| it.count >= COUNT_LIMIT);
            let bare = if large { cut::cut(&bare, COUNT_LIMIT - 1) } else { bare };
            lanes::assign(&bare, options).in_lane_order()
        }
    };
    laned.without_implied_waits()
}

/// The same program with its waits where steps have them: a local transfer is one step, which
/// waits before it is sent and is awaited when it has arrived.
pub(super) fn at_step_ends(program: &Program) -> Program {
    let is_local = |it: Event| program.transfer(it.transfer()).is_local();
    let mut builder = program.to_builder();
    for (event, awaited) in builder.waits_mut() {
        if is_local(*event) {
            *event = event.transfer().sent();
        }
        // A local transfer's arrival may have waited for its own sending.
        if is_local(*awaited) && awaited.transfer() != event.transfer() {
            *awaited = awaited.transfer().arrived();
        }
    }
    builder
        .waits_mut()
        .retain(|(event, awaited)| event.transfer() != awaited.transfer() || !is_local(*event));
    builder.build()
}

/// Why the lanes of a program are not threadblocks of an MSCCL runtime; `None` if they are.
fn unsuited(program: &Program, options: &Options) -> Option<&'static str> {
    let mut lane_of = vec![NONE; program.transfers().len() * 2];
    let mut ends = std::collections::BTreeSet::new();
    for (index, lane) in program.lanes().iter().enumerate() {
        if lane.kind != LaneKind::Block {
            return Some("a lane is a network port");
        }
        let mut peers = [None; 2];
        for (at, event) in lane.events.iter().enumerate() {
            lane_of[event.index()] = index as u32;
            let transfer = program.transfer(event.transfer());
            let (here, there) = match event.is_sent() {
                true => (transfer.src.rank, transfer.dst.rank),
                false => (transfer.dst.rank, transfer.src.rank),
            };
            if here != lane.rank {
                return Some("a lane runs an event of another rank");
            }
            if transfer.is_local() {
                let arrived = event.transfer().arrived();
                if event.is_sent() && lane.events.get(at + 1) != Some(&arrived) {
                    return Some("a local transfer is not one step");
                }
                continue;
            }
            let peer = &mut peers[usize::from(event.is_sent())];
            if peer.replace(there).is_some_and(|it| it != there) {
                return Some("a lane has two peers in one direction");
            }
        }
        for (direction, peer) in peers.into_iter().enumerate() {
            let end = peer.map(|it| (lane.rank, it, lane.channel, direction));
            if end.is_some_and(|it| !ends.insert(it)) {
                return Some("two lanes share an end of a connection");
            }
        }
    }
    if lane_of.contains(&NONE) {
        return Some("not every event is in a lane");
    }
    let channel = |event: Event| program.lanes()[lane_of[event.index()] as usize].channel;
    for id in (0..program.transfers().len()).map(crate::TransferId::from_index) {
        if channel(id.sent()) != channel(id.arrived()) {
            return Some("a transfer's ends are on different channels");
        }
    }
    // That a connection's arrivals have the order of its sendings, the verifier has checked.
    let plan = XmlSteps::new(program);
    let most = options.runtime.max_steps() as usize;
    let too_long = (0..program.lanes().len()).any(|it| plan.length(it) > most);
    too_long.then_some("a lane has more steps than the runtime holds")
}

/// Reports waits for events of another rank, which no step can have.
fn waits_between_ranks(program: &Program, report: &mut Report) {
    let rank = |event: Event| {
        let transfer = program.transfer(event.transfer());
        if event.is_sent() { transfer.src.rank } else { transfer.dst.rank }
    };
    let text = |event: Event| {
        let side = if event.is_sent() { "sending" } else { "arrival" };
        let id = event.transfer();
        format!("the {side} of transfer {} ({})", id.0, program.transfer(id))
    };
    for event in (0..program.transfers().len() * 2).map(Event::from_index) {
        for awaited in program.deps(event).iter().filter(|it| rank(**it) != rank(event)) {
            let message = format!(
                "{} at rank {} waits for {} at rank {}; steps wait for steps of their own rank \
                 only, and no data that arrives implies it",
                text(event),
                rank(event),
                text(*awaited),
                rank(*awaited)
            );
            let found = Diagnostic::error(Finding::BadWait, message);
            report.push(found.of(event.transfer()));
        }
    }
}
