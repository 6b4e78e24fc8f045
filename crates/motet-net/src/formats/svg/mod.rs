//! A network as a self-contained SVG picture.
//!
//! `picture.rs` takes the network, gathered into at most `MAX_ITEMS` items; one of three layouts
//! gives each item its place: `map.rs` where most nodes have coordinates, `force.rs` where all
//! nodes are of one kind (a mesh, a WAN without places), `layered.rs` otherwise, with GPUs at the
//! bottom and spines on top; `draw.rs` writes it down.

mod draw;
mod force;
mod layered;
mod map;
mod picture;
#[cfg(test)]
mod tests;

use crate::Network;
use picture::Picture;

/// More than this cannot be read: servers, then racks, then datacenters become one item each.
const MAX_ITEMS: usize = 320;

/// The network as an SVG file. It has no background of its own and shows on light and on dark.
#[must_use]
pub fn write(network: &Network) -> String {
    let picture = Picture::of(network, MAX_ITEMS);
    let placed = picture.items.iter().filter(|it| it.place.is_some()).count();
    let one_kind = picture.items.windows(2).all(|it| it[0].kind == it[1].kind);
    let scene = if placed * 2 > picture.items.len() {
        map::layout(&picture)
    } else if one_kind && picture.lines.len() + 1 >= picture.items.len() {
        force::layout(&picture)
    } else {
        layered::layout(&picture)
    };
    draw::svg(&picture, &scene)
}

/// Where everything goes.
#[derive(Debug, Default)]
struct Scene {
    /// The middle of each item.
    at: Vec<(f64, f64)>,
    /// Frames around servers.
    frames: Vec<Frame>,
    width: f64,
    height: f64,
    /// The longest line within a row: arcs go as deep as they are long.
    reach: f64,
    /// Whether items are drawn as dots with the label beside, rather than boxes around it.
    dots: bool,
}

#[derive(Debug)]
struct Frame {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    label: String,
}
