//! Random networks and states for the property tests: known topologies and random graphs with
//! switches, with latencies and bandwidths of every size.

use motet_net::builders::{Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, NetworkState, Node, NodeKind};
use motet_units::{Bandwidth, Duration, LinkId, NodeId, Stream};
use rand::RngExt;

/// A connected network with 2 to 16 GPUs.
pub(crate) fn network(stream: &mut Stream) -> Network {
    let n = |stream: &mut Stream, low: u32, high: u32| stream.random_range(low..=high).to_string();
    let shape = match stream.random_range(0..6) {
        0 => template("ring", &[("gpus", n(stream, 2, 8))]),
        1 => template("torus-2d", &[("rows", n(stream, 2, 3)), ("columns", n(stream, 2, 4))]),
        2 => template(
            "leaf-spine",
            &[
                ("leaves", n(stream, 1, 3)),
                ("spines", n(stream, 1, 3)),
                ("gpus-per-leaf", n(stream, 2, 4)),
            ],
        ),
        3 => template("two-dc", &[("gpus", n(stream, 2, 4))]),
        4 => template("dgx-a100", &[("count", n(stream, 1, 2)), ("detail", "nics".to_owned())]),
        _ => graph(stream),
    };
    scrambled(&shape, stream)
}

fn template(name: &str, params: &[(&str, String)]) -> Network {
    let words: Vec<String> = params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    find(name).unwrap().build(&Params::from_words(&words).unwrap()).unwrap()
}

/// A random tree of GPUs and switches, with a few more links.
fn graph(stream: &mut Stream) -> Network {
    let mut b = NetworkBuilder::new("random");
    let spec = LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(1), Duration::ZERO);
    let nodes = stream.random_range(2..12u32);
    for index in 0..nodes {
        let gpu = index < 2 || stream.random_range(0..2) == 0;
        let kind = if gpu { NodeKind::Gpu } else { NodeKind::Leaf };
        b.add_node(Node::new(format!("n{index}"), kind)).unwrap();
        if index > 0 {
            let other = NodeId(stream.random_range(0..index));
            b.add_duplex(NodeId(index), other, spec).unwrap();
        }
    }
    for _ in 0..stream.random_range(0..nodes) {
        let from = stream.random_range(0..nodes);
        let to = (from + stream.random_range(1..nodes)) % nodes;
        b.add_link(NodeId(from), NodeId(to), spec).unwrap();
    }
    b.build().unwrap()
}

/// The same graph with latencies and bandwidths drawn anew: few values, so that ties are common,
/// or many, so that nothing comes out even.
fn scrambled(shape: &Network, stream: &mut Stream) -> Network {
    let mut b = NetworkBuilder::new(shape.name());
    for node in shape.nodes() {
        b.add_node(node.clone()).unwrap();
    }
    let few = stream.random_range(0..2) == 0;
    for link in shape.links() {
        let (latency, bits) = if few {
            (1000 * stream.random_range(0..3u64), 8_000_000_000 * stream.random_range(1..3u64))
        } else {
            (stream.random_range(0..1u64 << 24), stream.random_range(1 << 24..1u64 << 40))
        };
        let (rate, latency) = (Bandwidth::from_bits_per_s(bits), Duration::from_ps(latency));
        b.add_link(link.from, link.to, LinkSpec::new(link.spec.class, rate, latency)).unwrap();
    }
    b.build().unwrap()
}

/// Nominal, or with other bandwidths; now and then with a link that carries nothing.
pub(crate) fn state(network: &Network, stream: &mut Stream) -> NetworkState {
    let mut state = NetworkState::nominal(network);
    let any =
        |stream: &mut Stream| LinkId::from_index(stream.random_range(0..network.links().len()));
    match stream.random_range(0..8) {
        0 => {}
        1 => state.set_up(any(stream), false),
        2 => state.set_bandwidth(any(stream), Bandwidth::ZERO),
        3 => {
            for link in network.link_ids() {
                let gbyte = stream.random_range(1..4);
                state.set_bandwidth(link, Bandwidth::gb_per_s(gbyte));
            }
        }
        _ => {
            for link in network.link_ids() {
                let bits = stream.random_range(1 << 20..1u64 << 42);
                state.set_bandwidth(link, Bandwidth::from_bits_per_s(bits));
            }
        }
    }
    state
}
