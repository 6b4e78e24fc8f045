//! [`diff`]: what differs between two networks, node by node and link by link.
//!
//! Nodes are the same if they have the same name; links if they join the same two nodes in the
//! same direction and are the k-th to do so. Beside that stands whether the two are one network
//! under other names ([`Signature`]). What is gone or changed comes in the order of the first
//! network, what is new in the order of the second.

use std::fmt;

use motet_units::{LinkId, NodeId, Rank};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::network::Network;
use crate::signature::Signature;

/// What differs between two networks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkDiff {
    /// Whether they are the same but for names, order, ranks, places and properties.
    pub same_signature: bool,
    /// Names of nodes that only the first network has.
    pub nodes_removed: Vec<String>,
    /// Names of nodes that only the second network has.
    pub nodes_added: Vec<String>,
    /// Nodes of both networks that differ in something.
    pub nodes_changed: Vec<NodeChange>,
    /// Links that only the first network has.
    pub links_removed: Vec<LinkName>,
    /// Links that only the second network has.
    pub links_added: Vec<LinkName>,
    /// Links of both networks that differ in something.
    pub links_changed: Vec<LinkChanged>,
}

/// A node in both networks that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeChange {
    /// The name of the node in both networks.
    pub name: String,
    /// What differs.
    pub fields: Vec<FieldChange>,
}

/// A link by the names of its ends, and which of the parallel ones it is, from 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LinkName {
    /// The name of the sending node.
    pub from: String,
    /// The name of the receiving node.
    pub to: String,
    /// Which of several links between the two it is, from 0.
    pub parallel: usize,
}

/// A link in both networks that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkChanged {
    /// Which link.
    #[serde(flatten)]
    pub link: LinkName,
    /// What differs.
    pub fields: Vec<FieldChange>,
}

/// One field of a node or link, as text; `None` where the field was not given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// What it is called in the cluster file.
    pub field: String,
    /// The value in the first network; `None` if it has none.
    pub before: Option<String>,
    /// The value in the second network; `None` if it has none.
    pub after: Option<String>,
}

impl NetworkDiff {
    /// Whether nothing differs, names included.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes_removed.is_empty()
            && self.nodes_added.is_empty()
            && self.nodes_changed.is_empty()
            && self.links_removed.is_empty()
            && self.links_added.is_empty()
            && self.links_changed.is_empty()
    }
}

/// What one must change in `before` to get `after`.
#[must_use]
pub fn diff(before: &Network, after: &Network) -> NetworkDiff {
    let mut result = NetworkDiff {
        same_signature: Signature::of(before) == Signature::of(after),
        nodes_removed: Vec::new(),
        nodes_added: Vec::new(),
        nodes_changed: Vec::new(),
        links_removed: Vec::new(),
        links_added: Vec::new(),
        links_changed: Vec::new(),
    };
    let (rank_before, rank_after) = (ranks(before), ranks(after));
    for (node, rank) in before.nodes().iter().zip(&rank_before) {
        let Some(id) = after.find(&node.name) else {
            result.nodes_removed.push(node.name.clone());
            continue;
        };
        let mut fields = Fields::default();
        fields.text("rank", rank, &rank_after[id.index()]);
        let other = after.node(id);
        fields.text("kind", &Some(node.kind), &Some(other.kind));
        fields.text("server", &node.location.server, &other.location.server);
        fields.text("rack", &node.location.rack, &other.location.rack);
        fields.text("dc", &node.location.dc, &other.location.dc);
        fields.text("multicast", &Some(node.multicast), &Some(other.multicast));
        fields.text("reduces", &Some(node.reduces), &Some(other.reduces));
        let services = |it: &crate::Node| Some(it.in_network).filter(|it| it.is_any());
        fields.text("in_network", &services(node), &services(other));
        let new = other.properties.keys().filter(|it| !node.properties.contains_key(*it));
        for key in node.properties.keys().chain(new) {
            let value = |it: &crate::Node| it.properties.get(key).cloned();
            fields.text(key, &value(node), &value(other));
        }
        if !fields.0.is_empty() {
            result.nodes_changed.push(NodeChange { name: node.name.clone(), fields: fields.0 });
        }
    }
    let added = after.nodes().iter().filter(|it| before.find(&it.name).is_none());
    result.nodes_added = added.map(|it| it.name.clone()).collect();
    diff_links(before, after, &mut result);
    result
}

fn diff_links(before: &Network, after: &Network, result: &mut NetworkDiff) {
    let (old, new) = (parallels(before), parallels(after));
    let mut lookup: FxHashMap<(&str, &str, usize), LinkId> = FxHashMap::default();
    for (link, parallel) in after.link_ids().zip(&new) {
        let (from, to) = ends(after, link);
        lookup.insert((from, to, *parallel), link);
    }
    for (link, parallel) in before.link_ids().zip(old) {
        let (from, to) = ends(before, link);
        let name = || LinkName { from: from.to_owned(), to: to.to_owned(), parallel };
        // What is left in the table at the end is new.
        let Some(other) = lookup.remove(&(from, to, parallel)) else {
            result.links_removed.push(name());
            continue;
        };
        let (a, b) = (&before.link(link).spec, &after.link(other).spec);
        let mut fields = Fields::default();
        fields.text("class", &Some(a.class), &Some(b.class));
        fields.text("bandwidth", &Some(a.bandwidth), &Some(b.bandwidth));
        fields.text("latency", &Some(a.latency), &Some(b.latency));
        fields.text("lanes", &Some(a.lanes), &Some(b.lanes));
        fields.text("tier", &Some(before.tier(link)), &Some(after.tier(other)));
        if !fields.0.is_empty() {
            result.links_changed.push(LinkChanged { link: name(), fields: fields.0 });
        }
    }
    for (link, parallel) in after.link_ids().zip(new) {
        let (from, to) = ends(after, link);
        if lookup.contains_key(&(from, to, parallel)) {
            let name = LinkName { from: from.to_owned(), to: to.to_owned(), parallel };
            result.links_added.push(name);
        }
    }
}

/// Of each link, how many before it join the same nodes in the same direction.
fn parallels(network: &Network) -> Vec<usize> {
    let mut seen: FxHashMap<(NodeId, NodeId), usize> = FxHashMap::default();
    network
        .links()
        .iter()
        .map(|link| {
            let count = seen.entry((link.from, link.to)).or_default();
            *count += 1;
            *count - 1
        })
        .collect()
}

fn ends(network: &Network, link: LinkId) -> (&str, &str) {
    let link = network.link(link);
    (&network.node(link.from).name, &network.node(link.to).name)
}

/// The rank of each node, given or by order.
fn ranks(network: &Network) -> Vec<Option<Rank>> {
    let mut ranks = vec![None; network.nodes().len()];
    for (rank, gpu) in network.ranks().iter().enumerate() {
        ranks[gpu.index()] = Some(Rank::from_index(rank));
    }
    ranks
}

/// Collects the fields that differ.
#[derive(Default)]
struct Fields(Vec<FieldChange>);

impl Fields {
    fn text<T: PartialEq + fmt::Display>(&mut self, field: &str, a: &Option<T>, b: &Option<T>) {
        if a != b {
            let text = |it: &Option<T>| it.as_ref().map(ToString::to_string);
            self.0.push(FieldChange { field: field.to_owned(), before: text(a), after: text(b) });
        }
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)?;
        if self.parallel > 0 { write!(f, " #{}", self.parallel) } else { Ok(()) }
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        write!(f, "{} {} => {}", self.field, text(&self.before), text(&self.after))
    }
}

/// One line for each difference: `-` gone, `+` new, `~` changed.
impl fmt::Display for NetworkDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |it: &[FieldChange]| it.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        for name in &self.nodes_removed {
            writeln!(f, "- node {name}")?;
        }
        for name in &self.nodes_added {
            writeln!(f, "+ node {name}")?;
        }
        for node in &self.nodes_changed {
            writeln!(f, "~ node {}: {}", node.name, list(&node.fields))?;
        }
        for link in &self.links_removed {
            writeln!(f, "- link {link}")?;
        }
        for link in &self.links_added {
            writeln!(f, "+ link {link}")?;
        }
        for changed in &self.links_changed {
            writeln!(f, "~ link {}: {}", changed.link, list(&changed.fields))?;
        }
        let same = if self.same_signature { "the same" } else { "different" };
        writeln!(f, "signatures are {same}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkClass, LinkSpec};
    use crate::network::NetworkBuilder;
    use crate::node::{Node, NodeKind};
    use crate::testing::multigraph;
    use motet_units::{Bandwidth, Duration};
    use proptest::prelude::*;

    fn network(names: &[&str], links: &[(usize, usize, u64)]) -> NetworkBuilder {
        let mut b = NetworkBuilder::new("n");
        for name in names {
            b.add_node(Node::new(*name, NodeKind::Gpu)).unwrap();
        }
        for (from, to, gb) in links {
            let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(*gb), Duration::ZERO);
            b.add_link(NodeId::from_index(*from), NodeId::from_index(*to), spec).unwrap();
        }
        b
    }

    #[test]
    fn every_kind_of_difference() {
        let before = network(&["a", "b", "c"], &[(0, 1, 10), (0, 1, 20), (1, 2, 10)]);
        let mut after = network(&["b", "a", "d"], &[(1, 0, 10), (1, 0, 25), (2, 1, 10)]);
        let a = after.find("a").unwrap();
        after.node_mut(a).properties.insert("sm".to_owned(), "80".to_owned());
        let result = diff(&before.build().unwrap(), &after.build().unwrap());
        assert!(!result.is_empty());
        insta::assert_snapshot!(result, @r"
        - node c
        + node d
        ~ node a: rank 0 => 1, sm none => 80
        ~ node b: rank 1 => 0
        - link b -> c
        + link d -> a
        ~ link a -> b #1: bandwidth 20 GB/s => 25 GB/s
        signatures are different
        ");
    }

    #[test]
    fn renamed_networks_have_the_same_signature() {
        let (one, other) =
            (network(&["a", "b"], &[(0, 1, 10)]), network(&["x", "y"], &[(1, 0, 10)]));
        let result = diff(&one.build().unwrap(), &other.build().unwrap());
        assert!(result.same_signature && !result.is_empty());
        assert_eq!(result.nodes_removed, ["a", "b"]);
        assert_eq!(result.nodes_added, ["x", "y"]);
    }

    proptest! {
        #[test]
        fn same_is_empty_and_directions_mirror(a in multigraph(6, 12), b in multigraph(6, 12)) {
            prop_assert!(diff(&a, &a).is_empty());
            let (there, back) = (diff(&a, &b), diff(&b, &a));
            prop_assert_eq!(&there.nodes_removed, &back.nodes_added);
            prop_assert_eq!(&there.nodes_added, &back.nodes_removed);
            prop_assert_eq!(&there.links_removed, &back.links_added);
            prop_assert_eq!(&there.links_added, &back.links_removed);
            prop_assert_eq!(there.links_changed.len(), back.links_changed.len());
            // Every link of `a` is gone or still in `b`.
            let kept = a.links().len() - there.links_removed.len();
            prop_assert_eq!(kept, b.links().len() - there.links_added.len());
        }
    }
}
