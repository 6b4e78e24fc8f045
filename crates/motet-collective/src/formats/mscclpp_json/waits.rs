//! The last step of reading a plan: from the graph of what happens before what to waits between the
//! program's events.
//!
//! The graph also has nodes that are no events (the points where threads, blocks and GPUs meet). An
//! event waits for the nearest events before it, on all ways through such nodes.

use std::collections::BTreeSet;

use motet_graph::{Followers, Rows};

use super::graph::{StepEdge, StepGraph, StepNode};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Event, Lane};

/// Events named in all the sets of nearest events; beyond any real plan.
const MAX_NEAREST: usize = 1 << 24;

/// A topological order of the nodes and what each needs.
#[derive(Debug)]
pub(super) struct Sorted {
    edges: Rows<StepEdge>,
    sequence: Vec<StepNode>,
}

/// Sorts the graph; reports steps that wait for one another.
pub(super) fn sort(graph: &mut StepGraph, report: &mut Report) -> Sorted {
    let mut edges = std::mem::take(&mut graph.edges);
    edges.sort_unstable();
    edges.dedup();
    let nodes = graph.nodes as usize;
    let sequence = Followers::of(nodes, edges.iter().map(|it| (it.node, it.before))).topological();
    let edges = Rows::group(nodes, edges.iter().map(|it| (it.node as usize, *it)));
    let sorted = Sorted { edges, sequence };
    if sorted.sequence.len() < nodes {
        report_cycle(graph, &sorted, report);
    }
    sorted
}

/// One diagnostic for a knot of steps: where to look.
fn report_cycle(graph: &StepGraph, sorted: &Sorted, report: &mut Report) {
    const SHOWN: usize = 6;
    let mut happens = vec![false; graph.nodes as usize];
    for node in &sorted.sequence {
        happens[*node as usize] = true;
    }
    let stuck = |node: StepNode| !happens[node as usize];
    let before =
        |node: StepNode| sorted.before(node).iter().map(|it| it.before).find(|it| stuck(*it));
    let Some(mut at) = (0..graph.nodes).find(|it| stuck(*it)) else { return };
    // Every stuck node has a stuck one before it: walking back ends in the knot.
    for _ in 0..graph.nodes {
        at = before(at).unwrap_or(at);
    }
    let first = at;
    let mut places = Vec::new();
    let mut seen = BTreeSet::new();
    loop {
        if let Some(place) = graph.place(at).filter(|it| seen.insert(*it)) {
            places.push(place);
        }
        match before(at) {
            Some(node) if node != first => at = node,
            _ => break,
        }
    }
    let text = |it: &crate::formats::Place| {
        format!("gpu {}, threadblock {}, operation {}", it.rank, it.block, it.step)
    };
    let mut words: Vec<String> = places.iter().take(SHOWN).map(text).collect();
    if places.len() > SHOWN {
        words.push(format!("{} more", places.len() - SHOWN));
    }
    // A knot of data alone is found and described by the verifier.
    if !words.is_empty() {
        let message = format!("operations wait for one another: {}", words.join("; which needs "));
        report.push(Diagnostic::error(Finding::Deadlock, message));
    }
}

impl Sorted {
    fn before(&self, node: StepNode) -> &[StepEdge] {
        self.edges.row(node as usize)
    }

    /// The nodes from which strong edges lead to one of `nodes`, and these: what they see in memory.
    pub(super) fn seen_by(&self, nodes: Vec<StepNode>) -> Vec<bool> {
        self.reached(nodes, |it| it.strong)
    }

    /// The same by all edges: what is over when they are reached.
    pub(super) fn over_before(&self, nodes: Vec<StepNode>) -> Vec<bool> {
        self.reached(nodes, |_| true)
    }

    fn reached(&self, mut nodes: Vec<StepNode>, by: impl Fn(&StepEdge) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.edges.count()];
        for node in &nodes {
            reached[*node as usize] = true;
        }
        while let Some(node) = nodes.pop() {
            for edge in self.before(node).iter().filter(|it| by(it)) {
                if !std::mem::replace(&mut reached[edge.before as usize], true) {
                    nodes.push(edge.before);
                }
            }
        }
        reached
    }

    /// The waits of each event, as (event, awaited). With `lanes` only the latest of each lane is
    /// named; without, all of them are, and nothing depends on lanes.
    pub(super) fn waits(
        &self,
        graph: &StepGraph,
        lanes: Option<&[Lane]>,
    ) -> Result<Vec<(Event, Event)>, Box<Diagnostic>> {
        let events = graph.events as usize;
        let mut lane_of = vec![(u32::MAX, 0u32); if lanes.is_some() { events } else { 0 }];
        for (index, lane) in lanes.unwrap_or_default().iter().enumerate() {
            for (place, event) in lane.events.iter().enumerate() {
                lane_of[event.index()] = (index as u32, place as u32);
            }
        }
        let mut nearest: Vec<Vec<u32>> = vec![Vec::new(); graph.nodes as usize];
        let mut waits = Vec::new();
        let mut named = 0;
        for node in &self.sequence {
            let mut found: Vec<u32> = Vec::new();
            for edge in self.before(*node).iter().filter(|it| it.strong) {
                if edge.before < graph.events {
                    found.push(edge.before);
                } else {
                    found.extend_from_slice(&nearest[edge.before as usize]);
                }
            }
            found.sort_unstable();
            found.dedup();
            if lanes.is_some() {
                latest_of_lanes(&mut found, &lane_of);
            }
            named += found.len();
            if named > MAX_NEAREST {
                let message = "too many operations wait for too many others to be judged";
                return Err(Box::new(Diagnostic::error(Finding::TooLarge, message)));
            }
            if *node < graph.events {
                let event = Event::from_index(*node as usize);
                let others = found.iter().map(|it| Event::from_index(*it as usize));
                let own = if event.is_sent() { None } else { Some(event.transfer().sent()) };
                waits.extend(others.filter(|it| Some(*it) != own).map(|it| (event, it)));
            } else {
                nearest[*node as usize] = found;
            }
        }
        Ok(waits)
    }
}

/// Keeps the latest event of each lane.
fn latest_of_lanes(found: &mut Vec<u32>, lane_of: &[(u32, u32)]) {
    found.sort_unstable_by_key(|it| lane_of[*it as usize]);
    let mut kept: Vec<u32> = Vec::with_capacity(found.len());
    for event in found.iter() {
        match kept.last_mut() {
            Some(last) if lane_of[*last as usize].0 == lane_of[*event as usize].0 => *last = *event,
            _ => kept.push(*event),
        }
    }
    *found = kept;
}
