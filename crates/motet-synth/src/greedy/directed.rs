//! Data from one rank to one other: AllToAll, AllToAllV, Gather, Scatter, SendRecv.
//!
//! The data of each pair is cut into pieces that are routed independently. A free link takes a piece that it
//! brings nearer to its destination, the piece with the farthest destination first. To which destinations a way
//! leads nearer is computed beforehand, as a set of ranks; so a choice only compares that set with the
//! destinations of the pieces that wait at its source.

mod emit;
mod pieces;

use motet_graph::{Dijkstra, Hop, LeastFirst, Rows};
use motet_sim::link_rule::{Arrival, Passage};
use motet_units::seed::Stream;
use motet_units::{Bytes, Duration, LinkId, Rank, Seed};
use rand::seq::SliceRandom;

use super::overlay::Overlay;
use super::{METHOD, WORK_PER_SEND};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::watch::Watch;
use pieces::{Piece, pieces};

/// Marks an event in which a link becomes free; others are hops that end.
const FREE: u64 = 1 << 32;
/// No piece.
const NONE: u32 = u32::MAX;
/// Most ranks: there are tables of all pairs.
const MOST_RANKS: usize = 1 << 12;
/// The numbers of chunks per part that are tried, as long as more help.
const CHUNKS: [u32; 5] = [1, 2, 4, 8, 16];

/// A piece goes over a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceHop {
    piece: u32,
    way: u32,
}

/// The hops of all pieces.
struct Journey {
    /// In the order in which they start.
    steps: Vec<PieceHop>,
    makespan: u64,
}

pub(super) fn synthesize(
    task: &Task<'_>,
    fabric: &Fabric,
    seed: Seed,
    most_transfers: u64,
) -> Result<Lowered, SynthError> {
    let ranks = fabric.rank_count();
    if ranks > MOST_RANKS {
        return Err(SynthError::not_for(METHOD, format!("{ranks} ranks are too many")));
    }
    let overlay = Overlay::new(fabric);
    let mut best: Option<Lowered> = None;
    let mut worse = 0;
    for chunks in CHUNKS {
        let Ok(collective) = task.goal.collective(chunks) else { break };
        let pieces = pieces(&collective, task.goal.counts().map(|_| chunks));
        let chunk = collective.chunk_bytes(task.size);
        let largest = pieces.iter().map(|it| it.count).max().unwrap_or(1);
        let bytes = chunk.checked_mul(u64::from(largest)).unwrap_or(Bytes::new(u64::MAX));
        let travel = Travel::new(fabric, &overlay, bytes);
        let mut random = seed.named(METHOD).stream("directed");
        let work = pieces.len() as u64 * WORK_PER_SEND;
        if best.is_some() && !task.watch.affords(work) {
            break;
        }
        task.watch.spend(work);
        let Some(journey) = travel.journey(&pieces, chunk, &mut random, task.watch) else {
            if !task.watch.out_of_time() {
                return Err(SynthError::not_for(METHOD, "some rank cannot be reached"));
            }
            break;
        };
        let transfers = journey.steps.len() as u64;
        let makespan = Duration::from_ps(journey.makespan);
        let gain =
            |old: &Lowered| makespan.as_ps() < old.makespan.as_ps() - old.makespan.as_ps() / 200;
        if best.as_ref().is_none_or(gain) && (best.is_none() || transfers <= most_transfers) {
            let program = emit::program(collective, &overlay, &pieces, &journey);
            best = Some(Lowered { program, makespan, slices: chunks });
            worse = 0;
        } else {
            worse += 1;
        }
        if worse == 2 || transfers.saturating_mul(2) > most_transfers {
            break;
        }
    }
    best.ok_or_else(|| match task.watch.out_of_time() {
        true => SynthError::OutOfTime { method: METHOD },
        false => SynthError::not_for(METHOD, "there is nothing to send"),
    })
}

/// To which destinations each way leads nearer.
struct Travel<'a> {
    fabric: &'a Fabric,
    overlay: &'a Overlay,
    /// How many words a set of ranks has.
    words: usize,
    /// How long a piece takes at least from rank to rank; `distance[to * ranks + from]`.
    distance: Vec<u64>,
    /// Per way: the set of destinations that it leads nearer to.
    nearer: Vec<u64>,
}

impl<'a> Travel<'a> {
    fn new(fabric: &'a Fabric, overlay: &'a Overlay, bytes: Bytes) -> Self {
        let (ranks, ways) = (fabric.rank_count(), overlay.ways.len());
        let cost: Vec<u64> = (0..ways).map(|it| overlay.alone(fabric, it, bytes)).collect();
        let heads = (0..).zip(&overlay.ways).map(|(way, it)| (it.to as usize, way));
        let into = Rows::group(ranks, heads);
        let hop = |way: &u32| {
            let length = cost[*way as usize].max(1);
            Hop { arc: *way, to: overlay.ways[*way as usize].from, length }
        };
        let mut search = Dijkstra::new(ranks);
        let mut distance = Vec::with_capacity(ranks * ranks);
        for to in 0..ranks as u32 {
            search.search([(to, 0)], |it| into.row(it as usize).iter().map(hop));
            distance.extend_from_slice(search.distances());
        }
        let words = ranks.div_ceil(64);
        let mut nearer = vec![0u64; ways * words];
        for (number, way) in overlay.ways.iter().enumerate() {
            for to in 0..ranks {
                let row = &distance[to * ranks..][..ranks];
                let (before, after) = (row[way.from as usize], row[way.to as usize]);
                // A way up to a quarter longer than the shortest counts too: that one may be busy.
                let total = after.saturating_add(cost[number]);
                if after < before && total <= before.saturating_add(before / 4) {
                    nearer[number * words + to / 64] |= 1 << (to % 64);
                }
            }
        }
        Self { fabric, overlay, words, distance, nearer }
    }

    /// Routes and schedules all pieces. `None` if some rank cannot be reached, or time is up.
    fn journey(
        &self,
        pieces: &[Piece],
        chunk: Bytes,
        random: &mut Stream,
        watch: Watch<'_>,
    ) -> Option<Journey> {
        let mut run = Run::new(self, pieces, chunk, random);
        let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
        order.shuffle(random);
        for piece in order {
            run.put(piece, pieces[piece as usize].from.index(), 0);
        }
        let mut turn = 0usize;
        while let Some((now, event)) = run.events.pop() {
            turn += 1;
            if watch.out_of_time_at(turn) {
                return None;
            }
            if event & FREE != 0 {
                run.serve((event & !FREE) as usize, now);
            } else {
                let PieceHop { piece, way } = run.steps[event as usize];
                run.makespan = run.makespan.max(now);
                run.put(piece, self.overlay.ways[way as usize].to as usize, now);
            }
        }
        (run.missing == 0).then_some(Journey { steps: run.steps, makespan: run.makespan })
    }
}

struct Run<'a> {
    travel: &'a Travel<'a>,
    pieces: &'a [Piece],
    chunk: Bytes,
    /// Per rank: the set of destinations of the pieces that wait there.
    waiting: Vec<u64>,
    /// Per rank and destination: a stack of the pieces that wait, of which this is the one that came last.
    top: Vec<u32>,
    /// Per piece: the one below it in its stack, or [`NONE`].
    below: Vec<u32>,
    free_at: Vec<u64>,
    /// Per link: whether it waits for a piece; an arrival wakes it.
    idle: Vec<bool>,
    /// The links in the order in which they choose at the same instant; events name places in it.
    turn: Vec<u32>,
    /// Per link: its place in `turn`.
    place: Vec<u32>,
    events: LeastFirst,
    steps: Vec<PieceHop>,
    makespan: u64,
    missing: usize,
}

impl<'a> Run<'a> {
    fn new(travel: &'a Travel<'a>, pieces: &'a [Piece], chunk: Bytes, random: &mut Stream) -> Self {
        let (ranks, links) = (travel.fabric.rank_count(), travel.fabric.link_count());
        let mut turn: Vec<u32> = (0..links as u32).collect();
        turn.shuffle(random);
        let mut place = vec![0; links];
        for (at, link) in (0..).zip(&turn) {
            place[*link as usize] = at;
        }
        Self {
            travel,
            pieces,
            chunk,
            waiting: vec![0; ranks * travel.words],
            top: vec![NONE; ranks * ranks],
            below: vec![NONE; pieces.len()],
            free_at: vec![0; links],
            idle: vec![true; links],
            turn,
            place,
            events: LeastFirst::new(),
            steps: Vec::new(),
            makespan: 0,
            missing: pieces.len(),
        }
    }

    /// A piece has come to a rank: it is at its destination, or waits there for a link.
    fn put(&mut self, piece: u32, rank: usize, now: u64) {
        let to = self.pieces[piece as usize].to.index();
        if to == rank {
            self.missing -= 1;
            return;
        }
        let ranks = self.travel.fabric.rank_count();
        self.waiting[rank * self.travel.words + to / 64] |= 1 << (to % 64);
        let top = &mut self.top[rank * ranks + to];
        self.below[piece as usize] = std::mem::replace(top, piece);
        let node = self.travel.fabric.node(Rank::from_index(rank));
        for link in self.travel.fabric.outgoing(node) {
            if std::mem::replace(&mut self.idle[link.index()], false) {
                let at = now.max(self.free_at[link.index()]);
                self.events.push(at, FREE | u64::from(self.place[link.index()]));
            }
        }
    }

    fn serve(&mut self, place: usize, now: u64) {
        let link = self.turn[place] as usize;
        if self.free_at[link] > now {
            self.events.push(self.free_at[link], FREE | place as u64);
            return;
        }
        let mut soonest = u64::MAX;
        let mut best: Option<(u64, u32, usize)> = None;
        for way in self.travel.overlay.of_link(link) {
            let Some((distance, to)) = self.farthest(*way as usize) else { continue };
            let hops = self.travel.overlay.hops(*way as usize);
            let free = hops.iter().map(|it| self.free_at[it.link as usize].saturating_sub(it.head));
            let start = free.max().unwrap_or(0);
            if start > now {
                soonest = soonest.min(start);
            } else if best.is_none_or(|it| distance > it.0) {
                best = Some((distance, *way, to));
            }
        }
        match best {
            Some((_, way, to)) => self.start(way, to, now),
            None if soonest < u64::MAX => {
                self.events.push(soonest, FREE | place as u64);
            }
            None => self.idle[link] = true,
        }
    }

    /// The farthest destination of the pieces that wait at the start of a way and would come nearer over it,
    /// and how far it is.
    fn farthest(&self, way: usize) -> Option<(u64, usize)> {
        let (words, ranks) = (self.travel.words, self.travel.fabric.rank_count());
        let from = self.travel.overlay.ways[way].from as usize;
        let mut best = None;
        for word in 0..words {
            let nearer = self.travel.nearer[way * words + word];
            let mut open = self.waiting[from * words + word] & nearer;
            while open != 0 {
                let to = word * 64 + open.trailing_zeros() as usize;
                let distance = self.travel.distance[to * ranks + from];
                if best.is_none_or(|it: (u64, usize)| distance > it.0) {
                    best = Some((distance, to));
                }
                open &= open - 1;
            }
        }
        best
    }

    fn start(&mut self, way: u32, to: usize, now: u64) {
        let (words, ranks) = (self.travel.words, self.travel.fabric.rank_count());
        let from = self.travel.overlay.ways[way as usize].from as usize;
        let top = &mut self.top[from * ranks + to];
        let piece = *top;
        *top = self.below[piece as usize];
        if *top == NONE {
            self.waiting[from * words + to / 64] &= !(1 << (to % 64));
        }
        let count = u64::from(self.pieces[piece as usize].count);
        let bytes = self.chunk.checked_mul(count).unwrap_or(Bytes::new(u64::MAX));
        let mut at = Arrival::whole(now);
        let hops = self.travel.overlay.hops(way as usize);
        for hop in hops {
            let link = hop.link as usize;
            let busy = self.travel.fabric.busy(LinkId(hop.link), bytes).as_ps();
            let passage = Passage::of(at.forwarded(false), self.free_at[link], busy);
            self.free_at[link] = passage.streamed;
            at = passage.arrival(hop.latency);
        }
        let link = hops[0].link as usize;
        self.events.push(self.free_at[link], FREE | u64::from(self.place[link]));
        self.events.push(at.tail, self.steps.len() as u64);
        self.steps.push(PieceHop { piece, way });
    }
}
