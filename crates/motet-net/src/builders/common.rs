//! What many templates share: parameters with one meaning everywhere, and small helpers.

use motet_units::{Bandwidth, NodeId};

use super::assembly::{Assembly, Place, Port};
use super::template::{AUTO, Args, Param, ParamKind, TemplateError};
use crate::link::LinkSpec;
use crate::network::{MAX_NODES, Network};
use crate::node::NodeKind;

/// The most of anything that is counted one node each.
pub(super) const MANY: u32 = MAX_NODES as u32;

pub(super) const NAME: Param =
    Param::new("name", ParamKind::Text, "", "what the names of its nodes begin with");
pub(super) const DC: Param = Param::new("dc", ParamKind::Text, "", "the datacenter it stands in");
/// A fabric with a datacenter joins only what stands there.
pub(super) const FABRIC_DC: Param = Param::new(
    "dc",
    ParamKind::Text,
    "",
    "the datacenter it stands in; if given, it joins only open ports of that datacenter",
);
pub(super) const CLASS: Param =
    Param::new("class", ParamKind::Class, "ib", "the class of its links");
pub(super) const BANDWIDTH: Param = Param::new(
    "bandwidth",
    ParamKind::Bandwidth,
    "50 GB/s",
    "the rate of each of its own GPUs' ports (joined servers bring their own)",
);
/// Two of these and a switch between make the 2.6 µs from GPU to GPU over a network that
/// TACCL's example topologies measure.
pub(super) const LATENCY: Param = Param::new(
    "latency",
    ParamKind::Latency,
    "1.3 us",
    "from each of its own GPUs to the first switch",
);
/// A switch adds a few hundred nanoseconds: InfiniBand and cut-through Ethernet switches are
/// sold at 100 to 600 ns from port to port.
pub(super) const HOP_LATENCY: Param =
    Param::new("hop-latency", ParamKind::Latency, "500 ns", "from switch to switch");
pub(super) const SHARP: Param = Param::new(
    "sharp",
    ParamKind::Flag,
    "false",
    "whether its switches copy and reduce in the network",
);
pub(super) const UPLINK: Param = Param::new(
    "uplink",
    ParamKind::Bandwidth,
    AUTO,
    "the rate of each link from switch to switch; auto: as much up as down, over `oversubscription`",
);
pub(super) const OVERSUBSCRIPTION: Param = Param::new(
    "oversubscription",
    ParamKind::Count { min: 1, max: 1024 },
    "1",
    "how many times more rate goes down from a leaf than up, where `uplink` is auto",
);

/// Switches of one kind, with or without computing in the network.
pub(super) fn add_switch(
    assembly: &mut Assembly<'_>,
    args: &Args,
    place: &Place,
    (name, kind): (String, NodeKind),
    rack: Option<&str>,
) -> Result<NodeId, TemplateError> {
    let mut node = place.node(name, kind);
    let sharp = args.flag("sharp")?;
    (node.multicast, node.reduces) = (sharp, sharp);
    node.location.rack = rack.map(|it| format!("{}{it}", place.prefix));
    Ok(assembly.builder.add_node(node)?)
}

/// The rate of one of `uplinks` links up from a leaf with these ports.
pub(super) fn uplink_rate<'p>(
    args: &Args,
    ports: impl IntoIterator<Item = &'p Port>,
    uplinks: usize,
) -> Result<Bandwidth, TemplateError> {
    if !args.is_auto("uplink") {
        return args.bandwidth("uplink");
    }
    let down: u128 = ports.into_iter().map(|it| u128::from(it.bandwidth.bits_per_s())).sum();
    let parts = (uplinks.max(1) * args.count("oversubscription")?) as u128;
    let rate = u64::try_from(down / parts).unwrap_or(u64::MAX).max(1);
    Ok(Bandwidth::from_bits_per_s(rate))
}

/// The link from switch to switch of this rate.
pub(super) fn hop(args: &Args, bandwidth: Bandwidth) -> Result<LinkSpec, TemplateError> {
    Ok(LinkSpec::new(args.class("class")?, bandwidth, args.latency("hop-latency")?))
}

/// Puts GPUs that a fabric made for itself into a rack; servers keep theirs.
pub(super) fn settle_rack(assembly: &mut Assembly<'_>, port: &Port, rack: &str) {
    let node = assembly.builder.node_mut(port.node);
    if node.location.server.is_none() && node.location.rack.is_none() {
        node.location.rack = Some(rack.to_owned());
    }
}

/// Adds the links of `graph`, whose node `n` is `ids[n]` in the assembly; duplex pairs stay pairs.
pub(super) fn copy_links(
    assembly: &mut Assembly<'_>,
    graph: &Network,
    ids: &[NodeId],
) -> Result<(), TemplateError> {
    for (index, link) in graph.links().iter().enumerate() {
        let (from, to) = (ids[link.from.index()], ids[link.to.index()]);
        match link.reverse {
            None => assembly.builder.add_link(from, to, link.spec).map(|_| ())?,
            Some(reverse) if reverse.index() > index => {
                assembly.builder.add_duplex(from, to, link.spec).map(|_| ())?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}
