//! A plan on disk: what files its folder has, and what they must be to be believed.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan.json` | the tasks with everything that was found, and the checksum of every other file |
//! | `table` | what the run-time half looks up |
//! | `programs/NAME.json` | a program in Motet's own format |
//! | `programs/NAME.xml`, `NAME.mscclpp.json` | the same for MSCCL and MSCCL++, where they can load it |
//! | `network.toml`, `sketches/`, `report.html` | where it comes from, and a report for people |
//!
//! Nothing is read or written here: [`files`] gives texts by name, [`Stored::read`] asks for them.

use std::collections::BTreeMap;

use motet_collective::formats::{msccl_xml, mscclpp_json, program_json};
use motet_collective::program::Hints;
use motet_collective::{Program, Verified};
use motet_net::Signature;
use motet_runtime::{Checksum, Table, TableError};
use motet_units::Bytes;
use serde::{Deserialize, Serialize};

use super::ways::Way;
use super::{Plan, Tuned, table};

const VERSION: u64 = 1;

/// The file that names all others.
pub const MANIFEST: &str = "plan.json";
/// What the run-time half reads.
pub const TABLE: &str = "table";

/// Why the folder of a plan is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    #[error("there is no {MANIFEST}; is this the folder of a plan?")]
    NoManifest,
    #[error("{MANIFEST} is not a plan: {0}; make the plan anew")]
    Malformed(String),
    #[error("the plan has version {0} of the format, this Motet reads {VERSION}; use a newer one")]
    Newer(u64),
    #[error("{0} is missing; make the plan anew")]
    Missing(String),
    #[error("{0} is not what the plan was written with; make the plan anew")]
    Corrupt(String),
    #[error("{TABLE}: {0}")]
    Table(#[from] TableError),
    #[error("the plan is for network {plan}, this one is {here}; make a plan for this network")]
    OtherNetwork { plan: String, here: Signature },
}

/// A program of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRow {
    pub name: String,
    pub about: String,
    /// Why MSCCL, or MSCCL++, cannot load it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_msccl: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_mscclpp: Option<String>,
}

#[derive(Deserialize)]
struct Versioned {
    motet_plan: Option<u64>,
}

/// `plan.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    motet_plan: u64,
    pub network: String,
    pub signature: String,
    pub ranks: u32,
    pub seed: u64,
    pub tasks: Vec<Tuned>,
    pub programs: Vec<ProgramRow>,
    /// Ways that could not be used, with why.
    pub left_out: Vec<(String, String)>,
    /// The checksum of every other file.
    pub files: BTreeMap<String, String>,
}

/// The files of a plan by name, `extra` ones included.
pub fn files(
    plan: &Plan,
    gpus_per_server: Option<u32>,
    extra: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, TableError> {
    let mut files = extra;
    let mut rows = Vec::new();
    for way in &plan.programs {
        rows.push(add_program(plan, way, gpus_per_server, &mut files));
    }
    let checksum = |name: &str| files.get(&own_file(name)).map(|it| Checksum::of(it.as_bytes()));
    let text = table::table(plan, checksum)?.write();
    files.insert(TABLE.to_owned(), text);
    let sums =
        files.iter().map(|(name, text)| (name.clone(), Checksum::of(text.as_bytes()).to_string()));
    let manifest = Manifest {
        motet_plan: VERSION,
        network: plan.network.clone(),
        signature: plan.signature.to_string(),
        ranks: plan.ranks,
        seed: plan.seed,
        tasks: plan.tasks.clone(),
        programs: rows,
        left_out: plan.left_out.clone(),
        files: sums.collect(),
    };
    // Text, numbers and lists of them are always JSON.
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
    files.insert(MANIFEST.to_owned(), text);
    Ok(files)
}

fn own_file(name: &str) -> String {
    format!("programs/{name}.json")
}

/// The files of a program, which say for which sizes the plan uses it.
fn add_program(
    plan: &Plan,
    way: &Way,
    gpus_per_server: Option<u32>,
    files: &mut BTreeMap<String, String>,
) -> ProgramRow {
    let program = with_sizes(plan, way);
    files.insert(own_file(&way.name), program_json::write(&program));
    let first =
        |it: motet_collective::Report| it.to_string().lines().next().unwrap_or_default().to_owned();
    let mut row = ProgramRow {
        name: way.name.clone(),
        about: way.about.clone(),
        not_msccl: None,
        not_mscclpp: None,
    };
    match msccl_xml::write(&program, &msccl_xml::Options::default()) {
        Ok(text) => {
            files.insert(format!("programs/{}.xml", way.name), text);
        }
        Err(report) => row.not_msccl = Some(first(report)),
    }
    let channel = match gpus_per_server {
        Some(gpus_per_server) => mscclpp_json::Channel::Auto { gpus_per_server },
        None => mscclpp_json::Channel::Port,
    };
    let options = mscclpp_json::Options { channel, ..mscclpp_json::Options::default() };
    match mscclpp_json::write(&program, &options) {
        Ok(text) => {
            files.insert(format!("programs/{}.mscclpp.json", way.name), text);
        }
        Err(report) => row.not_mscclpp = Some(first(report)),
    }
    row
}

/// The program with the sizes that it is best for, from the first to below twice the last.
fn with_sizes(plan: &Plan, way: &Way) -> Verified<Program> {
    let best = |it: &&Tuned| it.best().is_some_and(|it| it.way == way.name);
    let sizes = || plan.tasks.iter().filter(best).map(|it| it.size_bytes);
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else {
        return way.program.clone();
    };
    let hints = Hints {
        min_size: Bytes::new(least),
        max_size: most.checked_mul(2).map(|it| Bytes::new(it - 1)),
        ..*way.program.hints()
    };
    let changed = way.program.to_builder().hints(hints).build();
    // Sizes are no part of what was proved; if they were, the program stays as it is.
    Verified::new(changed, None).unwrap_or_else(|_| way.program.clone())
}

/// A plan as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub manifest: Manifest,
    pub table: Table,
}

impl Stored {
    /// Reads a plan, with every file checked; `get` gives the text of a file.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, FolderError> {
        let text = get(MANIFEST).ok_or(FolderError::NoManifest)?;
        let manifest = Manifest::read(&text)?;
        for (name, sum) in &manifest.files {
            let text = get(name).ok_or_else(|| FolderError::Missing(name.clone()))?;
            if Checksum::of(text.as_bytes()).to_string() != *sum {
                return Err(FolderError::Corrupt(name.clone()));
            }
        }
        let text = get(TABLE).ok_or_else(|| FolderError::Missing(TABLE.to_owned()))?;
        Ok(Self { table: Table::read(&text)?, manifest })
    }

    /// Whether the plan is for this network.
    pub fn is_for(&self, signature: Signature) -> Result<(), FolderError> {
        if self.manifest.signature == signature.to_string() {
            return Ok(());
        }
        Err(FolderError::OtherNetwork { plan: self.manifest.signature.clone(), here: signature })
    }
}

impl Manifest {
    /// Reads `plan.json`.
    pub fn read(text: &str) -> Result<Self, FolderError> {
        let malformed = |it: serde_json::Error| FolderError::Malformed(it.to_string());
        let version: Versioned = serde_json::from_str(text).map_err(malformed)?;
        match version.motet_plan {
            Some(VERSION) => {}
            Some(other) => return Err(FolderError::Newer(other)),
            None => return Err(FolderError::Malformed("there is no `motet_plan` key".to_owned())),
        }
        let manifest: Self = serde_json::from_str(text).map_err(malformed)?;
        // Backslashes and colons lead out of it on Windows.
        let outside = |name: &&String| {
            name.contains(['\\', ':']) || name.split('/').any(|it| matches!(it, "" | "." | ".."))
        };
        if let Some(name) = manifest.files.keys().find(outside) {
            let problem = format!("`{name}` is not a file of the plan's folder");
            return Err(FolderError::Malformed(problem));
        }
        if !manifest.files.contains_key(TABLE) {
            return Err(FolderError::Malformed("it names no table".to_owned()));
        }
        Ok(manifest)
    }
}
