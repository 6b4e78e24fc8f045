//! A network as GraphML. [`read`](super::read) gives back an equal network.
//!
//! Nodes are `n0`, `n1`… with their name as `label`; links are `l0`, `l1`…, all directed because
//! networkx reads no mixed graphs, and a duplex pair names each other in `reverse`. Bandwidth
//! and latency stand with their unit ("50 GB/s").

use std::collections::BTreeSet;
use std::fmt::Write;

use super::own::PROPERTY;
use super::{MARK, VERSION};
use crate::formats::xml::escape;
use crate::{Link, Network, Node};

const NODE_KEYS: [(&str, &str); 9] = [
    ("label", "string"),
    ("kind", "string"),
    ("server", "string"),
    ("rack", "string"),
    ("dc", "string"),
    ("rank", "int"),
    ("multicast", "boolean"),
    ("reduces", "boolean"),
    ("in_network", "string"),
];

const EDGE_KEYS: [(&str, &str); 6] = [
    ("class", "string"),
    ("bandwidth", "string"),
    ("latency", "string"),
    ("lanes", "long"),
    ("tier", "int"),
    ("reverse", "string"),
];

/// The network as a GraphML file.
#[must_use]
pub fn write(network: &Network) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str("<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
    for name in [MARK, "name"] {
        key(&mut out, "graph", name, name, "string");
    }
    for (name, kind) in NODE_KEYS {
        key(&mut out, "node", name, name, kind);
    }
    let properties: BTreeSet<&str> =
        network.nodes().iter().flat_map(|it| it.properties.keys()).map(String::as_str).collect();
    let properties: Vec<&str> = properties.into_iter().collect();
    for (index, name) in properties.iter().enumerate() {
        key(&mut out, "node", &format!("p{index}"), &format!("{PROPERTY}{name}"), "string");
    }
    for (name, kind) in EDGE_KEYS {
        key(&mut out, "edge", name, name, kind);
    }
    out.push_str("  <graph id=\"network\" edgedefault=\"directed\">\n");
    data(&mut out, "graph", MARK, VERSION);
    data(&mut out, "graph", "name", network.name());
    for (index, it) in network.nodes().iter().enumerate() {
        node(&mut out, index, it, &properties);
    }
    for (index, it) in network.links().iter().enumerate() {
        edge(&mut out, index, it);
    }
    out.push_str("  </graph>\n</graphml>\n");
    out
}

// Writing to a String cannot fail.
fn key(out: &mut String, target: &str, id: &str, name: &str, kind: &str) {
    let name = escape(name);
    let _ = writeln!(
        out,
        "  <key id=\"{target}.{id}\" for=\"{target}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
    );
}

fn data(out: &mut String, target: &str, id: &str, value: &str) {
    let _ = writeln!(out, "      <data key=\"{target}.{id}\">{}</data>", escape(value));
}

fn node(out: &mut String, index: usize, node: &Node, properties: &[&str]) {
    let _ = writeln!(out, "    <node id=\"n{index}\">");
    data(out, "node", "label", &node.name);
    data(out, "node", "kind", node.kind.name());
    let location = &node.location;
    let places = [("server", &location.server), ("rack", &location.rack), ("dc", &location.dc)];
    for (name, place) in places {
        if let Some(place) = place {
            data(out, "node", name, place);
        }
    }
    if let Some(rank) = node.rank {
        data(out, "node", "rank", &rank.to_string());
    }
    for (name, capable) in [("multicast", node.multicast), ("reduces", node.reduces)] {
        if capable {
            data(out, "node", name, "true");
        }
    }
    if node.in_network.is_any() {
        data(out, "node", "in_network", &node.in_network.to_string());
    }
    for (name, value) in &node.properties {
        if let Ok(place) = properties.binary_search(&name.as_str()) {
            data(out, "node", &format!("p{place}"), value);
        }
    }
    out.push_str("    </node>\n");
}

fn edge(out: &mut String, index: usize, link: &Link) {
    let (from, to, spec) = (link.from, link.to, &link.spec);
    let _ = writeln!(out, "    <edge id=\"l{index}\" source=\"{from}\" target=\"{to}\">");
    data(out, "edge", "class", spec.class.name());
    data(out, "edge", "bandwidth", &spec.bandwidth.to_string());
    data(out, "edge", "latency", &spec.latency.to_string());
    if spec.lanes != 1 {
        data(out, "edge", "lanes", &spec.lanes.to_string());
    }
    if let Some(tier) = spec.tier {
        data(out, "edge", "tier", &tier.to_string());
    }
    if let Some(reverse) = link.reverse {
        data(out, "edge", "reverse", &reverse.to_string());
    }
    out.push_str("    </edge>\n");
}
