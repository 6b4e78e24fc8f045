//! [`search`]: how the data of one rank spreads over the others, and when.
//!
//! The data is cut into as many equal shares as there are trees. A free direction carries a share to a rank
//! that lacks it: by preference one to which this is the last step of a shortest path from the root. Of those
//! it takes the nearest to the root in some tries and the farthest in others, and ties are broken at random;
//! the best try wins. A choice is the first or last set bit of a set of ranks, so that a try costs a
//! microsecond for every ten ranks or so.

use motet_graph::LeastFirst;
use motet_units::{Bandwidth, Bytes, Duration, Rounding, Seed};
use rand::seq::SliceRandom;

use super::translations::Translations;
use crate::watch::Watch;

/// Stands in for a move at the root, to which no move brings the data.
pub(super) const ROOT: u32 = u32::MAX;
/// Stands in for a move, or a distance, that is not known yet.
const NOT_YET: u32 = u32::MAX - 1;
/// Marks an event in which a direction becomes free; others are moves that arrive.
const FREE: u64 = 1 << 32;
/// Most tries of a search.
const MOST_TRIES: usize = 8;
/// A search makes fewer tries, but at least two, if they cost more than this together: each rank of each tree
/// counts once for every direction.
const WORK_PER_SEARCH: usize = 1 << 15;

/// One step of a tree: a share of the root's data goes one step in some direction. The data of every other rank
/// makes the same step, from where its own copy of the tree has brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) tree: u32,
    /// The move that brought the data to where this one starts, or [`ROOT`].
    pub(super) parent: u32,
    pub(super) direction: u32,
}

/// Moves in the order in which they start; parents come before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) moves: Vec<Move>,
    /// When the last one has arrived, in picoseconds.
    pub(super) makespan: u64,
}

/// How long a share takes in each direction, in picoseconds.
#[derive(Debug)]
pub(super) struct Cost {
    busy: Vec<u64>,
    latency: Vec<u64>,
}

impl Cost {
    pub(super) fn of(over: &Translations, chunk: Bytes) -> Self {
        let busy = |bits: u64| {
            let time = Bandwidth::from_bits_per_s(bits).transfer_time(chunk, Rounding::Up);
            time.map_or(u64::MAX, Duration::as_ps)
        };
        Self {
            busy: over.directions().iter().map(|it| busy(it.bits_per_s)).collect(),
            latency: over.directions().iter().map(|it| it.latency).collect(),
        }
    }

    /// The least time in which all directions together can carry this many shares, one move each.
    pub(super) fn least_time(&self, moves: u64) -> u64 {
        let fastest = self.busy.iter().min().copied().unwrap_or(0).max(1);
        let done =
            |time: u64| self.busy.iter().map(|it| time / (*it).max(1)).fold(0, u64::saturating_add);
        let (mut low, mut high) = (0, fastest.saturating_mul(moves));
        while low < high {
            let middle = low + (high - low) / 2;
            if done(middle) >= moves {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The best pattern of a number of tries, at least one whatever the watch says. `back` is `over` turned round.
pub(super) fn search(
    over: &Translations,
    back: &Translations,
    cost: &Cost,
    trees: u32,
    seed: Seed,
    watch: Watch<'_>,
) -> Pattern {
    let tries = tries(over, trees);
    let distance = distances(over);
    let mut random = seed.named(super::METHOD).stream("pattern");
    let mut order: Vec<u32> = (0..over.ranks() as u32).collect();
    let least = cost.least_time(u64::from(trees) * (over.ranks() as u64 - 1));
    let good = least.saturating_add(least / 1000);
    let mut best: Option<Pattern> = None;
    for number in 0..tries {
        if best.is_some() && watch.out_of_time() {
            break;
        }
        let rankings = (0..trees).map(|_| {
            order.shuffle(&mut random);
            Ranking::new(&order, &distance)
        });
        let rankings = rankings.collect();
        let farthest_first = number % 2 == 1;
        let found = Try::new((over, back), cost, &distance, rankings, farthest_first).run();
        if best.as_ref().is_none_or(|it| found.makespan < it.makespan) {
            let enough = found.makespan <= good;
            best = Some(found);
            if enough {
                break;
            }
        }
    }
    best.unwrap_or(Pattern { moves: Vec::new(), makespan: 0 })
}

/// How often a pattern of so many trees is tried.
fn tries(over: &Translations, trees: u32) -> usize {
    let work = over.ranks() * over.directions().len() * trees as usize;
    (WORK_PER_SEARCH / work.max(1)).clamp(2, MOST_TRIES)
}

/// The work of a search: a choice for each rank of each tree, in every try.
pub(super) fn work(over: &Translations, trees: u32) -> u64 {
    let moves = over.ranks() as u64 * u64::from(trees);
    moves * over.directions().len() as u64 * tries(over, trees) as u64 / 2
}

/// The number of steps from the root, which is rank 0, to every rank.
fn distances(over: &Translations) -> Vec<u32> {
    let mut distance = vec![NOT_YET; over.ranks()];
    let mut order = vec![0u32];
    distance[0] = 0;
    let mut next = 0;
    while let Some(rank) = order.get(next).copied() {
        next += 1;
        for direction in over.directions() {
            let to = direction.next[rank as usize];
            if distance[to as usize] == NOT_YET {
                distance[to as usize] = distance[rank as usize] + 1;
                order.push(to);
            }
        }
    }
    distance
}

/// In which order a tree prefers ranks: by distance, then at random.
struct Ranking {
    /// Per rank: its place in the order.
    place: Vec<u32>,
    /// The ranks in that order.
    rank: Vec<u32>,
}

impl Ranking {
    fn new(shuffled: &[u32], distance: &[u32]) -> Self {
        // A counting sort: stable, so that the shuffled order settles ties.
        let farthest = distance.iter().max().copied().unwrap_or(0) as usize;
        let mut start = vec![0u32; farthest + 2];
        for it in distance {
            start[*it as usize + 1] += 1;
        }
        for it in 0..=farthest {
            start[it + 1] += start[it];
        }
        let mut place = vec![0; distance.len()];
        let mut rank = vec![0; distance.len()];
        for it in shuffled {
            let next = &mut start[distance[*it as usize] as usize];
            place[*it as usize] = *next;
            rank[*next as usize] = *it;
            *next += 1;
        }
        Self { place, rank }
    }
}

/// One try. For each direction and tree there are two sets of ranks to which the direction could bring the
/// tree's share now: those to which that is the last step of a shortest path from the root (`shortest`), and
/// all others. Sets are bits by place in the tree's ranking.
struct Try<'a> {
    over: &'a Translations,
    back: &'a Translations,
    cost: &'a Cost,
    distance: &'a [u32],
    rankings: Vec<Ranking>,
    farthest_first: bool,
    /// How many words a set of ranks has.
    words: usize,
    trees: usize,
    shortest: Vec<u64>,
    other: Vec<u64>,
    /// Per tree and rank: the move that brings the share there, [`ROOT`] or [`NOT_YET`].
    brings: Vec<u32>,
    /// Per direction: whether it waits for a share that it could carry; an arrival wakes it.
    idle: Vec<bool>,
    /// Per direction: how many shares it has carried.
    sent: Vec<u32>,
    events: LeastFirst,
    moves: Vec<Move>,
    /// Per move: where it leads.
    ends: Vec<u32>,
    makespan: u64,
}

impl<'a> Try<'a> {
    fn new(
        (over, back): (&'a Translations, &'a Translations),
        cost: &'a Cost,
        distance: &'a [u32],
        rankings: Vec<Ranking>,
        farthest_first: bool,
    ) -> Self {
        let (ranks, trees, directions) = (over.ranks(), rankings.len(), over.directions().len());
        let words = ranks.div_ceil(64);
        Self {
            over,
            back,
            cost,
            distance,
            rankings,
            farthest_first,
            words,
            trees,
            shortest: vec![0; directions * trees * words],
            other: vec![0; directions * trees * words],
            brings: vec![NOT_YET; trees * ranks],
            idle: vec![true; directions],
            sent: vec![0; directions],
            events: LeastFirst::new(),
            moves: Vec::with_capacity(trees * (ranks - 1)),
            ends: Vec::with_capacity(trees * (ranks - 1)),
            makespan: 0,
        }
    }

    fn run(mut self) -> Pattern {
        for tree in 0..self.trees {
            self.brings[tree * self.over.ranks()] = ROOT;
            self.offer(tree, 0, 0);
        }
        while let Some((now, event)) = self.events.pop() {
            if event & FREE != 0 {
                self.serve((event & !FREE) as usize, now);
            } else {
                self.makespan = self.makespan.max(now);
                let (tree, rank) = (self.moves[event as usize].tree, self.ends[event as usize]);
                self.offer(tree as usize, rank as usize, now);
            }
        }
        Pattern { moves: self.moves, makespan: self.makespan }
    }

    /// A rank has received the tree's share: every direction may carry it on from there.
    fn offer(&mut self, tree: usize, rank: usize, now: u64) {
        for (number, direction) in self.over.directions().iter().enumerate() {
            let to = direction.next[rank] as usize;
            if self.brings[tree * self.over.ranks() + to] != NOT_YET {
                continue;
            }
            let place = self.rankings[tree].place[to] as usize;
            let word = (number * self.trees + tree) * self.words + place / 64;
            let set = if self.distance[to] == self.distance[rank] + 1 {
                &mut self.shortest
            } else {
                &mut self.other
            };
            set[word] |= 1 << (place % 64);
            if std::mem::replace(&mut self.idle[number], false) {
                self.events.push(now, FREE | number as u64);
            }
        }
    }

    /// A direction is free: it takes a share, or waits for one.
    fn serve(&mut self, direction: usize, now: u64) {
        let chosen = self.choose(&self.shortest, direction);
        let Some((tree, place)) = chosen.or_else(|| self.choose(&self.other, direction)) else {
            self.idle[direction] = true;
            return;
        };
        let ranks = self.over.ranks();
        let to = self.rankings[tree].rank[place];
        for number in 0..self.over.directions().len() {
            let word = (number * self.trees + tree) * self.words + place / 64;
            self.shortest[word] &= !(1 << (place % 64));
            self.other[word] &= !(1 << (place % 64));
        }
        let number = self.moves.len() as u32;
        self.brings[tree * ranks + to as usize] = number;
        let from = self.back.directions()[direction].next[to as usize];
        let parent = self.brings[tree * ranks + from as usize];
        self.moves.push(Move { tree: tree as u32, parent, direction: direction as u32 });
        self.ends.push(to);
        self.sent[direction] += 1;
        let end = now.saturating_add(self.cost.busy[direction]);
        self.events.push(end, FREE | direction as u64);
        let arrival = end.saturating_add(self.cost.latency[direction]);
        self.events.push(arrival, u64::from(number));
    }

    /// The tree and the place of the rank to serve next: the nearest (or the farthest) rank of any tree; of
    /// equals trees take turns.
    fn choose(&self, sets: &[u64], direction: usize) -> Option<(usize, usize)> {
        let mut best: Option<(u32, usize, usize)> = None;
        let turn = (direction + self.sent[direction] as usize) % self.trees;
        for tree in (turn..self.trees).chain(0..turn) {
            let set = &sets[(direction * self.trees + tree) * self.words..][..self.words];
            let place = if self.farthest_first { last(set) } else { first(set) };
            let Some(place) = place else { continue };
            let distance = self.distance[self.rankings[tree].rank[place] as usize];
            let key = if self.farthest_first { u32::MAX - distance } else { distance };
            if best.is_none_or(|it| key < it.0) {
                best = Some((key, tree, place));
            }
        }
        best.map(|(_, tree, place)| (tree, place))
    }
}

fn first(set: &[u64]) -> Option<usize> {
    let word = set.iter().position(|it| *it != 0)?;
    Some(word * 64 + set[word].trailing_zeros() as usize)
}

fn last(set: &[u64]) -> Option<usize> {
    let word = set.iter().rposition(|it| *it != 0)?;
    Some(word * 64 + 63 - set[word].leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_net::builders::{Params, find};
    use motet_sim::link_rule::{Arrival, Passage};
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::Fabric;
    use crate::grid::LazyGrid;
    use crate::task::{Goal, Task};

    /// The translations of a 3 × 4 torus, which has four directions, and the same turned round.
    fn torus() -> (Translations, Translations) {
        let params = Params::from_words(["rows=3", "columns=4"]).unwrap();
        let network = find("torus-2d").unwrap().build(&params).unwrap();
        let goal = Goal::new(CollectiveKind::AllGather, 12).unwrap();
        let task = Task::new(&network, goal, Bytes::mib(1));
        let fabric = Fabric::new(&task).unwrap();
        let over = Translations::new(&fabric, &LazyGrid::new(&fabric)).unwrap();
        let back = over.turned_round();
        (over, back)
    }

    proptest! {
        /// What the search says of time is what the simulator's link rule makes of its moves: one after the other in
        /// every direction, each as soon as its data has arrived whole.
        #[test]
        fn moves_take_what_the_link_rule_says(
            costs in proptest::collection::vec((1u64..1_000_000, 0u64..1_000_000), 4),
            trees in 1u32..5,
            seed in 0u64..100,
        ) {
            let (over, back) = torus();
            let (busy, latency): (Vec<u64>, Vec<u64>) = costs.into_iter().unzip();
            prop_assert_eq!(over.directions().len(), busy.len());
            let cost = Cost { busy, latency };
            let found = search(&over, &back, &cost, trees, Seed::new(seed), Watch::default());
            prop_assert_eq!(found.moves.len(), 11 * trees as usize);
            let mut free = vec![0u64; cost.busy.len()];
            let mut arrivals: Vec<Arrival<u64>> = Vec::new();
            for it in &found.moves {
                let direction = it.direction as usize;
                let at = arrivals.get(it.parent as usize).copied();
                let at = at.unwrap_or(Arrival::whole(0)).forwarded(true);
                let passage = Passage::of(at, free[direction], cost.busy[direction]);
                free[direction] = passage.streamed;
                arrivals.push(passage.arrival(cost.latency[direction]));
            }
            let last = arrivals.iter().map(|it| it.tail).max();
            prop_assert_eq!(last, Some(found.makespan));
        }
    }
}
