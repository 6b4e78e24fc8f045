//! The last stage: packs the trees of a scaled fabric and assigns a path of links to each of their edges.

use motet_units::Rank;

use super::pack::{Packed, pack};
use super::scale::Scaled;
use super::shorten::shorten;
use super::ways::Lane;
use crate::fabric::Fabric;
use crate::tree::{Edge, Forest, PathTable, Tree};
use crate::watch::Watch;

/// What a step of a tree costs besides the latency of its links, in picoseconds: a rank forwards a slice only
/// when it has arrived whole. A rough number is enough: it only has to make two short steps cost more than
/// one.
const STEP: u64 = 1_000_000;

/// The forest of a scaled fabric; `None` if time was up before it was packed.
pub(super) fn finish(fabric: &Fabric, scaled: Scaled, watch: Watch<'_>) -> Option<Forest> {
    let Scaled { net, ways } = scaled;
    let mut table = PathTable::default();
    let arcs = net.arc_count() as u32;
    let mut lanes: Vec<Vec<Lane>> = vec![Vec::new(); arcs as usize];
    for arc in (0..arcs).filter(|it| net.capacity(*it) > 0) {
        lanes[arc as usize] = ways.lanes(net.tail(arc), net.head(arc), fabric, &mut table);
    }
    let ends: Vec<(Rank, Rank)> =
        (0..arcs).map(|it| (Rank(net.tail(it)), Rank(net.head(it)))).collect();
    let paths = table.into_paths();
    let latency = |lane: &Lane| -> u64 {
        paths[lane.path as usize].iter().map(|it| fabric.latency(*it).as_ps()).sum()
    };
    let length = |lanes: &Vec<Lane>| lanes.iter().map(latency).max().unwrap_or(0) + STEP;
    let length: Vec<u64> = lanes.iter().map(length).collect();
    let mut packed = pack(net.clone(), &length, watch)?;
    shorten(&net, &length, &mut packed, watch);
    for lanes in &mut lanes {
        lanes.sort_by_key(|it| (latency(it), it.amount, it.path));
    }
    let mut trees = Vec::new();
    for tree in &packed {
        deal(tree, &ends, &mut lanes, &mut trees);
    }
    Some(Forest { paths, trees })
}

/// Assigns a path (lane) to each arc of a tree; where no single path is wide enough, the tree is divided into several.
fn deal(tree: &Packed, ends: &[(Rank, Rank)], lanes: &mut [Vec<Lane>], trees: &mut Vec<Tree>) {
    let mut left = tree.weight;
    while left > 0 {
        let mut weight = left;
        let mut chosen = Vec::with_capacity(tree.arcs.len());
        for arc in &tree.arcs {
            let lanes = &lanes[*arc as usize];
            // The shortest that is wide enough, else the widest.
            let enough = (0..lanes.len()).find(|it| lanes[*it].amount >= weight);
            let widest = || (0..lanes.len()).max_by_key(|it| lanes[*it].amount);
            let lane = enough.or_else(widest).unwrap_or(0);
            weight = weight.min(lanes.get(lane).map_or(0, |it| it.amount));
            chosen.push(lane);
        }
        if weight == 0 {
            break;
        }
        let mut edges = Vec::with_capacity(tree.arcs.len());
        for (arc, lane) in tree.arcs.iter().zip(chosen) {
            let lane = &mut lanes[*arc as usize][lane];
            lane.amount -= weight;
            let (from, to) = ends[*arc as usize];
            edges.push(Edge { from, to, path: lane.path });
        }
        let weight_u32 = u32::try_from(weight).unwrap_or(u32::MAX);
        trees.push(Tree { root: Rank(tree.root), weight: weight_u32, edges });
        left -= weight;
    }
}
