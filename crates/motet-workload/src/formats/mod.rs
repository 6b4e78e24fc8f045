//! Files: [`job_toml`] reads a training job as people write it. Readers take text; only the binary opens
//! files.

pub mod job_toml;
