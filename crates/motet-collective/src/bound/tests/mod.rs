//! Tests of the bounds, and the small networks they share.

pub(super) mod brute_force;
mod closed_forms;
mod messages;
mod reference;
mod times;
mod traffic;

use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration, NodeId, Rank};

use super::{Bound, Ratio, bound};
use crate::collective::{Collective, CollectiveKind};

pub(super) fn spec(gb_per_s: u64) -> LinkSpec {
    LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(gb_per_s), Duration::from_ns(500))
}

pub(super) fn gpus(builder: &mut NetworkBuilder, count: usize) -> Vec<NodeId> {
    let first = builder.nodes().len();
    let gpu = |it: usize| Node::new(format!("g{}", first + it), NodeKind::Gpu);
    (0..count).map(|it| builder.add_node(gpu(it)).unwrap()).collect()
}

/// GPUs with a duplex link of so many GB/s for each pair given.
pub(super) fn joined(count: usize, gb_per_s: u64, pairs: &[(usize, usize)]) -> Network {
    let mut builder = NetworkBuilder::new("joined");
    let ids = gpus(&mut builder, count);
    for (a, b) in pairs {
        builder.add_duplex(ids[*a], ids[*b], spec(gb_per_s)).unwrap();
    }
    builder.build().unwrap()
}

pub(super) fn ring(count: usize, gb_per_s: u64) -> Network {
    let pairs: Vec<_> = (0..count).map(|it| (it, (it + 1) % count)).collect();
    joined(count, gb_per_s, &pairs)
}

pub(super) fn full_mesh(count: usize, gb_per_s: u64) -> Network {
    let pairs: Vec<_> = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
    joined(count, gb_per_s, &pairs)
}

/// A square grid, with the ends of rows and columns joined in a torus.
pub(super) fn grid(side: usize, gb_per_s: u64, torus: bool) -> Network {
    let mut pairs = Vec::new();
    for row in 0..side {
        for column in 0..side {
            let next = (column + 1) % side;
            if next != 0 || torus {
                pairs.push((row * side + column, row * side + next));
                pairs.push((column * side + row, next * side + row));
            }
        }
    }
    joined(side * side, gb_per_s, &pairs)
}

/// GPUs under one switch, which `alter` may give capabilities.
pub(super) fn star(count: usize, gb_per_s: u64, alter: impl FnOnce(&mut Node)) -> Network {
    let mut builder = NetworkBuilder::new("star");
    let ids = gpus(&mut builder, count);
    let mut node = Node::new("switch", NodeKind::NvSwitch);
    alter(&mut node);
    let switch = builder.add_node(node).unwrap();
    for id in ids {
        builder.add_duplex(id, switch, spec(gb_per_s)).unwrap();
    }
    builder.build().unwrap()
}

/// Two datacenters of so many GPUs, each under a switch of 100 GB/s, joined by a WAN link.
pub(super) fn two_dcs(per_dc: usize, wan_gb_per_s: u64) -> Network {
    let mut builder = NetworkBuilder::new("two dcs");
    let borders: Vec<NodeId> = ["east", "west"]
        .map(|dc| {
            let gpus = gpus(&mut builder, per_dc);
            let border = Node::new(format!("border-{dc}"), NodeKind::Border).in_dc(dc);
            let border = builder.add_node(border).unwrap();
            for gpu in gpus {
                builder.node_mut(gpu).location.dc = Some(dc.to_owned());
                builder.add_duplex(gpu, border, spec(100)).unwrap();
            }
            border
        })
        .to_vec();
    let wan =
        LinkSpec::new(LinkClass::Wan, Bandwidth::gb_per_s(wan_gb_per_s), Duration::from_ms(10));
    builder.add_duplex(borders[0], borders[1], wan).unwrap();
    builder.build().unwrap()
}

/// Any collective over all GPUs, rooted at rank 0; AllToAllV with equal counts, SendRecv from each
/// rank to the next.
pub(super) fn collective(kind: CollectiveKind, network: &Network) -> Collective {
    let ranks = network.ranks().len() as u32;
    match kind {
        CollectiveKind::AllToAllV => {
            Collective::all_to_all_v(ranks, vec![1; (ranks * ranks) as usize]).unwrap()
        }
        CollectiveKind::SendRecv => {
            let peers = (0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect();
            Collective::send_recv(1, peers).unwrap()
        }
        _ => Collective::rooted(kind, ranks, 1, Rank(0)).unwrap(),
    }
}

pub(super) fn of(network: &Network, kind: CollectiveKind) -> Bound {
    bound(network, &collective(kind, network)).unwrap()
}

pub(super) fn ratio(numerator: u64, denominator: u64) -> Ratio {
    Ratio::new(u128::from(numerator), u128::from(denominator)).unwrap()
}
