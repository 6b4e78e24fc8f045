//! [`first_ranks`]: the network of a job that has only the first GPUs of a cluster.

use std::collections::BTreeSet;

use motet_net::{Network, NetworkBuilder, Node, NodeKind};
use motet_units::Rank;

/// The network without the GPUs behind the first `count` ranks, and without servers that are left with none. `None` if that is
/// nothing, or not less than the whole.
#[must_use]
pub fn first_ranks(network: &Network, count: usize) -> Option<Network> {
    let kept = network.ranks().get(..count).filter(|it| !it.is_empty())?;
    if count == network.ranks().len() {
        return None;
    }
    let gpus: BTreeSet<_> = kept.iter().copied().collect();
    let servers: BTreeSet<&str> =
        kept.iter().filter_map(|it| network.node(*it).location.server.as_deref()).collect();
    let stays = |id, node: &Node| match (node.kind, node.location.server.as_deref()) {
        (NodeKind::Gpu, _) => gpus.contains(&id),
        (_, Some(server)) => servers.contains(server),
        (_, None) => true,
    };
    let mut builder = NetworkBuilder::new(network.name());
    let mut places = vec![None; network.nodes().len()];
    for id in network.node_ids().filter(|it| stays(*it, network.node(*it))) {
        let mut node = network.node(id).clone();
        // Where one GPU has a rank of its own, all have.
        let rank = kept.iter().position(|it| *it == id).and_then(|it| u32::try_from(it).ok());
        node.rank = node.rank.and(rank).map(Rank);
        places[id.index()] = Some(builder.add_node(node).ok()?);
    }
    for (id, link) in network.link_ids().zip(network.links()) {
        let (Some(from), Some(to)) = (places[link.from.index()], places[link.to.index()]) else {
            continue;
        };
        match link.reverse {
            // The other way of a duplex link comes with the first.
            Some(reverse) if reverse < id => {}
            Some(_) => drop(builder.add_duplex(from, to, link.spec).ok()?),
            None => drop(builder.add_link(from, to, link.spec).ok()?),
        }
    }
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use motet_nccl::Loopback;

    use super::*;

    #[test]
    fn servers_without_a_gpu_go() {
        let eight = Loopback { ranks: 8, ..Loopback::default() }.network().unwrap();
        let two = Loopback { ranks: 2, ..Loopback::default() }.network().unwrap();
        let cut = first_ranks(&eight, 2).unwrap();
        assert_eq!((cut.nodes(), cut.links()), (two.nodes(), two.links()));
        assert!(first_ranks(&eight, 8).is_none() && first_ranks(&eight, 9).is_none());
        assert!(first_ranks(&eight, 0).is_none());
    }
}
