//! Rail-optimized fabrics: the i-th NIC of every server goes to rail i. Electrical rails are
//! leaves joined by spines; a photonic rail (Opus, *Photonic Rails in ML Datacenters*) is one
//! optical circuit switch.

use super::assembly::{Assembly, Place, Port};
use super::common::{
    CLASS, FABRIC_DC, HOP_LATENCY, NAME, OVERSUBSCRIPTION, SHARP, UPLINK, add_switch, hop,
    uplink_rate,
};
use super::server;
use super::template::{AUTO, Args, Family, Param, ParamKind, Template, TemplateError};
use crate::node::NodeKind;

const SERVERS: Param = Param::count(
    "servers",
    (1, 65_536),
    "4",
    "how many flat dgx-h100 servers of its own, if there is no open port",
);
const RAILS: Param = Param::count(
    "rails",
    (1, 4096),
    AUTO,
    "how many rails; auto: one for each port of a server. Port i goes to rail i modulo this",
);

pub(super) const RAIL: Template = Template {
    name: "rail",
    family: Family::Fabric,
    doc: "rail-optimized: port i of every server on the leaves of rail i, spines above all rails",
    params: &[
        SERVERS,
        RAILS,
        Param::count("ports-per-leaf", (1, 65_536), "32", "how many ports down a leaf has"),
        Param::count(
            "spines",
            (0, 4096),
            "2",
            "how many spines join the leaves; 0: rails meet only inside servers",
        ),
        UPLINK,
        OVERSUBSCRIPTION,
        HOP_LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: rail,
};

pub(super) const RAIL_OPTICAL: Template = Template {
    name: "rail-optical",
    family: Family::Fabric,
    doc: "photonic rails: port i of every server on the optical circuit switch of rail i",
    params: &[
        SERVERS,
        RAILS,
        Param::new("class", ParamKind::Class, "optical", "the class of its links"),
        NAME,
        FABRIC_DC,
    ],
    build: rail_optical,
};

/// The ports of each rail, from the open ones or those of servers made for the purpose.
fn rails(assembly: &mut Assembly<'_>, args: &Args) -> Result<Vec<Vec<Port>>, TemplateError> {
    let place = Place::of(args)?;
    let mut ports = assembly.take_ports(place.dc.as_deref());
    if ports.is_empty() {
        server::add_plain(assembly, &place, args.count("servers")?)?;
        ports = assembly.take_ports(place.dc.as_deref());
    } else if args.given("servers") {
        let problem = format!(
            "`servers` is for a fabric with servers of its own, but this one joins {} open ports",
            ports.len()
        );
        return Err(TemplateError::of("servers", problem).with_remedy("leave it out"));
    }
    let widest = ports.iter().map(|it| it.rail + 1).max().unwrap_or(1);
    let count = args.count_or("rails", widest)?;
    let mut rails = vec![Vec::new(); count.min(widest)];
    for port in ports {
        rails[port.rail % count].push(port);
    }
    Ok(rails)
}

fn rail(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let rails = rails(assembly, args)?;
    let (down, spines) = (args.count("ports-per-leaf")?, args.count("spines")?);
    let leaves: usize = rails.iter().map(|it| it.len().div_ceil(down)).sum();
    let ports: usize = rails.iter().map(Vec::len).sum();
    assembly.reserve((leaves + spines) as u128, 2 * (ports + leaves * spines) as u128)?;
    let place = Place::of(args)?;
    let mut tops = Vec::with_capacity(spines);
    for index in 0..spines {
        let name = (format!("spine{index}"), NodeKind::Spine);
        tops.push(add_switch(assembly, args, &place, name, None)?);
    }
    for (rail, ports) in rails.iter().enumerate() {
        for (index, ports) in ports.chunks(down).enumerate() {
            let name = (format!("rail{rail}-leaf{index}"), NodeKind::Leaf);
            let leaf = add_switch(assembly, args, &place, name, None)?;
            for port in ports {
                assembly.attach(port, leaf, args.class("class")?)?;
            }
            let rate = uplink_rate(args, ports, spines)?;
            for spine in &tops {
                assembly.builder.add_duplex(leaf, *spine, hop(args, rate)?)?;
            }
            if tops.is_empty() {
                assembly.add_top(leaf);
            }
        }
    }
    for spine in tops {
        assembly.add_top(spine);
    }
    Ok(())
}

fn rail_optical(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let rails = rails(assembly, args)?;
    let ports: usize = rails.iter().map(Vec::len).sum();
    assembly.reserve(rails.len() as u128, 2 * ports as u128)?;
    let place = Place::of(args)?;
    for (rail, ports) in rails.iter().enumerate() {
        let node = place.node(format!("rail{rail}-ocs"), NodeKind::Ocs);
        let switch = assembly.builder.add_node(node)?;
        for port in ports {
            assembly.attach(port, switch, args.class("class")?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::build;
    use crate::link::LinkClass;
    use crate::node::NodeKind;

    #[test]
    fn electrical_rails() {
        let net = build("rail", &["servers=6", "ports-per-leaf=4", "spines=3"]);
        assert_eq!(net.count(NodeKind::Gpu), 48);
        assert_eq!(net.count(NodeKind::Leaf), 8 * 2);
        assert_eq!(net.count(NodeKind::Spine), 3);
        // GPU to NVSwitch and to its leaf, and leaf to spine.
        assert_eq!(net.links().len(), 2 * (48 + 48 + 16 * 3));
        let leaf = net.find("rail5-leaf0").unwrap();
        let below: Vec<&str> = net
            .outgoing(leaf)
            .iter()
            .map(|it| net.node(net.link(*it).to).name.as_str())
            .filter(|it| it.contains("gpu"))
            .collect();
        assert_eq!(below, ["s0-gpu5", "s1-gpu5", "s2-gpu5", "s3-gpu5"]);
    }

    #[test]
    fn optical_rails() {
        let net = build("rail-optical", &["servers=3"]);
        assert_eq!(net.count(NodeKind::Ocs), 8);
        assert_eq!(net.links().len(), 2 * (24 + 24));
        let ocs = net.find("rail0-ocs").unwrap();
        assert_eq!(net.outgoing(ocs).len(), 3);
        assert_eq!(net.link(net.outgoing(ocs)[0]).spec.class, LinkClass::Optical);
    }
}
