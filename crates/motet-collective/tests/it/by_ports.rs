//! Right programs whose packets go over ports: packed in the sender's scratch, posted, and read where they arrive.
//! What a block does itself and what its ports move are lanes of their own.

use motet_collective::program::{Hints, Lane, LaneKind, Protocol};
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_units::Rank;

struct Maker {
    b: ProgramBuilder,
    ranks: u32,
    own: Vec<Vec<TransferId>>,
    posts: Vec<Vec<(Rank, TransferId)>>,
}

impl Maker {
    fn new(kind: CollectiveKind, ranks: u32) -> Self {
        let hints = Hints { protocol: Protocol::Ll, ..Hints::default() };
        let collective = Collective::new(kind, ranks, 1).unwrap();
        let mut b = ProgramBuilder::new(format!("{kind}-by-ports"), collective).hints(hints);
        for rank in (0..ranks).map(Rank) {
            b.set_scratch(rank, ranks);
        }
        let none = vec![Vec::new(); ranks as usize];
        Self { b, ranks, own: none, posts: vec![Vec::new(); ranks as usize] }
    }

    fn add(&mut self, rank: Rank, transfer: Transfer, after: &[TransferId]) -> TransferId {
        let id = self.b.add_after(transfer, after);
        self.own[rank.index()].push(id);
        id
    }

    /// Packs what `rank` has and posts it to all others; when it has come, by receiver.
    fn pack_and_post(&mut self, rank: Rank) -> Vec<(Rank, TransferId)> {
        let packets = Slot::scratch(rank, rank.0);
        let pack = self.add(rank, Transfer::copy(Slot::input(rank, 0), packets, 1), &[]);
        let peers = (0..self.ranks).map(Rank).filter(|it| *it != rank);
        let mut posted = Vec::new();
        for peer in peers {
            let post = Transfer::copy(packets, Slot::scratch(peer, rank.0), 1);
            posted.push((peer, self.b.add_after(post, &[pack])));
        }
        self.posts[rank.index()].extend(&posted);
        posted
    }

    fn build(mut self) -> Program {
        for rank in (0..self.ranks).map(Rank) {
            let block = self.b.lanes_mut().len() as u32;
            let lane = |kind, ids: &[TransferId]| {
                let events = ids.iter().flat_map(|it| [it.sent(), it.arrived()]).collect();
                Lane { rank, kind, channel: 0, events }
            };
            self.b.add_lane(lane(LaneKind::Block, &self.own[rank.index()]));
            for (_, id) in &self.posts[rank.index()] {
                self.b.add_lane(lane(LaneKind::Port { block }, &[*id]));
            }
        }
        self.b.build()
    }
}

fn all_gather(ranks: u32) -> Program {
    let mut maker = Maker::new(CollectiveKind::AllGather, ranks);
    let all: Vec<Rank> = (0..ranks).map(Rank).collect();
    let posted: Vec<_> = all.iter().map(|it| maker.pack_and_post(*it)).collect();
    for rank in &all {
        let own = Transfer::copy(Slot::input(*rank, 0), Slot::output(*rank, rank.0), 1);
        maker.add(*rank, own, &[]);
    }
    for (from, posted) in all.iter().zip(posted) {
        for (to, post) in posted {
            let unpack = Transfer::copy(Slot::scratch(to, from.0), Slot::output(to, from.0), 1);
            maker.add(to, unpack, &[post]);
        }
    }
    maker.build()
}

fn all_reduce(ranks: u32) -> Program {
    let mut maker = Maker::new(CollectiveKind::AllReduce, ranks);
    let all: Vec<Rank> = (0..ranks).map(Rank).collect();
    let posted: Vec<_> = all.iter().map(|it| maker.pack_and_post(*it)).collect();
    for rank in &all {
        let own = Transfer::copy(Slot::input(*rank, 0), Slot::output(*rank, 0), 1);
        maker.add(*rank, own, &[]);
    }
    for (from, posted) in all.iter().zip(posted) {
        for (to, post) in posted {
            let sum = Transfer::reduce(Slot::scratch(to, from.0), Slot::output(to, 0), 1);
            maker.add(to, sum, &[post]);
        }
    }
    maker.build()
}

/// A few of each, all right, with at most `ranks` ranks.
pub(crate) fn programs(ranks: u32) -> Vec<Program> {
    (2..=ranks).flat_map(|it| [all_gather(it), all_reduce(it)]).collect()
}
