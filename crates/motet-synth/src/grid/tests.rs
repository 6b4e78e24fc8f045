//! Grids are recognised whatever their ranks are called, and nothing else is.

use motet_collective::CollectiveKind;
use motet_net::builders::{Params, find};
use motet_net::{Network, NetworkBuilder};
use motet_units::Bytes;
use proptest::prelude::*;

use super::*;
use crate::task::{Goal, Task};

fn build(words: &str) -> Network {
    let (name, params) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(params.split_whitespace()).unwrap();
    find(name).unwrap().build(&params).unwrap()
}

fn grid_of(network: &Network) -> Option<Grid> {
    let ranks = network.ranks().len() as u32;
    let goal = Goal::new(CollectiveKind::AllGather, ranks).unwrap();
    grid(&Fabric::new(&Task::new(network, goal, Bytes::mib(1))).unwrap())
}

fn sides(words: &str) -> Vec<(u32, Kind)> {
    let grid = grid_of(&build(words)).unwrap();
    grid.dimensions().iter().map(|it| (it.side, it.kind)).collect()
}

/// The same network with its nodes in another order.
fn shuffled(network: &Network, order: &[usize]) -> Network {
    let mut b = NetworkBuilder::new("shuffled");
    let mut ids = vec![None; order.len()];
    for node in order {
        ids[*node] = Some(b.add_node(network.nodes()[*node].clone()).unwrap());
    }
    for link in network.links() {
        let (from, to) = (ids[link.from.index()].unwrap(), ids[link.to.index()].unwrap());
        b.add_link(from, to, link.spec).unwrap();
    }
    b.build().unwrap()
}

#[test]
fn known_grids() {
    use Kind::{Clique, Line, Ring};
    assert_eq!(sides("mesh rows=3 columns=5"), [(3, Line), (5, Line)]);
    assert_eq!(sides("mesh rows=1 columns=7"), [(7, Line)]);
    assert_eq!(sides("torus-2d rows=6 columns=10"), [(6, Ring), (10, Ring)]);
    assert_eq!(sides("torus-2d rows=3 columns=5"), [(3, Ring), (5, Ring)]);
    assert_eq!(sides("torus-2d rows=4 columns=4"), [(4, Ring), (4, Ring)]);
    assert_eq!(sides("torus-3d x=2 y=3 z=8"), [(8, Ring), (3, Ring), (2, Line)]);
    assert_eq!(sides("torus-3d x=8 y=8 z=8"), [(8, Ring); 3]);
    assert_eq!(sides("ring gpus=9"), [(9, Ring)]);
    assert_eq!(sides("full-mesh gpus=6"), [(6, Clique)]);
    assert_eq!(sides("dgx-1"), [(2, Line), (4, Clique)]);
    assert_eq!(sides("hypercube dimensions=3"), [(2, Line); 3]);
}

#[test]
fn coordinates_follow_rows() {
    let grid = grid_of(&build("mesh rows=3 columns=5")).unwrap();
    assert_eq!(grid.coordinates(Rank(7)), [1, 2]);
    assert_eq!(grid.rank_at(&[2, 4]), Rank(14));
    assert_eq!(grid.line(Rank(7), 0), [Rank(2), Rank(7), Rank(12)]);
}

#[test]
fn what_is_no_grid() {
    assert_eq!(grid_of(&build("dgx-a100")), None);
    assert_eq!(grid_of(&build("mi250")), None);
    // A mesh without one of its links.
    let mesh = build("mesh rows=3 columns=3");
    let mut b = NetworkBuilder::new("broken");
    for node in mesh.nodes() {
        b.add_node(node.clone()).unwrap();
    }
    for link in mesh.links().iter().skip(2) {
        b.add_link(link.from, link.to, link.spec).unwrap();
    }
    assert_eq!(grid_of(&b.build().unwrap()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Numbering does not matter.
    #[test]
    fn found_under_any_numbering(
        (words, order) in (1usize..6, 2usize..7, 1usize..4, any::<bool>()).prop_flat_map(|(x, y, z, torus)| {
            let words = if torus {
                format!("torus-3d x={x} y={y} z={z}")
            } else {
                format!("mesh rows={x} columns={y}")
            };
            let ranks = x * y * if torus { z } else { 1 };
            (Just(words), Just((0..ranks).collect::<Vec<_>>()).prop_shuffle())
        })
    ) {
        let plain = build(&words);
        let grid = grid_of(&shuffled(&plain, &order));
        prop_assert!(grid.is_some(), "{words} in order {order:?}");
        let places: u32 = grid.iter().flat_map(Grid::dimensions).map(|it| it.side).product();
        prop_assert_eq!(places as usize, order.len());
    }
}
