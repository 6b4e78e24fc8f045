//! The plainest fabrics: one switch, cables between two servers, and leaf–spine.

use motet_units::{Bandwidth, NodeId};

use super::assembly::{Assembly, Place, Port, PortUse};
use super::common::{
    BANDWIDTH, CLASS, FABRIC_DC, HOP_LATENCY, LATENCY, MANY, NAME, OVERSUBSCRIPTION, SHARP, UPLINK,
    add_switch, hop, settle_rack, uplink_rate,
};
use super::template::{Args, Family, Param, Template, TemplateError};
use crate::link::LinkSpec;
use crate::node::NodeKind;

pub(super) const SWITCH: Template = Template {
    name: "switch",
    family: Family::Fabric,
    doc: "one switch that joins everything",
    params: &[
        Param::count("gpus", (1, MANY), "8", "how many GPUs of its own, if there is no open port"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: switch,
};

pub(super) const DIRECT: Template = Template {
    name: "direct",
    family: Family::Fabric,
    doc: "cables between two servers, port by port",
    params: &[CLASS, FABRIC_DC, NAME],
    build: direct,
};

pub(super) const LEAF_SPINE: Template = Template {
    name: "leaf-spine",
    family: Family::Fabric,
    doc: "leaves with an equal share of the ports, each joined to every spine",
    params: &[
        Param::count("leaves", (1, 65_536), "4", "how many leaves"),
        Param::count("spines", (1, 65_536), "2", "how many spines"),
        Param::count(
            "gpus-per-leaf",
            (1, MANY),
            "4",
            "how many GPUs of its own each leaf has, if there is no open port",
        ),
        UPLINK,
        OVERSUBSCRIPTION,
        BANDWIDTH,
        LATENCY,
        HOP_LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: leaf_spine,
};

fn switch(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let ports = assembly.fabric_ports(args, ("gpus", args.count("gpus")?), (1, 0))?;
    let place = Place::of(args)?;
    let leaf = add_switch(assembly, args, &place, ("leaf0".to_owned(), NodeKind::Leaf), None)?;
    for port in &ports {
        assembly.attach(port, leaf, args.class("class")?)?;
    }
    assembly.add_top(leaf);
    Ok(())
}

fn direct(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let place = Place::of(args)?;
    let ports = assembly.take_ports(place.dc.as_deref());
    let mut servers: Vec<usize> = ports.iter().map(|it| it.server).collect();
    servers.dedup();
    let [first, second] = servers[..] else {
        let problem = format!("`direct` joins exactly 2 servers, but {} have ports", servers.len());
        return Err(TemplateError::new(problem).with_remedy("use `switch` or another fabric"));
    };
    let of = |server: usize, carries: PortUse| {
        ports.iter().filter(move |it| it.server == server && it.carries == carries)
    };
    let class = args.class("class")?;
    let cable = |a: &Port, b: &Port| {
        LinkSpec::new(class, a.bandwidth.min(b.bandwidth), a.latency + b.latency)
    };
    for (a, b) in of(first, PortUse::Both).zip(of(second, PortUse::Both)) {
        assembly.builder.add_duplex(a.node, b.node, cable(a, b))?;
    }
    for (from, to) in [(first, second), (second, first)] {
        for (a, b) in of(from, PortUse::Send).zip(of(to, PortUse::Receive)) {
            assembly.builder.add_link(a.node, b.node, cable(a, b))?;
        }
    }
    Ok(())
}

fn leaf_spine(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (leaves, spines) = (args.count("leaves")?, args.count("spines")?);
    let own = leaves.saturating_mul(args.count("gpus-per-leaf")?);
    let size = ((leaves + spines) as u128, 2 * leaves as u128 * spines as u128);
    let ports = assembly.fabric_ports(args, ("gpus-per-leaf", own), size)?;
    let share = ports.len().div_ceil(leaves).max(1);
    let rate = uplink_rate(args, &ports[..share.min(ports.len())], spines)?;
    let tops = add_leaves(assembly, args, (leaves, spines), rate, |leaf| {
        ports.get(leaf * share..).map_or(&[], |it| &it[..share.min(it.len())])
    })?;
    for spine in tops {
        assembly.add_top(spine);
    }
    Ok(())
}

/// Leaves with the ports that `of_leaf` gives them, joined to every spine; the spines.
fn add_leaves<'p>(
    assembly: &mut Assembly<'_>,
    args: &Args,
    (leaves, spines): (usize, usize),
    uplink: Bandwidth,
    of_leaf: impl Fn(usize) -> &'p [Port],
) -> Result<Vec<NodeId>, TemplateError> {
    let place = Place::of(args)?;
    let mut tops = Vec::with_capacity(spines);
    for index in 0..spines {
        let name = (format!("spine{index}"), NodeKind::Spine);
        tops.push(add_switch(assembly, args, &place, name, None)?);
    }
    for index in 0..leaves {
        let rack = format!("rack{index}");
        let name = (format!("leaf{index}"), NodeKind::Leaf);
        let leaf = add_switch(assembly, args, &place, name, Some(&rack))?;
        for port in of_leaf(index) {
            assembly.attach(port, leaf, args.class("class")?)?;
            settle_rack(assembly, port, &format!("{}{rack}", place.prefix));
        }
        for spine in &tops {
            assembly.builder.add_duplex(leaf, *spine, hop(args, uplink)?)?;
        }
    }
    Ok(tops)
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, fails};
    use crate::node::NodeKind;

    #[test]
    fn leaves_and_spines() {
        let net = build("leaf-spine", &["leaves=3", "spines=5", "gpus-per-leaf=10"]);
        assert_eq!(net.nodes().len(), 30 + 3 + 5);
        assert_eq!(net.links().len(), 2 * (30 + 3 * 5));
        // As much up as down: 10 ports of 50 GB/s over 5 spines.
        let spine = net.find("spine0").unwrap();
        let up = net.link(net.outgoing(spine)[0]).spec.bandwidth;
        assert_eq!(up.to_string(), "100 GB/s");
        let net = build("leaf-spine", &["oversubscription=4"]);
        let spine = net.find("spine1").unwrap();
        assert_eq!(net.link(net.outgoing(spine)[0]).spec.bandwidth.to_string(), "25 GB/s");
        // GPUs on one leaf are in one rack, others are not.
        assert_eq!(net.nodes()[0].location.rack.as_deref(), Some("rack0"));
        assert_eq!(net.tier(net.outgoing(spine)[0]).get(), 3);
    }

    #[test]
    fn one_switch() {
        let net = build("switch", &["gpus=5", "sharp=true"]);
        assert_eq!((net.nodes().len(), net.links().len()), (6, 10));
        let leaf = net.node(net.find("leaf0").unwrap());
        assert!(leaf.kind == NodeKind::Leaf && leaf.multicast && leaf.reduces);
    }

    #[test]
    fn direct_needs_two_servers() {
        let error = fails("dgx-a100", &["count=3", "fabric=direct"]);
        assert!(error.problem.contains("exactly 2 servers"), "{error}");
        let pair = build("dgx-a100", &["count=2", "fabric=direct"]);
        assert_eq!(pair.links().len(), 2 * (16 + 8));
    }
}
