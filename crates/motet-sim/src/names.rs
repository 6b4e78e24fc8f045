//! How messages name a link.

use motet_net::Network;
use motet_units::LinkId;

/// The names of the link's two ends, with a number if several links lead from the one to the other.
#[must_use]
pub fn link(network: &Network, id: LinkId) -> String {
    let link = network.link(id);
    let name = |id| &network.node(id).name;
    let text = format!("{} → {}", name(link.from), name(link.to));
    let outgoing = network.outgoing(link.from).iter();
    let parallel: Vec<_> = outgoing.filter(|it| network.link(**it).to == link.to).collect();
    match parallel.iter().position(|it| **it == id) {
        Some(place) if parallel.len() > 1 => {
            format!("{text} ({} of {})", place + 1, parallel.len())
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use motet_net::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
    use motet_units::{Bandwidth, Duration};

    use super::*;

    #[test]
    fn parallel_links_are_told_apart() {
        let mut b = NetworkBuilder::new("two");
        let a = b.add_node(Node::new("a", NodeKind::Gpu)).unwrap();
        let c = b.add_node(Node::new("c", NodeKind::Gpu)).unwrap();
        let spec = LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(1), Duration::ZERO);
        for (from, to) in [(a, c), (c, a), (a, c)] {
            b.add_link(from, to, spec).unwrap();
        }
        let network = b.build().unwrap();
        let names: Vec<String> = network.link_ids().map(|it| link(&network, it)).collect();
        assert_eq!(names, ["a → c (1 of 2)", "c → a", "a → c (2 of 2)"]);
    }
}
