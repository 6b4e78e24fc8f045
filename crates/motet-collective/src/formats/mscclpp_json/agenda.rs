//! What each threadblock of a plan has to do and when: its steps in order, whom it waits for
//! before each and whom it tells after.
//!
//! Waits of a program between two lanes, without those that are implied, never cross: the k-th
//! signal from one block to another is for the k-th wait. So one counter for each pair of blocks
//! is enough.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::packing::{Packing, provides};
use super::{handshake, ports};
use crate::program::graph::EventGraph;
use crate::program::{Event, LaneKind, Program, TransferId};

/// A threadblock.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) rank: Rank,
    pub(super) items: Vec<Item>,
    /// What a block that moves nothing hands on: see [`super::ports`].
    pub(super) relays: Vec<Relay>,
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
    /// Told that this block is through with their GPU's memory,
    pub(super) leaves: BTreeSet<usize>,
    /// and those of them in whose memory it has only read: see [`super::handshake`].
    pub(super) leaves_unchanged: BTreeSet<usize>,
    /// The item after which it is through with all of it.
    pub(super) leaves_after: usize,
    /// Must be through with this GPU's memory before it ends,
    pub(super) left_by: BTreeSet<usize>,
    /// and those of them that only read there.
    pub(super) left_unchanged_by: BTreeSet<usize>,
    /// Told that what they posted has come.
    pub(super) confirms: BTreeSet<usize>,
    /// Must say that what this block posted has come.
    pub(super) confirmed_by: BTreeSet<usize>,
}

impl Block {
    pub(super) fn new(rank: Rank) -> Self {
        Self {
            rank,
            items: Vec::new(),
            relays: Vec::new(),
            last_takes: Vec::new(),
            call: Call::default(),
        }
    }
}

/// So many signals of a port lane, after which other blocks are told.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) lane: usize,
    pub(super) times: usize,
    pub(super) tells: BTreeSet<usize>,
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
    /// The blocks of this GPU told when it is.
    pub(super) after_flush: BTreeSet<usize>,
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
pub(super) type At = (usize, usize);

pub(super) struct Maker<'a> {
    pub(super) program: &'a Program,
    pub(super) packing: Option<Packing>,
    graph: EventGraph,
    /// All events, each after those it waits for.
    order: Vec<u32>,
    pub(super) at: Vec<At>,
    /// The block of each threadblock lane and port lane.
    pub(super) block_of: Vec<usize>,
    pub(super) agenda: Agenda,
}

/// How many blocks are looked at in one pass over the program.
const BATCH: usize = 16;

/// A transfer that is posted to a port, in the order in which a block posts: before which of its steps,
/// how many transfers it and those posted to the port before it wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Post {
    before: u32,
    needed: usize,
    id: TransferId,
    port: usize,
}

/// A step that waits for one of another lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) block: usize,
    pub(super) item: usize,
    pub(super) awaited: TransferId,
    /// The lane of what is awaited, and its place there.
    pub(super) lane: usize,
    pub(super) place: usize,
}

/// The agenda; with `flush` a block learns that what its own GPU posted has arrived by a flush
/// where that can be, and not from the other end.
pub(super) fn agenda(program: &Program, packing: Option<Packing>, flush: bool) -> Agenda {
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
    // What is exported was proved to run to its end, so there is such an order.
    let order = graph.order().unwrap_or_default();
    let mut maker = Maker { program, packing, graph, order, at, block_of, agenda };
    maker.items();
    let needs = maker.needs();
    maker.meet(&needs);
    ports::settle(&mut maker, &needs, flush);
    let mut agenda = maker.agenda;
    handshake::add(program, packing, &mut agenda);
    agenda
}

impl Maker<'_> {
    /// The steps of each block in order. A post stands before the first step that follows all it
    /// needs, where waiting for that holds nothing else back.
    fn items(&mut self) {
        let mut ports: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut blocks = Vec::new();
        for (index, lane) in self.program.lanes().iter().enumerate() {
            match lane.kind {
                LaneKind::Port { block } => ports.entry(block as usize).or_default().push(index),
                LaneKind::Block => blocks.push(index),
            }
        }
        let posting: Vec<usize> = ports.keys().copied().collect();
        let mut posts: BTreeMap<usize, Vec<Post>> = BTreeMap::new();
        for batch in posting.chunks(BATCH) {
            let first = self.first_after(batch);
            for (column, block) in batch.iter().enumerate() {
                let of_block = ports[block].iter().flat_map(|it| self.posts(*it, column, &first));
                posts.insert(*block, of_block.collect());
            }
        }
        for index in blocks {
            let own: Vec<TransferId> = sent(&self.program.lanes()[index].events).collect();
            let mut posts = posts.remove(&index).unwrap_or_default();
            posts.sort();
            let mut posts = posts.into_iter().peekable();
            let mut items = Vec::new();
            for place in 0..=own.len() {
                let here = |it: &Post| it.before as usize <= place || place == own.len();
                while let Some(post) = posts.next_if(here) {
                    items.push(Item::new(post.id, Some(post.port)));
                }
                items.extend(own.get(place).map(|id| Item::new(*id, None)));
            }
            self.agenda.blocks[self.block_of[index]].items = items;
        }
    }

    /// What is posted to a port, with the step of its block that it must stand before.
    fn posts(&self, port: usize, column: usize, first: &[[u32; BATCH]]) -> Vec<Post> {
        // What a post needs, its channel's earlier ones need too.
        let (mut before, mut needed) = (0, 0);
        let post = |id: TransferId| {
            let needs = self.program.deps(id.sent());
            needed += needs.len();
            let follows = needs.iter().map(|it| first[it.index()][column]).max();
            before = before.max(follows.unwrap_or(0));
            Post { before, needed, id, port }
        };
        sent(&self.program.lanes()[port].events).map(post).collect()
    }

    /// For every event and each of some blocks the place of the block's first step that always starts
    /// after the event; `u32::MAX` where none does. One pass for many blocks, since the pass is what
    /// takes time.
    fn first_after(&self, lanes: &[usize]) -> Vec<[u32; BATCH]> {
        let mut first = vec![[u32::MAX; BATCH]; self.graph.events()];
        let column: BTreeMap<usize, usize> =
            lanes.iter().enumerate().map(|(column, lane)| (*lane, column)).collect();
        for index in self.order.iter().rev().map(|it| *it as usize) {
            let event = Event::from_index(index);
            let (lane, place) = self.at[event.transfer().index()];
            let mut reached = first[index];
            if let Some(column) = column.get(&lane).filter(|_| event.is_sent()) {
                reached[*column] = reached[*column].min(place as u32);
            }
            for before in self.graph.preds(index) {
                let before = &mut first[*before as usize];
                for (least, now) in before.iter_mut().zip(reached) {
                    *least = now.min(*least);
                }
            }
        }
        first
    }

    /// Who waits for whom, once for each lane and place. Packets are waited for by whoever reads
    /// them.
    fn needs(&mut self) -> Vec<Need> {
        let mut needs = Vec::new();
        for block in 0..self.agenda.blocks.len() {
            let mut known: BTreeMap<usize, usize> = BTreeMap::new();
            for item in 0..self.agenda.blocks[block].items.len() {
                let id = self.agenda.blocks[block].items[item].id;
                for awaited in self.program.deps(id.sent()).iter().map(|it| it.transfer()) {
                    let (waiter, wanted) =
                        (self.program.transfer(id), self.program.transfer(awaited));
                    if provides(self.packing, waiter, wanted) {
                        continue;
                    }
                    let (lane, place) = self.at[awaited.index()];
                    if self.block_of[lane] == block && !self.is_port(lane) {
                        self.agenda.blocks[block].items[item].follows.push(awaited);
                        continue;
                    }
                    let reached = known.entry(lane).or_insert(0);
                    if *reached <= place {
                        *reached = place + 1;
                        needs.push(Need { block, item, awaited, lane, place });
                    }
                }
            }
        }
        needs
    }

    pub(super) fn is_port(&self, lane: usize) -> bool {
        self.program.lanes()[lane].kind != LaneKind::Block
    }

    /// What threadblocks tell one another of their own steps.
    fn meet(&mut self, needs: &[Need]) {
        let mut tells: BTreeMap<TransferId, BTreeSet<usize>> = BTreeMap::new();
        for need in needs {
            if self.is_port(need.lane) {
                continue;
            }
            let from = self.block_of[need.lane];
            self.agenda.blocks[need.block].items[need.item].takes.push(Take::Block(from));
            tells.entry(need.awaited).or_default().insert(need.block);
        }
        for item in self.agenda.blocks.iter_mut().flat_map(|it| &mut it.items) {
            item.tells = tells.remove(&item.id).unwrap_or_default();
        }
    }
}

impl Item {
    fn new(id: TransferId, port: Option<usize>) -> Self {
        Self {
            id,
            port,
            follows: Vec::new(),
            takes: Vec::new(),
            tells: BTreeSet::new(),
            flush: false,
            after_flush: BTreeSet::new(),
            last: false,
        }
    }
}

fn sent(events: &[Event]) -> impl Iterator<Item = TransferId> + '_ {
    events.iter().filter(|it| it.is_sent()).map(|it| it.transfer())
}
