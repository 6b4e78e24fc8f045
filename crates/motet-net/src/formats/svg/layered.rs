//! Rows by kind: GPUs at the bottom, the rest of each server above them within its frame, then
//! leaves, spines, optical switches and border routers.
//!
//! Within a row, an item is placed above the middle of what it is joined to further down, and then
//! moved aside as far as its neighbours require.

use std::collections::BTreeMap;

use super::picture::{Item, Picture};
use super::{Frame, Scene, SceneStyle, datacenters};
use crate::{LinkClass, NodeKind};

const ROW: f64 = 84.0;
const GAP: f64 = 14.0;
const FRAME: f64 = 16.0;
/// Room below the GPUs for the arcs of links between them.
pub(super) const ARCS: f64 = 72.0;

/// The width of an item's box.
pub(super) fn box_width(label: &str) -> f64 {
    (label.chars().count() as f64 * 6.6 + 14.0).clamp(38.0, 150.0)
}

/// The height of a row among all, from the bottom; PCIe trees are split by depth.
fn row(kind: NodeKind) -> usize {
    match kind {
        NodeKind::Gpu => 0,
        NodeKind::NvSwitch => 1,
        NodeKind::PcieSwitch => 2,
        NodeKind::Cpu => 40,
        NodeKind::Nic => 41,
        NodeKind::Leaf => 42,
        NodeKind::Spine => 43,
        NodeKind::Ocs => 44,
        NodeKind::Border => 45,
    }
}

/// The row of each item. A PCIe switch nearer to a CPU stands higher.
fn rows(picture: &Picture) -> Vec<usize> {
    let mut rows: Vec<usize> = picture.items.iter().map(|it| row(it.kind)).collect();
    let pcie: Vec<(usize, usize)> = picture
        .lines
        .iter()
        .filter(|it| it.class == LinkClass::Pcie)
        .map(|it| (it.from, it.to))
        .collect();
    let is = |item: usize, kind: NodeKind| picture.items[item].kind == kind;
    let mut near: Vec<bool> = (0..rows.len()).map(|it| is(it, NodeKind::Cpu)).collect();
    // Depth by depth from the CPUs; deeper than this counts as one.
    for depth in 1..30 {
        let mut reached = near.clone();
        for &(a, b) in &pcie {
            for (from, to) in [(a, b), (b, a)] {
                if near[from] && !near[to] && is(to, NodeKind::PcieSwitch) && !reached[to] {
                    rows[to] = 40 - depth;
                    reached[to] = true;
                }
            }
        }
        if reached == near {
            break;
        }
        near = reached;
    }
    // The rows in use, without gaps.
    let used: BTreeMap<usize, ()> = rows.iter().map(|it| (*it, ())).collect();
    let dense: BTreeMap<usize, usize> = used.keys().copied().zip(0..).collect();
    rows.iter().map(|it| dense[it]).collect()
}

/// A block that is laid out on its own: a server, or one item outside any.
struct Block {
    items: Vec<usize>,
    framed: bool,
}

/// The servers in order of their homes, each a block.
fn blocks(picture: &Picture, shared: impl Fn(&Item) -> bool) -> Vec<Block> {
    let mut of_home: BTreeMap<[Option<String>; 3], Vec<usize>> = BTreeMap::new();
    let mut order: Vec<[Option<String>; 3]> = Vec::new();
    let mut alone: Vec<Block> = Vec::new();
    for (index, item) in picture.items.iter().enumerate().filter(|(_, it)| !shared(it)) {
        if item.home[2].is_none() {
            alone.push(Block { items: vec![index], framed: false });
            continue;
        }
        let members = of_home.entry(item.home.clone()).or_default();
        if members.is_empty() {
            order.push(item.home.clone());
        }
        members.push(index);
    }
    // In file order, since names such as s10 sort before s2.
    let framed = order.into_iter().filter_map(|it| of_home.remove(&it));
    let mut blocks: Vec<Block> = framed.map(|items| Block { items, framed: true }).collect();
    blocks.append(&mut alone);
    blocks
}

pub(super) fn layout(picture: &Picture) -> Scene {
    let rows = rows(picture);
    let top = rows.iter().copied().max().unwrap_or(0);
    let neighbours = neighbours(picture);
    // Switches of the fabric belong to no server, whatever rack they stand in.
    let shared = |it: &Item| it.home[2].is_none() && row(it.kind) >= 42 && !it.gathered;
    let arcs = picture.lines.iter().any(|it| rows[it.from] == rows[it.to] && rows[it.from] == 0);
    let bottom = FRAME + if arcs { ARCS } else { 0.0 };
    let height = FRAME + 20.0 + top as f64 * ROW + ROW / 2.0 + bottom;
    let y = |row: usize| height - bottom - ROW / 4.0 - row as f64 * ROW;
    let mut scene = Scene { at: vec![(0.0, 0.0); rows.len()], ..Scene::default() };
    let mut left = FRAME;
    for block in blocks(picture, shared) {
        let highest = block.items.iter().map(|it| rows[*it]).max().unwrap_or(0);
        let start = (left + FRAME, 0.0);
        let width = place(picture, &block.items, &rows, &neighbours, start, &mut scene);
        if block.framed {
            let home = &picture.items[block.items[0]].home;
            let above = y(highest) - ROW / 4.0 - 18.0;
            scene.frames.push(Frame {
                x: left,
                y: above,
                width: width + 2.0 * FRAME,
                height: height - FRAME / 2.0 - above,
                label: home[2].clone().unwrap_or_default(),
            });
            left += width + 3.0 * FRAME;
        } else {
            left += width + GAP;
        }
    }
    let fabric: Vec<usize> = (0..rows.len()).filter(|it| shared(&picture.items[*it])).collect();
    // The fabric has all the room above the servers.
    let start = (FRAME, left - 2.0 * FRAME);
    let width = place(picture, &fabric, &rows, &neighbours, start, &mut scene);
    scene.width = left.max(width + 2.0 * FRAME);
    scene.height = height;
    for (at, row) in scene.at.iter_mut().zip(&rows) {
        at.1 = y(*row);
    }
    let flat = picture.lines.iter().filter(|it| rows[it.from] == rows[it.to]);
    let reach = flat.map(|it| (scene.at[it.from].0 - scene.at[it.to].0).abs());
    scene.style = SceneStyle::Rows { reach: reach.fold(0.0, f64::max) };
    let boxes = datacenters::boxes(picture, &scene, box_width);
    let lowest = boxes.iter().map(|it| it.y + it.height).fold(scene.height, f64::max);
    scene.height = lowest.ceil();
    // Below the frames of servers.
    scene.frames.splice(0..0, boxes);
    scene
}

/// Each item's neighbours.
fn neighbours(picture: &Picture) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); picture.items.len()];
    for line in &picture.lines {
        neighbours[line.from].push(line.to);
        neighbours[line.to].push(line.from);
    }
    neighbours
}

/// Gives the items their x, row by row from the bottom; the width they take. They begin at `left`
/// and have at least `room`.
fn place(
    picture: &Picture,
    items: &[usize],
    rows: &[usize],
    neighbours: &[Vec<usize>],
    (left, room): (f64, f64),
    scene: &mut Scene,
) -> f64 {
    let mut by_row: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for item in items {
        by_row.entry(rows[*item]).or_default().push(*item);
    }
    let size = |item: usize| box_width(&picture.items[item].label) + GAP;
    let natural = |row: &Vec<usize>| row.iter().map(|it| size(*it)).sum::<f64>();
    let width = by_row.values().map(natural).fold(room, f64::max);
    for row in by_row.values() {
        // Above the middle of what is below; what has nothing below keeps its place in the row.
        let spread = width / row.len() as f64;
        let mut wanted: Vec<(f64, usize)> = Vec::new();
        for (order, item) in row.iter().enumerate() {
            let below: Vec<f64> = neighbours[*item]
                .iter()
                .filter(|it| rows[**it] < rows[*item])
                .map(|it| scene.at[*it].0)
                .collect();
            let middle = if below.is_empty() {
                left + (order as f64 + 0.5) * spread
            } else {
                below.iter().sum::<f64>() / below.len() as f64
            };
            wanted.push((middle, *item));
        }
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        settle(&wanted, size, left, width, scene);
    }
    width
}

/// Moves items apart from left to right, then back from the right edge.
fn settle(
    wanted: &[(f64, usize)],
    size: impl Fn(usize) -> f64,
    left: f64,
    width: f64,
    scene: &mut Scene,
) {
    let mut edge = left;
    for (middle, item) in wanted {
        let half = size(*item) / 2.0;
        scene.at[*item].0 = middle.max(edge + half);
        edge = scene.at[*item].0 + half;
    }
    let mut edge = edge.min(left + width).max(left);
    for (_, item) in wanted.iter().rev() {
        let half = size(*item) / 2.0;
        scene.at[*item].0 = scene.at[*item].0.min(edge - half);
        edge = scene.at[*item].0 - half;
    }
}
