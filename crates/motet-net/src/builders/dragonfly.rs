//! Dragonfly (Kim et al., ISCA 2008): groups of routers, all joined inside a group, and links
//! between every two groups.

use motet_units::NodeId;

use super::assembly::{Assembly, Place};
use super::common::{
    BANDWIDTH, CLASS, FABRIC_DC, HOP_LATENCY, LATENCY, NAME, SHARP, add_switch, hop, settle_rack,
};
use super::template::{AUTO, Args, Family, Param, ParamKind, Template, TemplateError};
use crate::node::NodeKind;

pub(super) const DRAGONFLY: Template = Template {
    name: "dragonfly",
    family: Family::Fabric,
    doc: "groups of routers joined all to all, with links between every two groups",
    params: &[
        Param::count("routers", (1, 1024), "4", "a: routers of a group"),
        Param::count("gpus-per-router", (1, 1024), "2", "p: ports down of a router"),
        Param::count("global-links", (1, 1024), "2", "h: links of a router to other groups"),
        Param::count(
            "groups",
            (1, 65_536),
            AUTO,
            "g: groups; auto: a*h + 1, the most there can be",
        ),
        Param::new("local", ParamKind::Bandwidth, "50 GB/s", "the rate inside a group"),
        Param::new("global", ParamKind::Bandwidth, "50 GB/s", "the rate between groups"),
        BANDWIDTH,
        LATENCY,
        HOP_LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: dragonfly,
};

fn dragonfly(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (a, p) = (args.count("routers")?, args.count("gpus-per-router")?);
    let h = args.count("global-links")?;
    let most = a * h + 1;
    let g = args.count_or("groups", most)?;
    if g > most {
        let problem = format!("{a} routers with {h} global links reach {most} groups, not {g}");
        return Err(TemplateError::of("groups", problem));
    }
    let routers = a * g;
    // Links between each two groups; what does not divide evenly stays unused.
    let between = if g > 1 { a * h / (g - 1) } else { 0 };
    let local = g as u128 * (a * (a - 1)) as u128;
    let global = g as u128 * (g as u128 - 1) * between as u128;
    let own = ("gpus-per-router", routers.saturating_mul(p));
    let ports = assembly.fabric_ports(args, own, (routers as u128, local + global))?;
    if ports.len() > routers.saturating_mul(p) {
        let problem = format!("{} ports do not fit on {routers} routers of {p}", ports.len());
        return Err(TemplateError::new(problem).with_remedy("raise `routers` or `groups`"));
    }
    let place = Place::of(args)?;
    let mut ids: Vec<NodeId> = Vec::with_capacity(routers);
    for index in 0..routers {
        let rack = format!("group{}", index / a);
        let name = (format!("{rack}-router{}", index % a), NodeKind::Leaf);
        let router = add_switch(assembly, args, &place, name, Some(&rack))?;
        for port in ports.iter().skip(index * p).take(p) {
            assembly.attach(port, router, args.class("class")?)?;
            settle_rack(assembly, port, &format!("{}{rack}", place.prefix));
        }
        assembly.add_top(router);
        ids.push(router);
    }
    let spec = hop(args, args.bandwidth("local")?)?;
    for group in ids.chunks(a) {
        for (index, one) in group.iter().enumerate() {
            for other in &group[index + 1..] {
                assembly.builder.add_duplex(*one, *other, spec)?;
            }
        }
    }
    let spec = hop(args, args.bandwidth("global")?)?;
    // Each group numbers its global links by how far ahead the other group is, so that both
    // ends spread them over their routers alike.
    let router = |group: usize, ahead: usize, link: usize| {
        ids[group * a + ((ahead - 1) * between + link) / h]
    };
    for one in 0..g {
        for other in one + 1..g {
            for link in 0..between {
                let there = router(one, other - one, link);
                let back = router(other, g - (other - one), link);
                assembly.builder.add_duplex(there, back, spec)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, degrees, fails};
    use crate::node::NodeKind;

    #[test]
    fn balanced() {
        let net = build("dragonfly", &[]);
        let (a, p, h, g) = (4, 2, 2, 9);
        assert_eq!(net.count(NodeKind::Leaf), a * g);
        assert_eq!(net.count(NodeKind::Gpu), a * g * p);
        let links = a * g * p + g * a * (a - 1) / 2 + g * (g - 1) / 2;
        assert_eq!(net.links().len(), 2 * links);
        let degrees = degrees(&net);
        for id in net.node_ids().filter(|it| net.node(*it).kind == NodeKind::Leaf) {
            assert_eq!(degrees[id.index()], p + a - 1 + h);
        }
    }

    #[test]
    fn fewer_groups_have_more_links_between() {
        let net = build("dragonfly", &["groups=3"]);
        let global = net.links().iter().filter(|it| {
            let rack = |id| net.node(id).location.rack.clone();
            rack(it.from) != rack(it.to)
        });
        assert_eq!(global.count(), 2 * 3 * 4);
        assert_eq!(fails("dragonfly", &["groups=10"]).key.as_deref(), Some("groups"));
    }
}
