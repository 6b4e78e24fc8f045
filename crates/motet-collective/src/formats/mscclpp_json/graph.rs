//! What really happens before what in a plan: a graph over the events of its transfers and the
//! points where threads, blocks and GPUs meet.
//!
//! # The rule
//!
//! A threadblock is many threads. Each runs the operations in order, but they are together only
//! at a `nop` or `barrier`; what lies between two of these is a *phase*.
//! - A move is done by all threads: it starts after the last meeting and is done at the next one.
//!   Two moves of one phase are in no order, unless they have the same range to share out, when
//!   each element stays in one thread.
//! - The i-th channel or semaphore of an operation is handled by thread i alone, in order with
//!   what that thread did before in the phase. A `signal` therefore tells of the moves before the
//!   last meeting, not of those since; a `wait` holds back the moves after the next meeting.
//! - A posted move starts after the posting thread got there and arrives after those posted to
//!   the same channel before it. A signal over a port channel follows these.
//! - Relaxed signals order the steps of blocks but not what they see of memory.
//!
//! Edges are of two strengths. *Strong* ones order memory and become waits of the program; weak
//! ones only say that a step is not reached before another, and count for deadlock alone.

use std::collections::BTreeMap;

use motet_units::Rank;

use super::lanes::Numbered;
use super::steps::{Block, ChannelEnd, Counter, Moves, PlanStepKind, PlanSteps, Post, Touch};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::formats::Place;
use crate::program::{Slot, Transfer, TransferId};

/// A node: events of transfers first (by their index), then meeting points.
pub(super) type StepNode = u32;

/// What a node needs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepEdge {
    pub(super) node: StepNode,
    pub(super) before: StepNode,
    pub(super) strong: bool,
}

/// One touch of a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    pub(super) node: StepNode,
    pub(super) block: u32,
    pub(super) phase: u32,
    pub(super) thread: u32,
    pub(super) relaxed: bool,
    pub(super) place: Place,
}

/// The graph, and what is needed to match raises with takes.
#[derive(Debug, Default)]
pub(super) struct StepGraph {
    pub(super) events: u32,
    pub(super) nodes: u32,
    pub(super) edges: Vec<StepEdge>,
    pub(super) raises: BTreeMap<Counter, Vec<Touched>>,
    pub(super) takes: BTreeMap<Counter, Vec<Touched>>,
    /// By block: the meeting that ends each phase.
    pub(super) ends: Vec<Vec<StepNode>>,
    /// Posts of packets, and the meeting of all threads once they have seen these.
    pub(super) seen: BTreeMap<TransferId, StepNode>,
    /// Where a node that is no event stands.
    places: Vec<Place>,
    barriers: BTreeMap<(Rank, u32), Barriers>,
}

/// The uses of one barrier id at a rank.
#[derive(Debug, Default)]
struct Barriers {
    /// By block: (blocks it says meet, the node before, the node after, place).
    uses: BTreeMap<u32, Vec<(u32, StepNode, StepNode, Place)>>,
}

impl StepGraph {
    pub(super) fn new(steps: &PlanSteps, numbered: &Numbered, report: &mut Report) -> Self {
        let events = numbered.transfers.len() as u32 * 2;
        let mut graph = Self { events, nodes: events, ..Self::default() };
        for id in (0..numbered.transfers.len()).map(TransferId::from_index) {
            graph.edge(event(id.arrived()), event(id.sent()), true);
        }
        for (index, block) in steps.blocks.iter().enumerate() {
            let ends = Walk::new(&mut graph, index as u32, block).run(&numbered.of_step[index]);
            graph.ends.push(ends);
        }
        graph.join_barriers(report);
        graph
    }

    pub(super) fn place(&self, node: StepNode) -> Option<Place> {
        self.places.get(node.checked_sub(self.events)? as usize).copied()
    }

    pub(super) fn edge(&mut self, node: StepNode, before: StepNode, strong: bool) {
        self.edges.push(StepEdge { node, before, strong });
    }

    fn node(&mut self, place: Place) -> StepNode {
        self.places.push(place);
        self.nodes += 1;
        self.nodes - 1
    }

    /// The k-th use of a barrier in each of its blocks is one meeting.
    fn join_barriers(&mut self, report: &mut Report) {
        for ((rank, id), barriers) in std::mem::take(&mut self.barriers) {
            let mut wrong = |message: String, place: Place| {
                let at =
                    format!("gpu {rank}, threadblock {}, operation {}", place.block, place.step);
                report.push(Diagnostic::error(Finding::Deadlock, message).from_origin(at));
            };
            let blocks = barriers.uses.len() as u32;
            let rounds = barriers.uses.values().map(Vec::len).max().unwrap_or(0);
            for uses in barriers.uses.values() {
                let (said, _, _, place) = uses[0];
                if uses.iter().any(|it| it.0 != blocks) {
                    wrong(
                        format!("barrier {id} is for {said} threadblocks and {blocks} use it"),
                        place,
                    );
                } else if uses.len() != rounds {
                    let here = uses.len();
                    wrong(
                        format!(
                            "barrier {id} is met {here} times here and {rounds} times elsewhere"
                        ),
                        place,
                    );
                }
            }
            for round in 0..rounds {
                let uses: Vec<_> = barriers.uses.values().filter_map(|it| it.get(round)).collect();
                let Some((_, _, _, place)) = uses.first() else { continue };
                let meeting = self.node(*place);
                for (_, before, after, _) in uses {
                    self.edge(meeting, *before, true);
                    self.edge(*after, meeting, true);
                }
            }
        }
    }
}

pub(super) const fn event(event: crate::program::Event) -> StepNode {
    event.index() as StepNode
}

/// A walk through one block.
struct Walk<'a> {
    graph: &'a mut StepGraph,
    index: u32,
    block: &'a Block,
    /// The last meeting.
    start: StepNode,
    phase: u32,
    ends: Vec<StepNode>,
    /// What must be done at the next meeting, and how strongly.
    open: Vec<(StepNode, bool)>,
    /// The last thing each thread did by itself in this phase.
    threads: BTreeMap<u32, StepNode>,
    /// The last move of this phase: later ones are not done before it is.
    last_move: Option<StepNode>,
    /// The moves of this phase by what they write and read.
    shared: Shared,
    /// What was posted to each channel and nothing later to it is known to follow.
    posted: BTreeMap<ChannelEnd, Vec<Posted>>,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    id: TransferId,
    phase: u32,
    thread: u32,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a mut StepGraph, index: u32, block: &'a Block) -> Self {
        let place = Place { rank: block.rank, block: block.id, step: 0, line: None };
        let start = graph.node(place);
        Self {
            graph,
            index,
            block,
            start,
            phase: 0,
            ends: Vec::new(),
            open: Vec::new(),
            threads: BTreeMap::new(),
            last_move: None,
            shared: Shared::default(),
            posted: BTreeMap::new(),
        }
    }

    fn run(mut self, of_step: &[Vec<TransferId>]) -> Vec<StepNode> {
        let block = self.block;
        for (step, ids) in block.steps.iter().zip(of_step) {
            match &step.kind {
                PlanStepKind::Sync => self.meet(step.place, None),
                PlanStepKind::Barrier { id, blocks } => self.meet(step.place, Some((*id, *blocks))),
                PlanStepKind::Moves(moves) => self.moves(ids, moves),
                PlanStepKind::Posts(posts) => self.posts(posts, ids, step.place),
                PlanStepKind::Raise(touches) => self.raise(touches, step.place),
                PlanStepKind::Take(touches) => self.take(touches, step.place),
            }
        }
        let place =
            Place { rank: block.rank, block: block.id, step: block.steps.len() as u32, line: None };
        self.meet(place, None);
        self.ends
    }

    /// All threads meet; with a barrier, those of other blocks too.
    fn meet(&mut self, place: Place, barrier: Option<(u32, u32)>) {
        let met = self.graph.node(place);
        // Everything in a phase follows its start, so that the start itself need not be named
        // where something strong is open.
        if !self.open.iter().any(|(_, strong)| *strong) {
            self.graph.edge(met, self.start, true);
        }
        for (node, strong) in self.open.drain(..) {
            self.graph.edge(met, node, strong);
        }
        self.ends.push(met);
        self.start = met;
        if let Some((id, blocks)) = barrier {
            let after = self.graph.node(place);
            let uses = &mut self.graph.barriers.entry((self.block.rank, id)).or_default().uses;
            uses.entry(self.index).or_default().push((blocks, met, after, place));
            self.graph.edge(after, met, true);
            self.start = after;
        }
        self.phase += 1;
        self.threads.clear();
        self.last_move = None;
        self.shared = Shared::default();
    }

    fn moves(&mut self, ids: &[TransferId], moves: &Moves) {
        let mut before: Option<TransferId> = None;
        for (id, what) in ids.iter().zip(&moves.moves) {
            self.shared.add(*id, &what.transfer, moves.packets, self.graph);
            match before.filter(|_| moves.chained) {
                Some(before) => self.graph.edge(event(id.sent()), event(before.arrived()), true),
                None => self.graph.edge(event(id.sent()), self.start, true),
            }
            let done = event(id.arrived());
            // No thread is through before it has done what comes earlier.
            for last in self.threads.values().copied().chain(self.last_move) {
                self.graph.edges.push(StepEdge { node: done, before: last, strong: false });
            }
            self.last_move = Some(done);
            self.open.push((done, true));
            before = Some(*id);
        }
    }

    /// The next thing that thread `thread` does by itself.
    fn own(&mut self, thread: usize, place: Place) -> StepNode {
        let node = self.graph.node(place);
        self.graph.edge(node, self.start, true);
        if let Some(last) = self.threads.insert(thread as u32, node) {
            self.graph.edge(node, last, true);
        }
        node
    }

    fn posts(&mut self, posts: &[Post], ids: &[TransferId], place: Place) {
        for (thread, (post, id)) in posts.iter().zip(ids).enumerate() {
            let node = self.own(thread, place);
            self.open.push((node, true));
            self.graph.edge(event(id.sent()), node, true);
            if post.what.reads_packets {
                self.graph.seen.insert(*id, self.start);
            }
            let posted = Posted { id: *id, phase: self.phase, thread: thread as u32 };
            let earlier = self.posted.entry(post.end).or_default();
            let (before, beside): (Vec<Posted>, Vec<Posted>) = earlier
                .drain(..)
                .partition(|it| it.phase < posted.phase || it.thread == posted.thread);
            for it in &before {
                self.graph.edges.push(strong(event(id.sent()), event(it.id.sent())));
                self.graph.edges.push(strong(event(id.arrived()), event(it.id.arrived())));
            }
            *earlier = beside;
            earlier.push(posted);
            if let Some(counter) = post.signal {
                let signal = self.graph.node(place);
                self.graph.edge(signal, node, true);
                self.graph.edge(signal, event(id.arrived()), true);
                self.touched(counter, signal, thread, false, place, true);
            }
            if post.flush {
                let flushed = self.own(thread, place);
                self.graph.edge(flushed, event(id.arrived()), true);
                self.open.push((flushed, true));
            }
        }
    }

    fn raise(&mut self, touches: &[Touch], place: Place) {
        for (thread, touch) in touches.iter().enumerate() {
            let mut node = self.own(thread, place);
            self.open.push((node, true));
            let posted = touch.end.and_then(|it| self.posted.get(&it)).cloned().unwrap_or_default();
            let (phase, thread_id) = (self.phase, thread as u32);
            let behind = posted.iter().filter(|it| it.phase < phase || it.thread == thread_id);
            let behind: Vec<StepNode> = behind.map(|it| event(it.id.arrived())).collect();
            if !behind.is_empty() {
                // The proxy signals, behind the data; the thread goes on.
                let signal = self.graph.node(place);
                self.graph.edge(signal, node, true);
                for arrived in behind {
                    self.graph.edge(signal, arrived, true);
                }
                node = signal;
            }
            self.touched(touch.counter, node, thread, touch.relaxed, place, true);
        }
    }

    fn take(&mut self, touches: &[Touch], place: Place) {
        for (thread, touch) in touches.iter().enumerate() {
            let node = self.own(thread, place);
            // What the next meeting learns from it comes by way of the counter.
            self.open.push((node, false));
            self.touched(touch.counter, node, thread, touch.relaxed, place, false);
        }
    }

    fn touched(
        &mut self,
        counter: Counter,
        node: StepNode,
        thread: usize,
        relaxed: bool,
        place: Place,
        raise: bool,
    ) {
        let (block, phase) = (self.index, self.phase);
        let touched = Touched { node, block, phase, thread: thread as u32, relaxed, place };
        let list = if raise { &mut self.graph.raises } else { &mut self.graph.takes };
        list.entry(counter).or_default().push(touched);
    }
}

/// A range as threads share it out: where, how much, in packets or vectors.
type Share = (Slot, u32, bool);

/// Who wrote and read each range in a phase. Of two moves that share out the same range in the
/// same way, each thread does its own elements in order.
#[derive(Debug, Default)]
struct Shared {
    writes: BTreeMap<Share, TransferId>,
    /// Since the last write.
    reads: BTreeMap<Share, Vec<TransferId>>,
}

impl Shared {
    fn add(&mut self, id: TransferId, transfer: &Transfer, packets: bool, graph: &mut StepGraph) {
        let read: Share = (transfer.src, transfer.count, packets);
        let write: Share = (transfer.dst, transfer.count, packets);
        let readers = self.reads.remove(&write).unwrap_or_default();
        let writers = [self.writes.get(&read), self.writes.get(&write)];
        for earlier in readers.iter().chain(writers.into_iter().flatten()) {
            graph.edge(event(id.sent()), event(earlier.arrived()), true);
        }
        self.writes.insert(write, id);
        self.reads.entry(read).or_default().push(id);
    }
}

const fn strong(node: StepNode, before: StepNode) -> StepEdge {
    StepEdge { node, before, strong: true }
}
