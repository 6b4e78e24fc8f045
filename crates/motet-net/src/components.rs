//! Which nodes hang together: the weakly connected components, and what a node reaches.

use motet_units::{LinkId, NodeId};

use crate::network::Network;

/// The weakly connected component of each node, numbered from 0 in the order of their first
/// nodes, and how many there are.
pub(crate) fn weak(network: &Network) -> (Vec<usize>, usize) {
    const NONE: usize = usize::MAX;
    let mut of = vec![NONE; network.nodes().len()];
    let mut count = 0;
    for start in network.node_ids() {
        if of[start.index()] != NONE {
            continue;
        }
        of[start.index()] = count;
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            for next in neighbours(network, node) {
                if of[next.index()] == NONE {
                    of[next.index()] = count;
                    open.push(next);
                }
            }
        }
        count += 1;
    }
    (of, count)
}

/// The nodes at the other ends of a node's links, both ways, as often as there are links.
pub(crate) fn neighbours(network: &Network, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    let out = network.outgoing(node).iter().map(|it| network.link(*it).to);
    out.chain(network.incoming(node).iter().map(|it| network.link(*it).from))
}

/// Whether all of `nodes` reach each other: the first reaches all and all reach it.
pub(crate) fn reach_each_other(network: &Network, nodes: &[NodeId]) -> bool {
    let Some(first) = nodes.first() else {
        return true;
    };
    let reached = |links: &dyn Fn(NodeId) -> Vec<NodeId>| {
        let mut seen = vec![false; network.nodes().len()];
        seen[first.index()] = true;
        let mut open = vec![*first];
        while let Some(node) = open.pop() {
            for next in links(node) {
                if !std::mem::replace(&mut seen[next.index()], true) {
                    open.push(next);
                }
            }
        }
        nodes.iter().all(|it| seen[it.index()])
    };
    let to = |it: &LinkId| network.link(*it).to;
    let from = |it: &LinkId| network.link(*it).from;
    reached(&|node| network.outgoing(node).iter().map(to).collect())
        && reached(&|node| network.incoming(node).iter().map(from).collect())
}
