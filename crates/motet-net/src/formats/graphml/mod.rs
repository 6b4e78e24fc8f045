//! GraphML: read from the Topology Zoo, networkx or Gephi, and written so that they and we can
//! read it.
//!
//! A file of our own says so in the graph's `motet` attribute and is read back exactly
//! (`own.rs`); any other is read as a wide-area network ([`wan`]).

mod own;
mod write;

pub use write::write;

use std::collections::BTreeMap;

use super::wan::{self, Attributes, GraphEdge, GraphFile, GraphNode, WanDefaults};
use super::xml::{self, Document, Element};
use super::{NetworkFormat, ReadError, ReadNetwork};

/// The attribute of a graph that marks a file of our own, and the version we write.
const MARK: &str = "motet";
const VERSION: &str = "1";
/// Every edge without a value gets the default, so their number and length are bounded.
const MAX_DEFAULTS: usize = 16;
const MAX_DEFAULT: usize = 64;

/// Reads a GraphML file.
pub fn read(text: &str, defaults: &WanDefaults) -> Result<ReadNetwork, ReadError> {
    let document = xml::parse(text)?;
    let root = document.root();
    let mut graphs = document.children(root).filter(|(_, it)| it.name == "graph");
    let (Some((_, graph)), "graphml") = (graphs.next(), root.name.as_str()) else {
        return Err(ReadError::new(format!("<{}> holds no <graph>", root.name))
            .at(text, root.offset)
            .with_remedy("a GraphML file is <graphml> … <graph> … </graph></graphml>"));
    };
    if let Some((_, second)) = graphs.next() {
        let problem = "there is a second <graph>; a network file holds one";
        return Err(ReadError::new(problem).at(text, second.offset));
    }
    let file = File { text, keys: Keys::of(&document), document: &document };
    match file.data(graph, "graph").into_iter().find(|(name, _)| *name == MARK) {
        Some((_, version)) if version.text == VERSION => {
            Ok(ReadNetwork::new(own::network(&file, graph)?, NetworkFormat::GraphMl))
        }
        Some((_, version)) => {
            let problem = format!("the file is of Motet's GraphML version `{}`", version.text);
            let remedy = format!("this Motet reads version {VERSION}; write the file anew");
            Err(ReadError::new(problem).at(text, version.offset).with_remedy(remedy))
        }
        None => wan::network(&file.foreign(graph)?, defaults, NetworkFormat::GraphMl),
    }
}

/// The `<key>` declarations: what a `<data key="d3">` is called, for nodes, edges or the graph,
/// and the value of an element that has none.
struct Keys<'a> {
    names: BTreeMap<(&'a str, &'a str), &'a str>,
    defaults: Vec<(&'a str, &'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    fn of(document: &'a Document) -> Self {
        let mut keys = Self { names: BTreeMap::new(), defaults: Vec::new() };
        for (_, key) in document.children(document.root()).filter(|(_, it)| it.name == "key") {
            let Some(id) = key.get("id") else { continue };
            let name = key.get("attr.name").unwrap_or(id);
            let target = key.get("for").unwrap_or("all");
            keys.names.insert((target, id), name);
            let default = document.children(key).find(|(_, it)| it.name == "default");
            if let Some((_, default)) = default
                && keys.defaults.len() < MAX_DEFAULTS
                && default.text.len() <= MAX_DEFAULT
            {
                keys.defaults.push((target, name, &default.text));
            }
        }
        keys
    }

    fn name(&self, target: &str, id: &'a str) -> &'a str {
        let found = self.names.get(&(target, id)).or_else(|| self.names.get(&("all", id)));
        found.copied().unwrap_or(id)
    }
}

/// A document with its keys.
struct File<'a> {
    text: &'a str,
    document: &'a Document,
    keys: Keys<'a>,
}

impl<'a> File<'a> {
    /// The `<data>` of an element by name.
    fn data(&self, element: &'a Element, target: &str) -> Vec<(&'a str, &'a Element)> {
        let data = self.document.children(element).filter(|(_, it)| it.name == "data");
        data.map(|(_, it)| (self.keys.name(target, it.get("key").unwrap_or_default()), it))
            .collect()
    }

    fn attributes(&self, element: &'a Element, target: &str) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, data) in self.data(element, target) {
            attributes.add(name, data.text.as_str());
        }
        // Of edges only: a default capacity matters, a node's default label would not.
        let defaults = self.keys.defaults.iter().filter(|_| target == "edge");
        for (_, name, value) in defaults.filter(|it| matches!(it.0, "edge" | "all")) {
            attributes.add(name, *value);
        }
        attributes
    }

    fn refuse(&self, element: &Element, problem: impl Into<String>) -> ReadError {
        ReadError::new(problem).at(self.text, element.offset)
    }

    /// Nodes and edges of any GraphML file.
    fn foreign(&self, graph: &'a Element) -> Result<GraphFile, ReadError> {
        let mut file = GraphFile::default();
        let data = self.data(graph, "graph");
        let named = |name: &str| {
            let found = data.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
            found.map(|(_, it)| it.text.clone())
        };
        file.name = named("label").or_else(|| named("name")).or_else(|| named("network"));
        let default = graph.get("edgedefault") == Some("directed");
        let index_of = self.nodes(graph, |id, node| {
            let attributes = self.attributes(node, "node");
            file.nodes.push(GraphNode { id: id.to_owned(), attributes });
            Ok(())
        })?;
        for (_, edge) in self.document.children(graph).filter(|(_, it)| it.name == "edge") {
            let (from, to) = self.ends(edge, &index_of)?;
            let directed = edge.get("directed").map_or(default, |it| it == "true");
            let attributes = self.attributes(edge, "edge");
            file.edges.push(GraphEdge { from, to, directed, attributes });
        }
        Ok(file)
    }

    /// Calls `add` for each node in order; the index of each id.
    fn nodes(
        &self,
        graph: &'a Element,
        mut add: impl FnMut(&'a str, &'a Element) -> Result<(), ReadError>,
    ) -> Result<BTreeMap<&'a str, usize>, ReadError> {
        let mut index_of = BTreeMap::new();
        for (_, element) in self.document.children(graph) {
            match element.name.as_str() {
                "hyperedge" => {
                    return Err(self.refuse(element, "hyperedges are not links; write edges"));
                }
                "node" => {}
                _ => continue,
            }
            if let Some((_, nested)) =
                self.document.children(element).find(|(_, it)| it.name == "graph")
            {
                return Err(self
                    .refuse(nested, "a node holds a graph of its own")
                    .with_remedy("flatten the file: nested graphs are not read"));
            }
            let Some(id) = element.get("id") else {
                return Err(self.refuse(element, "the node has no `id`"));
            };
            if index_of.insert(id, index_of.len()).is_some() {
                return Err(self.refuse(element, format!("there are two nodes with id `{id}`")));
            }
            add(id, element)?;
        }
        Ok(index_of)
    }

    fn ends(
        &self,
        edge: &Element,
        index_of: &BTreeMap<&str, usize>,
    ) -> Result<(usize, usize), ReadError> {
        let end = |key: &str| {
            let id = edge
                .get(key)
                .ok_or_else(|| self.refuse(edge, format!("the edge has no `{key}`")))?;
            let problem = || format!("the edge's {key} is `{id}`, but no node has that id");
            index_of.get(id).copied().ok_or_else(|| self.refuse(edge, problem()))
        };
        Ok((end("source")?, end("target")?))
    }
}

#[cfg(test)]
mod tests;
