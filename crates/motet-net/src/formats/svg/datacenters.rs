//! Boxes around datacenters: one for each, where there are several and their boxes do not overlap.

use std::collections::BTreeMap;

use super::course::HALF_BOX;
use super::picture::Picture;
use super::{Frame, Scene};

/// Between a box and what is in it.
const PAD: f64 = 5.0;
/// For the name of the datacenter, above what is in the box.
const LABEL: f64 = 18.0;

/// Left, top, right and bottom.
type Extent = [f64; 4];

/// The boxes of the datacenters of a picture in rows; none if there are fewer than two, or if any
/// two would overlap: then a box would seem to hold what is in another.
pub(super) fn boxes(picture: &Picture, scene: &Scene, width: impl Fn(&str) -> f64) -> Vec<Frame> {
    let mut extents: BTreeMap<&str, Extent> = BTreeMap::new();
    for (item, (x, y)) in picture.items.iter().zip(&scene.at) {
        let Some(dc) = item.home[0].as_deref() else { continue };
        let half = width(&item.label) / 2.0;
        grow(&mut extents, dc, [x - half, y - HALF_BOX, x + half, y + HALF_BOX]);
        // The frame of its server, which is wider than what is in it.
        let holds = |it: &&Frame| {
            (it.x..=it.x + it.width).contains(x) && (it.y..=it.y + it.height).contains(y)
        };
        for frame in scene.frames.iter().filter(holds) {
            let (right, bottom) = (frame.x + frame.width, frame.y + frame.height);
            grow(&mut extents, dc, [frame.x, frame.y, right, bottom]);
        }
    }
    let padded = |it: &Extent| [it[0] - PAD, it[1] - PAD - LABEL, it[2] + PAD, it[3] + PAD];
    let boxes: Vec<(&str, Extent)> = extents.iter().map(|(dc, it)| (*dc, padded(it))).collect();
    let overlap = |a: &Extent, b: &Extent| a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    let any = boxes
        .iter()
        .enumerate()
        .any(|(index, a)| boxes[index + 1..].iter().any(|b| overlap(&a.1, &b.1)));
    if boxes.len() < 2 || any {
        return Vec::new();
    }
    let frame = |(dc, it): (&str, Extent)| Frame {
        x: it[0],
        y: it[1],
        width: it[2] - it[0],
        height: it[3] - it[1],
        label: dc.to_owned(),
    };
    boxes.into_iter().map(frame).collect()
}

fn grow<'a>(extents: &mut BTreeMap<&'a str, Extent>, dc: &'a str, by: Extent) {
    let known = extents.entry(dc).or_insert(by);
    *known = [known[0].min(by[0]), known[1].min(by[1]), known[2].max(by[2]), known[3].max(by[3])];
}
