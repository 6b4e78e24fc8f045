//! Reading back what [`write`](super::write()) wrote: exactly, field by field.

use std::str::FromStr;

use motet_units::{NodeId, Rank};

use super::File;
use crate::formats::ReadError;
use crate::formats::xml::Element;
use crate::{LinkSpec, Network, NetworkBuilder, Node, NodeKind, Tier};

/// What a property's name has in front of it in a file, to keep it apart from our own fields.
pub(super) const PROPERTY: &str = "property.";

pub(super) fn network(file: &File<'_>, graph: &Element) -> Result<Network, ReadError> {
    let name = file.data(graph, "graph").into_iter().find(|(it, _)| *it == "name");
    let mut builder = NetworkBuilder::new(name.map_or("", |(_, it)| it.text.as_str()));
    let index_of = file.nodes(graph, |id, element| {
        let node = node(file, id, element)?;
        builder.add_node(node).map_err(|it| ReadError::from(it).at(file.text, element.offset))?;
        Ok(())
    })?;
    let mut edges = file.document.children(graph).filter(|(_, it)| it.name == "edge").peekable();
    while let Some((_, edge)) = edges.next() {
        let (from, to) = file.ends(edge, &index_of)?;
        let (from, to) = (NodeId::from_index(from), NodeId::from_index(to));
        let (spec, reverse) = link(file, edge)?;
        let at = |it| ReadError::from(it).at(file.text, edge.offset);
        let Some(reverse) = reverse else {
            builder.add_link(from, to, spec).map_err(at)?;
            continue;
        };
        let next = edges.next_if(|(_, it)| it.get("id") == Some(reverse));
        let Some((_, next)) = next else {
            let problem = format!("the edge's reverse `{reverse}` is not the edge after it");
            return Err(file.refuse(edge, problem));
        };
        let (back_from, back_to) = file.ends(next, &index_of)?;
        let back = (NodeId::from_index(back_from), NodeId::from_index(back_to));
        if back != (to, from) || link(file, next)?.0 != spec {
            return Err(file.refuse(next, "the edge is not the reverse of the one before it"));
        }
        builder.add_duplex(from, to, spec).map_err(at)?;
    }
    Ok(builder.build()?)
}

fn node(file: &File<'_>, id: &str, element: &Element) -> Result<Node, ReadError> {
    let mut node = Node::new(id, NodeKind::Gpu);
    for (name, data) in file.data(element, "node") {
        let text = data.text.clone();
        match name {
            "label" => node.name = text,
            "kind" => node.kind = field(file, data)?,
            "server" => node.location.server = Some(text),
            "rack" => node.location.rack = Some(text),
            "dc" => node.location.dc = Some(text),
            "rank" => node.rank = Some(Rank(field(file, data)?)),
            "multicast" => node.multicast = field(file, data)?,
            "reduces" => node.reduces = field(file, data)?,
            "in_network" => node.in_network = field(file, data)?,
            _ => {
                if let Some(key) = name.strip_prefix(PROPERTY) {
                    node.properties.insert(key.to_owned(), text);
                }
            }
        }
    }
    Ok(node)
}

/// The link of an edge, and the id of the edge that is its reverse.
fn link<'a>(file: &File<'a>, edge: &'a Element) -> Result<(LinkSpec, Option<&'a str>), ReadError> {
    let (mut bandwidth, mut reverse) = (None, None);
    let mut spec = LinkSpec::new(Default::default(), Default::default(), Default::default());
    for (name, data) in file.data(edge, "edge") {
        match name {
            "class" => spec.class = field(file, data)?,
            "bandwidth" => bandwidth = Some(field(file, data)?),
            "latency" => spec.latency = field(file, data)?,
            "lanes" => spec.lanes = field(file, data)?,
            "tier" => {
                let tier: u8 = field(file, data)?;
                let unknown = || file.refuse(data, format!("`{tier}` is not a tier; use 0 to 4"));
                spec.tier = Some(Tier::new(tier).ok_or_else(unknown)?);
            }
            "reverse" => reverse = Some(data.text.as_str()),
            _ => {}
        }
    }
    spec.bandwidth = bandwidth.ok_or_else(|| file.refuse(edge, "the edge has no `bandwidth`"))?;
    Ok((spec, reverse))
}

fn field<T: FromStr>(file: &File<'_>, data: &Element) -> Result<T, ReadError>
where
    T::Err: std::fmt::Display,
{
    data.text.parse().map_err(|error: T::Err| file.refuse(data, error.to_string()))
}
