//! [`order`]: numbers a program's transfers in the order in which links should carry them.
//!
//! A program's waits define a partial order. Where they leave a choice, links carry transfers in the order of their numbers
//! (`Discipline::ProgramOrder` in the simulator). Methods that make programs transfer by transfer leave the numbering to this
//! pass, which is list scheduling ([`crate::schedule`]).

use motet_collective::{Program, TransferId};
use motet_units::{Bytes, Duration, LinkId};

use crate::fabric::Fabric;
use crate::schedule::Jobs;

/// The program with its transfers renumbered for `size`, and how long its schedule takes. Every transfer
/// between ranks must have a path. A program with lanes, which fix an order already, is returned as it is.
#[must_use]
pub fn order(program: Program, fabric: &Fabric, size: Bytes) -> (Program, Duration) {
    let schedule = jobs_of(&program, fabric, size).schedule();
    if !program.lanes().is_empty() || schedule.order.len() != program.transfers().len() {
        return (program, schedule.makespan);
    }
    let numbering: Vec<TransferId> = schedule.order.into_iter().map(TransferId).collect();
    (program.to_builder().renumbered(&numbering).build(), schedule.makespan)
}

/// How long a program takes if links carry its transfers in the order of their numbers. Too low where arrivals
/// wait for other events: only what sendings wait for is counted.
pub(crate) fn makespan(program: &Program, fabric: &Fabric, size: Bytes) -> Duration {
    jobs_of(program, fabric, size).makespan_as_numbered()
}

/// The program's transfers as jobs of the same numbers.
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
    for transfer in 0..program.transfers().len() {
        let id = TransferId::from_index(transfer);
        for awaited in program.deps(id.sent()) {
            jobs.wait(id.0, awaited.transfer().0);
        }
    }
    jobs
}
