//! Node-link JSON as networkx writes it (`nx.node_link_data`), the form in which traffic
//! engineering papers share their networks.
//!
//! Edges stand under `links` or, in newer versions, `edges`. [`wan`] makes a network
//! of it; capacities there have no unit, so [`WanDefaults::capacity_unit`] gives it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::json::{self, scalar};
use super::wan::{self, Attributes, GraphEdge, GraphFile, GraphNode, WanDefaults};
use super::{NetworkFormat, ReadError, ReadNetwork};

/// Reads a node-link graph as a wide-area network.
pub fn read(text: &str, defaults: &WanDefaults) -> Result<ReadNetwork, ReadError> {
    let root = json::object(text)?;
    let directed = root.get("directed").and_then(Value::as_bool).unwrap_or(false);
    let mut graph = GraphFile {
        name: root.get("graph").and_then(|it| scalar(it.get("name")?)),
        ..GraphFile::default()
    };
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    for (place, node) in list(&root, &["nodes"])?.iter().enumerate() {
        let node = entry(node, "nodes", place)?;
        let Some(id) = node.get("id").or_else(|| node.get("name")).and_then(scalar) else {
            return Err(ReadError::new(format!("nodes[{place}] has no `id`")));
        };
        if index_of.insert(id.clone(), graph.nodes.len()).is_some() {
            return Err(ReadError::new(format!("there are two nodes with id {id}")));
        }
        graph.nodes.push(GraphNode { attributes: attributes(node, &["id"]), id });
    }
    for (place, edge) in list(&root, &["links", "edges"])?.iter().enumerate() {
        let edge = entry(edge, "links", place)?;
        let end = |key: &str| {
            let id = edge
                .get(key)
                .and_then(scalar)
                .ok_or_else(|| ReadError::new(format!("links[{place}] has no `{key}`")))?;
            index_of.get(&id).copied().ok_or_else(|| {
                ReadError::new(format!("links[{place}] has {key} {id}, but no node has that id"))
            })
        };
        let attributes = attributes(edge, &["source", "target", "key"]);
        graph.edges.push(GraphEdge {
            from: end("source")?,
            to: end("target")?,
            directed,
            attributes,
        });
    }
    wan::network(&graph, defaults, NetworkFormat::NodeLinkJson)
}

fn list<'a>(root: &'a Map<String, Value>, keys: &[&str]) -> Result<&'a [Value], ReadError> {
    let found = keys.iter().find_map(|it| root.get(*it));
    found.and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| {
        ReadError::new(format!("there is no list `{}`", keys.join("` or `")))
            .with_remedy("a node-link graph has `nodes` and `links`, as nx.node_link_data gives")
    })
}

fn entry<'a>(
    value: &'a Value,
    list: &str,
    place: usize,
) -> Result<&'a Map<String, Value>, ReadError> {
    value.as_object().ok_or_else(|| ReadError::new(format!("{list}[{place}] is not an object")))
}

/// Every plain value but `without`. A position `pos: [x, y]` is a drawing's, not a place on Earth.
fn attributes(entry: &Map<String, Value>, without: &[&str]) -> Attributes {
    let mut attributes = Attributes::default();
    for (key, value) in entry {
        if let (false, Some(value)) = (without.contains(&key.as_str()), scalar(value)) {
            attributes.add(key, value);
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings() {
        let text = r#"{"directed": true, "multigraph": false, "graph": {"name": "two"},
            "nodes": [{"id": 0, "label": "x"}, {"id": "b"}],
            "LINKS": [{"source": 0, "target": "b", "capacity": 10.0},
                      {"source": "b", "target": 0, "capacity": 10.0}]}"#;
        for key in ["links", "edges"] {
            let read = read(&text.replace("LINKS", key), &WanDefaults::default()).unwrap();
            assert_eq!((read.network.name(), read.network.links().len()), ("two", 2));
            assert!(read.network.links()[0].reverse.is_some());
            assert_eq!(read.network.links()[0].spec.bandwidth.bits_per_s(), 10_000_000);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("[1]", "not an object"),
            (r#"{"nodes": []}"#, "no list `links` or `edges`"),
            (r#"{"nodes": [{}], "links": []}"#, "nodes[0] has no `id`"),
            (r#"{"nodes": [3], "links": []}"#, "nodes[0] is not an object"),
            (r#"{"nodes": [{"id":1}], "links": [{"source":1,"target":2}]}"#, "links[0] has target"),
            (r#"{"nodes": [{"id":1},{"id":"1"}], "links": []}"#, "two nodes"),
        ] {
            let error = read(text, &WanDefaults::default()).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
        }
        let error = read("{\n \"nodes\": [,]}", &WanDefaults::default()).unwrap_err();
        assert_eq!(error.at.map(|it| it.line), Some(2));
    }
}
