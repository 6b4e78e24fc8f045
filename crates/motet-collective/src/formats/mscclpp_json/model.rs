//! The plan file as it stands: one struct per JSON object, read and written by serde.
//!
//! Only what the executor looks at is here; other keys are passed over, as the executor does.
//! Defaults are the executor's. What the references between the parts mean is in
//! [`super::resolve`].

use motet_net::formats::ReadError;
use motet_net::formats::error::Position;
use motet_units::brief_to;
use serde::{Deserialize, Serialize};

use crate::program::Buffer;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ExecutionPlan {
    pub(super) name: String,
    pub(super) collective: String,
    pub(super) protocol: String,
    pub(super) inplace: bool,
    #[serde(default)]
    pub(super) reuse_resources: bool,
    #[serde(default = "default_threads")]
    pub(super) num_threads_per_block: u32,
    #[serde(default)]
    pub(super) use_double_scratch_buffer: bool,
    #[serde(default = "default_alignment")]
    pub(super) buffer_alignment: u32,
    #[serde(default)]
    pub(super) min_message_size: u64,
    #[serde(default = "default_max_size")]
    pub(super) max_message_size: u64,
    pub(super) gpus: Vec<PlanGpu>,
}

const fn default_threads() -> u32 {
    1024
}

const fn default_alignment() -> u32 {
    16
}

const fn default_max_size() -> u64 {
    u64::MAX
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct PlanGpu {
    pub(super) id: u32,
    pub(super) input_chunks: u32,
    pub(super) output_chunks: u32,
    pub(super) scratch_chunks: u32,
    pub(super) threadblocks: Vec<Threadblock>,
    #[serde(default)]
    pub(super) channels: Vec<PlanChannel>,
    #[serde(default)]
    pub(super) remote_buffers: Vec<RemoteBuffer>,
    #[serde(default)]
    pub(super) semaphores: Vec<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChannelType {
    None,
    Memory,
    Port,
    Switch,
}

impl ChannelType {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "memory",
            Self::Port => "port",
            Self::Switch => "switch",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum BufferType {
    #[serde(rename = "i")]
    Input,
    #[serde(rename = "o")]
    Output,
    #[serde(rename = "s")]
    Scratch,
}

impl From<BufferType> for Buffer {
    fn from(it: BufferType) -> Self {
        match it {
            BufferType::Input => Self::Input,
            BufferType::Output => Self::Output,
            BufferType::Scratch => Self::Scratch,
        }
    }
}

impl From<Buffer> for BufferType {
    fn from(it: Buffer) -> Self {
        match it {
            Buffer::Input => Self::Input,
            Buffer::Output => Self::Output,
            // Switch slots are written as switch channels, never as a buffer.
            Buffer::Scratch | Buffer::Switch => Self::Scratch,
        }
    }
}

/// One channel per listed peer, or, of a switch, per listed group. Older files say `buff` for
/// `buffer_type`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct PlanChannel {
    pub(super) channel_type: ChannelType,
    #[serde(default)]
    pub(super) connected_to: Vec<u32>,
    #[serde(default, alias = "buff", skip_serializing_if = "Option::is_none")]
    pub(super) buffer_type: Option<BufferType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rank_groups: Vec<RankGroup>,
}

/// GPUs that a switch channel joins.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct RankGroup {
    pub(super) size: u32,
    pub(super) ranks: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct RemoteBuffer {
    pub(super) rank: u32,
    #[serde(rename = "type")]
    pub(super) buffer: BufferType,
    pub(super) access_channel_types: Vec<ChannelType>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Semaphore {
    pub(super) init_value: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Threadblock {
    pub(super) id: u32,
    pub(super) ops: Vec<PlanOp>,
    #[serde(default)]
    pub(super) channels: Vec<ChannelRefs>,
    #[serde(default)]
    pub(super) remote_buffer_refs: Vec<BufferRefs>,
}

/// Indices into the GPU's channels of one type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ChannelRefs {
    pub(super) channel_type: ChannelType,
    pub(super) channel_ids: Vec<u32>,
}

/// Indices into the GPU's remote buffers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct BufferRefs {
    pub(super) access_channel_type: ChannelType,
    pub(super) remote_buffer_ids: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct PlanOp {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) channel_type: Option<ChannelType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) channel_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) src_buff: Vec<PlanChunk>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dst_buff: Vec<PlanChunk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) barrier_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) num_threadblocks: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) semaphore_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reduce_op: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tbg_info: Option<GroupInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) iter_context: Option<IterContext>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ops: Vec<Self>,
}

/// A range of chunks: local by `type`, remote by `buffer_id`, multicast by `switch_channel_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct PlanChunk {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(super) buffer: Option<BufferType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) buffer_id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) switch_channel_id: Option<u32>,
    pub(super) index: u32,
    pub(super) size: u32,
}

/// Which part of the range this threadblock takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct GroupInfo {
    pub(super) tb_id: u32,
    pub(super) tbg_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(super) struct IterContext {
    pub(super) unit_size: u32,
    pub(super) num_chunks: u32,
}

/// Parses the text; no reference in it is checked yet.
pub(super) fn parse(text: &str) -> Result<ExecutionPlan, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        // serde_json ends its message with the place, which ReadError prints itself.
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        // It repeats keys and words of the file.
        let problem = brief_to(message.strip_suffix(&place).unwrap_or(&message), 300);
        ReadError {
            at: Some(Position { line: error.line(), column: error.column() }),
            ..ReadError::new(format!("not an MSCCL++ execution plan: {problem}"))
                .with_remedy("write the plan with mscclpp's Python DSL or with `motet export`")
        }
    })
}
