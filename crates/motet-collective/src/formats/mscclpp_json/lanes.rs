//! The transfers of a plan, numbered, and their lanes.
//!
//! Each threadblock is a lane of what its threads move themselves, and for each port channel it
//! posts to a further lane of what the proxy moves through that channel. (One lane for all its
//! channels would claim that data for one peer has arrived before data for another is sent, which
//! nothing promises.) Transfers are numbered lane by lane, so that the same lanes always have the
//! same numbers, wherever between its own moves a block posts.

use std::collections::BTreeMap;

use motet_units::Rank;

use super::steps::{ChannelEnd, Move, PlanStepKind, PlanSteps};
use crate::formats::{Origin, Origins, Place};
use crate::program::{Lane, LaneKind, Transfer, TransferId};

/// The transfers of all steps.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) transfers: Vec<Transfer>,
    /// What each transfer was made from.
    pub(super) moves: Vec<Move>,
    pub(super) origins: Origins,
    pub(super) lanes: Vec<Lane>,
    /// Lanes of posted transfers between two ranks so far.
    posting: BTreeMap<(Rank, Rank), u32>,
    /// By block and step: the transfers of that step, in its order.
    pub(super) of_step: Vec<Vec<Vec<TransferId>>>,
}

impl Numbered {
    pub(super) fn new(steps: &PlanSteps) -> Self {
        let mut numbered = Self {
            transfers: Vec::new(),
            moves: Vec::new(),
            origins: Origins::new("operation"),
            lanes: Vec::new(),
            posting: BTreeMap::new(),
            of_step: Vec::with_capacity(steps.blocks.len()),
        };
        for block in 0..steps.blocks.len() {
            numbered.block(steps, block);
        }
        numbered
    }

    fn block(&mut self, steps: &PlanSteps, index: usize) {
        let block = &steps.blocks[index];
        let mut of_step = vec![Vec::new(); block.steps.len()];
        let mut own = Vec::new();
        // (step, place in the step, place in the file, what), by channel.
        let mut posted: BTreeMap<ChannelEnd, Vec<(usize, usize, Place, Move)>> = BTreeMap::new();
        for (at, step) in block.steps.iter().enumerate() {
            match &step.kind {
                PlanStepKind::Moves(it) => {
                    for what in &it.moves {
                        let id = self.add(*what, step.place);
                        of_step[at].push(id);
                        own.push(id);
                    }
                }
                PlanStepKind::Posts(posts) => {
                    of_step[at] = vec![TransferId(u32::MAX); posts.len()];
                    for (place, post) in posts.iter().enumerate() {
                        let item = (at, place, step.place, post.what);
                        posted.entry(post.end).or_default().push(item);
                    }
                }
                _ => {}
            }
        }
        let lane_index = self.lanes.len() as u32;
        let has_events = !own.is_empty() || !posted.is_empty();
        if has_events {
            self.lane(block.rank, LaneKind::Block, 0, &own);
        }
        for (end, items) in posted {
            let mut ids = Vec::with_capacity(items.len());
            for (at, place, origin, what) in items {
                let id = self.add(what, origin);
                of_step[at][place] = id;
                ids.push(id);
            }
            let count = self.posting.entry((end.rank, end.peer)).or_insert(0);
            let channel = *count;
            *count += 1;
            self.lane(block.rank, LaneKind::Port { block: lane_index }, channel, &ids);
        }
        self.of_step.push(of_step);
    }

    /// By transfer: whether a proxy moves it.
    pub(super) fn posted(&self) -> Vec<bool> {
        let mut posted = vec![false; self.transfers.len()];
        for lane in self.lanes.iter().filter(|it| it.kind != LaneKind::Block) {
            for event in &lane.events {
                posted[event.transfer().index()] = true;
            }
        }
        posted
    }

    fn add(&mut self, what: Move, place: Place) -> TransferId {
        self.transfers.push(what.transfer);
        self.moves.push(what);
        self.origins.push(Origin { sent: place, arrived: place });
        TransferId::from_index(self.transfers.len() - 1)
    }

    fn lane(&mut self, rank: Rank, kind: LaneKind, channel: u32, ids: &[TransferId]) {
        let events = ids.iter().flat_map(|it| [it.sent(), it.arrived()]).collect();
        self.lanes.push(Lane { rank, kind, channel, events });
    }
}
