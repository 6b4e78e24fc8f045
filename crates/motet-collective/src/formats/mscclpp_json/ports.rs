//! How blocks learn that what was posted to a port has arrived.
//!
//! The signal behind the data goes to one block of the other end. Where that is the only one that
//! wants to know, it waits itself. A block of the posting GPU may learn it from the flush of the
//! block that posted. In all other cases a block of the destination that moves nothing waits for
//! the signals and hands the news on: since it has no steps of its own, that orders nothing else.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::agenda::{Block, Item, Maker, Need, Relay, Take};
use super::packing::Ends;
use crate::program::TransferId;

/// Adds what `needs` asks of ports to the blocks.
pub(super) fn settle(maker: &mut Maker<'_>, needs: &[Need], flush: bool) {
    let mut of_lane: BTreeMap<usize, Vec<Need>> = BTreeMap::new();
    for need in needs {
        of_lane.entry(need.lane).or_default().push(*need);
    }
    for lane in 0..maker.program.lanes().len() {
        if maker.is_port(lane) {
            let needs = of_lane.remove(&lane).unwrap_or_default();
            Port::new(maker, lane, flush).settle(needs);
        }
    }
}

/// One port lane.
struct Port<'m, 'a> {
    maker: &'m mut Maker<'a>,
    lane: usize,
    flush: bool,
    /// The block that posts.
    sender: usize,
    dst: Rank,
    /// The items of the sender that are posted here, in order.
    posts: Vec<usize>,
}

impl<'m, 'a> Port<'m, 'a> {
    fn new(maker: &'m mut Maker<'a>, lane: usize, flush: bool) -> Self {
        let sender = maker.block_of[lane];
        let items = maker.agenda.blocks[sender].items.iter().enumerate();
        let posts: Vec<usize> =
            items.filter(|(_, it)| it.port == Some(lane)).map(|it| it.0).collect();
        let it = &maker.program.lanes()[lane];
        let first = it.events.first();
        let dst = first.map_or(it.rank, |it| maker.program.transfer(it.transfer()).dst.rank);
        Self { maker, lane, flush, sender, dst, posts }
    }

    fn settle(mut self, needs: Vec<Need>) {
        let (flushed, signalled): (Vec<Need>, Vec<Need>) =
            needs.into_iter().partition(|it| self.by_flush(it));
        for need in flushed {
            self.flushes(need);
        }
        self.mark_last();
        let blocks: BTreeSet<usize> = signalled.iter().map(|it| it.block).collect();
        let at_dst = |it: &&usize| self.maker.agenda.blocks[**it].rank == self.dst;
        let receiver = match (blocks.first().filter(at_dst), blocks.len()) {
            (Some(block), 1) => *block,
            (_, 0) => self.first_block(),
            _ => self.relay(),
        };
        let relays = !blocks.contains(&receiver);
        for need in &signalled {
            self.item(need.awaited, |it| {
                it.tells.insert(receiver);
            });
            let take = if relays {
                Take::Block(receiver)
            } else {
                // How often is known when all signals are.
                Take::Port { lane: self.lane, times: need.place }
            };
            self.maker.agenda.blocks[need.block].items[need.item].takes.push(take);
        }
        self.count(receiver, if relays { &signalled } else { &[] });
    }

    fn item(&mut self, id: TransferId, change: impl FnOnce(&mut Item)) {
        let items = &mut self.maker.agenda.blocks[self.sender].items;
        if let Some(post) = self.posts.iter().find(|it| items[**it].id == id) {
            change(&mut items[*post]);
        }
    }

    fn is_packets(&self, id: TransferId) -> bool {
        Ends::of(self.maker.packing, self.maker.program.transfer(id)).writes
    }

    /// Packets have no flush.
    fn by_flush(&self, need: &Need) -> bool {
        let near =
            self.maker.agenda.blocks[need.block].rank == self.maker.agenda.blocks[self.sender].rank;
        self.flush && near && !self.is_packets(need.awaited)
    }

    fn flushes(&mut self, need: Need) {
        let sender = self.sender;
        self.item(need.awaited, |it| {
            it.flush = true;
            it.after_flush.extend(Some(need.block).filter(|it| *it != sender));
        });
        let item = &mut self.maker.agenda.blocks[need.block].items[need.item];
        if need.block == sender {
            item.follows.push(need.awaited);
        } else {
            item.takes.push(Take::Block(sender));
        }
    }

    /// The other end is told of the last, whoever else is. Packets tell by themselves.
    fn mark_last(&mut self) {
        let items = &self.maker.agenda.blocks[self.sender].items;
        let last = self.posts.iter().rev().find(|it| !self.is_packets(items[**it].id));
        if let Some(last) = last.copied() {
            self.maker.agenda.blocks[self.sender].items[last].last = true;
        }
    }

    fn first_block(&self) -> usize {
        self.maker.agenda.blocks.iter().position(|it| it.rank == self.dst).unwrap_or(0)
    }

    /// A new block that moves nothing.
    fn relay(&mut self) -> usize {
        let blocks = &mut self.maker.agenda.blocks;
        blocks.push(Block::new(self.dst));
        blocks.len() - 1
    }

    /// Counts the signals behind the port: those that somebody waits for, those that come with a
    /// flush and the last one. All are taken in the end, or a second call would find them.
    fn count(&mut self, receiver: usize, relayed: &[Need]) {
        let items = &self.maker.agenda.blocks[self.sender].items;
        let signals = self.posts.iter().map(|it| &items[*it]).filter(|it| it.signals());
        let places: Vec<usize> = signals.map(|it| self.maker.at[it.id.index()].1).collect();
        if places.is_empty() {
            return;
        }
        let lane = self.lane;
        self.maker.agenda.receivers.insert(lane, receiver);
        let receiver = &mut self.maker.agenda.blocks[receiver];
        let mut told: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for need in relayed {
            told.entry(need.place).or_default().insert(need.block);
        }
        let relays = told.into_iter().map(|(times, tells)| Relay { lane, times, tells });
        receiver.relays.extend(relays);
        let mut taken = 0;
        let takes = receiver.items.iter_mut().flat_map(|it| &mut it.takes);
        let takes = takes.filter_map(|it| match it {
            Take::Port { lane: of, times } if *of == lane => Some(times),
            _ => None,
        });
        let handed = receiver.relays.iter_mut().filter(|it| it.lane == lane);
        for times in takes.chain(handed.map(|it| &mut it.times)) {
            let needed = places.partition_point(|it| it <= times);
            *times = needed - taken;
            taken = needed;
        }
        if taken < places.len() {
            receiver.last_takes.push((lane, places.len() - taken));
        }
    }
}
