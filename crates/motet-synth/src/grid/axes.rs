//! Finds the dimensions from the links around one rank, the origin, then coordinates outward from
//! it.

use super::neighbours::Neighbours;
use super::{Dimension, Kind};

/// Most neighbours of a rank, unless all ranks form one clique.
const MOST_LINKS: usize = 256;
/// Most dimensions of a grid.
const MOST_DIMENSIONS: usize = 32;
const UNSEEN: u32 = u32::MAX;

/// A candidate grid, to be checked by the caller: dimensions and the coordinates of each rank.
#[derive(Debug)]
pub(super) struct Found {
    dimensions: Vec<Dimension>,
    coordinates: Vec<u32>,
    /// The origin, and its first neighbour along each dimension.
    origin: usize,
    along: Vec<u32>,
}

/// Breadth-first search from the origin. Each link back towards the origin is coloured with the
/// dimension that it runs along.
struct Outward {
    level: Vec<u32>,
    order: Vec<u32>,
    /// For each entry of [`Neighbours`] that leads back towards the origin: its dimension.
    colour: Vec<u32>,
}

/// The grid that the links suggest; the caller checks it.
pub(super) fn find(neighbours: &Neighbours) -> Option<Found> {
    // A rank with the fewest links is at the end of every dimension that is a line, so it can be
    // the origin.
    let origin = (0..neighbours.count()).min_by_key(|it| neighbours.of(*it).len())?;
    let (classes, count) = classes(neighbours, origin)?;
    let outward = outward(neighbours, origin, &classes)?;
    let mut coordinates = vec![UNSEEN; neighbours.count() * count];
    coordinates[origin * count..][..count].fill(0);
    let mut dimensions = Vec::with_capacity(count);
    let mut along = Vec::with_capacity(count);
    for dimension in 0..count {
        let axis = axis(neighbours, origin, &outward, dimension as u32);
        let (order, kind) = walk(neighbours, origin, &axis)?;
        for (at, rank) in (0..).zip(&order) {
            let own = &mut coordinates[*rank as usize * count..][..count];
            own.fill(0);
            own[dimension] = at;
        }
        along.push(*order.get(1)?);
        dimensions.push(Dimension { side: order.len() as u32, kind });
    }
    spread(neighbours, &outward, &mut coordinates, count)?;
    Some(Found { dimensions, coordinates, origin, along })
}

/// The dimension of each neighbour of the origin, and the number of dimensions. Dimensions are
/// numbered from the one whose neighbour has the highest rank: where ranks are numbered row by row,
/// that is the one whose coordinate varies most slowly.
fn classes(neighbours: &Neighbours, origin: usize) -> Option<(Vec<u32>, usize)> {
    let around = neighbours.of(origin);
    let complete = around.len() + 1 == neighbours.count();
    if around.len() > MOST_LINKS && !complete {
        return None;
    }
    let mut class = vec![UNSEEN; around.len()];
    let mut count = 0;
    for first in (0..around.len()).rev() {
        if class[first] != UNSEEN {
            continue;
        }
        class[first] = count;
        for second in (0..first).rev() {
            let (a, b) = (around[first] as usize, around[second] as usize);
            let square = !neighbours.joined(a, around[second])
                && neighbours.common(a, b, origin as u32).is_some();
            if class[second] == UNSEEN && !square {
                class[second] = count;
            }
        }
        count += 1;
    }
    (count as usize <= MOST_DIMENSIONS).then_some((class, count as usize))
}

fn outward(neighbours: &Neighbours, origin: usize, classes: &[u32]) -> Option<Outward> {
    let mut level = vec![UNSEEN; neighbours.count()];
    let mut order = vec![origin as u32];
    level[origin] = 0;
    let mut next = 0;
    while let Some(rank) = order.get(next).copied() {
        next += 1;
        for other in neighbours.of(rank as usize) {
            if level[*other as usize] == UNSEEN {
                level[*other as usize] = level[rank as usize] + 1;
                order.push(*other);
            }
        }
    }
    let mut it = Outward { level, order, colour: vec![UNSEEN; neighbours.entries()] };
    for (other, class) in neighbours.of(origin).iter().zip(classes) {
        it.colour[neighbours.entry(*other as usize, origin as u32)?] = *class;
    }
    for at in 1..it.order.len() {
        let rank = it.order[at] as usize;
        if it.level[rank] >= 2 {
            it.colour_back(neighbours, rank)?;
        }
    }
    (it.order.len() == neighbours.count()).then_some(it)
}

impl Outward {
    /// Neighbours one step nearer to the origin, with the index of their entry.
    fn back<'a>(
        &'a self,
        neighbours: &'a Neighbours,
        rank: usize,
    ) -> impl Iterator<Item = (u32, usize)> + 'a {
        let row = neighbours.row(rank);
        let nearer = move |it: &(u32, usize)| self.level[it.0 as usize] < self.level[rank];
        neighbours.of(rank).iter().copied().zip(row..).filter(nearer)
    }

    /// Colours the links of a rank that lead back to the origin. In a square, opposite sides have
    /// the same colour. A rank in no such square lies on an axis, whose colour continues.
    fn colour_back(&mut self, neighbours: &Neighbours, rank: usize) -> Option<()> {
        let back: Vec<(u32, usize)> = self.back(neighbours, rank).collect();
        if back.len() > MOST_DIMENSIONS {
            return None;
        }
        for (p, entry) in &back {
            let opposite = back.iter().filter(|it| it.0 != *p).find_map(|(q, _)| {
                let mut nearer = self.back(neighbours, *q as usize);
                nearer.find(|(x, _)| neighbours.joined(*p as usize, *x)).map(|(_, entry)| entry)
            });
            let straight = || self.back(neighbours, *p as usize).next().map(|(_, entry)| entry);
            let colour = self.colour[opposite.or_else(straight)?];
            self.colour[*entry] = colour;
        }
        Some(())
    }
}

/// The ranks on the axis of `dimension`: all their links back run along it. The origin comes first.
fn axis(neighbours: &Neighbours, origin: usize, outward: &Outward, dimension: u32) -> Vec<u32> {
    let on_axis = |rank: &u32| {
        let mut back = outward.back(neighbours, *rank as usize);
        *rank as usize == origin || back.all(|(_, entry)| outward.colour[entry] == dimension)
    };
    outward.order.iter().copied().filter(on_axis).collect()
}

/// The ranks of an axis in order from the origin, and how they are linked.
fn walk(neighbours: &Neighbours, origin: usize, axis: &[u32]) -> Option<(Vec<u32>, Kind)> {
    let mut sorted = axis.to_vec();
    sorted.sort_unstable();
    let on_axis = |it: &u32| sorted.binary_search(it).is_ok();
    let degree = |it: u32| neighbours.of(it as usize).iter().filter(|it| on_axis(it)).count();
    let fewest = degree(origin as u32);
    if axis.len() >= 4 && fewest + 1 == axis.len() {
        return Some((axis.to_vec(), Kind::Clique));
    }
    let mut order = vec![origin as u32];
    let mut seen = vec![false; neighbours.count()];
    seen[origin] = true;
    while let Some(last) = order.last().copied() {
        let unseen = |it: &&u32| on_axis(it) && !seen[**it as usize];
        let Some(next) = neighbours.of(last as usize).iter().find(unseen).copied() else { break };
        seen[next as usize] = true;
        order.push(next);
    }
    let kind = if fewest >= 2 { Kind::Ring } else { Kind::Line };
    (order.len() == axis.len()).then_some((order, kind))
}

/// Coordinates of the ranks that are on no axis: a step along one dimension leaves all other
/// coordinates as they are.
fn spread(
    neighbours: &Neighbours,
    outward: &Outward,
    coordinates: &mut [u32],
    count: usize,
) -> Option<()> {
    let mut own = vec![UNSEEN; count];
    for rank in outward.order.iter().map(|it| *it as usize) {
        if coordinates[rank * count] != UNSEEN {
            continue;
        }
        own.fill(UNSEEN);
        for (p, entry) in outward.back(neighbours, rank) {
            let kept = &coordinates[p as usize * count..][..count];
            for (dimension, (own, kept)) in own.iter_mut().zip(kept).enumerate() {
                if outward.colour[entry] != dimension as u32 {
                    *own = *kept;
                }
            }
        }
        if own.contains(&UNSEEN) {
            return None;
        }
        coordinates[rank * count..][..count].copy_from_slice(&own);
    }
    Some(())
}

/// A ring of four ranks is also the product of two lines of two, and is found as such. Where an
/// even number of lines of two have the same bandwidth and latency, they are joined in pairs into
/// rings of four.
pub(super) fn join_pairs(neighbours: &Neighbours, found: Found) -> (Vec<Dimension>, Vec<u32>) {
    let Found { dimensions, coordinates, origin, along } = found;
    let count = dimensions.len();
    let cost = |it: usize| neighbours.cost(origin, along[it]);
    let twos: Vec<usize> = (0..count).filter(|it| dimensions[*it].side == 2).collect();
    let mut partner = vec![None; count];
    for a in &twos {
        let alike: Vec<usize> = twos.iter().copied().filter(|it| cost(*it) == cost(*a)).collect();
        if alike.len().is_multiple_of(2) {
            for pair in alike.chunks(2) {
                (partner[pair[0]], partner[pair[1]]) = (Some(pair[1]), Some(pair[0]));
            }
        }
    }
    let kept: Vec<usize> = (0..count).filter(|it| partner[*it].is_none_or(|b| b > *it)).collect();
    let joined = kept.iter().map(|it| match partner[*it] {
        Some(_) => Dimension { side: 4, kind: Kind::Ring },
        None => dimensions[*it],
    });
    let mut moved = Vec::with_capacity(coordinates.len());
    for own in coordinates.chunks(count) {
        moved.extend(kept.iter().map(|it| match partner[*it] {
            // Around the square: 00, 01, 11, 10.
            Some(other) => [[0, 1], [3, 2]][own[*it] as usize & 1][own[other] as usize & 1],
            None => own[*it],
        }));
    }
    (joined.collect(), moved)
}
