//! Files of training jobs and traces. Readers take text or bytes; only the binary opens files.
//!
//! - [`job_toml`]: a training job as people write it.
//! - [`chakra`]: execution traces of MLCommons' Chakra, read and written, binary and JSON.
//! - [`kineto`]: traces of PyTorch's profiler; [`nccl_trace`]: those of Motet's own NCCL plugin. Both become logs
//!   of ranks, which [`crate::recording`] joins.
//! - [`aicb`]: workloads of AICB and SimAI.

pub mod aicb;
pub mod chakra;
pub mod job_toml;
pub mod kineto;
pub mod nccl_trace;
mod pytorch;
