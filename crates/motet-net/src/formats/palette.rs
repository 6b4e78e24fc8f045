//! What pictures of networks share: colours, widths, and links gathered into lines.
//!
//! The colours are mid-tones after Okabe and Ito's set, which colour-blind readers can tell
//! apart and which show on white and on black alike; classes that could still be confused also
//! differ in their dashes.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, NodeId};

use crate::{LinkClass, Network, NodeKind};

/// How the links of a class are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) colour: &'static str,
    /// Lengths of dash and gap; empty is a whole line.
    pub(super) dashes: &'static str,
}

pub(super) const fn style(class: LinkClass) -> Style {
    let (colour, dashes) = match class {
        LinkClass::NvLink | LinkClass::Xgmi => ("#00a67d", ""),
        LinkClass::Die | LinkClass::C2c => ("#00a67d", "6 3"),
        LinkClass::Pcie => ("#8c8c8c", ""),
        LinkClass::Smp => ("#8c8c8c", "6 3"),
        LinkClass::InfiniBand => ("#2f86d0", ""),
        LinkClass::Roce => ("#2f86d0", "8 3"),
        LinkClass::Ethernet => ("#2f86d0", "2 2"),
        LinkClass::Optical => ("#cc79a7", ""),
        LinkClass::Wan => ("#d55e00", ""),
        LinkClass::Other => ("#b08d2e", ""),
    };
    Style { colour, dashes }
}

/// The fill of a node; text on it is dark.
pub(super) const fn fill(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Gpu => "#9fdcc8",
        NodeKind::NvSwitch => "#62c4a5",
        NodeKind::PcieSwitch => "#d0d0d0",
        NodeKind::Cpu => "#f3d9a0",
        NodeKind::Nic => "#a9cdf0",
        NodeKind::Leaf => "#7fb4e6",
        NodeKind::Spine => "#5a9edd",
        NodeKind::Ocs => "#e4b5d0",
        NodeKind::Border => "#f0a878",
    }
}

/// A line's width: one more for every ten times the bandwidth.
pub(super) fn width(bandwidth: Bandwidth) -> f64 {
    let width = 1.0 + libm::log10(bandwidth.as_gb_per_s_f64().max(0.1));
    (width.clamp(0.6, 5.0) * 10.0).round() / 10.0
}

/// All links of one class between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) class: LinkClass,
    /// In the wider direction, all links together.
    pub(super) bandwidth: Bandwidth,
    pub(super) both_ways: bool,
    /// Links in the wider direction.
    pub(super) links: usize,
}

/// The links as lines, in the order of their nodes.
pub(super) fn lines(network: &Network) -> Vec<Line> {
    let mut sums: BTreeMap<(NodeId, NodeId, LinkClass), [(Bandwidth, usize); 2]> = BTreeMap::new();
    for link in network.links() {
        let (a, b) = (link.from.min(link.to), link.from.max(link.to));
        let sum =
            &mut sums.entry((a, b, link.spec.class)).or_default()[usize::from(link.from != a)];
        *sum = (sum.0.saturating_add(link.spec.bandwidth), sum.1 + 1);
    }
    let line = |(&(a, b, class), &[there, back]): (&(NodeId, NodeId, LinkClass), &[_; 2])| {
        let (from, to, wider): (_, _, (Bandwidth, usize)) =
            if there >= back { (a, b, there) } else { (b, a, back) };
        let both_ways = there.1 > 0 && back.1 > 0;
        Line { from, to, class, bandwidth: wider.0, both_ways, links: wider.1 }
    };
    sums.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkSpec, NetworkBuilder, Node};
    use motet_units::Duration;

    #[test]
    fn links_become_lines() {
        let mut builder = NetworkBuilder::new("lines");
        let add = |builder: &mut NetworkBuilder, name: &str| {
            builder.add_node(Node::new(name, NodeKind::Gpu)).unwrap()
        };
        let (a, b) = (add(&mut builder, "a"), add(&mut builder, "b"));
        let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(10), Duration::ZERO);
        builder.add_duplex(b, a, spec).unwrap();
        builder.add_link(b, a, spec).unwrap();
        builder.add_link(b, a, LinkSpec { class: LinkClass::Pcie, ..spec }).unwrap();
        let lines = lines(&builder.build().unwrap());
        assert_eq!(lines.len(), 2);
        let nvlink = lines[0];
        assert_eq!((nvlink.from, nvlink.to, nvlink.both_ways, nvlink.links), (b, a, true, 2));
        assert_eq!(nvlink.bandwidth, Bandwidth::gb_per_s(20));
        assert!(!lines[1].both_ways);
    }

    #[test]
    fn widths_grow_with_bandwidth() {
        let widths = [0, 1, 10, 1000].map(|it| width(Bandwidth::gb_per_s(it)));
        assert_eq!(widths, [0.6, 1.0, 2.0, 4.0]);
    }
}
