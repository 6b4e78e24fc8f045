//! Files: [`job_toml`] reads a training job as people write it; [`chakra`] reads and writes execution
//! traces of MLCommons' Chakra; [`kineto`] reads traces of PyTorch's profiler. Readers take text or bytes; only
//! the binary opens files.

pub mod chakra;
pub mod job_toml;
pub mod kineto;
mod pytorch;
