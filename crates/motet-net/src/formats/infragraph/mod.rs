//! InfraGraph files: Keysight's description of AI infrastructure, which ASTRA-sim 3 reads too.
//!
//! A file lists *devices* (servers, switches, network cards), each a small graph of *components*, *instances* of
//! devices, and edges between components of instances. Endpoints are Python slices: `host[0:4]`, `nic[2]`, and
//! `cx7[0].port` for a component that is a device itself. [`schema`] is the file's form, [`expand`] makes the
//! whole graph of it, [`kinds`] says what its components and links are to Motet. Read from the JSON that its
//! Python package writes (`infrastructure.serialize("json")`); format of version 3.1.
//!
//! Ports are no nodes here: a port with two links is a place on one link, whose rate is the lower of the two.
//! Where a file gives no rate, NVLink and PCIe have those of the generation that is named in the link's
//! description; any other link must have one.

mod expand;
mod kinds;
mod schema;

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, NodeId};

use self::expand::{Edge, Expanded};
use super::{NetworkFormat, ReadError, ReadNetwork, json};
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};

/// Reads a network.
pub fn read(text: &str) -> Result<ReadNetwork, ReadError> {
    let root = serde_json::Value::Object(json::object(text)?);
    let file: schema::Infrastructure = serde_json::from_value(root).map_err(|it| {
        ReadError::new(format!("this is not an InfraGraph infrastructure: {it}")).with_remedy(
            "give what `infrastructure.serialize(\"json\")` of the infragraph package writes",
        )
    })?;
    let graph = expand::expand(&file)?;
    let mut notes = Vec::new();
    let kinds = kinds::kinds(&graph, &mut notes);
    let wires = joined(&graph, &kinds);
    let name = if file.name.is_empty() { "infragraph" } else { &file.name };
    let mut builder = NetworkBuilder::new(name);
    let mut ids: Vec<Option<NodeId>> = Vec::with_capacity(kinds.len());
    for (at, kind) in kinds.iter().enumerate() {
        let Some(kind) = kind.node() else {
            ids.push(None);
            continue;
        };
        // What no wire reaches (a spare port's card, a management processor) carries nothing.
        if kind != NodeKind::Gpu && !wires.iter().any(|it| it.a == at || it.b == at) {
            ids.push(None);
            continue;
        }
        let part = &graph.parts[at];
        let mut node = Node::new(part.name.clone(), kind);
        if graph.is_server[part.instance] {
            node = node.in_server(graph.instances[part.instance].clone());
        }
        ids.push(Some(builder.add_node(node)?));
    }
    let rates = kinds::NvLinks::of(&wires, &kinds);
    for wire in &wires {
        let (Some(a), Some(b)) = (ids[wire.a], ids[wire.b]) else { continue };
        let ends = [&graph.parts[wire.a].name, &graph.parts[wire.b].name];
        let rate = wire.rate.or_else(|| rates.rate(wire, &mut notes));
        let rate = rate.ok_or_else(|| {
            ReadError::new(format!(
                "link `{}` between {} and {} has no bandwidth",
                wire.link, ends[0], ends[1]
            ))
            .with_remedy("set physical.bandwidth of the link in the InfraGraph file")
        })?;
        let latency = wire.latency.unwrap_or_else(|| kinds::latency(wire.class));
        builder.add_duplex(a, b, LinkSpec::new(wire.class, rate, latency))?;
    }
    let mut read = ReadNetwork::new(builder.build()?, NetworkFormat::InfraGraph);
    read.notes = notes;
    Ok(read)
}

/// A link between two components that are nodes.
#[derive(Clone, Debug)]
struct Wire {
    a: usize,
    b: usize,
    /// The link's name in the file.
    link: String,
    /// What the file says about it besides.
    description: String,
    class: LinkClass,
    rate: Option<Bandwidth>,
    latency: Option<Duration>,
}

impl Wire {
    fn of(edge: &Edge, a: usize, b: usize) -> Self {
        Self {
            a,
            b,
            link: edge.link.name.clone(),
            description: edge.link.description.clone(),
            class: kinds::class(&edge.link),
            rate: edge.rate,
            latency: edge.latency,
        }
    }

    /// This one and then another, as one: the lower rate, both latencies; the class of the one that says more.
    fn then(mut self, other: Self, b: usize) -> Self {
        self.b = b;
        self.rate = match (self.rate, other.rate) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        self.latency = match (self.latency, other.latency) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        if self.class == LinkClass::Other {
            (self.class, self.link, self.description) =
                (other.class, other.link, other.description);
        }
        self
    }
}

/// The links, with ports taken out of them. A port with one link leads nowhere and one with more than two
/// is a node.
fn joined(graph: &Expanded, kinds: &[kinds::Kind]) -> Vec<Wire> {
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); graph.parts.len()];
    for (index, edge) in graph.edges.iter().enumerate() {
        at[edge.a].push(index);
        at[edge.b].push(index);
    }
    let other = |edge: usize, end: usize| graph.edges[edge].a + graph.edges[edge].b - end;
    let passes = |part: usize| kinds[part] == kinds::Kind::Port && at[part].len() <= 2;
    let mut wires: BTreeMap<(usize, usize, usize), Wire> = BTreeMap::new();
    for start in (0..graph.parts.len()).filter(|it| !passes(*it)) {
        for first in &at[start] {
            let (mut edge, mut end) = (*first, other(*first, start));
            let mut wire = Wire::of(&graph.edges[edge], start, end);
            // Ports in a row end at something else, or lead nowhere.
            while passes(end) {
                let Some(next) = at[end].iter().copied().find(|it| *it != edge) else { break };
                (end, edge) = (other(next, end), next);
                let further = Wire::of(&graph.edges[edge], end, end);
                wire = wire.then(further, end);
            }
            if !passes(end) && start < end {
                // Which of several links between the same two it is: the first edge tells.
                wires.insert((start, end, *first), wire);
            }
        }
    }
    wires.into_values().collect()
}

#[cfg(test)]
mod tests;
