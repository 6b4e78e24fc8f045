//! The dialect that Chakra's feeder reads: an object with a list `workload_graph`. Nodes have no start time.
//! The samples that we know do not say which collective a node is either, so that is taken from the kernel's
//! name.

use motet_net::formats::ReadError;
use serde::Deserialize;

use super::super::wire::{AttributeMessage, COLLECTIVE, NodeMessage, Value, collective_number};
use super::super::{Collective, Trace};
use super::{Loose, placed};
use crate::formats::pytorch::{Told, told};

#[derive(Deserialize)]
struct File {
    workload_graph: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Id")]
    id: Loose<u64>,
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "NodeType")]
    kind: Loose<i32>,
    #[serde(default, alias = "ctrlDeps")]
    ctrl_deps: Vec<Loose<u64>>,
    #[serde(default)]
    data_deps: Vec<Loose<u64>>,
    /// Microseconds.
    #[serde(default)]
    runtime: Loose<u64>,
    is_cpu_op: Option<bool>,
    num_ops: Option<Loose<i64>>,
    tensor_size: Option<Loose<u64>>,
    comm_type: Option<Loose<i64>>,
    comm_size: Option<Loose<i64>>,
    comm_src: Option<Loose<i32>>,
    comm_dst: Option<Loose<i32>>,
    comm_tag: Option<Loose<i32>>,
    pg_name: Option<String>,
}

pub(super) fn read(text: &str) -> Result<Trace, ReadError> {
    let file: File = serde_json::from_str(text).map_err(|error| placed(text, 0, &error))?;
    let nodes = file.workload_graph.into_iter().map(|it| message(it).node());
    Ok(Trace { version: String::new(), nodes: nodes.collect::<Result<_, _>>()? })
}

fn message(it: Node) -> NodeMessage {
    let on_device = it.kind.0 == COLLECTIVE && it.is_cpu_op != Some(true);
    let comm_type = it.comm_type.map(|it| it.0).or_else(|| match told(&it.name) {
        Some(Told::Collective(kind)) if on_device => collective_number(Collective::Data(kind)),
        _ => None,
    });
    let values = [
        ("is_cpu_op", it.is_cpu_op.map(Value::Bool)),
        ("num_ops", it.num_ops.map(|it| Value::Int64(it.0))),
        ("tensor_size", it.tensor_size.map(|it| Value::Uint64(it.0))),
        ("comm_type", comm_type.map(Value::Int64)),
        ("comm_size", it.comm_size.map(|it| Value::Int64(it.0))),
        ("comm_src", it.comm_src.map(|it| Value::Int32(it.0))),
        ("comm_dst", it.comm_dst.map(|it| Value::Int32(it.0))),
        ("comm_tag", it.comm_tag.map(|it| Value::Int32(it.0))),
        ("pg_name", it.pg_name.map(Value::Text)),
    ];
    let attributes = values
        .into_iter()
        .filter(|(_, value)| value.is_some())
        .map(|(name, value)| AttributeMessage { name: name.to_owned(), value });
    let numbers = |all: Vec<Loose<u64>>| all.into_iter().map(|it| it.0).collect();
    NodeMessage {
        id: it.id.0,
        name: it.name,
        kind: it.kind.0,
        control: numbers(it.ctrl_deps),
        waits: numbers(it.data_deps),
        start: 0,
        duration: it.runtime.0,
        attributes: attributes.collect(),
    }
}
