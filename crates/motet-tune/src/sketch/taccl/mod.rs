//! TACCL's sketch files (JSON): reads and writes them.
//!
//! | key | meaning |
//! | --- | --- |
//! | `nnodes` | how many servers, all alike |
//! | `intranode_sketch.strategy` | `none`: links as the topology has them; `switch`: the listed sets of GPUs share a switch; `minmax`, `maxmin`: as few or as many distinct links as can be |
//! | `switches`, `switch_hyperedge_strategy` | the sets, each with `uc-min` (few peers: bandwidth) or `uc-max` (many: latency) |
//! | `internode_sketch.strategy` | always `relay` |
//! | `internode_conn` | sender → receivers in each other server, by number within the server; or `fully-connected`, or `direct-map` (each to its like). As many receivers for each sender |
//! | `gpus_to_sender_rev_map` | sender → the GPUs whose data it relays |
//! | `enforce_ordering` | whether relays keep the order of the map |
//! | `symmetry_offsets` | [offset, size]: the program stays the same when ranks move by `offset` within blocks of `size` |
//! | `hyperparameters.input_chunkup` | chunks of each input |
//!
//! How many NICs a server has is not here but in the topology (`nics_per_node`); TACCL divides their
//! bandwidth evenly among all connections ([`Belief::Even`](super::transform::Belief::Even)).
//!
//! - `file.rs`: the JSON. [`export()`]: from a sketch of ours. [`apply`]: to one.

pub mod apply;
pub mod export;
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use export::{NotTaccl, export};
pub use file::{read, write};

/// A TACCL sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TacclSketch {
    /// How many servers there are.
    pub nodes: u32,
    pub intranode: Intranode,
    /// Always there with more than one server.
    pub internode: Option<Internode>,
    /// (offset, block size) in ranks.
    pub symmetry: Vec<(u32, u32)>,
    pub input_chunkup: u32,
}

/// How the GPUs of a server may be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intranode {
    /// As the topology says.
    AsIs,
    MinMax,
    MaxMin,
    /// By switches: sets of GPUs, two of which are equal (parallel switches) or share nothing.
    Switches(Vec<(Vec<u32>, Hyperedges)>),
}

/// How many peers a GPU should talk to through a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Hyperedges {
    /// Few: for bandwidth.
    #[serde(rename = "uc-min")]
    Fewest,
    /// Many: for latency.
    #[serde(rename = "uc-max")]
    Most,
}

/// How servers are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Internode {
    pub connect: Connect,
    /// By sender: the GPUs whose data it relays.
    pub relays: Option<BTreeMap<u32, Vec<u32>>>,
    pub enforce_ordering: bool,
}

/// Which GPUs of a server send to which of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connect {
    Map(BTreeMap<u32, Vec<u32>>),
    /// Every GPU to every GPU.
    Full,
    /// Every GPU to the GPU of the same number.
    Direct,
}

impl Connect {
    /// (sender, receiver) within servers of `gpus` GPUs.
    #[must_use]
    pub fn pairs(&self, gpus: u32) -> Vec<(u32, u32)> {
        match self {
            Self::Map(map) => {
                map.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to))).collect()
            }
            Self::Full => (0..gpus).flat_map(|from| (0..gpus).map(move |to| (from, to))).collect(),
            Self::Direct => (0..gpus).map(|it| (it, it)).collect(),
        }
    }
}
