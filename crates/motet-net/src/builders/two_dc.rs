//! The network of Xiong et al., §V-A: two datacenters, each a leaf–spine fabric with GPUs and border
//! routers, joined by a WAN of direct connections between border routers (§III).
//!
//! Rates are the upper ends of what the paper samples, 20–200 Gbit/s inside a datacenter and
//! 10–100 Gbit/s over the WAN; the sampling itself is network state and happens elsewhere. The
//! paper does not say how many leaves, spines and border routers there are, so these are
//! parameters too.

use motet_units::NodeId;

use super::assembly::Assembly;
use super::template::{Args, Family, Param, ParamKind, Template, TemplateError};
use crate::link::{LinkClass, LinkSpec};
use crate::node::{Node, NodeKind};

pub(super) const TWO_DC: Template = Template {
    name: "two-dc",
    family: Family::Wan,
    doc: "two leaf-spine datacenters whose border routers are joined by a WAN (Xiong et al., §V-A)",
    params: &[
        Param::count("gpus", (1, 65_536), "4", "GPUs of each datacenter"),
        Param::new(
            "fabric",
            ParamKind::Choice(&["leaf-spine", "logical"]),
            "leaf-spine",
            "logical: a link between any two GPUs, and from each GPU to each border router (§III)",
        ),
        Param::count("leaves", (1, 1024), "2", "leaves of each datacenter"),
        Param::count("spines", (1, 1024), "2", "spines of each datacenter"),
        Param::count("borders", (1, 1024), "2", "border routers of each datacenter"),
        Param::new("intra", ParamKind::Bandwidth, "200 Gbit/s", "the rate inside a datacenter"),
        Param::new("intra-latency", ParamKind::Latency, "500 ns", "of links inside a datacenter"),
        Param::new("wan", ParamKind::Bandwidth, "100 Gbit/s", "the rate of a WAN link"),
        Param::new("wan-latency", ParamKind::Latency, "1 ms", "of a WAN link"),
        Param::new(
            "wan-links",
            ParamKind::Choice(&["full", "paired"]),
            "full",
            "full: every border router to every one of the other side; paired: to its like",
        ),
        Param::new("name", ParamKind::Text, "dc", "the datacenters are called this and 0 or 1"),
    ],
    build: two_dc,
};

fn two_dc(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let [gpus, leaves, spines, borders] =
        ["gpus", "leaves", "spines", "borders"].map(|it| args.count(it).map(|it| it as u128));
    let (gpus, leaves, spines, borders) = (gpus?, leaves?, spines?, borders?);
    let logical = args.text("fabric")? == "logical";
    let full = args.text("wan-links")? == "full";
    let wan = if full { borders * borders } else { borders };
    let (switches, inside) = if logical {
        (0, gpus * (gpus - 1) / 2 + gpus * borders)
    } else {
        (leaves + spines, gpus + leaves * spines + spines * borders)
    };
    assembly.reserve(2 * (gpus + switches + borders), 2 * (2 * inside + wan))?;
    let here = add_datacenter(assembly, args, 0)?;
    let there = add_datacenter(assembly, args, 1)?;
    let spec = LinkSpec::new(LinkClass::Wan, args.bandwidth("wan")?, args.latency("wan-latency")?);
    for (index, a) in here.iter().enumerate() {
        for (other, b) in there.iter().enumerate() {
            if full || index == other {
                assembly.builder.add_duplex(*a, *b, spec)?;
            }
        }
    }
    Ok(())
}

/// One datacenter; its border routers.
fn add_datacenter(
    assembly: &mut Assembly<'_>,
    args: &Args,
    number: usize,
) -> Result<Vec<NodeId>, TemplateError> {
    let dc = format!("{}{number}", args.text("name")?);
    let spec = LinkSpec::new(
        LinkClass::Ethernet,
        args.bandwidth("intra")?,
        args.latency("intra-latency")?,
    );
    let mut add = |name: &str, kind: NodeKind, rack: Option<usize>| {
        let mut node = Node::new(format!("{dc}-{name}"), kind).in_dc(&dc);
        node.location.rack = rack.map(|it| format!("{dc}-rack{it}"));
        assembly.builder.add_node(node)
    };
    let (count, leaf_count) = (args.count("gpus")?, args.count("leaves")?);
    let share = count.div_ceil(leaf_count);
    let logical = args.text("fabric")? == "logical";
    let (mut gpus, mut leaves) = (Vec::new(), Vec::new());
    for index in 0..count {
        let rack = if logical { None } else { Some(index / share) };
        gpus.push(add(&format!("gpu{index}"), NodeKind::Gpu, rack)?);
    }
    for index in 0..if logical { 0 } else { leaf_count } {
        leaves.push(add(&format!("leaf{index}"), NodeKind::Leaf, Some(index))?);
    }
    let mut several = |name: &str, kind: NodeKind, count: usize| {
        let ids = (0..count).map(|it| add(&format!("{name}{it}"), kind, None));
        ids.collect::<Result<Vec<NodeId>, _>>()
    };
    let spines =
        several("spine", NodeKind::Spine, if logical { 0 } else { args.count("spines")? })?;
    let borders = several("border", NodeKind::Border, args.count("borders")?)?;
    if logical {
        for (index, gpu) in gpus.iter().enumerate() {
            for other in gpus[index + 1..].iter().chain(&borders) {
                assembly.builder.add_duplex(*gpu, *other, spec)?;
            }
        }
        return Ok(borders);
    }
    for (index, gpu) in gpus.iter().enumerate() {
        assembly.builder.add_duplex(*gpu, leaves[index / share], spec)?;
    }
    for spine in &spines {
        for other in leaves.iter().chain(&borders) {
            assembly.builder.add_duplex(*other, *spine, spec)?;
        }
    }
    Ok(borders)
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::build;
    use crate::node::NodeKind;
    use crate::tier_mix::TierMix;

    #[test]
    fn eight_gpus_in_two_datacenters() {
        let net = build("two-dc", &[]);
        assert_eq!(net.nodes().len(), 2 * (4 + 2 + 2 + 2));
        assert_eq!(net.links().len(), 2 * (2 * (4 + 4 + 4) + 4));
        let mix = TierMix::of(&net, net.ranks());
        // On one leaf, across leaves, across datacenters.
        assert_eq!(mix.pairs, [0, 0, 2 * 2, 2 * 4, 16]);
        let net =
            build("two-dc", &["gpus=8", "borders=3", "wan-links=paired", "wan-latency=10 ms"]);
        let wan = net.link_ids().filter(|it| net.tier(*it).get() == 4);
        assert_eq!(wan.count(), 2 * 3);
        assert_eq!(net.count(NodeKind::Gpu), 16);
    }

    #[test]
    fn a_logical_datacenter_has_a_link_for_every_pair() {
        let net = build("two-dc", &["fabric=logical", "borders=3"]);
        assert_eq!(net.nodes().len(), 2 * (4 + 3));
        assert_eq!(net.links().len(), 2 * (2 * (6 + 12) + 9));
        assert_eq!(net.count(NodeKind::Leaf) + net.count(NodeKind::Spine), 0);
    }
}
