//! What the steps of an MSCCL XML file wait for.
//!
//! As the runtime does it: after a step with `hasdep` a threadblock publishes the step's number,
//! and a wait for step d of a threadblock ends when the published number is d or more. So the
//! wait is for the first step from d on that publishes. A `nop` does nothing and publishes
//! nothing; its wait belongs to the next real step. The runtime counts published numbers itself,
//! one for each real step and each further wait of it, which is the step's index as long as every
//! `nop` waits for something.

use std::collections::BTreeMap;

use super::limits::MAX_FUSED_REDUCTIONS;
use super::parse::{XmlStep, XmlStepKind};
use super::read::{XmlReader, text};
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::Event;

/// One wait of a step, as the file says it.
struct Need {
    block: usize,
    step: usize,
    awaited: (i64, i64),
}

/// What a threadblock publishes, in order.
struct Published {
    number: i64,
    step: usize,
    /// The last event up to and including the step.
    event: Option<Event>,
}

/// A threadblock's events around its steps, and its flags.
#[derive(Default)]
struct Flags {
    published: Vec<Published>,
    /// The first event at or after each step.
    next_event: Vec<Option<Event>>,
}

/// Every wait of the file as (event, awaited); `events` has the events of each half.
pub(super) fn find(
    reader: &mut XmlReader<'_>,
    events: &[[Option<Event>; 2]],
) -> Vec<(Event, Event)> {
    let mut needs = Vec::new();
    let mut flags = Vec::with_capacity(reader.blocks.len());
    for block in 0..reader.blocks.len() {
        flags.push(walk(reader, block, events, &mut needs));
        fused_reductions(reader, block);
    }
    let mut by_id = BTreeMap::new();
    for (index, block) in reader.blocks.iter().enumerate() {
        by_id.entry((block.rank, block.source.id)).or_insert(index);
    }
    let mut waits = Vec::new();
    for need in needs {
        let rank = reader.blocks[need.block].rank;
        let Some(other) = by_id.get(&(rank, need.awaited.0)) else {
            let message = format!("waits for threadblock {}, which does not exist", need.awaited.0);
            let place = reader.place(need.block, need.step);
            reader.error(Finding::BadWait, &message, place);
            continue;
        };
        let awaited = resolve(reader, &need, *other, &flags[*other]);
        if let (Some(event), Some(awaited)) = (flags[need.block].next_event[need.step], awaited) {
            waits.push((event, awaited));
        }
    }
    waits
}

/// Collects the waits of one threadblock, each with the real step it belongs to, and its flags.
fn walk(
    reader: &mut XmlReader<'_>,
    block: usize,
    events: &[[Option<Event>; 2]],
    needs: &mut Vec<Need>,
) -> Flags {
    let (source, first) = (reader.blocks[block].source, reader.blocks[block].first_half);
    let halves = &reader.halves[first..reader.blocks[block].end_half];
    let mut flags = Flags::default();
    let mut starts = Vec::with_capacity(source.steps.len());
    let mut half = 0;
    let mut last_event = None;
    let mut number = 0i64;
    let mut pending: Vec<(i64, i64)> = Vec::new();
    let mut found = Vec::new();
    for (index, step) in source.steps.iter().enumerate() {
        starts.push(half);
        while halves.get(half).is_some_and(|it| it.step as usize == index) {
            last_event = events[first + half].iter().flatten().last().copied().or(last_event);
            half += 1;
        }
        pending.extend(Some(step.awaited).filter(|it| it.0 >= 0));
        if step.kind == XmlStepKind::Nop {
            found.extend(wrong_nop(step).map(|message| (index, message)));
            continue;
        }
        if !pending.is_empty() && step.awaited.0 < 0 {
            let message = "follows a nop that waits, but waits for nothing itself; the runtime \
                           refuses this: move the last nop's wait here";
            found.push((index, Diagnostic::error(Finding::BadWait, message)));
        }
        number += (pending.len() as i64 - 1).max(0);
        needs.extend(pending.drain(..).map(|awaited| Need { block, step: index, awaited }));
        match step.flag {
            0 => {}
            1 => flags.published.push(Published { number, step: index, event: last_event }),
            other => {
                let message = format!("hasdep=\"{other}\" is neither 0 nor 1");
                found.push((index, Diagnostic::error(Finding::OutOfRange, message)));
            }
        }
        number += 1;
    }
    if !pending.is_empty() {
        let message = "the last nops of the threadblock wait, but no step follows them; runtimes \
                       pass over them";
        let last = source.steps.len() - 1;
        found.push((last, Diagnostic::warning(Finding::BadWait, message)));
    }
    flags.next_event = next_events(&starts, &events[first..first + halves.len()]);
    for (step, diagnostic) in found {
        let origin = text(reader.place(block, step));
        reader.report.push(diagnostic.from_origin(origin));
    }
    flags
}

/// For each step the first event from its first half on.
fn next_events(starts: &[usize], events: &[[Option<Event>; 2]]) -> Vec<Option<Event>> {
    let mut next = vec![None; events.len() + 1];
    for half in (0..events.len()).rev() {
        next[half] = events[half][0].or(next[half + 1]);
    }
    starts.iter().map(|it| next[*it]).collect()
}

fn wrong_nop(step: &XmlStep) -> Option<Diagnostic> {
    if step.awaited.0 < 0 {
        let message = "a nop that waits for nothing is not counted by the runtime, so that the \
                       steps after it publish a number less than their own";
        return Some(Diagnostic::warning(Finding::BadWait, message));
    }
    (step.flag != 0).then(|| {
        let message = "a nop publishes nothing, whatever its hasdep says";
        Diagnostic::warning(Finding::BadWait, message)
    })
}

/// The event that ends the wait.
fn resolve(reader: &mut XmlReader<'_>, need: &Need, other: usize, flags: &Flags) -> Option<Event> {
    let (id, number) = need.awaited;
    let at = flags.published.partition_point(|it| it.number < number);
    let place = reader.place(need.block, need.step);
    let steps = reader.blocks[other].source.steps.len();
    let Some(published) = flags.published.get(at) else {
        let why = match usize::try_from(number) {
            Ok(it) if it < steps => "which publishes nothing, nor does any step after it",
            _ => "which does not exist",
        };
        let message =
            format!("waits for step {number} of threadblock {id}, {why}: it waits for ever");
        reader.error(Finding::BadWait, &message, place);
        return None;
    };
    if number < 0 {
        let message = format!("waits for step {number} of threadblock {id}, which does not exist");
        reader.error(Finding::BadWait, &message, place);
        return None;
    }
    if published.number != number {
        let message = format!(
            "waits for step {number} of threadblock {id}, which publishes nothing; step {} ends \
             the wait",
            published.step
        );
        let found = Diagnostic::warning(Finding::BadWait, message);
        reader.report.push(found.from_origin(text(place)));
    }
    published.event
}

/// The runtime does consecutive `re` steps into one place as one, with the count of the last.
fn fused_reductions(reader: &mut XmlReader<'_>, block: usize) {
    let steps = &reader.blocks[block].source.steps;
    let mut found = Vec::new();
    let mut chain: Option<(&XmlStep, usize)> = None;
    let mut reductions = 0;
    for (index, step) in steps.iter().enumerate() {
        match step.kind {
            XmlStepKind::Nop => continue,
            XmlStepKind::Reduce => {}
            _ => {
                chain = None;
                continue;
            }
        }
        reductions += 1;
        let joins = chain.filter(|(first, _)| {
            (first.dst, first.src.0) == (step.dst, step.src.0) && step.awaited.0 < 0
        });
        let (first, length) = joins.map_or((step, 1), |(first, length)| (first, length + 1));
        if first.count != step.count {
            let message = "the runtime fuses this re with the one before, which has another cnt";
            found.push((index, Finding::Mismatch, message.to_owned()));
        }
        if length == MAX_FUSED_REDUCTIONS + 1 {
            let message = format!(
                "the runtime fuses this re with those before, and has room for \
                 {MAX_FUSED_REDUCTIONS} in a row; set hasdep=\"1\" on one of them"
            );
            found.push((index, Finding::Limit, message));
        }
        // The runtime ends a chain at its first 16 reductions of the threadblock, not later ones.
        let ends = step.flag != 0 || reductions == MAX_FUSED_REDUCTIONS;
        chain = (!ends).then_some((first, length));
    }
    for (step, finding, message) in found {
        let place = reader.place(block, step);
        reader.error(finding, &message, place);
    }
}
