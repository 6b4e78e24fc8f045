//! Chakra traces in JSON. There are three dialects, which [`read`] distinguishes by the keys of the first
//! object:
//!
//! - what Chakra's *jsonizer* makes of a binary trace: protobuf's JSON, one object after the other, first the
//!   metadata, then the nodes (this file; [`write()`] writes it);
//! - what Chakra's *feeder* reads: one object with a list `workload_graph` (`json/feeder`);
//! - PyTorch's *execution traces*, of which Chakra's are made: one object with `schema` and `nodes`, with
//!   operators on the CPU and, after linking with a profiler's trace, kernels (`json/pytorch`).
//!
//! All of them are read into the same [`Trace`] as a binary file, and all are checked alike.

mod feeder;
mod pytorch;

use std::fmt::Write as _;

use motet_net::formats::{Position, ReadError};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::wire::{AttributeMessage, MetadataMessage, NodeMessage, Value};
use super::{Trace, check};

/// Reads the trace of one rank in any of the dialects.
pub fn read(text: &str) -> Result<Trace, ReadError> {
    /// The keys by which dialects are distinguished.
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow, default)]
        workload_graph: Option<&'a RawValue>,
        #[serde(borrow, default)]
        nodes: Option<&'a RawValue>,
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Probe<'_>>();
    let probe = values.next().ok_or_else(|| wrong("the file is empty"))?;
    let probe = probe.map_err(|error| placed(text, 0, &error))?;
    let trace = if probe.workload_graph.is_some() {
        feeder::read(text)?
    } else if probe.nodes.is_some() {
        pytorch::read(text)?
    } else {
        messages(text)?
    };
    check(&trace)?;
    Ok(trace)
}

/// The trace in the jsonizer's dialect, one object per line. [`read`] reads it back equal.
pub fn write(trace: &Trace) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(&json!({ "version": trace.version }))?;
    text.push('\n');
    for node in &trace.nodes {
        let line = serde_json::to_string(&written(&NodeMessage::of(node)))?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// A number, or the same in quotes: protobuf's JSON puts 64 bits in quotes, because JavaScript loses some.
#[derive(Clone, Copy, Debug, Default)]
struct Loose<T>(T);

impl<'de, T: std::str::FromStr + TryFrom<i128>> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Whole(u64),
            Negative(i64),
            Fraction(f64),
            Text(String),
        }
        let number = match Either::deserialize(from)? {
            Either::Whole(it) => T::try_from(i128::from(it)).ok(),
            Either::Negative(it) => T::try_from(i128::from(it)).ok(),
            // Some writers give times as 12.0; what is finer than a unit is cut off.
            Either::Fraction(it) if it.abs() < 1e18 => T::try_from(it as i128).ok(),
            Either::Fraction(_) => None,
            Either::Text(it) => it.trim().parse().ok(),
        };
        number.map(Self).ok_or_else(|| D::Error::custom("a number is out of range"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    version: String,
    #[serde(default)]
    attr: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[serde(default)]
    id: Loose<u64>,
    #[serde(default)]
    name: String,
    #[serde(rename = "type", default)]
    kind: Kind,
    #[serde(default, alias = "ctrl_deps")]
    ctrl_deps: Vec<Loose<u64>>,
    #[serde(default, alias = "data_deps")]
    data_deps: Vec<Loose<u64>>,
    #[serde(default, alias = "start_time_micros")]
    start_time_micros: Loose<u64>,
    #[serde(default, alias = "duration_micros")]
    duration_micros: Loose<u64>,
    #[serde(default)]
    attr: Vec<Attribute>,
}

/// A node's type by name or number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kind {
    Number(i32),
    Name(String),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Number(0)
    }
}

const KINDS: [&str; 8] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
];

impl Kind {
    fn number(&self) -> i32 {
        match self {
            Self::Number(it) => *it,
            Self::Name(it) => KINDS.iter().position(|kind| kind == it).map_or(-1, |it| it as i32),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attribute {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    rest: serde_json::Map<String, Json>,
}

impl Attribute {
    /// Converts the attribute. The field's name gives the type: `int64Val`, or `int64_val` where names are
    /// kept as in the schema.
    fn message(self) -> Result<AttributeMessage, ReadError> {
        let mut value = None;
        for (key, of) in self.rest {
            let kind = key.replace("_val", "").replace("Val", "");
            let problem = || {
                let name = motet_units::brief(&self.name);
                wrong(format!("attribute `{name}` has a `{key}` that is none"))
            };
            fn as_is<T: DeserializeOwned>(value: Json) -> Option<T> {
                serde_json::from_value(value).ok()
            }
            fn loose<T: std::str::FromStr + TryFrom<i128>>(value: Json) -> Option<T> {
                as_is::<Loose<T>>(value).map(|it| it.0)
            }
            let read = match kind.as_str() {
                "int32" => loose(of).map(Value::Int32),
                "int64" => loose(of).map(Value::Int64),
                "uint32" => loose(of).map(Value::Uint32),
                "uint64" => loose(of).map(Value::Uint64),
                "sint32" => loose(of).map(Value::Sint32),
                "sint64" => loose(of).map(Value::Sint64),
                "fixed32" => loose(of).map(Value::Fixed32),
                "fixed64" => loose(of).map(Value::Fixed64),
                "sfixed32" => loose(of).map(Value::Sfixed32),
                "sfixed64" => loose(of).map(Value::Sfixed64),
                "bool" => as_is(of).map(Value::Bool),
                "string" => as_is(of).map(Value::Text),
                // Lists, fractions and documentation are for nothing that is read here.
                _ => continue,
            };
            value = Some(read.ok_or_else(problem)?);
        }
        Ok(AttributeMessage { name: self.name, value })
    }
}

/// The jsonizer's dialect.
fn messages(text: &str) -> Result<Trace, ReadError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first = values.next().ok_or_else(|| wrong("the file is empty"))?;
    let first = first.map_err(|error| placed(text, 0, &error))?;
    let metadata: Metadata = inside(text, first)?;
    let attributes = metadata.attr.into_iter().map(Attribute::message).collect::<Result<_, _>>()?;
    let metadata = MetadataMessage { version: metadata.version, attributes };
    let mut nodes = Vec::new();
    for value in values {
        let it: Node = inside(text, value.map_err(|error| placed(text, 0, &error))?)?;
        let numbers = |all: Vec<Loose<u64>>| all.into_iter().map(|it| it.0).collect();
        let message = NodeMessage {
            id: it.id.0,
            kind: it.kind.number(),
            name: it.name,
            control: numbers(it.ctrl_deps),
            waits: numbers(it.data_deps),
            start: it.start_time_micros.0,
            duration: it.duration_micros.0,
            attributes: it.attr.into_iter().map(Attribute::message).collect::<Result<_, _>>()?,
        };
        nodes.push(message.node()?);
    }
    Ok(Trace { version: metadata.version(), nodes })
}

fn written(node: &NodeMessage) -> Json {
    let text = |it: &u64| it.to_string();
    let attributes = node.attributes.iter().map(|it| {
        let (key, value) = match &it.value {
            Some(Value::Int32(it)) => ("int32Val", json!(it)),
            Some(Value::Int64(it)) => ("int64Val", json!(it.to_string())),
            Some(Value::Uint64(it)) => ("uint64Val", json!(it.to_string())),
            Some(Value::Bool(it)) => ("boolVal", json!(it)),
            Some(Value::Text(it)) => ("stringVal", json!(it)),
            // Our own writer uses no others.
            _ => ("docString", json!("")),
        };
        json!({ "name": it.name, key: value })
    });
    json!({
        "id": text(&node.id),
        "name": node.name,
        "type": KINDS.get(usize::try_from(node.kind).unwrap_or(0)),
        "ctrlDeps": node.control.iter().map(text).collect::<Vec<_>>(),
        "dataDeps": node.waits.iter().map(text).collect::<Vec<_>>(),
        "startTimeMicros": text(&node.start),
        "durationMicros": text(&node.duration),
        "attr": attributes.collect::<Vec<_>>(),
    })
}

fn wrong(problem: impl Into<String>) -> ReadError {
    ReadError::new(problem).with_remedy(
        "give Chakra's JSON (of its jsonizer or feeder, or PyTorch's execution trace), or a binary trace (.et)",
    )
}

/// Reads a value that is a part of `text`.
fn inside<T: DeserializeOwned>(text: &str, value: &RawValue) -> Result<T, ReadError> {
    // Where the value begins in the text, for the place of an error in it.
    let start = (value.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    serde_json::from_str(value.get()).map_err(|error| placed(text, start, &error))
}

/// An error in a piece that begins at `start`, with its place in the whole text.
fn placed(text: &str, start: usize, error: &serde_json::Error) -> ReadError {
    let piece = Position::of(text, start);
    let (line, column) = (error.line().max(1), error.column());
    let column = if line == 1 { piece.column + column.saturating_sub(1) } else { column };
    let at = Some(Position { line: piece.line + line - 1, column });
    ReadError { at, ..wrong(format!("not a Chakra trace: {error}")) }
}
