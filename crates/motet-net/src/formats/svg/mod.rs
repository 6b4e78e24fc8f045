//! A network as a self-contained SVG picture, with or without the traffic on its links.
//!
//! `picture.rs` reduces the network to at most `MAX_ITEMS` items. One of four layouts places them:
//! `map.rs` if most nodes have coordinates, `grid.rs` for meshes and tori, `force.rs` if all nodes
//! are of one kind (a hypercube, a WAN without coordinates), and `layered.rs` otherwise, with GPUs
//! at the bottom and spines on top, where `datacenters.rs` adds boxes around datacenters.
//! `course.rs` leads lines from item to item, and `draw.rs` writes the SVG. With traffic, `load.rs`
//! adds up what each line and item carried, and `heat.rs` colours them by it.

mod course;
mod datacenters;
mod draw;
mod force;
mod grid;
mod heat;
mod labels;
mod layered;
mod load;
mod map;
mod picture;
#[cfg(test)]
mod tests;

use motet_units::{Bytes, LinkId};

use crate::Network;
use load::Loads;
use picture::Picture;

/// More than this cannot be read: servers, then racks, then datacenters become one item each.
const MAX_ITEMS: usize = 320;

/// What one link did during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The part of the time that it was busy, 0 to 1.
    pub utilization: f64,
    /// What it carried.
    pub bytes: Bytes,
}

/// The network as an SVG file. It has no background of its own, and its text follows the reader's
/// light or dark colour scheme.
#[must_use]
pub fn write(network: &Network) -> String {
    let picture = Picture::of(network, MAX_ITEMS);
    draw::svg(&picture, &layout(&picture), None)
}

/// The network with each direction of each link coloured by how busy it was, as an SVG file. The
/// caption says what ran. Its ground and its colours follow the reader's light or dark colour scheme.
#[must_use]
pub fn write_utilization(
    network: &Network,
    caption: &str,
    traffic: impl Fn(LinkId) -> Traffic,
) -> String {
    let picture = Picture::of(network, MAX_ITEMS);
    let loads = Loads::of(network, &picture, caption, traffic);
    draw::svg(&picture, &layout(&picture), Some(&loads))
}

fn layout(picture: &Picture) -> Scene {
    let placed = picture.items.iter().filter(|it| it.place.is_some()).count();
    let one_kind = picture.items.windows(2).all(|it| it[0].kind == it[1].kind);
    if placed * 2 > picture.items.len() {
        return map::layout(picture);
    }
    if one_kind && let Some(columns) = grid::columns(picture) {
        return grid::layout(picture, columns);
    }
    if one_kind && picture.lines.len() + 1 >= picture.items.len() {
        return force::layout(picture);
    }
    layered::layout(picture)
}

/// Where everything goes.
#[derive(Debug, Default)]
struct Scene {
    /// The middle of each item.
    at: Vec<(f64, f64)>,
    /// Frames around datacenters and, inside them, around servers.
    frames: Vec<Frame>,
    width: f64,
    height: f64,
    style: SceneStyle,
}

/// How items and lines are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SceneStyle {
    /// Boxes around their labels. Lines within a row are arcs, as deep as they are long, the
    /// longest reaching this far.
    Rows { reach: f64 },
    /// Dots with the label beside, straight lines.
    Dots,
    /// Dots so far apart; lines that wrap around pass beside those between their ends.
    Grid { spacing: f64 },
}

impl Default for SceneStyle {
    fn default() -> Self {
        Self::Rows { reach: 0.0 }
    }
}

#[derive(Debug)]
struct Frame {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    label: String,
}
