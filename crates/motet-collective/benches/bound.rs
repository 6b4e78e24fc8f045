//! How long bounds take: real servers by the box, a torus, and a thousand GPUs under leaves and
//! spines.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use motet_collective::bound::bound;
use motet_collective::{Collective, CollectiveKind};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration, NodeId};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Built = Result<Network, motet_net::BuildError>;

fn spec(gb_per_s: u64) -> LinkSpec {
    LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(gb_per_s), Duration::from_ns(700))
}

/// DGX A100 boxes: NVSwitch at 300 GB/s a GPU, and 25 GB/s a GPU to one of two rails.
fn a100(boxes: usize) -> Built {
    let mut net = NetworkBuilder::new(format!("dgx-a100-x{boxes}"));
    let leaf = |net: &mut NetworkBuilder, name: &str| net.add_node(Node::new(name, NodeKind::Leaf));
    let rails = [leaf(&mut net, "odd")?, leaf(&mut net, "even")?];
    for server in 0..boxes {
        let place = format!("s{server}");
        let name = format!("{place}-nvswitch");
        let switch = Node::new(name, NodeKind::NvSwitch).in_server(place.as_str());
        let switch = net.add_node(switch)?;
        for gpu in 0..8 {
            let name = format!("{place}-g{gpu}");
            let node = Node::new(name, NodeKind::Gpu).in_server(place.as_str());
            let node = net.add_node(node)?;
            let nic = net.add_node(Node::new(format!("{place}-n{gpu}"), NodeKind::Nic))?;
            net.add_duplex(node, switch, spec(300))?;
            net.add_duplex(node, nic, spec(25))?;
            net.add_duplex(nic, rails[gpu % 2], spec(25))?;
        }
    }
    net.build()
}

/// Links between the 16 dies of an MI250 box, by GB/s.
const MI250: [(u64, &[(usize, usize)]); 3] = [
    (200, &[(0, 1), (4, 5), (8, 9), (10, 11), (2, 3), (6, 7), (12, 13), (14, 15)]),
    (100, &[(0, 4), (8, 12), (3, 7), (11, 15)]),
    (
        50,
        &[
            (0, 8),
            (1, 5),
            (1, 9),
            (1, 10),
            (4, 6),
            (5, 6),
            (5, 7),
            (9, 2),
            (9, 13),
            (10, 2),
            (10, 14),
            (2, 6),
            (3, 11),
            (12, 14),
            (13, 14),
            (13, 15),
        ],
    ),
];

fn mi250(boxes: usize) -> Built {
    let mut net = NetworkBuilder::new(format!("mi250-x{boxes}"));
    let switch = net.add_node(Node::new("switch", NodeKind::Leaf))?;
    for server in 0..boxes {
        let place = format!("s{server}");
        let mut dies = Vec::new();
        for die in 0..16 {
            let name = format!("{place}-g{die}");
            dies.push(net.add_node(Node::new(name, NodeKind::Gpu).in_server(place.as_str()))?);
            net.add_duplex(dies[die], switch, spec(16))?;
        }
        for (gb_per_s, pairs) in MI250 {
            for (a, b) in pairs {
                net.add_duplex(dies[*a], dies[*b], spec(gb_per_s))?;
            }
        }
    }
    net.build()
}

fn torus(side: usize) -> Built {
    let mut net = NetworkBuilder::new(format!("torus-{side}x{side}"));
    let mut ids = Vec::new();
    for index in 0..side * side {
        ids.push(net.add_node(Node::new(format!("g{index}"), NodeKind::Gpu))?);
    }
    for row in 0..side {
        for column in 0..side {
            let from = ids[row * side + column];
            net.add_duplex(from, ids[row * side + (column + 1) % side], spec(50))?;
            net.add_duplex(from, ids[(row + 1) % side * side + column], spec(50))?;
        }
    }
    net.build()
}

/// Servers of eight GPUs under an NVSwitch, a NIC each, 32 NICs to a leaf, leaves to 8 spines at
/// half the bandwidth.
fn leaf_spine(gpus: usize) -> Built {
    let mut net = NetworkBuilder::new(format!("leaf-spine-{gpus}"));
    let mut spines = Vec::new();
    for spine in 0..8 {
        spines.push(net.add_node(Node::new(format!("spine{spine}"), NodeKind::Spine))?);
    }
    let (mut switch, mut leaf) = (NodeId(0), NodeId(0));
    for gpu in 0..gpus {
        let place = format!("s{}", gpu / 8);
        if gpu % 32 == 0 {
            leaf = net.add_node(Node::new(format!("leaf{}", gpu / 32), NodeKind::Leaf))?;
            for spine in &spines {
                net.add_duplex(leaf, *spine, spec(100))?;
            }
        }
        if gpu % 8 == 0 {
            let node = Node::new(format!("{place}-nvswitch"), NodeKind::NvSwitch);
            switch = net.add_node(node.in_server(place.as_str()))?;
        }
        let node = Node::new(format!("g{gpu}"), NodeKind::Gpu).in_server(place.as_str());
        let node = net.add_node(node)?;
        let nic = net.add_node(Node::new(format!("nic{gpu}"), NodeKind::Nic).in_server(place))?;
        net.add_duplex(node, switch, spec(450))?;
        net.add_duplex(node, nic, spec(50))?;
        net.add_duplex(nic, leaf, spec(50))?;
    }
    net.build()
}

fn bounds(criterion: &mut Criterion) {
    let kinds = [CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::AllToAll];
    for network in [a100(8), mi250(4), torus(16), leaf_spine(1024)].into_iter().flatten() {
        let mut group = criterion.benchmark_group(network.name());
        group.sample_size(10);
        for kind in kinds {
            let ranks = network.ranks().len() as u32;
            let Ok(collective) = Collective::new(kind, ranks, 1) else { continue };
            group.bench_function(kind.name(), |it| {
                it.iter(|| bound(black_box(&network), black_box(&collective)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bounds);
criterion_main!(benches);
