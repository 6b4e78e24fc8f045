//! Dimension by dimension on meshes, tori and other grids: data spreads along one dimension, then
//! from every rank that has it along the next.
//!
//! Along a line or ring it travels in both directions at once. With a single order of dimensions
//! only one dimension's links would be busy at a time. So the data is cut into shares, and each
//! share takes the dimensions in a different order, beginning with a different one. On a grid with
//! equal sides and links that loads all links evenly. Otherwise the shares are made unequal, so
//! that the busiest link carries as little as possible.

use motet_units::{LinkId, Rank};

use super::plan::{self, ClassicStep, Sketched};
use super::routes::Routes;
use crate::fabric::Fabric;
use crate::grid::{Grid, Kind, grid};
use crate::lower::Lowered;
use crate::task::{SynthError, Task};
use crate::tree::Forest;

/// If the trees have more edges than this together, each is made in one direction around rings
/// only, instead of both.
const MOST_EDGES: usize = 1 << 20;

/// The largest share of an order of dimensions, in units of the smallest.
const MOST_SHARES: u32 = 6;

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let Some(grid) = grid(fabric) else {
        return Err(SynthError::not_for("dimension-wise", "the ranks are no mesh or torus"));
    };
    let shares = shares(task, fabric, &grid)?;
    plan::lower(task, fabric, |it| forest(task, it, &grid, &shares))
}

/// How many trees each order of dimensions needs: two if a ring has an even number of ranks,
/// because the farthest rank can be reached either way round.
fn ways_round(grid: &Grid) -> u32 {
    let even = grid.dimensions().iter().any(|it| it.kind == Kind::Ring && it.side % 2 == 0);
    1 + u32::from(even)
}

/// Whether both trees are made for every rank; if not, ranks alternate between them.
fn both_ways(grid: &Grid) -> bool {
    let ranks: usize = grid.dimensions().iter().map(|it| it.side as usize).product();
    let orders = grid.dimensions().len() * ways_round(grid) as usize;
    ways_round(grid) == 2 && orders * ranks * ranks <= MOST_EDGES
}

/// The share of the data that each order of dimensions carries, by the dimension it begins with.
fn shares(task: &Task<'_>, fabric: &Fabric, grid: &Grid) -> Result<Vec<u32>, SynthError> {
    let orders = grid.dimensions().len();
    if !(2..=4).contains(&orders) {
        return Ok(vec![1; orders]);
    }
    let part = plan::part_bytes(task);
    let busy = |it: &LinkId| fabric.busy(*it, part).as_ps() as f64;
    let mut loads: Vec<Vec<f64>> = Vec::with_capacity(orders);
    for order in 0..orders {
        let mut alone = vec![0; orders];
        alone[order] = 1;
        let load = forest(task, fabric, grid, &alone)?.loads(fabric);
        loads.push(fabric.links().iter().map(|it| load[it.index()] as f64 * busy(it)).collect());
    }
    let fullest = |shares: &[u32]| {
        let all = f64::from(shares.iter().sum::<u32>());
        let on = |link: usize| -> f64 {
            shares.iter().zip(&loads).map(|(share, load)| f64::from(*share) * load[link]).sum()
        };
        (0..fabric.links().len()).map(on).fold(0.0, f64::max) / all
    };
    let mut best = vec![1; orders];
    let mut least = fullest(&best);
    let mut tried = vec![0u32; orders];
    while count_up(&mut tried) {
        // More units mean more chunks, so they must pay off.
        if tried.iter().any(|it| *it > 0) && fullest(&tried) < least * 0.999 {
            least = fullest(&tried);
            best.clone_from(&tried);
        }
    }
    Ok(best)
}

/// The next combination of shares; false after the last.
fn count_up(shares: &mut [u32]) -> bool {
    for share in shares {
        *share += 1;
        if *share <= MOST_SHARES {
            return true;
        }
        *share = 0;
    }
    false
}

fn forest(
    task: &Task<'_>,
    fabric: &Fabric,
    grid: &Grid,
    shares: &[u32],
) -> Result<Forest, SynthError> {
    let count = grid.dimensions().len();
    let both = both_ways(grid);
    let mut trees = Vec::new();
    for root in plan::roots(task, fabric) {
        let odd = grid.coordinates(root).iter().sum::<u32>() % 2 == 1;
        for (first, share) in shares.iter().enumerate().filter(|it| *it.1 > 0) {
            let order: Vec<usize> = (0..count).map(|it| (first + it) % count).collect();
            let turns = if both { vec![false, true] } else { vec![odd && ways_round(grid) == 2] };
            for turned in turns {
                let steps = spread(grid, root, &order, turned);
                trees.push(Sketched { root, weight: *share, steps });
            }
        }
        if count == 0 {
            trees.push(Sketched { root, weight: 1, steps: Vec::new() });
        }
    }
    plan::route(Routes::new(fabric, plan::part_bytes(task)), &trees)
}

/// The tree from `root` along the dimensions in this order. With `turned`, the farthest rank of a
/// ring is reached the other way round.
fn spread(grid: &Grid, root: Rank, order: &[usize], turned: bool) -> Vec<ClassicStep> {
    let mut steps = Vec::new();
    let mut has = vec![root];
    for dimension in order {
        for sender in 0..has.len() {
            along(grid, has[sender], *dimension, turned, &mut |from, to| {
                steps.push(ClassicStep::cheapest(from, to));
                has.push(to);
            });
        }
    }
    steps
}

/// The steps along one dimension, nearest ranks first.
fn along(
    grid: &Grid,
    start: Rank,
    dimension: usize,
    turned: bool,
    step: &mut impl FnMut(Rank, Rank),
) {
    let line = grid.line(start, dimension);
    let at = grid.coordinates(start)[dimension] as usize;
    let side = line.len();
    let (up, down) = match grid.dimensions()[dimension].kind {
        Kind::Line => (side - 1 - at, at),
        Kind::Ring if turned => ((side - 1) / 2, side / 2),
        Kind::Ring => (side / 2, (side - 1) / 2),
        Kind::Clique => {
            return (1..side).for_each(|it| step(start, line[(at + it) % side]));
        }
    };
    for distance in 1..=up.max(down) {
        if distance <= up {
            step(line[(at + distance - 1) % side], line[(at + distance) % side]);
        }
        if distance <= down {
            step(line[(at + side - distance + 1) % side], line[(at + side - distance) % side]);
        }
    }
}
