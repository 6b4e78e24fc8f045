//! [`grid`]: recognizes a mesh, torus, hypercube or similar from the links alone, and gives every
//! rank coordinates.
//!
//! A grid here is a Cartesian product of lines, rings and cliques. Two links at a rank run along
//! different dimensions if they are two sides of a square, and along the same one otherwise;
//! opposite sides of a square run along the same dimension. So the links around one rank give the
//! dimensions, and squares carry them outward to all other ranks. At the end every link is checked
//! against the coordinates, so a wrong guess can only end as `None`.
//!
//! [`crate::symmetric`] shifts one pattern to every rank of a grid that wraps around; methods that
//! work dimension by dimension need the coordinates only. Links to devices other than ranks are
//! ignored.

mod axes;
mod neighbours;

use std::cell::OnceCell;

use motet_units::{LinkId, Rank};

use crate::fabric::Fabric;
use neighbours::Neighbours;

/// How the ranks along one dimension are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each rank to the next.
    Line,
    /// Each rank to the next and the last to the first; at least three ranks.
    Ring,
    /// Every rank to every other; at least four ranks.
    Clique,
}

/// One dimension of a grid: its length, and how ranks are linked along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub side: u32,
    pub kind: Kind,
}

impl Dimension {
    /// Whether a shift by a fixed distance along this dimension is possible from every rank.
    #[must_use]
    pub const fn wraps(self) -> bool {
        self.side <= 2 || !matches!(self.kind, Kind::Line)
    }

    /// Whether ranks at coordinates `a` and `b` of this dimension are neighbours.
    fn joins(self, a: u32, b: u32) -> bool {
        let apart = a.abs_diff(b);
        match self.kind {
            Kind::Line => apart == 1,
            Kind::Ring => apart == 1 || apart + 1 == self.side,
            Kind::Clique => apart != 0,
        }
    }

    /// How many neighbours the rank at coordinate `at` has along this dimension.
    const fn degree(self, at: u32) -> usize {
        match self.kind {
            Kind::Line => (at > 0) as usize + (at + 1 < self.side) as usize,
            Kind::Ring => 2,
            Kind::Clique => self.side as usize - 1,
        }
    }
}

/// A grid: its dimensions and the coordinates of every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    /// The coordinates of rank 0, then those of rank 1, and so on.
    coordinates: Vec<u32>,
    /// The rank at each position; the last coordinate varies fastest.
    at: Vec<Rank>,
}

impl Grid {
    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    #[must_use]
    pub fn coordinates(&self, rank: Rank) -> &[u32] {
        let d = self.dimensions.len();
        &self.coordinates[rank.index() * d..][..d]
    }

    /// The rank at these coordinates, which must be within the sides.
    #[must_use]
    pub fn rank_at(&self, coordinates: &[u32]) -> Rank {
        self.at[place(&self.dimensions, coordinates)]
    }

    /// The ranks that differ from `rank` in this dimension's coordinate at most, by ascending
    /// coordinate; `rank` is one of them.
    #[must_use]
    pub fn line(&self, rank: Rank, dimension: usize) -> Vec<Rank> {
        let mut at = self.coordinates(rank).to_vec();
        (0..self.dimensions[dimension].side)
            .map(|coordinate| {
                at[dimension] = coordinate;
                self.rank_at(&at)
            })
            .collect()
    }

    /// The direct links from one rank to another.
    pub fn links<'a>(
        &self,
        fabric: &'a Fabric,
        from: Rank,
        to: Rank,
    ) -> impl Iterator<Item = LinkId> + use<'a> {
        let end = fabric.node(to);
        fabric.outgoing(fabric.node(from)).iter().copied().filter(move |it| fabric.to(*it) == end)
    }
}

fn place(dimensions: &[Dimension], coordinates: &[u32]) -> usize {
    let along = dimensions.iter().zip(coordinates);
    along.fold(0, |place, (it, at)| place * it.side as usize + *at as usize)
}

/// The grid of a fabric, searched for only when it is first asked for: on small networks the search takes a
/// good part of a synthesis.
#[derive(Debug)]
pub struct LazyGrid<'f> {
    fabric: &'f Fabric,
    found: OnceCell<Option<Grid>>,
}

impl<'f> LazyGrid<'f> {
    #[must_use]
    pub const fn new(fabric: &'f Fabric) -> Self {
        Self { fabric, found: OnceCell::new() }
    }

    /// See [`grid`].
    #[must_use]
    pub fn get(&self) -> Option<&Grid> {
        self.found.get_or_init(|| grid(self.fabric)).as_ref()
    }
}

/// The grid that the ranks of the fabric form over their direct links, if they form one.
#[must_use]
pub fn grid(fabric: &Fabric) -> Option<Grid> {
    let neighbours = Neighbours::new(fabric)?;
    let found = axes::find(&neighbours)?;
    let (dimensions, coordinates) = axes::join_pairs(&neighbours, found);
    let grid = numbered(dimensions, coordinates, fabric.rank_count())?;
    is_true(&grid, &neighbours).then_some(grid)
}

/// Builds the grid if every position is held by exactly one rank.
fn numbered(dimensions: Vec<Dimension>, coordinates: Vec<u32>, ranks: usize) -> Option<Grid> {
    const NOBODY: Rank = Rank(u32::MAX);
    let mut places = 1usize;
    for it in &dimensions {
        places = places.checked_mul(it.side as usize).filter(|it| *it <= ranks)?;
    }
    if places != ranks {
        return None;
    }
    let mut at = vec![NOBODY; ranks];
    for (rank, own) in coordinates.chunks(dimensions.len()).enumerate() {
        if own.iter().zip(&dimensions).any(|(at, it)| *at >= it.side) {
            return None;
        }
        let slot = &mut at[place(&dimensions, own)];
        if std::mem::replace(slot, Rank::from_index(rank)) != NOBODY {
            return None;
        }
    }
    Some(Grid { dimensions, coordinates, at })
}

/// Whether ranks have direct links to exactly those neighbours that the coordinates call for.
fn is_true(grid: &Grid, neighbours: &Neighbours) -> bool {
    (0..neighbours.count()).all(|from| {
        let own = grid.coordinates(Rank::from_index(from));
        let degree: usize = grid.dimensions.iter().zip(own).map(|(it, at)| it.degree(*at)).sum();
        let joined = |to: &u32| {
            let other = grid.coordinates(Rank(*to));
            let mut differ = (0..own.len()).filter(|it| own[*it] != other[*it]);
            match (differ.next(), differ.next()) {
                (Some(it), None) => grid.dimensions[it].joins(own[it], other[it]),
                _ => false,
            }
        };
        neighbours.of(from).len() == degree && neighbours.of(from).iter().all(joined)
    })
}

#[cfg(test)]
mod tests;
