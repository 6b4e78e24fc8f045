//! Files of scenarios, and what they name: traffic matrices and recorded traces.
//!
//! Readers take text; only the binary opens files. `docs/wan.md` is the reference for users.

mod lines_csv;
pub mod matrices_csv;
pub mod scenario_toml;
pub mod trace_csv;

pub use scenario_toml::ScenarioFile;
