//! Writing a network as an explicit graph that reads back equal.

use std::fmt::Write as _;

use motet_units::LinkId;

use crate::formats::toml_quoted;
use crate::link::{Link, LinkClass};
use crate::network::Network;
use crate::node::Node;

/// The cluster file of `network`: every node and link, two links of a duplex pair as one table.
#[must_use]
pub fn write(network: &Network) -> String {
    write_commented(network, &[], &|_| Vec::new())
}

/// The same with comments: these lines at the head, and for each link those of `of_link`.
#[must_use]
pub fn write_commented(
    network: &Network,
    head: &[String],
    of_link: &dyn Fn(LinkId) -> Vec<String>,
) -> String {
    let mut out = String::new();
    comment(&mut out, head);
    if !head.is_empty() {
        out.push('\n');
    }
    if !network.name().is_empty() {
        pair(&mut out, "name", network.name());
        out.push('\n');
    }
    for node in network.nodes() {
        write_node(&mut out, node);
    }
    for (index, link) in network.links().iter().enumerate() {
        // The builder adds the two links of a pair one after the other and alike, and so does
        // the reader: the first stands for both.
        if link.reverse.is_none_or(|it| it.index() > index) {
            comment(&mut out, &of_link(LinkId::from_index(index)));
            write_link(&mut out, network, link);
        }
    }
    out
}

fn write_node(out: &mut String, node: &Node) {
    out.push_str("[[node]]\n");
    pair(out, "name", &node.name);
    pair(out, "kind", node.kind.name());
    let location = &node.location;
    for (key, value) in
        [("server", &location.server), ("rack", &location.rack), ("dc", &location.dc)]
    {
        if let Some(value) = value {
            pair(out, key, value);
        }
    }
    if let Some(rank) = node.rank {
        let _ = writeln!(out, "rank = {rank}");
    }
    for (key, set) in [("multicast", node.multicast), ("reduces", node.reduces)] {
        if set {
            let _ = writeln!(out, "{key} = true");
        }
    }
    if node.in_network.is_any() {
        let words: Vec<String> = node.in_network.words().map(|it| format!("\"{it}\"")).collect();
        let _ = writeln!(out, "in_network = [{}]", words.join(", "));
    }
    if !node.properties.is_empty() {
        out.push_str("properties = { ");
        for (index, (key, value)) in node.properties.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            let _ = write!(out, "{} = {}", toml_quoted(key), toml_quoted(value));
        }
        out.push_str(" }\n");
    }
    out.push('\n');
}

fn write_link(out: &mut String, network: &Network, link: &Link) {
    out.push_str("[[link]]\n");
    pair(out, "from", &network.node(link.from).name);
    pair(out, "to", &network.node(link.to).name);
    let _ = writeln!(out, "bandwidth = \"{}\"", link.spec.bandwidth);
    let _ = writeln!(out, "latency = \"{}\"", link.spec.latency);
    if link.reverse.is_none() {
        out.push_str("duplex = false\n");
    }
    if link.spec.class != LinkClass::Other {
        pair(out, "class", link.spec.class.name());
    }
    if link.spec.lanes != 1 {
        let _ = writeln!(out, "lanes = {}", link.spec.lanes);
    }
    if let Some(tier) = link.spec.tier {
        let _ = writeln!(out, "tier = {tier}");
    }
    out.push('\n');
}

/// Lines of comment. Whatever would end one early, or not print, becomes a space.
fn comment(out: &mut String, lines: &[String]) {
    for line in lines {
        out.push_str("# ");
        out.extend(line.chars().map(|it| if it.is_control() { ' ' } else { it }));
        out.push('\n');
    }
}

fn pair(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {}", toml_quoted(value));
}
