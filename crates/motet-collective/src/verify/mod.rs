//! The verifier: is a program right?
//!
//! A program is **right** if in every order in which its events can happen
//! - every event happens (no deadlock, also with the finite buffers of its connections),
//! - every read of a chunk gives the same, defined value as in any other order, and
//! - at the end every output chunk holds what the collective's postcondition says,
//!
//! for each call form (in place, out of place) that it serves, with every range inside its buffer
//! and every path in the network. The verifier decides this exactly, without trying the orders:
//!
//! 1. [`structure`]: ranges, waits, lanes, paths.
//! 2. [`order`]: the graph of events and a topological order of it, or the cycles; then once more
//!    with the connections' finite buffers.
//!    Also the turns of links, which can deadlock too ([`turns`]).
//! 3. [`execute`]: one run in that order over symbolic [`values`] in the [`memory`] of the form.
//!    Meanwhile it watches whether each access is ordered after the ones it must follow
//!    ([`happens_before`]).
//! 4. [`races`]: for the few cells where it is not, whether any other order could give a read or
//!    the final state another value.
//! 5. [`postcondition`]: every output chunk against what is expected, by expanding its value into
//!    the inputs it is made of.
//!
//! The work for all this is bounded by the program's size ([`budget`]); a program that would take
//! more is refused.
//!
//! All findings are reported, not the first. A mutation test holds this against an independent
//! interpreter that does try every order (`tests/it/mutation.rs`).

mod budget;
mod execute;
mod happens_before;
mod memory;
mod order;
mod postcondition;
mod races;
mod structure;
mod turns;
mod values;

pub(crate) use order::waits_for_room;

use motet_net::Network;
use motet_units::brief;

use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{EventGraph, Forms, Program};

/// Something that the verifier has proved right. The simulator, the exporters and the executor
/// take nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A program that is not right, with everything found about it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the program `{}` is not right:\n{report}", brief(program.name()))]
pub struct Rejected {
    pub program: Program,
    pub report: Report,
}

impl Verified<Program> {
    /// Proves `program` right, on `network` if its paths are to be checked too.
    pub fn new(program: Program, network: Option<&Network>) -> Result<Self, Box<Rejected>> {
        let report = check(&program, network);
        if report.is_right() {
            Ok(Self(program))
        } else {
            Err(Box::new(Rejected { program, report }))
        }
    }

    /// The same program for one form of call only, of the two that it serves; `None` if it serves just
    /// one. What is right for both is right for each.
    #[must_use]
    pub fn for_calls(&self, in_place: bool) -> Option<Self> {
        let Forms { in_place: one, out_of_place: other } = self.forms();
        let forms = if in_place { Forms::IN_PLACE } else { Forms::OUT_OF_PLACE };
        (one && other).then(|| Self(self.to_builder().forms(forms).build()))
    }
}

/// Everything there is to say about `program`; nothing if it is right.
#[must_use]
pub fn check(program: &Program, network: Option<&Network>) -> Report {
    let mut report = Report::default();
    let sound = structure::check(program, network, &mut report);
    let graph = EventGraph::new(program);
    let lanes = order::LaneIndex::new(program);
    let Some(order) = order::settle(program, &graph, &lanes, &mut report) else {
        return report;
    };
    turns::check(program, &graph, &mut report);
    let forms = program.forms();
    if !forms.in_place && !forms.out_of_place {
        report.push(Diagnostic::error(
            Finding::OutOfRange,
            "the program serves neither in-place nor out-of-place calls; set at least one",
        ));
    }
    if let Err(too_large) = budget::check_chunks(program) {
        report.push(too_large);
        return report;
    }
    let mut before = happens_before::HappensBefore::new(program, &graph, &lanes, &order);
    for in_place in [false, true] {
        let wanted = if in_place { forms.in_place } else { forms.out_of_place };
        if wanted {
            check_form(program, in_place, &sound, &order, &mut before, &mut report);
        }
    }
    report
}

fn check_form(
    program: &Program,
    in_place: bool,
    sound: &[bool],
    order: &order::EventOrder,
    before: &mut happens_before::HappensBefore<'_>,
    report: &mut Report,
) {
    let memory = match memory::Memory::new(program, in_place) {
        Ok(memory) => memory,
        Err(diagnostic) => return report.push(*diagnostic),
    };
    let run = execute::SymbolicRun { program, memory: &memory, sound, order };
    let mut watch = execute::Watch::new(&memory, before);
    let end = run.go(&mut watch, Some(report));
    let suspects = watch.into_suspects();
    if !suspects.is_empty() {
        races::check(&run, &suspects, &end, before, report);
    }
    if before.budget.is_spent() {
        report.push(before.budget.refusal(
            "telling whether accesses to the same chunk are ordered",
            "order them by lanes, or let each access wait for the one before it",
        ));
    }
    postcondition::check(program, &memory, &end, report);
}
