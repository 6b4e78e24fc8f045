//! A network for Graphviz: `dot -Tsvg`, or `neato` for flat networks.
//!
//! Servers, racks and datacenters become nested clusters; the links of one class between two
//! nodes become one edge, labelled with what they carry together.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::palette::{self, Line};
use crate::{Location, Network, NodeKind};

/// The network as a Graphviz file.
#[must_use]
pub fn write(network: &Network) -> String {
    let mut out = format!("graph {} {{\n", quote(network.name()));
    out.push_str("  graph [rankdir=BT, fontname=\"sans-serif\", compound=true];\n");
    out.push_str("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=9];\n");
    let mut places: BTreeMap<&Location, Vec<usize>> = BTreeMap::new();
    for (index, node) in network.nodes().iter().enumerate() {
        places.entry(&node.location).or_default().push(index);
    }
    // Locations sort with their unknown parts first, so a cluster's own nodes come before the
    // clusters within it only if the outer name leads: sort by dc, rack, server.
    let mut sorted: Vec<(Vec<String>, Vec<usize>)> =
        places.into_iter().map(|(location, nodes)| (path(location), nodes)).collect();
    sorted.sort();
    let mut open: Vec<String> = Vec::new();
    let mut clusters = 0;
    for (path, nodes) in &sorted {
        let same = open.iter().zip(path).take_while(|(a, b)| a == b).count();
        close(&mut out, &mut open, same);
        for name in &path[same..] {
            let indent = "  ".repeat(open.len() + 1);
            let _ = writeln!(out, "{indent}subgraph cluster_{clusters} {{");
            let _ =
                writeln!(out, "{indent}  label={}; color=\"#8c8c8c\"; style=rounded;", quote(name));
            open.push(name.clone());
            clusters += 1;
        }
        let indent = "  ".repeat(open.len() + 1);
        for node in nodes {
            let kind = network.nodes()[*node].kind;
            let label = quote(&network.nodes()[*node].name);
            let (fill, shape) = (palette::fill(kind), shape(kind));
            let _ = writeln!(out, "{indent}n{node} [label={label}, fillcolor=\"{fill}\"{shape}];");
        }
    }
    close(&mut out, &mut open, 0);
    for line in palette::lines(network) {
        edge(&mut out, &line);
    }
    out.push_str("}\n");
    out
}

fn path(location: &Location) -> Vec<String> {
    let Location { server, rack, dc } = location;
    [("datacenter", dc), ("rack", rack), ("server", server)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)))
        .collect()
}

fn close(out: &mut String, open: &mut Vec<String>, keep: usize) {
    while open.len() > keep {
        let _ = writeln!(out, "{}}}", "  ".repeat(open.len()));
        open.pop();
    }
}

fn shape(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::NvSwitch | NodeKind::Leaf | NodeKind::Spine | NodeKind::Ocs => {
            ", shape=box, style=filled"
        }
        NodeKind::Border => ", shape=ellipse, style=filled",
        _ => "",
    }
}

fn edge(out: &mut String, line: &Line) {
    let style = palette::style(line.class);
    let mut label = line.bandwidth.to_string();
    if line.links > 1 {
        let _ = write!(label, " ({} links)", line.links);
    }
    let _ = write!(
        out,
        "  {} -- {} [label={}, color=\"{}\", penwidth={}, tooltip=\"{}\"",
        line.from,
        line.to,
        quote(&label),
        style.colour,
        palette::width(line.bandwidth),
        line.class
    );
    out.push_str(if style.dashes.is_empty() { "" } else { ", style=dashed" });
    out.push_str(if line.both_ways { "];\n" } else { ", dir=forward];\n" });
}

/// A quoted Graphviz text, in which only quotes, backslashes and line ends are special.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkClass, LinkSpec, NetworkBuilder, Node};
    use motet_units::{Bandwidth, Duration};

    #[test]
    fn clusters_nodes_and_edges() {
        let mut builder = NetworkBuilder::new("two \"racks\"");
        let a = Node::new("a", NodeKind::Gpu).in_server("s0").in_rack("r0");
        let b = Node::new("b\\", NodeKind::Gpu).in_server("s1").in_rack("r0");
        let (a, b) = (builder.add_node(a).unwrap(), builder.add_node(b).unwrap());
        let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf).in_rack("r0")).unwrap();
        let spec = LinkSpec::new(LinkClass::Roce, Bandwidth::gb_per_s(50), Duration::ZERO);
        builder.add_duplex(a, leaf, spec).unwrap();
        builder.add_link(b, leaf, spec).unwrap();
        insta::assert_snapshot!(write(&builder.build().unwrap()), @r##"
        graph "two \"racks\"" {
          graph [rankdir=BT, fontname="sans-serif", compound=true];
          node [shape=box, style="rounded,filled", fontname="sans-serif"];
          edge [fontname="sans-serif", fontsize=9];
          subgraph cluster_0 {
            label="rack r0"; color="#8c8c8c"; style=rounded;
            n2 [label="leaf", fillcolor="#7fb4e6", shape=box, style=filled];
            subgraph cluster_1 {
              label="server s0"; color="#8c8c8c"; style=rounded;
              n0 [label="a", fillcolor="#9fdcc8"];
            }
            subgraph cluster_2 {
              label="server s1"; color="#8c8c8c"; style=rounded;
              n1 [label="b\\", fillcolor="#9fdcc8"];
            }
          }
          n0 -- n2 [label="50 GB/s", color="#2f86d0", penwidth=2.7, tooltip="roce", style=dashed];
          n1 -- n2 [label="50 GB/s", color="#2f86d0", penwidth=2.7, tooltip="roce", style=dashed, dir=forward];
        }
        "##);
    }
}
