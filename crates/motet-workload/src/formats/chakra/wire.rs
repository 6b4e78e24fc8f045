//! The bytes of a Chakra trace: protobuf messages with the field numbers of Chakra's schema
//! (`schema/protobuf/et_def.proto` of mlcommons/chakra, 21585d8), as far as workloads need them. Fields that
//! are not listed (tensors, operands' shapes, documentation) are skipped.

use motet_collective::CollectiveKind as Kind;
use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank};
use prost::Message as _;

use super::{Collective, Message, Node, NodeKind, Trace};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetadataMessage {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) attributes: Vec<AttributeMessage>,
}

impl MetadataMessage {
    /// The schema's version: a field of its own, or an attribute in traces converted from PyTorch's.
    pub(super) fn version(self) -> String {
        let schema = self.attributes.into_iter().find(|it| it.name == "schema");
        match schema.and_then(|it| it.value) {
            Some(Value::Text(it)) if self.version.is_empty() => it,
            _ => self.version,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeMessage {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) waits: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub(super) start: u64,
    #[prost(uint64, tag = "7")]
    pub(super) duration: u64,
    #[prost(message, repeated, tag = "10")]
    pub(super) attributes: Vec<AttributeMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AttributeMessage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub(super) value: Option<Value>,
}

/// A single value of an attribute. Lists and fractions are skipped, because no attribute that is read here
/// has them.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    /// Any integer as one type, because writers differ in which of the ten types of integers they use.
    fn number(&self) -> Option<i128> {
        Some(match self {
            Self::Int32(it) | Self::Sint32(it) | Self::Sfixed32(it) => i128::from(*it),
            Self::Int64(it) | Self::Sint64(it) | Self::Sfixed64(it) => i128::from(*it),
            Self::Uint32(it) | Self::Fixed32(it) => i128::from(*it),
            Self::Uint64(it) | Self::Fixed64(it) => i128::from(*it),
            Self::Bool(_) | Self::Text(_) => return None,
        })
    }
}

/// Numbers of Chakra's node types.
const METADATA: i32 = 1;
const LOAD: i32 = 2;
const STORE: i32 = 3;
const COMPUTE: i32 = 4;
const SEND: i32 = 5;
const RECEIVE: i32 = 6;
pub(super) const COLLECTIVE: i32 = 7;

/// Chakra's collectives by number; the ninth is a ReduceScatter with blocks of equal size.
const COLLECTIVES: [Collective; 10] = [
    Collective::Data(Kind::AllReduce),
    Collective::Data(Kind::Reduce),
    Collective::Data(Kind::AllGather),
    Collective::Data(Kind::Gather),
    Collective::Data(Kind::Scatter),
    Collective::Data(Kind::Broadcast),
    Collective::Data(Kind::AllToAll),
    Collective::Data(Kind::ReduceScatter),
    Collective::Data(Kind::ReduceScatter),
    Collective::Barrier,
];

/// Chakra's number of a collective, if it has one.
pub(super) fn collective_number(what: Collective) -> Option<i64> {
    COLLECTIVES.iter().position(|it| *it == what).map(|it| it as i64)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Trace, ReadError> {
    let mut rest = bytes;
    let broken = |rest: &[u8], error: &prost::DecodeError| {
        let at = bytes.len() - rest.len();
        ReadError::new(format!("not a Chakra trace at byte {at}: {error}"))
            .with_remedy("give a binary trace (.et) of one rank, whole")
    };
    let start = rest;
    let metadata = MetadataMessage::decode_length_delimited(&mut rest)
        .map_err(|error| broken(start, &error))?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        let start = rest;
        let message = NodeMessage::decode_length_delimited(&mut rest)
            .map_err(|error| broken(start, &error))?;
        nodes.push(message.node()?);
    }
    Ok(Trace { version: metadata.version(), nodes })
}

pub(super) fn encode(trace: &Trace) -> Vec<u8> {
    let metadata = MetadataMessage { version: trace.version.clone(), attributes: Vec::new() };
    let mut bytes = metadata.encode_length_delimited_to_vec();
    for node in &trace.nodes {
        bytes.extend(NodeMessage::of(node).encode_length_delimited_to_vec());
    }
    bytes
}

impl NodeMessage {
    fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|it| it.name == name)?.value.as_ref()
    }

    fn wrong(&self, problem: impl std::fmt::Display) -> ReadError {
        let name = motet_units::brief(&self.name);
        ReadError::new(format!("node {} (`{name}`) {problem}", self.id))
    }

    /// A number that fits, if the attribute is there.
    fn number<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>, ReadError> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        let number = value.number().and_then(|it| T::try_from(it).ok());
        let problem = format!("has a `{name}` that is no number in range");
        number.map(Some).ok_or_else(|| self.wrong(problem))
    }

    /// A count: signed in the files, never negative.
    fn count(&self, name: &str) -> Result<Option<u64>, ReadError> {
        let count = self.number::<i64>(name)?;
        let problem = format!("has a `{name}` that is negative");
        count.map(|it| u64::try_from(it).map_err(|_| self.wrong(problem))).transpose()
    }

    fn bytes(&self, name: &str) -> Result<Option<Bytes>, ReadError> {
        Ok(self.count(name)?.map(Bytes::new))
    }

    /// A rank or tag: unsigned, but kept in signed 32 bits by Chakra's own writers.
    fn label(&self, name: &str) -> Result<Option<u32>, ReadError> {
        match self.number::<i32>(name) {
            Ok(it) => Ok(it.map(i32::cast_unsigned)),
            Err(_) => self.number(name),
        }
    }

    fn message(&self) -> Result<Message, ReadError> {
        Ok(Message {
            bytes: self.bytes("comm_size")?,
            from: self.label("comm_src")?.map(Rank),
            to: self.label("comm_dst")?.map(Rank),
            tag: self.label("comm_tag")?,
        })
    }

    fn collective(&self, is_cpu: bool) -> Result<NodeKind, ReadError> {
        let what = match self.number::<usize>("comm_type")? {
            None if is_cpu => None,
            None => return Err(self.wrong("is a collective without `comm_type`")),
            Some(number) => {
                let what = COLLECTIVES.get(number).copied();
                let problem = format!("has the unknown comm_type {number}");
                Some(what.ok_or_else(|| self.wrong(problem))?)
            }
        };
        let group = match self.attribute("pg_name") {
            None => None,
            Some(Value::Text(it)) => Some(it.clone()).filter(|it| !it.is_empty()),
            Some(_) => return Err(self.wrong("has a `pg_name` that is no text")),
        };
        Ok(NodeKind::Collective { what, bytes: self.bytes("comm_size")?, group })
    }

    pub(super) fn node(self) -> Result<Node, ReadError> {
        let is_cpu = match self.attribute("is_cpu_op") {
            None => None,
            Some(Value::Bool(it)) => Some(*it),
            // Some writers say it by a number.
            Some(_) => self.number::<u8>("is_cpu_op")?.map(|it| it != 0),
        };
        let kind = match self.kind {
            METADATA => NodeKind::Metadata,
            LOAD => NodeKind::Load { bytes: self.bytes("tensor_size")? },
            STORE => NodeKind::Store { bytes: self.bytes("tensor_size")? },
            COMPUTE => NodeKind::Compute {
                operations: self.count("num_ops")?,
                bytes: self.bytes("tensor_size")?,
            },
            SEND => NodeKind::Send(self.message()?),
            RECEIVE => NodeKind::Receive(self.message()?),
            COLLECTIVE => self.collective(is_cpu == Some(true))?,
            other => return Err(self.wrong(format!("is of the unknown type {other}"))),
        };
        let Self { id, name, control, waits, start, duration, .. } = self;
        Ok(Node { id, name, waits, control, start, duration, is_cpu, kind })
    }

    pub(super) fn of(node: &Node) -> Self {
        let mut attributes = Vec::new();
        let mut put = |name: &str, value: Option<Value>| {
            if value.is_some() {
                attributes.push(AttributeMessage { name: name.to_owned(), value });
            }
        };
        // The types of integers that Chakra's own generators use: ASTRA-sim asks for just these.
        let size = |it: Option<Bytes>| it.map(|it| Value::Int64(it.get().cast_signed()));
        put("is_cpu_op", node.is_cpu.map(Value::Bool));
        let kind = match &node.kind {
            NodeKind::Metadata => METADATA,
            NodeKind::Load { bytes } | NodeKind::Store { bytes } => {
                put("tensor_size", bytes.map(|it| Value::Uint64(it.get())));
                if matches!(node.kind, NodeKind::Load { .. }) { LOAD } else { STORE }
            }
            NodeKind::Compute { operations, bytes } => {
                put("num_ops", operations.map(|it| Value::Int64(it.cast_signed())));
                put("tensor_size", bytes.map(|it| Value::Uint64(it.get())));
                COMPUTE
            }
            NodeKind::Send(it) | NodeKind::Receive(it) => {
                put("comm_size", size(it.bytes));
                put("comm_src", it.from.map(|it| Value::Int32(it.0.cast_signed())));
                put("comm_dst", it.to.map(|it| Value::Int32(it.0.cast_signed())));
                put("comm_tag", it.tag.map(|it| Value::Int32(it.cast_signed())));
                if matches!(node.kind, NodeKind::Send(_)) { SEND } else { RECEIVE }
            }
            NodeKind::Collective { what, bytes, group } => {
                put("comm_type", what.and_then(collective_number).map(Value::Int64));
                put("comm_size", size(*bytes));
                put("pg_name", group.clone().map(Value::Text));
                COLLECTIVE
            }
        };
        Self {
            id: node.id,
            name: node.name.clone(),
            kind,
            control: node.control.clone(),
            waits: node.waits.clone(),
            start: node.start,
            duration: node.duration,
            attributes,
        }
    }
}
