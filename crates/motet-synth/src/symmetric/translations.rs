//! [`Translations`]: the directions of a network that looks the same from every rank.

use motet_units::{LinkId, Rank};

use crate::fabric::Fabric;
use crate::grid::{Grid, Kind, LazyGrid};

/// From every rank one link, all alike, each to the rank at the same distance in the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Direction {
    /// Where it leads from each rank.
    pub(super) next: Vec<u32>,
    /// The link it takes from each rank.
    pub(super) links: Vec<LinkId>,
    pub(super) bits_per_s: u64,
    /// In picoseconds.
    pub(super) latency: u64,
}

/// All directions. Steps in two directions can be taken in either order, with the same end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translations {
    ranks: usize,
    directions: Vec<Direction>,
}

impl Translations {
    /// `None` if the fabric is no grid that wraps around with equal links in each direction.
    pub(super) fn new(fabric: &Fabric, grid: &LazyGrid<'_>) -> Option<Self> {
        if fabric.rank_count() == 1 {
            return Some(Self { ranks: 1, directions: Vec::new() });
        }
        let grid = grid.get()?;
        let mut directions = Vec::new();
        for (dimension, it) in grid.dimensions().iter().enumerate() {
            let steps: Vec<u32> = match it.kind {
                Kind::Line if it.side > 2 => return None,
                Kind::Line => vec![1],
                Kind::Ring => vec![1, it.side - 1],
                Kind::Clique => (1..it.side).collect(),
            };
            for step in steps {
                add(fabric, grid, dimension, step, &mut directions)?;
            }
        }
        Some(Self { ranks: fabric.rank_count(), directions })
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    pub(super) fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// The same links, each from where it led to where it came from.
    pub(super) fn turned_round(&self) -> Self {
        let turned = |it: &Direction| {
            let (mut next, mut links) = (it.next.clone(), it.links.clone());
            for (from, to) in it.next.iter().enumerate() {
                next[*to as usize] = from as u32;
                links[*to as usize] = it.links[from];
            }
            Direction { next, links, ..*it }
        };
        Self { ranks: self.ranks, directions: self.directions.iter().map(turned).collect() }
    }
}

/// The directions, one for each parallel link, that lead `step` along the dimension.
fn add(
    fabric: &Fabric,
    grid: &Grid,
    dimension: usize,
    step: u32,
    directions: &mut Vec<Direction>,
) -> Option<()> {
    let ranks = fabric.rank_count();
    let side = grid.dimensions()[dimension].side;
    let mut at = Vec::new();
    let first = directions.len();
    for rank in 0..ranks {
        let from = Rank::from_index(rank);
        at.clear();
        at.extend_from_slice(grid.coordinates(from));
        at[dimension] = (at[dimension] + step) % side;
        let to = grid.rank_at(&at);
        let mut links: Vec<(u64, u64, LinkId)> = grid
            .links(fabric, from, to)
            .map(|it| (fabric.bits_per_s(it), fabric.latency(it).as_ps(), it))
            .collect();
        links.sort_unstable();
        if rank == 0 {
            directions.extend(links.iter().map(|(bits_per_s, latency, _)| Direction {
                next: Vec::with_capacity(ranks),
                links: Vec::with_capacity(ranks),
                bits_per_s: *bits_per_s,
                latency: *latency,
            }));
        }
        if links.len() != directions.len() - first {
            return None;
        }
        for ((bits, latency, link), direction) in links.into_iter().zip(&mut directions[first..]) {
            if (bits, latency) != (direction.bits_per_s, direction.latency) {
                return None;
            }
            direction.next.push(to.0);
            direction.links.push(link);
        }
    }
    Some(())
}
