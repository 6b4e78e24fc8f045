//! Reading an MSCCL++ plan, from its text to a program: [`read`] calls the steps one after the other.
//!
//! The operations of each threadblock are looked up and taken apart into moves of data and signals
//! ([`resolve`], [`super::operations`]), put into a graph of what happens before what
//! ([`super::graph`]), and the graph becomes the waits of the program ([`waits`]).

use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank};

use super::graph::StepGraph;
use super::lanes::Numbered;
use super::model::{self, ExecutionPlan};
use super::resolve::{self, Context};
use super::steps::PlanSteps;
use super::{collective, counters, ending, limits, packets, pipeline, waits};
use crate::collective::{Collective, CollectiveKind, MAX_RANKS};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::formats::{Imported, Origins};
use crate::program::{Event, Forms, Hints, Program, ProgramBuilder, Protocol};
use crate::verify;

/// Chunks of all buffers beyond which a plan is not judged: reading must not cost much memory.
const MAX_CELLS: u64 = 1 << 22;

/// Reads an MSCCL++ execution plan.
///
/// An error if the text is no plan at all; whatever is wrong inside it is in the report of what is
/// returned, all of it. Plans for collectives that Motet does not know, and operations that work
/// in a switch, are reported as not judged.
pub fn read(text: &str) -> Result<Imported, ReadError> {
    let plan = model::parse(text)?;
    if plan.gpus.is_empty() || plan.gpus.len() > MAX_RANKS as usize {
        return Err(ReadError::new(format!(
            "a plan has 1 to {MAX_RANKS} gpus, not {}",
            plan.gpus.len()
        )));
    }
    let mut report = Report::default();
    limits::check(&plan, limits::LARGEST, &mut report);
    let Some(parts) = collective::refinement(&plan, &mut report) else {
        return nothing(&plan, report);
    };
    let known = collective::collective(&plan, parts, &mut report);
    let context = Context { plan: &plan, parts, collective: known.as_ref() };
    let steps = resolve::resolve(&context, &mut report);
    pipeline::check(&context, &steps, &mut report);
    let known = match known {
        Some(it) if it.kind() == CollectiveKind::SendRecv => {
            collective::send_recv(&it, &steps, &mut report)
        }
        other => other,
    };
    let numbered = Numbered::new(&steps);
    let mut graph = StepGraph::new(&steps, &numbered, &mut report);
    counters::join(&mut graph, &steps, &mut report);
    packets::join(&mut graph, &numbered, plan.gpus.len(), &mut report);
    let sorted = waits::sort(&mut graph, &mut report);
    let doubled = plan.use_double_scratch_buffer;
    ending::check(&graph, &sorted, &numbered, &steps, doubled, &mut report);
    numbered.origins.fill(&mut report);
    let Some(known) = known else {
        return nothing(&plan, report);
    };
    let empty = empty_program(&plan, parts, &known, &steps);
    let laned = sorted.waits(&graph, Some(&numbered.lanes));
    let loose = sorted.waits(&graph, None);
    let (Ok(laned), Ok(loose)) = (&laned, &loose) else {
        for diagnostic in [laned.err(), loose.err()].into_iter().flatten() {
            report.push(*diagnostic);
        }
        return nothing(&plan, report);
    };
    let loose = build(&empty, &numbered, loose, false);
    let program = build(&empty, &numbered, laned, true).without_implied_waits();
    missing_meetings(&program, &loose, &mut report);
    let largest = limits::largest_size(&program).get();
    if plan.max_message_size > largest {
        let message = format!(
            "calls of more than {largest} bytes are not refused (`max_message_size`), but give wrong \
             results: the executor's offsets have 32 bits"
        );
        report.push(Diagnostic::warning(Finding::Limit, message));
    }
    numbered.origins.fill(&mut report);
    Ok(Imported { program, origins: numbered.origins, report })
}

/// What is returned where there is nothing to judge: no transfer, and a report that says why.
fn nothing(plan: &ExecutionPlan, report: Report) -> Result<Imported, ReadError> {
    let ranks = vec![None; plan.gpus.len()];
    let collective =
        Collective::send_recv(1, ranks).map_err(|it| ReadError::new(it.to_string()))?;
    let program = ProgramBuilder::new(&plan.name, collective).build();
    Ok(Imported { program, origins: Origins::new("operation"), report })
}

fn empty_program(
    plan: &ExecutionPlan,
    parts: u32,
    collective: &Collective,
    steps: &PlanSteps,
) -> ProgramBuilder {
    let forms = if plan.inplace { Forms::IN_PLACE } else { Forms::OUT_OF_PLACE };
    let hints = Hints {
        protocol: if plan.protocol == "LL" { Protocol::Ll } else { Protocol::Simple },
        min_size: Bytes::new(plan.min_message_size),
        max_size: (plan.max_message_size != u64::MAX).then(|| Bytes::new(plan.max_message_size)),
    };
    let mut builder = ProgramBuilder::new(&plan.name, collective.clone()).forms(forms).hints(hints);
    let ranks = steps.blocks.iter().map(|it| it.rank);
    for rank in ranks {
        let chunks = plan.gpus[rank.index()].scratch_chunks.saturating_mul(parts);
        builder.set_scratch(rank, chunks);
    }
    for (rank, chunks) in steps.switch.iter().enumerate() {
        builder.set_switch(Rank::from_index(rank), *chunks);
    }
    builder
}

fn build(
    empty: &ProgramBuilder,
    numbered: &Numbered,
    waits: &[(Event, Event)],
    lanes: bool,
) -> Program {
    let mut builder = empty.clone();
    for transfer in &numbered.transfers {
        builder.add(*transfer);
    }
    for (event, awaited) in waits {
        builder.wait(*event, *awaited);
    }
    if lanes {
        builder.set_lanes(numbered.lanes.clone());
    }
    builder.build()
}

/// Reports races that are there only because threads of a block run apart: they are in the program
/// without lanes, where only real order counts, and not in the one with them.
fn missing_meetings(program: &Program, loose: &Program, report: &mut Report) {
    let collective = program.collective();
    let chunks = |rank| {
        let buffers = [collective.input_chunks(rank), collective.output_chunks(rank)];
        let own = [program.scratch_chunks(rank), program.switch_chunks(rank)];
        buffers.into_iter().chain(own).map(u64::from).sum::<u64>()
    };
    if (0..collective.ranks()).map(Rank).map(chunks).sum::<u64>() > MAX_CELLS {
        let message = format!("a plan of more than {MAX_CELLS} chunks in all is not looked at");
        return report.push(Diagnostic::error(Finding::TooLarge, message));
    }
    let found = verify::check(loose, None);
    if !found.has(Finding::Race) {
        return;
    }
    let known = verify::check(program, None);
    for race in found.diagnostics().iter().filter(|it| it.finding == Finding::Race) {
        if !known.diagnostics().contains(race) {
            let message = format!(
                "{}; the threads of a block are together only at a `nop` or `barrier`, and one is missing",
                race.message
            );
            report.push(Diagnostic { message, ..race.clone() });
        }
    }
}
