//! Readers and writers of network files.
//!
//! [`detect`] knows the formats and reads any of them; each has a file of its own, named after
//! it. Readers take text and give a [`ReadNetwork`]; writers give text.
//!
//! | format | read | written |
//! | --- | --- | --- |
//! | Motet's own cluster file, [`cluster_toml`] | yes | yes |
//! | NCCL topology and graph dump, [`nccl_xml`] | yes | |
//! | `nvidia-smi topo -m`, [`nvidia_smi`] | yes | |
//! | TACCL topology, [`taccl_json`] | yes | |
//! | InfraGraph infrastructure, [`infragraph`] | yes | |
//! | [`gml`], [`node_link_json`] | yes | |
//! | [`graphml`] | yes | yes |
//! | pictures: Graphviz [`dot`], [`svg`] | | yes |

pub mod cluster_toml;
mod csv;
pub mod detect;
pub mod dot;
pub mod error;
pub mod gml;
pub mod graphml;
pub mod infragraph;
mod json;
pub mod nccl_xml;
pub mod node_link_json;
pub mod nvidia_smi;
mod palette;
#[cfg(test)]
mod samples;
pub mod speeds;
pub mod svg;
pub mod taccl_json;
mod toml_size;
mod toml_text;
pub mod wan;
pub mod xml;

pub use csv::csv_records;
pub use detect::{NetworkFormat, ReadNetwork, ReadOptions, read_any};
pub use error::{Position, ReadError};
pub use toml_size::MAX_TOML;
pub(crate) use toml_text::parse_toml;
pub use toml_text::{read_toml, toml_quoted};
pub use wan::WanDefaults;

/// `name`, or with a number added if a node is called so already.
pub(crate) fn unique_name(builder: &crate::NetworkBuilder, name: &str) -> String {
    let mut unique = name.to_owned();
    // Counting from the number of nodes finds a free name at once, however many are alike.
    let mut number = builder.nodes().len();
    while builder.find(&unique).is_some() {
        unique = format!("{name}#{number}");
        number += 1;
    }
    unique
}
