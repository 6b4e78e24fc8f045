//! A WAN from a graph file: its nodes become border routers, and datacenters are attached.
//!
//! A server or fabric stands at the WAN node whose name is its `dc`. Links without a capacity
//! or a latency get theirs as [`formats::wan`] says: latency from the
//! distance of the ends at two thirds of the speed of light, where the file has coordinates.

use std::collections::BTreeMap;

use motet_units::NodeId;

use super::assembly::Assembly;
use super::common::copy_links;
use super::template::{AUTO, Args, Family, Param, ParamKind, REQUIRED, Template, TemplateError};
use crate::formats::wan::WanDefaults;
use crate::formats::{self, ReadError, ReadNetwork};
use crate::link::{LinkClass, LinkSpec};
use crate::nearest;
use crate::network::Network;
use crate::node::{Node, NodeKind};

pub(super) const WAN: Template = Template {
    name: "wan",
    family: Family::Wan,
    doc: "a WAN from a graph file, its nodes as border routers, with datacenters attached",
    params: &[
        Param::new("file", ParamKind::Text, REQUIRED, "a .gml, .graphml or node-link .json file"),
        Param::new(
            "capacity",
            ParamKind::Bandwidth,
            "100 Gbit/s",
            "the rate of WAN links for which the file says none",
        ),
        Param::new(
            "capacity-unit",
            ParamKind::Bandwidth,
            "1 Mbit/s",
            "what a capacity without a unit counts in the file",
        ),
        Param::new(
            "wan-latency",
            ParamKind::Latency,
            "5 ms",
            "of WAN links for which the file says neither latency nor coordinates",
        ),
        Param::new(
            "datacenters",
            ParamKind::List,
            AUTO,
            "the WAN nodes with a datacenter; auto: those that are the `dc` of something, or all \
             if there are none",
        ),
        Param::count(
            "gpus",
            (0, 65_536),
            "1",
            "GPUs of a datacenter in which no server and no fabric stands",
        ),
        Param::new(
            "bandwidth",
            ParamKind::Bandwidth,
            "50 GB/s",
            "the rate of each of those GPUs' ports",
        ),
        Param::new("latency", ParamKind::Latency, "1.3 us", "from each of those GPUs to its leaf"),
        Param::new(
            "uplink",
            ParamKind::Bandwidth,
            "400 Gbit/s",
            "the rate from the top of a datacenter's fabric to the border router",
        ),
        Param::new("uplink-latency", ParamKind::Latency, "500 ns", "of that link"),
        Param::new("name", ParamKind::Text, "", "what the names of the border routers begin with"),
    ],
    build: wan,
};

fn wan(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let file = args.text("file")?;
    let text = assembly.fetch(&file)?;
    let defaults = WanDefaults {
        bandwidth: args.bandwidth("capacity")?,
        latency: args.latency("wan-latency")?,
        capacity_unit: args.bandwidth("capacity-unit")?,
        ..WanDefaults::default()
    };
    let read = read_graph(&file, &text, &defaults)
        .map_err(|error| TemplateError::of("file", format!("`{file}`: {error}")))?;
    assembly.notes.extend(read.notes.iter().map(|it| format!("{file}: {it}")));
    let routers = copy(assembly, args, &read.network)?;
    let sites = sites(assembly, args, &routers)?;
    for site in &sites {
        if let Some(router) = routers.get(site) {
            attach(assembly, args, site, *router)?;
        }
    }
    Ok(())
}

/// The graph by its file's ending.
fn read_graph(file: &str, text: &str, defaults: &WanDefaults) -> Result<ReadNetwork, ReadError> {
    let ending = file.rsplit_once('.').map(|it| it.1.to_ascii_lowercase());
    match ending.as_deref() {
        Some("gml") => formats::gml::read(text, defaults),
        Some("graphml" | "xml") => formats::graphml::read(text, defaults),
        Some("json") => formats::node_link_json::read(text, defaults),
        _ => Err(ReadError::new("a WAN file ends in .gml, .graphml or .json")),
    }
}

/// Adds the WAN itself; its routers by the name they have in the file.
fn copy(
    assembly: &mut Assembly<'_>,
    args: &Args,
    graph: &Network,
) -> Result<BTreeMap<String, NodeId>, TemplateError> {
    assembly.reserve(graph.nodes().len() as u128, graph.links().len() as u128)?;
    let prefix = args.text("name")?;
    let mut routers = BTreeMap::new();
    let mut ids = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let mut router = node.clone();
        router.name = format!("{prefix}{}", node.name);
        router.location.dc = Some(node.name.clone());
        let id = assembly.builder.add_node(router)?;
        ids.push(id);
        routers.insert(node.name.clone(), id);
    }
    copy_links(assembly, graph, &ids)?;
    Ok(routers)
}

/// The WAN nodes that have a datacenter, in the order of the names.
fn sites(
    assembly: &Assembly<'_>,
    args: &Args,
    routers: &BTreeMap<String, NodeId>,
) -> Result<Vec<String>, TemplateError> {
    let check = |key: Option<&str>, site: &str, what: &str| {
        if routers.contains_key(site) {
            return Ok(());
        }
        Err(TemplateError {
            key: key.map(str::to_owned),
            problem: format!("{what} `{site}` is not a node of the WAN"),
            remedy: nearest::remedy(site, routers.keys().map(String::as_str)),
        })
    };
    let occupied = assembly.datacenters();
    for site in &occupied {
        check(None, site, "the datacenter")?;
    }
    if !args.is_auto("datacenters") {
        let mut sites = args.list("datacenters")?;
        for site in &sites {
            check(Some("datacenters"), site, "the datacenter")?;
        }
        sites.extend(occupied);
        sites.sort();
        sites.dedup();
        return Ok(sites);
    }
    if occupied.is_empty() {
        return Ok(routers.keys().cloned().collect());
    }
    Ok(occupied.into_iter().collect())
}

/// Joins what stands at `site` to its border router, or puts GPUs there.
fn attach(
    assembly: &mut Assembly<'_>,
    args: &Args,
    site: &str,
    router: NodeId,
) -> Result<(), TemplateError> {
    let mut tops = assembly.tops_in(site);
    let ports = assembly.take_ports(Some(site));
    let own = if tops.is_empty() && ports.is_empty() { args.count("gpus")? } else { 0 };
    let leaves = usize::from(own > 0 || !ports.is_empty());
    let links = own + ports.len() + tops.len() + leaves;
    assembly.reserve((own + leaves) as u128, 2 * links as u128)?;
    if leaves > 0 {
        let rack = format!("{site}-rack");
        let node =
            |name: &str, kind| Node::new(format!("{site}-{name}"), kind).in_dc(site).in_rack(&rack);
        let leaf = assembly.builder.add_node(node("leaf", NodeKind::Leaf))?;
        for port in &ports {
            assembly.attach(port, leaf, LinkClass::Ethernet)?;
        }
        let (rate, latency) = (args.bandwidth("bandwidth")?, args.latency("latency")?);
        let spec = LinkSpec::new(LinkClass::Ethernet, rate, latency);
        for index in 0..own {
            let gpu = assembly.builder.add_node(node(&format!("gpu{index}"), NodeKind::Gpu))?;
            assembly.builder.add_duplex(gpu, leaf, spec)?;
        }
        tops.push(leaf);
    }
    let (rate, latency) = (args.bandwidth("uplink")?, args.latency("uplink-latency")?);
    for top in tops {
        let spec = LinkSpec::new(LinkClass::Ethernet, rate, latency);
        assembly.builder.add_duplex(top, router, spec)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::testing::is_connected;
    use crate::builders::{Params, find};

    /// Three towns in a triangle; the links know nothing but their ends.
    const TRIANGLE: &str = r#"graph [
        node [ id 0 label "Berlin" Longitude 13.41 Latitude 52.52 ]
        node [ id 1 label "Madrid" Longitude -3.70 Latitude 40.42 ]
        node [ id 2 label "Rome" Longitude 12.51 Latitude 41.89 ]
        edge [ source 0 target 1 ]
        edge [ source 1 target 2 ]
        edge [ source 2 target 0 ]
    ]"#;

    fn fetch(file: &str) -> Result<String, String> {
        if file == "t.gml" { Ok(TRIANGLE.to_owned()) } else { Err("no such file".to_owned()) }
    }

    fn wan(before: &[(&str, &[&str])], words: &[&str]) -> Result<Network, TemplateError> {
        let mut assembly = Assembly::new("test").with_fetch(&fetch);
        for (kind, words) in before {
            assembly.add(find(kind).unwrap(), &Params::from_words(*words).unwrap())?;
        }
        assembly.add(find("wan").unwrap(), &Params::from_words(words)?)?;
        assembly.finish()
    }

    #[test]
    fn gpus_at_every_node() {
        let net = wan(&[], &["file=t.gml", "gpus=2", "capacity=10 Gbit/s"]).unwrap();
        assert_eq!(net.nodes().len(), 3 * (1 + 1 + 2));
        assert_eq!(net.links().len(), 2 * (3 + 3 * 3));
        assert!(is_connected(&net));
        let wide = &net.links()[0].spec;
        assert_eq!(
            (wide.class, wide.bandwidth.to_string().as_str()),
            (LinkClass::Wan, "1.25 GB/s")
        );
        // Berlin to Madrid is about 1,870 km, 9.4 ms in fibre.
        assert!((9.0..9.8).contains(&(wide.latency.as_us_f64() / 1e3)), "{}", wide.latency);
        let some = wan(&[], &["file=t.gml", "datacenters=Rome,Berlin"]).unwrap();
        assert_eq!(some.ranks().len(), 2);
    }

    #[test]
    fn servers_and_fabrics_at_their_dc() {
        let before: &[(&str, &[&str])] = &[
            ("dgx-a100", &["count=2", "dc=Berlin"]),
            ("leaf-spine", &["dc=Rome", "leaves=2", "spines=3", "name=rome-"]),
        ];
        // The fabric in Rome has no port there to join and makes GPUs of its own.
        let net = wan(before, &["file=t.gml"]).unwrap();
        assert!(is_connected(&net));
        assert_eq!(net.ranks().len(), 16 + 8);
        let rome = net.find("Rome").unwrap();
        assert_eq!(net.outgoing(rome).len(), 2 + 3);
        assert!(net.find("Berlin-leaf").is_some() && net.find("Madrid-leaf").is_none());
    }

    #[test]
    fn says_which_place_is_unknown() {
        let error = wan(&[("dgx-1", &["dc=Rom"])], &["file=t.gml"]).unwrap_err();
        assert!(error.problem.contains("`Rom` is not a node"), "{error}");
        assert!(error.remedy.unwrap().contains("`Rome`"));
        let error = wan(&[], &["file=other.gml"]).unwrap_err();
        assert_eq!(error.problem, "`other.gml`: no such file");
        assert!(wan(&[], &[]).unwrap_err().problem.contains("needs `file`"));
    }
}
