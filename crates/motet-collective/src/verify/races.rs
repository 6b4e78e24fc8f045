//! Cells whose accesses are not all ordered: could another order of events give other values?
//!
//! For every read, the writes that may be the last before it in some order are those that do not
//! always follow it and are not always hidden by a later write that always precedes it. If all of
//! them wrote the value that the read got, every order reads the same; otherwise the read is a
//! race. The same holds for the end of the program, which reads every output chunk that the
//! postcondition names. By induction over the events, a program without a race has the same
//! values in every order.

use std::collections::BTreeMap;

use super::execute::{End, Observer, SymbolicRun, form, initial_cells};
use super::happens_before::HappensBefore;
use super::values::{Value, Values};
use crate::collective::Expected;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Buffer, Event, Slot};

/// What putting a race into words costs, in steps of the budget.
const STEPS_PER_FINDING: usize = 1 << 12;

/// An access to a suspect cell. The initial content counts as a write by no event.
#[derive(Clone, Copy, Debug)]
struct Access {
    event: Option<usize>,
    value: Value,
}

#[derive(Debug, Default)]
struct Accesses {
    reads: Vec<Access>,
    writes: Vec<Access>,
}

/// Records the accesses to suspect cells.
struct Log {
    cells: BTreeMap<usize, Accesses>,
}

impl Observer for Log {
    fn read(&mut self, event: usize, cell: usize, value: Value) {
        if let Some(it) = self.cells.get_mut(&cell) {
            it.reads.push(Access { event: Some(event), value });
        }
    }

    fn write(&mut self, event: usize, cell: usize, value: Value) {
        if let Some(it) = self.cells.get_mut(&cell) {
            it.writes.push(Access { event: Some(event), value });
        }
    }
}

/// Reports the races at the suspect cells.
pub(super) fn check(
    run: &SymbolicRun<'_>,
    suspects: &[u32],
    end: &End,
    before: &mut HappensBefore<'_>,
    report: &mut Report,
) {
    let initial = initial_cells(run.program, run.memory, &end.values);
    let start = |cell: &u32| {
        let cell = *cell as usize;
        let first = Access { event: None, value: initial[cell] };
        (cell, Accesses { reads: Vec::new(), writes: vec![first] })
    };
    let mut log = Log { cells: suspects.iter().map(start).collect() };
    // The same order gives the same values with the same numbers as the first run.
    run.go(&mut log, None);
    for (cell, accesses) in &log.cells {
        for read in &accesses.reads {
            if let Some(write) = other_value(read, &accesses.writes, &end.values, before) {
                report.push(describe(run, *cell, Some(read), write, &end.values));
                before.budget.spend(STEPS_PER_FINDING);
            }
        }
        let slot = run.memory.slot(run.program, *cell);
        if is_asked_for(run, slot) {
            let last = Access { event: None, value: end.cells[*cell] };
            if let Some(write) = other_value(&last, &accesses.writes, &end.values, before) {
                report.push(describe(run, *cell, None, write, &end.values));
                before.budget.spend(STEPS_PER_FINDING);
            }
        }
    }
}

/// Whether the postcondition says something about the slot. Aliased inputs are seen as outputs.
fn is_asked_for(run: &SymbolicRun<'_>, slot: Slot) -> bool {
    slot.buffer == Buffer::Output
        && run.program.collective().expected(slot.rank, slot.offset) != Expected::Anything
}

/// A write with another value than `read` got that could be the last before it in some order. A
/// read by no event is the end of the program: it follows everything.
fn other_value<'a>(
    read: &Access,
    writes: &'a [Access],
    values: &Values,
    before: &mut HappensBefore<'_>,
) -> Option<&'a Access> {
    let precedes = |before: &mut HappensBefore<'_>, a, b, b_is_end: bool| match (a, b) {
        _ if b_is_end => true,
        // The initial content precedes every event.
        (None, Some(_)) => true,
        (_, None) => false,
        (Some(a), Some(b)) => before.before(a, b),
    };
    let at_end = read.event.is_none();
    writes.iter().find(|write| {
        if write.event.is_some() && write.event == read.event {
            // A reduction reads before it writes.
            return false;
        }
        before.budget.spend(1);
        if before.budget.is_spent() || values.same(write.value, read.value, &mut before.budget) {
            return false;
        }
        if !at_end && precedes(before, read.event, write.event, false) {
            return false;
        }
        // An event never precedes itself, so neither the write nor the reader hides anything here.
        let hidden = writes.iter().any(|later| {
            before.budget.spend(1);
            later.event.is_some()
                && precedes(before, write.event, later.event, false)
                && precedes(before, later.event, read.event, at_end)
        });
        !hidden && !before.budget.is_spent()
    })
}

fn describe(
    run: &SymbolicRun<'_>,
    cell: usize,
    read: Option<&Access>,
    write: &Access,
    values: &Values,
) -> Diagnostic {
    let slot = run.memory.slot(run.program, cell);
    let form = form(run.program, run.memory);
    let name = |event: usize| {
        let id = Event::from_index(event).transfer();
        format!("transfer {} ({})", id.0, run.program.transfer(id))
    };
    let writer = match write.event {
        Some(event) => format!("what {} writes", name(event)),
        None => "what is there at the start".to_owned(),
    };
    let (message, event) = match read.and_then(|it| it.event) {
        Some(event) => (
            format!("nothing orders {} against {writer} in {slot}{form}", name(event)),
            Some(event),
        ),
        None => (format!("{slot} may end up with {writer}{form}"), write.event),
    };
    let other = values.describe(write.value);
    let message = format!("{message}: it could be {other}");
    let diagnostic = Diagnostic::error(Finding::Race, message);
    match event {
        Some(event) => diagnostic.of(Event::from_index(event).transfer()),
        None => diagnostic,
    }
}
