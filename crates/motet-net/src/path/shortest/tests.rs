//! Shortest paths against Bellman–Ford and, where a maximum is in the cost, against all walks.

use super::super::{Forwarding, Metric, Path, Transit};
use super::*;
use crate::link::{LinkClass, LinkSpec};
use crate::network::NetworkBuilder;
use crate::node::{Node, NodeKind};
use crate::state::NetworkState;
use crate::testing::multigraph;
use motet_units::{Bandwidth, Bytes, Duration};
use proptest::prelude::*;

/// Costs of the shortest paths for a plain sum, by relaxing every link until nothing changes.
fn bellman_ford(
    network: &Network,
    from: NodeId,
    cost: impl Fn(LinkId) -> Option<u64>,
    pass: impl Fn(NodeId) -> bool,
) -> Vec<Option<u64>> {
    let mut costs = vec![None; network.nodes().len()];
    costs[from.index()] = Some(0);
    for _ in network.nodes() {
        for id in network.link_ids() {
            let link = network.link(id);
            if link.from != from && !pass(link.from) {
                continue;
            }
            let (Some(at), Some(step)) = (costs[link.from.index()], cost(id)) else {
                continue;
            };
            let to = &mut costs[link.to.index()];
            *to = Some(to.map_or(at + step, |old: u64| old.min(at + step)));
        }
    }
    costs
}

fn gbit(link: &crate::Link) -> u64 {
    link.spec.bandwidth.bits_per_s() / 1_000_000_000
}

proptest! {
    #[test]
    fn agrees_with_bellman_ford(network in multigraph(8, 20), all: bool, down: u32) {
        let mut state = NetworkState::nominal(&network);
        let down = LinkId(down % network.links().len() as u32);
        state.set_up(down, false);
        let pass = |node: NodeId| all || network.node(node).kind != NodeKind::Gpu;
        let transit = if all { Transit::All } else { Transit::NotGpus };
        let bytes = Bytes::new(1000);
        let forwarding = Forwarding::StoreAndForward;
        let metrics: [(Metric, &dyn Fn(LinkId) -> u64); 3] = [
            (Metric::Hops, &|_| 1),
            (Metric::Latency, &|id| network.link(id).spec.latency.as_ps()),
            (Metric::Transfer { bytes, forwarding }, &|id| {
                let link = network.link(id);
                link.spec.latency.as_ps() + 8_000_000u64.div_ceil(gbit(link))
            }),
        ];
        for (metric, cost) in metrics {
            let search = Search::new(&network, metric).in_state(&state).through(transit);
            for from in network.node_ids() {
                let open = |id| (id != down).then(|| cost(id));
                let expected = bellman_ford(&network, from, open, pass);
                let found = search.all_from(from);
                for to in network.node_ids() {
                    prop_assert_eq!(found.cost(to).map(Cost::get), expected[to.index()]);
                    let path = found.path(to);
                    prop_assert_eq!(&path, &search.shortest(from, to));
                    let Some(path) = path else { continue };
                    prop_assert_eq!(Path::new(&network, path.links().to_vec()), Ok(path.clone()));
                    prop_assert_eq!(search.cost(&path), found.cost(to));
                    prop_assert!(path.is_simple() && (path.from(), path.to()) == (from, to));
                }
            }
        }
    }
}

/// From s over a fast long way or a slow short way to m, then over a slow link to t: the short
/// way is best to t because the slow link hides it, the fast one best to m.
#[test]
fn the_best_way_to_a_node_need_not_begin_the_best_way_past_it() {
    let mut b = NetworkBuilder::new("fork");
    let ids: Vec<NodeId> = ["s", "m", "t"]
        .iter()
        .map(|it| b.add_node(Node::new(*it, NodeKind::Border)).unwrap())
        .collect();
    let spec = |gbit, us| {
        LinkSpec::new(LinkClass::Wan, Bandwidth::gbit_per_s(gbit), Duration::from_us(us))
    };
    let fast = b.add_link(ids[0], ids[1], spec(100, 5)).unwrap();
    let slow = b.add_link(ids[0], ids[1], spec(10, 1)).unwrap();
    let last = b.add_link(ids[1], ids[2], spec(8, 1)).unwrap();
    let network = b.build().unwrap();
    // β of 10,000 bytes: 0.8, 8 and 10 µs.
    let bytes = Bytes::new(10_000);
    let metric = Metric::Transfer { bytes, forwarding: Forwarding::CutThrough };
    let found = Search::new(&network, metric).all_from(ids[0]);
    assert_eq!(found.path(ids[1]).unwrap().links(), [fast]);
    assert_eq!(found.cost(ids[1]).unwrap().as_duration(), Duration::from_ns(5800));
    assert_eq!(found.path(ids[2]).unwrap().links(), [slow, last]);
    assert_eq!(found.cost(ids[2]).unwrap().as_duration(), Duration::from_us(12));
    assert_eq!(found.cost(ids[0]), Some(Cost(0)));
    assert_eq!(found.path(ids[0]), None);
}

/// Two GPUs on leaves l0 and l1, joined through a third server's two NICs or a spine further away.
#[test]
fn transit_rules() {
    let mut b = NetworkBuilder::new("rails");
    let mut add = |name: &str, kind, server: &str| {
        let node = Node::new(name, kind);
        b.add_node(if server.is_empty() { node } else { node.in_server(server) }).unwrap()
    };
    let (g0, g1) = (add("g0", NodeKind::Gpu, "a"), add("g1", NodeKind::Gpu, "b"));
    let (n0, n1) = (add("n0", NodeKind::Nic, "a"), add("n1", NodeKind::Nic, "b"));
    let (l0, l1) = (add("l0", NodeKind::Leaf, ""), add("l1", NodeKind::Leaf, ""));
    let (c0, c1) = (add("c0", NodeKind::Nic, "c"), add("c1", NodeKind::Nic, "c"));
    let (s0, s1) = (add("s0", NodeKind::Spine, ""), add("s1", NodeKind::Spine, ""));
    let s2 = add("s2", NodeKind::Spine, "");
    let g2 = add("g2", NodeKind::Gpu, "d");
    let spec = LinkSpec::new(LinkClass::Roce, Bandwidth::gbit_per_s(8), Duration::from_us(1));
    let pairs = [
        (g0, n0),
        (n0, l0),
        (n1, l1),
        (g1, n1), // the two servers
        (l0, c0),
        (c0, c1),
        (c1, l1), // through the third
        (l0, s0),
        (s0, s1),
        (s1, s2),
        (s2, l1), // through the spines
        (l0, g2),
        (g2, l1), // through a GPU
    ];
    for (from, to) in pairs {
        b.add_duplex(from, to, spec).unwrap();
    }
    let network = b.build().unwrap();
    let via = |transit| {
        let search = Search::new(&network, Metric::Hops).through(transit);
        let path = search.shortest(g0, g1).unwrap();
        path.nodes()[3..path.nodes().len() - 3].to_vec()
    };
    assert_eq!(via(Transit::All), [g2]);
    assert_eq!(via(Transit::NotGpus), [c0, c1]);
    assert_eq!(via(Transit::NotOtherServers), [s0, s1, s2]);
    // Ends may be anything, a third server's NIC too.
    let own = Search::new(&network, Metric::Hops).through(Transit::NotOtherServers);
    assert_eq!(own.shortest(g0, c1).unwrap().hops(), 4);
}
