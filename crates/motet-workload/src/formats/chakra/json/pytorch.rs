//! PyTorch's execution traces: an object with `schema` and `nodes`.
//!
//! Nodes are operators on the CPU, each with the operator that called it (`ctrl_deps`, a single number).
//! Traces that were linked with a profiler's trace also have kernels, with `cat`, `ts` and a duration. A
//! collective is a call of `record_param_comms`, whose operands (in newer traces, attributes) have its name
//! and tensors, and, in linked traces, an NCCL kernel. Messages of unknown direction are taken for sends.

use motet_collective::CollectiveKind;
use motet_net::formats::ReadError;
use motet_units::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;

use super::super::{Collective, Message, Node, NodeKind, Trace};
use super::{Loose, placed};
use crate::formats::pytorch::{Told, told};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    schema: String,
    nodes: Vec<Operator>,
}

#[derive(Deserialize)]
struct Operator {
    id: Loose<u64>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ctrl_deps: Option<Loose<u64>>,
    /// In linked traces only.
    #[serde(default)]
    data_deps: Vec<Loose<u64>>,
    #[serde(default)]
    inputs: Values,
    #[serde(default)]
    attrs: Vec<Attribute>,
    /// For kernels only.
    cat: Option<String>,
    /// Microseconds.
    ts: Option<Loose<u64>>,
    inclusive_dur: Option<Loose<u64>>,
    exclusive_dur: Option<Loose<u64>>,
    pg_name: Option<String>,
}

#[derive(Default, Deserialize)]
struct Values {
    #[serde(default)]
    values: Vec<Json>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    value: Json,
}

pub(super) fn read(text: &str) -> Result<Trace, ReadError> {
    let file: File = serde_json::from_str(text).map_err(|error| placed(text, 0, &error))?;
    Ok(Trace { version: file.schema, nodes: file.nodes.into_iter().map(Operator::node).collect() })
}

impl Operator {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attrs.iter().find(|it| it.name == name)?.value.as_str()
    }

    /// What the operator communicates, if anything, by an attribute, an operand, or the kernel's name.
    fn told(&self) -> Option<Told> {
        if self.name == "record_param_comms" {
            let operands = self.inputs.values.iter().filter_map(Json::as_str);
            return self.attribute("collective_name").into_iter().chain(operands).find_map(told);
        }
        let is_kernel = self.cat.is_some() && self.name.starts_with("nccl");
        let known = self.attribute("collective_name").and_then(told);
        known.or_else(|| told(&self.name)).filter(|_| is_kernel)
    }

    fn node(self) -> Node {
        let on_cpu = self.cat.is_none();
        let bytes = Some(Bytes::new(self.inputs.values.iter().map(tensors).sum::<u64>()));
        let bytes = bytes.filter(|it| *it > Bytes::ZERO);
        let message = || Message { bytes, from: None, to: None, tag: None };
        let kind = match self.told() {
            Some(Told::Send | Told::Collective(CollectiveKind::SendRecv)) => {
                NodeKind::Send(message())
            }
            Some(Told::Receive) => NodeKind::Receive(message()),
            Some(Told::Collective(kind)) => {
                // Chakra has no AllToAll of unequal pieces.
                let kind =
                    if kind == CollectiveKind::AllToAllV { CollectiveKind::AllToAll } else { kind };
                let group = self.pg_name.as_deref().or_else(|| self.attribute("pg_name"));
                let group = group.filter(|it| !it.is_empty()).map(str::to_owned);
                NodeKind::Collective { what: Some(Collective::Data(kind)), bytes, group }
            }
            None if self.name.contains("process_group:init") => NodeKind::Metadata,
            None => NodeKind::Compute { operations: None, bytes: None },
        };
        let duration = self.inclusive_dur.or(self.exclusive_dur).map_or(0, |it| it.0);
        Node {
            id: self.id.0,
            name: self.name,
            waits: self.data_deps.into_iter().map(|it| it.0).collect(),
            control: self.ctrl_deps.map(|it| it.0).into_iter().collect(),
            start: self.ts.map_or(0, |it| it.0),
            duration,
            is_cpu: Some(on_cpu),
            kind,
        }
    }
}

/// Bytes of the tensors in an operand: a tensor is a list of id, storage, offset, elements, bytes of each, device.
fn tensors(value: &Json) -> u64 {
    let Json::Array(items) = value else { return 0 };
    if let [_, _, _, elements, each, Json::String(_)] = items.as_slice()
        && let (Some(elements), Some(each)) = (elements.as_u64(), each.as_u64())
    {
        return elements.saturating_mul(each);
    }
    items.iter().map(tensors).fold(0, u64::saturating_add)
}
