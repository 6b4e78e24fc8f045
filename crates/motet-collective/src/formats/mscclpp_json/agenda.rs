//! What each threadblock of a plan has to do and when: its steps in order, whom it waits for
//! before each and whom it tells after.
//!
//! Waits of a program between two lanes, without those that are implied, never cross: the k-th
//! signal from one block to another is for the k-th wait. So one counter for each pair of blocks
//! is enough.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::handshake;
use crate::diagnostic::{Diagnostic, Finding};
use crate::program::graph::EventGraph;
use crate::program::{Event, LaneKind, Program, TransferId};

/// A threadblock.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rank: Rank,
    pub(super) items: Vec<Item>,
    /// Port lanes whose signals are taken when all is done, and how often.
    pub(super) last_takes: Vec<(usize, usize)>,
    pub(super) call: Call,
}

/// What keeps one call apart from what runs before and after it: see [`super::handshake`]. All are
/// other blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// Told that this GPU has begun.
    pub(super) greets: BTreeSet<usize>,
    /// Must have begun before this block does anything.
    pub(super) greeted_by: BTreeSet<usize>,
    /// Told that this block is through with their GPU's memory.
    pub(super) leaves: BTreeSet<usize>,
    /// Must be through with this GPU's memory before it ends.
    pub(super) left_by: BTreeSet<usize>,
    /// Told that what they posted has come.
    pub(super) confirms: BTreeSet<usize>,
    /// Must say that what this block posted has come.
    pub(super) confirmed_by: BTreeSet<usize>,
}

impl Block {
    fn new(rank: Rank) -> Self {
        Self { rank, items: Vec::new(), last_takes: Vec::new(), call: Call::default() }
    }
}

/// One step of a threadblock.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: TransferId,
    /// The port lane it is posted to.
    pub(super) port: Option<usize>,
    /// Whether a step of the phase it is in must be over first.
    pub(super) follows: Vec<TransferId>,
    pub(super) takes: Vec<Take>,
    /// The blocks told when it is done; for a posted one the block at the other end.
    pub(super) tells: BTreeSet<usize>,
    /// Whether the block waits until what it posts is there.
    pub(super) flush: bool,
    /// The last of its port: the other end is told, whoever else is.
    pub(super) last: bool,
}

impl Item {
    /// Whether a signal goes behind what is posted.
    pub(super) fn signals(&self) -> bool {
        self.flush || self.last || !self.tells.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// A signal or release of another block.
    Block(usize),
    /// So many signals behind what was posted to a port lane of another GPU.
    Port { lane: usize, times: usize },
}

/// The blocks of a program, and for each port lane the block that its signals go to.
#[derive(Debug)]
pub(super) struct Agenda {
    pub(super) blocks: Vec<Block>,
    pub(super) receivers: BTreeMap<usize, usize>,
}

/// Where a transfer is: its lane and its place there.
type At = (usize, usize);

struct Maker<'a> {
    program: &'a Program,
    graph: EventGraph,
    at: Vec<At>,
    /// The block of each threadblock lane and port lane.
    block_of: Vec<usize>,
    agenda: Agenda,
}

pub(super) fn agenda(program: &Program) -> Result<Agenda, Box<Diagnostic>> {
    let mut at = vec![(usize::MAX, 0); program.transfers().len()];
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of = vec![usize::MAX; program.lanes().len()];
    for (index, lane) in program.lanes().iter().enumerate() {
        for (place, event) in lane.events.iter().filter(|it| it.is_sent()).enumerate() {
            at[event.transfer().index()] = (index, place);
        }
        block_of[index] = match lane.kind {
            LaneKind::Port { block } => block_of[block as usize],
            LaneKind::Block => {
                blocks.push(Block::new(lane.rank));
                blocks.len() - 1
            }
        };
    }
    // The executor runs a kernel on every GPU, so that each has a block, if only an idle one.
    for rank in (0..program.collective().ranks()).map(Rank) {
        if !blocks.iter().any(|it| it.rank == rank) {
            blocks.push(Block::new(rank));
        }
    }
    let agenda = Agenda { blocks, receivers: BTreeMap::new() };
    let graph = EventGraph::new(program);
    let mut maker = Maker { program, graph, at, block_of, agenda };
    maker.items();
    maker.meetings()?;
    maker.mark_last();
    maker.settle_ports();
    let mut agenda = maker.agenda;
    handshake::add(program, &mut agenda);
    Ok(agenda)
}

impl Maker<'_> {
    /// The steps of each block in order. A post stands before the first step that follows all it
    /// needs, where waiting for that holds nothing else back.
    fn items(&mut self) {
        for (index, lane) in self.program.lanes().iter().enumerate() {
            if lane.kind != LaneKind::Block {
                continue;
            }
            let own: Vec<TransferId> = sent(&lane.events).collect();
            let mut posts: Vec<(usize, usize, TransferId, usize)> = Vec::new();
            for (port, lane) in self.program.lanes().iter().enumerate() {
                if lane.kind != (LaneKind::Port { block: index as u32 }) {
                    continue;
                }
                // What a post needs, its channel's earlier ones need too.
                let (mut from, mut needed) = (0, 0);
                for id in sent(&lane.events) {
                    let needs = self.program.deps(id.sent());
                    needed += needs.len();
                    let tail = &own[from..];
                    from += tail.partition_point(|it| {
                        !needs.iter().all(|need| self.before(*need, it.sent()))
                    });
                    posts.push((from, needed, id, port));
                }
            }
            posts.sort();
            let mut posts = posts.into_iter().peekable();
            let mut items = Vec::new();
            for place in 0..=own.len() {
                while let Some((_, _, id, port)) = posts.next_if(|it| it.0 <= place) {
                    items.push(Item::new(id, Some(port)));
                }
                items.extend(own.get(place).map(|id| Item::new(*id, None)));
            }
            self.agenda.blocks[self.block_of[index]].items = items;
        }
    }

    /// Whether `a` happens before `b`, by a search back from `b`.
    fn before(&self, a: Event, b: Event) -> bool {
        let mut seen = vec![false; self.graph.events()];
        let mut stack = vec![b.index() as u32];
        while let Some(at) = stack.pop() {
            for pred in self.graph.preds(at as usize) {
                if *pred as usize == a.index() {
                    return true;
                }
                if !std::mem::replace(&mut seen[*pred as usize], true) {
                    stack.push(*pred);
                }
            }
        }
        false
    }

    /// Who waits for whom.
    fn meetings(&mut self) -> Result<(), Box<Diagnostic>> {
        let mut tells: BTreeMap<TransferId, BTreeSet<usize>> = BTreeMap::new();
        let mut flushes: BTreeSet<TransferId> = BTreeSet::new();
        for block in 0..self.agenda.blocks.len() {
            let mut known: BTreeMap<usize, usize> = BTreeMap::new();
            for item in 0..self.agenda.blocks[block].items.len() {
                let id = self.agenda.blocks[block].items[item].id;
                for awaited in self.program.deps(id.sent()) {
                    let (lane, place) = self.at[awaited.transfer().index()];
                    let from = self.block_of[lane];
                    let posted = matches!(self.program.lanes()[lane].kind, LaneKind::Port { .. });
                    if from == block {
                        self.agenda.blocks[block].items[item].follows.push(awaited.transfer());
                        if posted {
                            flushes.insert(awaited.transfer());
                        }
                        continue;
                    }
                    let reached = known.entry(lane).or_insert(0);
                    if *reached > place {
                        continue;
                    }
                    *reached = place + 1;
                    if posted {
                        self.receive(lane, block)?;
                        // How often is known when all signals are.
                        self.agenda.blocks[block].items[item]
                            .takes
                            .push(Take::Port { lane, times: place });
                    } else {
                        self.agenda.blocks[block].items[item].takes.push(Take::Block(from));
                    }
                    tells.entry(awaited.transfer()).or_default().insert(block);
                }
            }
        }
        for item in self.agenda.blocks.iter_mut().flat_map(|it| &mut it.items) {
            item.flush = flushes.contains(&item.id);
            item.tells = tells.remove(&item.id).unwrap_or_default();
        }
        Ok(())
    }

    /// What arrives through a port is signalled to one block of its destination.
    fn receive(&mut self, lane: usize, block: usize) -> Result<(), Box<Diagnostic>> {
        let rank = self.agenda.blocks[block].rank;
        let first = self.program.lanes()[lane].events.first();
        let dst = first.map(|it| self.program.transfer(it.transfer()).dst.rank);
        let receiver = *self.agenda.receivers.entry(lane).or_insert(block);
        if receiver == block && dst == Some(rank) {
            return Ok(());
        }
        let message = format!(
            "a threadblock of gpu {rank} waits for data posted by gpu {} to a port that is \
             signalled elsewhere",
            self.program.lanes()[lane].rank
        );
        Err(Box::new(Diagnostic::error(Finding::Limit, message)))
    }

    fn mark_last(&mut self) {
        let last = self.program.lanes().iter().filter(|it| it.kind != LaneKind::Block);
        let last: BTreeSet<TransferId> =
            last.filter_map(|it| it.events.last()).map(|it| it.transfer()).collect();
        for item in self.agenda.blocks.iter_mut().flat_map(|it| &mut it.items) {
            item.last = item.port.is_some() && last.contains(&item.id);
        }
    }

    /// Counts the signals behind each port: those that somebody waits for, those that come
    /// with a flush and the last one. All are taken in the end, or a second call would find them.
    fn settle_ports(&mut self) {
        for (lane, it) in self.program.lanes().iter().enumerate() {
            let LaneKind::Port { block } = it.kind else { continue };
            let block = self.block_of[block as usize];
            let items = self.agenda.blocks[block].items.iter();
            let signals = items.filter(|it| it.port == Some(lane) && it.signals());
            let places: Vec<usize> = signals.map(|it| self.at[it.id.index()].1).collect();
            let Some(dst) =
                it.events.first().map(|it| self.program.transfer(it.transfer()).dst.rank)
            else {
                continue;
            };
            let first = self.agenda.blocks.iter().position(|it| it.rank == dst).unwrap_or(0);
            let receiver = *self.agenda.receivers.entry(lane).or_insert(first);
            let mut taken = 0;
            let receiver = &mut self.agenda.blocks[receiver];
            for take in receiver.items.iter_mut().flat_map(|it| &mut it.takes) {
                if let Take::Port { lane: of, times } = take
                    && *of == lane
                {
                    let needed = places.partition_point(|it| it <= times);
                    *times = needed - taken;
                    taken = needed;
                }
            }
            if taken < places.len() {
                receiver.last_takes.push((lane, places.len() - taken));
            }
        }
    }
}

impl Item {
    fn new(id: TransferId, port: Option<usize>) -> Self {
        let (follows, takes, tells) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { id, port, follows, takes, tells, flush: false, last: false }
    }
}

fn sent(events: &[Event]) -> impl Iterator<Item = TransferId> + '_ {
    events.iter().filter(|it| it.is_sent()).map(|it| it.transfer())
}
