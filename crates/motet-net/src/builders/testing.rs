//! What the tests of the builders share.

use motet_units::{Bandwidth, LinkId, NodeId};

use super::{Params, TemplateError, find};
use crate::network::Network;
use crate::node::NodeKind;

/// The network of a template and `key=value` words.
pub(crate) fn build(kind: &str, words: &[&str]) -> Network {
    let params = Params::from_words(words).unwrap();
    find(kind).unwrap().build(&params).unwrap_or_else(|it| panic!("{kind} {words:?}: {it}"))
}

/// The error of a template that must not build.
pub(crate) fn fails(kind: &str, words: &[&str]) -> TemplateError {
    find(kind).unwrap().build(&Params::from_words(words).unwrap()).unwrap_err()
}

/// Links out of each node.
pub(crate) fn degrees(network: &Network) -> Vec<usize> {
    network.node_ids().map(|it| network.outgoing(it).len()).collect()
}

/// Links from the nodes inside to those outside: the width of a cut.
pub(crate) fn crossing(network: &Network, inside: impl Fn(usize) -> bool) -> usize {
    let cut = |it: &&crate::Link| inside(it.from.index()) && !inside(it.to.index());
    network.links().iter().filter(cut).count()
}

/// Whether every node can be reached from the first GPU, and reaches it.
pub(crate) fn is_connected(network: &Network) -> bool {
    let reach = |outgoing: bool| {
        let mut seen = vec![false; network.nodes().len()];
        let mut waiting: Vec<NodeId> = network.ranks().first().copied().into_iter().collect();
        while let Some(node) = waiting.pop() {
            if std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            let links = if outgoing { network.outgoing(node) } else { network.incoming(node) };
            waiting.extend(links.iter().map(|it| {
                let link = network.link(*it);
                if outgoing { link.to } else { link.from }
            }));
        }
        seen.iter().all(|it| *it)
    };
    reach(true) && reach(false)
}

/// A network of the files that tests share.
pub(crate) fn reference(name: &str) -> Network {
    let text = motet_testdata::ours(&format!("networks/{name}.toml"));
    let fetch = |_: &str| Err("not here".to_owned());
    crate::formats::cluster_toml::read(&text, &fetch).unwrap().network
}

/// A node without its name: kind, rates in, rates out.
type NodeProfile = (NodeKind, Vec<Bandwidth>, Vec<Bandwidth>);

/// NICs count as leaves: the references draw a NIC as one more switch.
fn profile(network: &Network, id: NodeId) -> NodeProfile {
    let rates = |links: &[LinkId]| {
        let mut rates: Vec<Bandwidth> =
            links.iter().map(|it| network.link(*it).spec.bandwidth).collect();
        rates.sort();
        rates
    };
    let kind = match network.node(id).kind {
        NodeKind::Nic => NodeKind::Leaf,
        kind => kind,
    };
    (kind, rates(network.incoming(id)), rates(network.outgoing(id)))
}

/// Asserts that two networks have the same nodes and links up to names and latencies: for each
/// node its kind and rates in and out, for each link its rate and the profiles of its ends. This
/// is not isomorphism, but nothing that a builder gets wrong is likely to slip through.
pub(crate) fn same_profile(made: &Network, reference: &Network) {
    let profiles = |network: &Network| {
        let nodes: Vec<NodeProfile> = network.node_ids().map(|it| profile(network, it)).collect();
        let mut links: Vec<_> = network
            .links()
            .iter()
            .map(|it| (&nodes[it.from.index()], &nodes[it.to.index()], it.spec.bandwidth))
            .map(|(from, to, rate)| (from.clone(), to.clone(), rate))
            .collect();
        links.sort();
        let mut nodes = nodes;
        nodes.sort();
        (nodes, links)
    };
    let (made, reference) = (profiles(made), profiles(reference));
    assert_eq!(made.0, reference.0);
    assert_eq!(made.1, reference.1);
}
