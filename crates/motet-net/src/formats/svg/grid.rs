//! Draws two-dimensional meshes and tori as grids. A grid is recognized by its lines: items
//! numbered row by row, each joined to the next in its row and to the one below, and, if lines wrap
//! around, the last of each row and column to the first.

use std::collections::BTreeSet;

use super::picture::Picture;
use super::{Scene, SceneStyle};

/// Between neighbours, as their labels need.
const SPACING: (f64, f64) = (96.0, 180.0);
const MARGIN: f64 = 56.0;
const TOP: f64 = 44.0;

/// How many columns the grid has, if the picture is one of at least two rows and columns.
pub(super) fn columns(picture: &Picture) -> Option<usize> {
    let count = picture.items.len();
    let pairs: BTreeSet<(usize, usize)> =
        picture.lines.iter().map(|it| (it.from.min(it.to), it.from.max(it.to))).collect();
    // The second of a row and the second row are what the first item is joined to.
    let fits = |columns: &usize| {
        count.is_multiple_of(*columns)
            && (pairs == grid(count, *columns, false) || pairs == grid(count, *columns, true))
    };
    let joined = pairs.iter().take_while(|it| it.0 == 0).map(|it| it.1);
    joined.filter(|it| (2..=count / 2).contains(it)).find(fits)
}

/// The lines of a grid.
fn grid(count: usize, columns: usize, wrap: bool) -> BTreeSet<(usize, usize)> {
    let mut pairs = BTreeSet::new();
    for index in 0..count {
        let column = index % columns;
        if column + 1 < columns {
            pairs.insert((index, index + 1));
        } else if wrap {
            pairs.insert((index + 1 - columns, index));
        }
        if index + columns < count {
            pairs.insert((index, index + columns));
        } else if wrap {
            pairs.insert((column, index));
        }
    }
    pairs
}

pub(super) fn layout(picture: &Picture, columns: usize) -> Scene {
    let count = picture.items.len();
    let label = picture.items.iter().map(|it| it.label.chars().count()).max().unwrap_or(0);
    let spacing = (label as f64 * 6.2 + 20.0).clamp(SPACING.0, SPACING.1);
    let at = |index: usize| {
        let (column, row) = (index % columns, index / columns);
        (MARGIN + column as f64 * spacing, TOP + row as f64 * spacing)
    };
    let (right, bottom) = at(count.saturating_sub(1));
    Scene {
        at: (0..count).map(at).collect(),
        frames: Vec::new(),
        width: right + MARGIN + 24.0,
        height: bottom + MARGIN,
        style: SceneStyle::Grid { spacing },
    }
}
