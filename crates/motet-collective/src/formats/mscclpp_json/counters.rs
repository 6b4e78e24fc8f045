//! Signals against waits, releases against acquires.
//!
//! A counter is raised and waited for any number of times. The k-th wait of a block is over only
//! when the counter has been raised k times less what it held at the start. Which raises these
//! were is clear if one block does them all: the first ones. If several do, a given raise must be
//! among them when all the others that need not come after it are too few.

use std::collections::BTreeMap;

use super::graph::{StepGraph, StepNode, Touched};
use super::steps::PlanSteps;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::formats::Place;

/// Comparisons of raises with waits that a plan may cost; beyond any real one.
const MAX_WORK: u64 = 1 << 26;

/// Adds the edges from raises to waits to `graph`; reports counts that do not agree.
pub(super) fn join(graph: &mut StepGraph, steps: &PlanSteps, report: &mut Report) {
    let raises = std::mem::take(&mut graph.raises);
    let takes = std::mem::take(&mut graph.takes);
    let mut work = 0;
    for (counter, takes) in &takes {
        let none = Vec::new();
        let raises = raises.get(counter).unwrap_or(&none);
        let start = steps.counters.get(counter).copied().unwrap_or(0);
        balance(&counter.to_string(), start, raises, takes, report);
        work += raises.len() as u64 * takes.len() as u64;
        if work > MAX_WORK {
            let message = format!("too many uses of {counter} and others to match");
            return report.push(Diagnostic::error(Finding::TooLarge, message));
        }
        Matching::new(start, raises).join(takes, graph);
    }
    for (counter, raises) in raises.iter().filter(|(it, _)| !takes.contains_key(it)) {
        let first = raises.first().map(|it| it.place);
        let message = format!("nothing waits for {counter}");
        warn(message, first, report);
    }
}

fn at(place: Place) -> String {
    format!("gpu {}, threadblock {}, operation {}", place.rank, place.block, place.step)
}

fn warn(message: String, place: Option<Place>, report: &mut Report) {
    let diagnostic = Diagnostic::warning(Finding::UnmatchedSend, message);
    report.push(match place {
        Some(place) => diagnostic.from_origin(at(place)),
        None => diagnostic,
    });
}

/// Reports a counter that is waited for too often, or that a second call would find changed.
fn balance(name: &str, start: i64, raises: &[Touched], takes: &[Touched], report: &mut Report) {
    let (raised, taken) = (raises.len() as i64, takes.len() as i64);
    let there = (start + raised).max(0);
    if taken > there {
        let message =
            format!("waits {taken} times for {name}, which is raised {raised} times from {start}");
        let first = takes.get(there as usize).or(takes.last());
        let diagnostic = Diagnostic::error(Finding::Deadlock, message);
        report.push(match first {
            Some(it) => diagnostic.from_origin(at(it.place)),
            None => diagnostic,
        });
    } else if raised != taken {
        let message = format!(
            "{name} is raised {raised} times and waited for {taken} times: a second call finds it changed"
        );
        warn(message, raises.first().map(|it| it.place), report);
    }
}

/// The raises of one counter.
struct Matching<'a> {
    start: i64,
    total: i64,
    /// By block: each raise, and how many of the block's raises cannot come before it.
    blocks: BTreeMap<u32, Vec<(&'a Touched, i64)>>,
}

impl<'a> Matching<'a> {
    fn new(start: i64, raises: &'a [Touched]) -> Self {
        let mut by_block: BTreeMap<u32, Vec<&Touched>> = BTreeMap::new();
        for raise in raises {
            by_block.entry(raise.block).or_default().push(raise);
        }
        let mut blocks = BTreeMap::new();
        for (block, list) in by_block {
            let mut counted = Vec::with_capacity(list.len());
            // From the end: those in later phases, and those later in the same phase and thread.
            let (mut later, mut phase, mut in_phase) = (0, u32::MAX, 0);
            let mut threads: BTreeMap<u32, i64> = BTreeMap::new();
            for raise in list.into_iter().rev() {
                if raise.phase != phase {
                    (later, phase, in_phase) = (later + in_phase, raise.phase, 0);
                    threads.clear();
                }
                in_phase += 1;
                let same = threads.entry(raise.thread).or_insert(0);
                *same += 1;
                counted.push((raise, later + *same));
            }
            blocks.insert(block, counted);
        }
        Self { start, total: raises.len() as i64, blocks }
    }

    /// Adds the edges into each wait, and into the meetings that end their phases.
    fn join(&self, takes: &[Touched], graph: &mut StepGraph) {
        let mut by_block: BTreeMap<u32, Vec<&Touched>> = BTreeMap::new();
        for take in takes {
            by_block.entry(take.block).or_default().push(take);
        }
        for (block, list) in by_block {
            let mut before = 0;
            for phase in list.chunk_by(|a, b| a.phase == b.phase) {
                let mut threads: BTreeMap<u32, i64> = BTreeMap::new();
                for take in phase {
                    let own = threads.entry(take.thread).or_insert(0);
                    *own += 1;
                    self.edges(before + *own, take.node, !take.relaxed, graph);
                }
                let strong = phase.iter().filter(|it| !it.relaxed).count() as i64;
                let end = graph.ends[block as usize].get(phase[0].phase as usize).copied();
                if let Some(end) = end.filter(|_| strong > 0) {
                    self.edges(before + strong, end, true, graph);
                }
                before += phase.len() as i64;
            }
        }
    }

    /// Edges from the raises that must have been when the counter was waited for `times` times.
    fn edges(&self, times: i64, node: StepNode, strong: bool, graph: &mut StepGraph) {
        let needed = (times - self.start).min(self.total);
        if needed <= 0 {
            return;
        }
        for raises in self.blocks.values() {
            // Latest first; the phase of the first that must have been says enough, since all of
            // it follows what is earlier.
            let must = || raises.iter().filter(|(_, after)| *after > self.total - needed);
            if let Some((latest, _)) = must().next() {
                for (raise, _) in must().take_while(|(it, _)| it.phase == latest.phase) {
                    graph.edge(node, raise.node, false);
                }
            }
            let visible = || must().filter(|(it, _)| !it.relaxed);
            if let Some((latest, _)) = visible().next().filter(|_| strong) {
                for (raise, _) in visible().take_while(|(it, _)| it.phase == latest.phase) {
                    graph.edge(node, raise.node, true);
                }
            }
        }
    }
}
