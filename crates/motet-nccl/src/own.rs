//! NCCL's own rings and trees as programs: one thread block for each rank and channel, which does
//! what NCCL's kernels do, in their order.
//!
//! All are in place, as that is all that NCCL's model knows (its kernels copy to the output on the way).
//! Every channel has its own part of every chunk of the collective:
//!
//! - **Ring.** AllGather: each rank sends its own part, then passes on what comes, n − 1 times.
//!   ReduceScatter: the same with sums, so that each rank's own part comes last. AllReduce: the one,
//!   then the other. Broadcast and Reduce: a chain that begins, or ends, at the root.
//! - **Tree** (AllReduce): sums go up to the root, and the whole comes down again.
//!
//! [`kernel`](crate::kernel) prices them; NVLS is in [`nvls`](crate::nvls).

use motet_collective::program::{Forms, Hints, Lane, LaneKind};
use motet_collective::{
    Collective, CollectiveError, CollectiveKind, Event, Program, ProgramBuilder, Slot, Transfer,
};
use motet_units::Rank;

use crate::connect::{Channels, Tree};
use crate::kinds::{Algorithm, Protocol};

/// What NCCL runs for `kind` on the first `count` channels; `None` where it has no such ring or tree.
pub fn program(
    channels: &Channels,
    kind: CollectiveKind,
    algorithm: Algorithm,
    protocol: Protocol,
    count: u32,
) -> Result<Option<Program>, CollectiveError> {
    let ranks = u32::try_from(channels.ring(0).len()).unwrap_or(u32::MAX);
    let parts =
        if kind == CollectiveKind::AllReduce && algorithm == Algorithm::Ring { ranks } else { 1 };
    let chunks = count.saturating_mul(parts);
    let collective = match kind.has_root() {
        true => Collective::rooted(kind, ranks, chunks, Rank(0))?,
        false => Collective::new(kind, ranks, chunks)?,
    };
    let name = format!("nccl-{}", algorithm.name().to_ascii_lowercase());
    let hints = Hints { protocol, ..Hints::default() };
    let builder = ProgramBuilder::new(name, collective).forms(Forms::IN_PLACE).hints(hints);
    let mut maker = Maker { builder, ranks, count };
    for channel in 0..count {
        match (algorithm, kind) {
            (Algorithm::Tree, CollectiveKind::AllReduce) => {
                maker.tree(channel, channels.tree(channel as usize));
            }
            (Algorithm::Ring, _) => {
                let ring = channels.ring(channel as usize);
                match kind {
                    CollectiveKind::AllGather => maker.around(channel, ring, 0, ranks - 1),
                    CollectiveKind::ReduceScatter => {
                        maker.around(channel, ring, ranks - 1, ranks - 1);
                    }
                    CollectiveKind::AllReduce => {
                        maker.around(channel, ring, ranks - 1, 2 * (ranks - 1));
                    }
                    CollectiveKind::Broadcast => maker.spread(channel, ring),
                    CollectiveKind::Reduce => maker.collect(channel, ring),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(maker.builder.build()))
}

struct Maker {
    builder: ProgramBuilder,
    ranks: u32,
    /// How many channels there are; each has its own part of every chunk.
    count: u32,
}

impl Maker {
    fn lane(&mut self, channel: u32, rank: Rank, events: Vec<Event>) {
        if !events.is_empty() {
            self.builder.add_lane(Lane { rank, kind: LaneKind::Block, channel, events });
        }
    }

    /// Sends round the ring in `steps` steps, of which the first `sums` are reductions. In step j the rank at
    /// position p sends the part of position p − j; for a ReduceScatter that of p − j − 1, so that the last part
    /// to come is the rank's own.
    fn around(&mut self, channel: u32, ring: &[Rank], sums: u32, steps: u32) {
        let n = self.ranks;
        let only_sums = sums == steps && sums > 0;
        let shift = u32::from(only_sums);
        let part = |position: u32, step: u32| {
            ring[((position + 2 * n - shift - step % n) % n) as usize].0 * self.count + channel
        };
        let kind = self.kind();
        let slot = |rank: Rank, part: u32, own: bool| match kind {
            // Of an AllGather each rank has its own part only; sums are made in the input.
            CollectiveKind::AllGather if own => Slot::input(rank, channel),
            CollectiveKind::ReduceScatter => Slot::input(rank, part),
            _ => Slot::output(rank, part),
        };
        let mut events: Vec<Vec<Event>> = vec![Vec::new(); n as usize];
        for step in 0..steps {
            let mut sent = Vec::with_capacity(n as usize);
            for position in 0..n {
                let (from, to) = (ring[position as usize], ring[((position + 1) % n) as usize]);
                let part = part(position, step);
                let (src, dst) = (slot(from, part, step == 0), slot(to, part, false));
                let transfer = match step < sums {
                    true => Transfer::reduce(src, dst, 1),
                    false => Transfer::copy(src, dst, 1),
                };
                sent.push(self.builder.add(transfer));
            }
            for (position, id) in sent.iter().enumerate() {
                events[position].push(id.sent());
            }
            for (position, id) in sent.iter().enumerate() {
                events[(position + 1) % n as usize].push(id.arrived());
            }
        }
        for (position, events) in events.into_iter().enumerate() {
            self.lane(channel, ring[position], events);
        }
    }

    const fn kind(&self) -> CollectiveKind {
        self.builder.collective().kind()
    }

    /// Broadcast: copies along the ring, beginning at the root.
    fn spread(&mut self, channel: u32, ring: &[Rank]) {
        let chain = from_root(ring, 0);
        let mut before: Option<Event> = None;
        for (at, rank) in chain.iter().enumerate() {
            let mut events: Vec<Event> = before.take().into_iter().collect();
            if let Some(next) = chain.get(at + 1) {
                let src = if at == 0 {
                    Slot::input(*rank, channel)
                } else {
                    Slot::output(*rank, channel)
                };
                let id = self.builder.add(Transfer::copy(src, Slot::output(*next, channel), 1));
                events.push(id.sent());
                before = Some(id.arrived());
            }
            self.lane(channel, *rank, events);
        }
    }

    /// Reduce: sums along the ring to the root, beginning at the rank behind it. Sums on the way are kept in
    /// scratch, so that no rank's input changes.
    fn collect(&mut self, channel: u32, ring: &[Rank]) {
        let chain = from_root(ring, 1);
        let mut before: Option<Slot> = None;
        let mut carried: Vec<(Rank, Vec<Event>)> =
            chain.iter().map(|it| (*it, Vec::new())).collect();
        for (at, rank) in chain.iter().enumerate() {
            let own = Slot::input(*rank, channel);
            let root = at + 1 == chain.len();
            let sum =
                if root { Slot::output(*rank, channel) } else { Slot::scratch(*rank, channel) };
            if let Some(from) = before {
                if !root {
                    self.builder.set_scratch(*rank, self.count);
                    let copy = self.builder.add(Transfer::copy(own, sum, 1));
                    carried[at].1.extend([copy.sent(), copy.arrived()]);
                }
                let id = self.builder.add(Transfer::reduce(from, sum, 1));
                carried[at - 1].1.push(id.sent());
                carried[at].1.push(id.arrived());
            }
            before = Some(if at == 0 { own } else { sum });
        }
        for (rank, events) in carried {
            self.lane(channel, rank, events);
        }
    }

    /// AllReduce: sums up the tree, and copies down again.
    fn tree(&mut self, channel: u32, tree: &Tree) {
        let slot = |rank: Rank| Slot::output(rank, channel);
        let ranks: Vec<Rank> = (0..self.ranks).map(Rank).collect();
        let up: Vec<_> = ranks
            .iter()
            .map(|it| {
                let parent = tree.parent(*it)?;
                Some(self.builder.add(Transfer::reduce(slot(*it), slot(parent), 1)))
            })
            .collect();
        let down: Vec<_> = ranks
            .iter()
            .map(|it| {
                let parent = tree.parent(*it)?;
                Some(self.builder.add(Transfer::copy(slot(parent), slot(*it), 1)))
            })
            .collect();
        for rank in &ranks {
            let children: Vec<Rank> = tree.children(*rank).collect();
            let mut events: Vec<Event> = Vec::new();
            events.extend(children.iter().filter_map(|it| Some(up[it.index()]?.arrived())));
            events.extend(up[rank.index()].map(motet_collective::TransferId::sent));
            events.extend(down[rank.index()].map(motet_collective::TransferId::arrived));
            events.extend(children.iter().filter_map(|it| Some(down[it.index()]?.sent())));
            self.lane(channel, *rank, events);
        }
    }
}

/// The ring as a chain that begins `behind` positions behind rank 0, the root.
fn from_root(ring: &[Rank], behind: usize) -> Vec<Rank> {
    let root = ring.iter().position(|it| it.0 == 0).unwrap_or(0);
    let mut chain = ring.to_vec();
    chain.rotate_left((root + behind) % ring.len().max(1));
    chain
}
