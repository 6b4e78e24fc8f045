//! The k shortest paths against all simple paths of small multigraphs, in exact order.

use super::super::{Forwarding, Metric, Transit};
use super::*;
use crate::network::Network;
use crate::node::NodeKind;
use crate::state::NetworkState;
use crate::testing::{multigraph, ring};
use motet_units::{Bandwidth, Bytes, Rounding};
use proptest::prelude::*;

/// Every simple path by depth-first search.
fn enumerate(
    network: &Network,
    links: &mut Vec<LinkId>,
    nodes: &mut Vec<NodeId>,
    to: NodeId,
    pass: &dyn Fn(NodeId, LinkId) -> bool,
    found: &mut Vec<Vec<LinkId>>,
) {
    let at = nodes[nodes.len() - 1];
    if at == to {
        found.push(links.clone());
        return;
    }
    for link in network.outgoing(at) {
        let next = network.link(*link).to;
        if nodes.contains(&next) || (nodes.len() > 1 && !pass(nodes[0], *link)) {
            continue;
        }
        links.push(*link);
        nodes.push(next);
        enumerate(network, links, nodes, to, pass, found);
        links.pop();
        nodes.pop();
    }
}

/// What a path costs, from the definition of the metric.
fn cost(network: &Network, state: &NetworkState, metric: Metric, links: &[LinkId]) -> Option<u64> {
    if links.iter().any(|it| state.bandwidth(*it).is_zero()) {
        return None;
    }
    let latency: u64 = links.iter().map(|it| network.link(*it).spec.latency.as_ps()).sum();
    let (bytes, forwarding) = match metric {
        Metric::Hops => return Some(links.len() as u64),
        Metric::Latency => return Some(latency),
        Metric::Transfer { bytes, forwarding } => (bytes, forwarding),
    };
    let beta =
        |it: &LinkId| state.bandwidth(*it).transfer_time(bytes, Rounding::Up).unwrap().as_ps();
    let segments = links.chunk_by(|link, _| match forwarding {
        Forwarding::StoreAndForward => false,
        Forwarding::CutThrough => true,
        Forwarding::Mixed => network.node(network.link(*link).to).kind != NodeKind::Gpu,
    });
    Some(latency + segments.map(|it| it.iter().map(beta).max().unwrap()).sum::<u64>())
}

fn metric() -> impl Strategy<Value = Metric> {
    let transfer = |forwarding| Metric::Transfer { bytes: Bytes::new(3), forwarding };
    prop::sample::select(vec![
        Metric::Hops,
        Metric::Latency,
        transfer(Forwarding::StoreAndForward),
        transfer(Forwarding::CutThrough),
        transfer(Forwarding::Mixed),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_first_k_of_all_simple_paths(
        network in multigraph(6, 14),
        metric in metric(),
        transit in prop::sample::select(vec![Transit::All, Transit::NotGpus, Transit::NotOtherServers]),
        slow in prop::collection::vec((any::<u32>(), 0u64..9), 0..4),
        k in 0usize..12,
    ) {
        let mut state = NetworkState::nominal(&network);
        for (link, gbit) in slow {
            let link = LinkId(link % network.links().len() as u32);
            state.set_bandwidth(link, Bandwidth::gbit_per_s(gbit));
        }
        let server = |id: NodeId| network.node(id).location.server.as_deref();
        let pass = |origin: NodeId, link: LinkId| {
            let link = network.link(link);
            let inside = server(link.from).is_none_or(|it| {
                server(origin) == Some(it) || server(link.to) == Some(it)
            });
            let gpu = network.node(link.from).kind == NodeKind::Gpu;
            match transit {
                Transit::All => true,
                Transit::NotGpus => !gpu,
                Transit::NotOtherServers => !gpu && inside,
            }
        };
        let (from, to) = (NodeId(0), NodeId(1));
        let mut all = Vec::new();
        enumerate(&network, &mut Vec::new(), &mut vec![from], to, &pass, &mut all);
        let mut expected: Vec<_> = all
            .into_iter()
            .filter_map(|it| Some((cost(&network, &state, metric, &it)?, it.len(), it)))
            .collect();
        expected.sort();
        expected.truncate(k);

        let search = Search::new(&network, metric).in_state(&state).through(transit);
        let found = search.k_shortest(from, to, k);
        let keys: Vec<_> = found
            .iter()
            .map(|it| (search.cost(it).unwrap().get(), it.hops(), it.links().to_vec()))
            .collect();
        prop_assert_eq!(&keys, &expected);
        if let Some((_, _, links)) = expected.first() {
            let shortest = search.shortest(from, to).unwrap();
            prop_assert_eq!(shortest.links(), links.as_slice());
        }
    }
}

#[test]
fn a_ring_has_two_ways() {
    let network = ring(5, NodeKind::Leaf);
    let search = Search::new(&network, Metric::Hops);
    let hops: Vec<usize> =
        search.k_shortest(NodeId(0), NodeId(2), usize::MAX).iter().map(Path::hops).collect();
    assert_eq!(hops, [2, 3]);
    assert!(search.k_shortest(NodeId(0), NodeId(0), 3).is_empty());
}
