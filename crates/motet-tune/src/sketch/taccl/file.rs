//! TACCL sketches as JSON.

use std::collections::BTreeMap;
use std::fmt;

use motet_net::formats::{Position, ReadError};
use serde::de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Connect, Hyperedges, Internode, Intranode, TacclSketch};

/// Most servers, and GPUs of one: far above what TACCL can do.
const MOST: u32 = 1024;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    nnodes: u32,
    intranode_sketch: IntranodeTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    internode_sketch: Option<InternodeTable>,
    symmetry_offsets: Vec<(u32, u32)>,
    hyperparameters: Hyperparameters,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct IntranodeTable {
    strategy: Strategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switches: Option<Vec<Vec<u32>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switch_hyperedge_strategy: Option<Vec<Hyperedges>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Strategy {
    Switch,
    None,
    MinMax,
    MaxMin,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct InternodeTable {
    strategy: Relay,
    internode_conn: Connect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpus_to_sender_rev_map: Option<BTreeMap<u32, Vec<u32>>>,
    #[serde(default, skip_serializing_if = "is_false")]
    enforce_ordering: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Relay {
    Relay,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Hyperparameters {
    input_chunkup: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(it: &bool) -> bool {
    !*it
}

const FULL: &str = "fully-connected";
const DIRECT: &str = "direct-map";

impl<'de> Deserialize<'de> for Connect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Connect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{FULL}\", \"{DIRECT}\" or a map from senders to receivers")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Connect, E> {
                match text {
                    FULL => Ok(Connect::Full),
                    DIRECT => Ok(Connect::Direct),
                    _ => Err(E::unknown_variant(text, &[FULL, DIRECT])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Connect, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(map))
                    .map(Connect::Map)
                    .map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for Connect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(map) => map.serialize(serializer),
            Self::Full => serializer.serialize_str(FULL),
            Self::Direct => serializer.serialize_str(DIRECT),
        }
    }
}

/// Reads a TACCL sketch, and checks of it what TACCL itself asserts.
pub fn read(text: &str) -> Result<TacclSketch, ReadError> {
    let text = text.trim_start_matches('\u{feff}');
    let file: File = serde_json::from_str(text).map_err(|error| broken(&error))?;
    let reader = Reader { text };
    reader.check(&file)?;
    let intranode = reader.intranode(file.intranode_sketch)?;
    let internode = file.internode_sketch.map(|it| Internode {
        connect: it.internode_conn,
        relays: it.gpus_to_sender_rev_map,
        enforce_ordering: it.enforce_ordering,
    });
    Ok(TacclSketch {
        nodes: file.nnodes,
        intranode,
        internode,
        symmetry: file.symmetry_offsets,
        input_chunkup: file.hyperparameters.input_chunkup,
    })
}

fn broken(error: &serde_json::Error) -> ReadError {
    let full = error.to_string();
    // Its message ends in the place, which ours begins with.
    let problem = full.rsplit_once(" at line ").map_or(full.as_str(), |(it, _)| it);
    let remedy = match problem {
        it if it.contains("`gpus_per_node`") || it.contains("`node_betas_list`") => {
            "this is a TACCL topology, which `motet net show` reads; give the sketch (sk….json)"
        }
        _ => {
            "a TACCL sketch has nnodes, intranode_sketch, internode_sketch, symmetry_offsets and \
             hyperparameters"
        }
    };
    let mut wrong = ReadError::new(problem).with_remedy(remedy);
    wrong.at = Some(Position { line: error.line().max(1), column: error.column().max(1) });
    wrong
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    /// An error at the first place that names `key`.
    fn wrong(&self, key: &str, problem: impl Into<String>, remedy: &str) -> ReadError {
        let error = ReadError::new(problem).with_remedy(remedy);
        match self.text.find(&format!("\"{key}\"")) {
            Some(place) => error.at(self.text, place),
            None => error,
        }
    }

    fn check(&self, file: &File) -> Result<(), ReadError> {
        if file.nnodes == 0 || file.nnodes > MOST {
            let problem = format!("nnodes is {}", file.nnodes);
            return Err(self.wrong("nnodes", problem, "give 1 to 1024 servers"));
        }
        if file.hyperparameters.input_chunkup == 0 {
            let problem = "input_chunkup is 0";
            return Err(self.wrong("input_chunkup", problem, "cut inputs into 1 chunk or more"));
        }
        for (offset, size) in &file.symmetry_offsets {
            if *offset == 0 || !size.is_multiple_of(*offset) {
                let problem = format!("[{offset}, {size}] is no symmetry");
                let remedy = "give an offset above zero that divides the block size";
                return Err(self.wrong("symmetry_offsets", problem, remedy));
            }
        }
        match &file.internode_sketch {
            Some(sketch) => self.check_internode(sketch),
            None if file.nnodes == 1 => Ok(()),
            None => {
                let problem = "there is no internode_sketch for more than one server";
                Err(self.wrong("nnodes", problem, "say which GPUs connect in internode_conn"))
            }
        }
    }

    fn check_internode(&self, sketch: &InternodeTable) -> Result<(), ReadError> {
        let relays = sketch.gpus_to_sender_rev_map.as_ref();
        if sketch.enforce_ordering && relays.is_none() {
            let problem = "enforce_ordering without a gpus_to_sender_rev_map";
            let remedy = "say which sender relays for which GPUs, or leave it out";
            return Err(self.wrong("enforce_ordering", problem, remedy));
        }
        let key = "internode_conn";
        if let Connect::Map(map) = &sketch.internode_conn {
            let degrees: Vec<usize> = map.values().map(Vec::len).collect();
            if degrees.is_empty() || degrees.iter().any(|it| *it == 0 || *it != degrees[0]) {
                let problem = "senders have different numbers of receivers, or none";
                return Err(self.wrong(key, problem, "give each sender as many receivers"));
            }
            self.ids(key, map.iter().flat_map(|(from, to)| to.iter().chain([from])))?;
        }
        let relays = relays.into_iter().flatten();
        self.ids("gpus_to_sender_rev_map", relays.flat_map(|(by, of)| of.iter().chain([by])))
    }

    fn ids<'a>(&self, key: &str, ids: impl Iterator<Item = &'a u32>) -> Result<(), ReadError> {
        match ids.into_iter().find(|it| **it >= MOST) {
            None => Ok(()),
            Some(id) => {
                let problem = format!("there is no GPU {id} in a server");
                Err(self.wrong(key, problem, "count GPUs from 0 within a server"))
            }
        }
    }

    fn intranode(&self, table: IntranodeTable) -> Result<Intranode, ReadError> {
        match table.strategy {
            Strategy::None => Ok(Intranode::AsIs),
            Strategy::MinMax => Ok(Intranode::MinMax),
            Strategy::MaxMin => Ok(Intranode::MaxMin),
            Strategy::Switch => {
                let sets = table.switches.unwrap_or_default();
                let edges = table.switch_hyperedge_strategy.unwrap_or_default();
                if sets.is_empty() || sets.len() != edges.len() {
                    let problem = format!(
                        "{} switches and {} switch_hyperedge_strategy entries",
                        sets.len(),
                        edges.len()
                    );
                    let remedy = "list at least one switch, and uc-min or uc-max for each";
                    return Err(self.wrong("intranode_sketch", problem, remedy));
                }
                self.ids("switches", sets.iter().flatten())?;
                self.disjoint(&sets)?;
                Ok(Intranode::Switches(sets.into_iter().zip(edges).collect()))
            }
        }
    }

    /// Two switches have the same GPUs, or none in common.
    fn disjoint(&self, sets: &[Vec<u32>]) -> Result<(), ReadError> {
        let mut seen: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for set in sets {
            let mut set = set.clone();
            set.sort_unstable();
            for gpu in &set {
                if seen.get(gpu).is_some_and(|other| *other != set) {
                    let problem = format!("GPU {gpu} is on two switches that differ otherwise");
                    let remedy = "let two switches have the same GPUs, or none in common";
                    return Err(self.wrong("switches", problem, remedy));
                }
            }
            // Ids are below MOST, so that this stays small however often a set is listed.
            for gpu in &set {
                seen.entry(*gpu).or_insert_with(|| set.clone());
            }
        }
        Ok(())
    }
}

/// The sketch as JSON, which TACCL and [`read`] read; the same sketch is the same bytes.
#[must_use]
pub fn write(sketch: &TacclSketch) -> String {
    let (strategy, sets) = match &sketch.intranode {
        Intranode::AsIs => (Strategy::None, None),
        Intranode::MinMax => (Strategy::MinMax, None),
        Intranode::MaxMin => (Strategy::MaxMin, None),
        Intranode::Switches(sets) => (Strategy::Switch, Some(sets)),
    };
    let file = File {
        nnodes: sketch.nodes,
        intranode_sketch: IntranodeTable {
            strategy,
            switches: sets.map(|it| it.iter().map(|it| it.0.clone()).collect()),
            switch_hyperedge_strategy: sets.map(|it| it.iter().map(|it| it.1).collect()),
        },
        internode_sketch: sketch.internode.as_ref().map(|it| InternodeTable {
            strategy: Relay::Relay,
            internode_conn: it.connect.clone(),
            gpus_to_sender_rev_map: it.relays.clone(),
            enforce_ordering: it.enforce_ordering,
        }),
        symmetry_offsets: sketch.symmetry.clone(),
        hyperparameters: Hyperparameters { input_chunkup: sketch.input_chunkup },
    };
    // Fails only for keys that are neither text nor numbers, of which there are none.
    let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
    text.push('\n');
    text
}
