//! [`order`]: numbers a program's transfers in the order in which links should carry them.
//!
//! A program's waits define a partial order. Where they leave a choice, links carry transfers in the order of their numbers
//! (`Discipline::ProgramOrder` in the simulator). Methods that make programs transfer by transfer leave the numbering to this
//! pass, which is list scheduling ([`crate::schedule`]).

use motet_collective::{Event, Program, TransferId};
use motet_units::{Bytes, Duration, LinkId};

use crate::fabric::Fabric;
use crate::schedule::Jobs;

/// The program with its transfers renumbered for `size`, and how long its schedule takes. Every transfer
/// between ranks must have a path. A program with lanes, which fix an order already, is returned as it is.
#[must_use]
pub fn order(program: Program, fabric: &Fabric, size: Bytes) -> (Program, Duration) {
    let schedule = jobs_with_arrivals(&program, fabric, size).schedule();
    let transfers = program.transfers().len();
    let numbering: Vec<TransferId> = schedule
        .order
        .into_iter()
        .filter(|it| (*it as usize) < transfers)
        .map(TransferId)
        .collect();
    if !program.lanes().is_empty() || numbering.len() != transfers {
        return (program, schedule.makespan);
    }
    (program.to_builder().renumbered(&numbering).build(), schedule.makespan)
}

/// How long a program takes if links carry its transfers in the order of their numbers. Too low where arrivals
/// wait for other events: only what sendings wait for is counted.
pub(crate) fn makespan(program: &Program, fabric: &Fabric, size: Bytes) -> Duration {
    let mut jobs = jobs_of(program, fabric, size);
    for id in (0..program.transfers().len()).map(TransferId::from_index) {
        for awaited in program.deps(id.sent()) {
            jobs.wait(id.0, awaited.transfer().0);
        }
    }
    jobs.makespan_as_numbered()
}

/// The program's transfers as jobs of the same numbers, and behind them a job without a link for each arrival that waits for
/// more than its transfer: data that comes early is there only then. Without these, links would be told to carry what waits
/// for such an arrival too soon, and everything behind it would queue.
fn jobs_with_arrivals<'a>(program: &Program, fabric: &'a Fabric, size: Bytes) -> Jobs<'a> {
    let mut jobs = jobs_of(program, fabric, size);
    let transfers = || (0..program.transfers().len()).map(TransferId::from_index);
    let waits_for_more =
        |it: TransferId| program.deps(it.arrived()).iter().any(|awaited| *awaited != it.sent());
    // By transfer: the job with whose end it has arrived.
    let arrival: Vec<u32> =
        transfers().map(|it| if waits_for_more(it) { jobs.stay() } else { it.0 }).collect();
    let end = |event: &Event| {
        let transfer = event.transfer();
        if event.is_sent() { transfer.0 } else { arrival[transfer.index()] }
    };
    for id in transfers() {
        for awaited in program.deps(id.sent()) {
            jobs.wait(id.0, end(awaited));
        }
        let arrived = arrival[id.index()];
        if arrived != id.0 {
            jobs.wait(arrived, id.0);
            for awaited in program.deps(id.arrived()).iter().filter(|it| **it != id.sent()) {
                jobs.wait(arrived, end(awaited));
            }
        }
    }
    jobs
}

/// The program's transfers as jobs of the same numbers, which wait for nothing yet.
fn jobs_of<'a>(program: &Program, fabric: &'a Fabric, size: Bytes) -> Jobs<'a> {
    let chunk = program.collective().chunk_bytes(size);
    let mut jobs = Jobs::new(fabric);
    for transfer in program.transfers() {
        let path: Option<&[LinkId]> =
            transfer.path.and_then(|it| program.paths().get(it as usize)).map(Vec::as_slice);
        match (transfer.path, path) {
            (Some(number), Some(path)) if !transfer.is_local() => {
                let bytes = chunk.checked_mul(u64::from(transfer.count));
                jobs.send(number, path, bytes.unwrap_or(Bytes::new(u64::MAX)))
            }
            _ => jobs.stay(),
        };
    }
    jobs
}
