//! A plan on disk: what files its folder has, and how they are checked when it is read.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan.json` | the tasks with everything that was found and compared |
//! | `checksums` | the checksum of every other file, and of itself |
//! | `table` | what the run-time half looks up |
//! | `nccl/` | what to set (`env`), a table for NVIDIA's example tuner, and what was measured, if anything was |
//! | `msccl/`, `mscclpp/` | the programs of that runtime, and what to set |
//! | `network.toml`, `sketches/`, `report.html` | where it comes from, and a report for people |
//!
//! Nothing is read or written here: [`files()`] gives texts by name, [`Stored::read`] asks for them.

use std::collections::BTreeMap;

use motet_nccl::Priced;
use motet_nccl::mscclpp::PlanTerms;
use motet_net::Signature;
use motet_runtime::folder::{ListError, read_list};
use motet_runtime::{Checksum, Table, TableError};
use serde::{Deserialize, Serialize};

use super::files::{self, ProgramFile};
use super::{MscclppUse, Plan, Runtime, Setup, TunedTask, env, table};
use crate::calibrate::terms_file::{self, TermsFile};

pub use motet_runtime::folder::{CHECKSUMS, MANIFEST, TABLE, VERSION, list as checksums};

/// The network that the plan is for.
pub const NETWORK: &str = "network.toml";
/// What NVIDIA's example tuner reads.
pub const TUNER: &str = "nccl/tuner.csv";
/// The terms that plans of MSCCL++ were priced by, if these are not an H200's.
pub const TERMS_FILE: &str = "mscclpp/terms.toml";

/// Why the folder of a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    #[error("there is no {MANIFEST}; is this the folder of a plan?")]
    NoManifest,
    #[error("it is not a plan: {0}; make the plan anew")]
    Malformed(String),
    #[error(
        "the plan has version {0} of the format, this Motet reads {VERSION}; make it anew, or use the \
         Motet that made it"
    )]
    Version(u64),
    #[error("{0} is missing; make the plan anew")]
    Missing(String),
    #[error("{0} is not what the plan was written with; make the plan anew")]
    Corrupt(String),
    #[error("{TABLE}: {0}")]
    Table(#[from] TableError),
    #[error("the plan is for network {plan}, this one is {here}; make a plan for this network")]
    OtherNetwork { plan: String, here: Signature },
}

impl From<ListError> for FolderError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Corrupt => Self::Corrupt(CHECKSUMS.to_owned()),
            ListError::Outside(name) => {
                Self::Malformed(format!("`{name}` is not a file of the plan's folder"))
            }
        }
    }
}

/// A program file of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRow {
    pub file: String,
    pub collective: motet_collective::CollectiveKind,
    pub runtime: Runtime,
    pub way: String,
    /// How the program was made.
    pub about: String,
    pub protocol: motet_nccl::Protocol,
    pub instances: u32,
    pub packed: bool,
    pub least_bytes: u64,
    pub most_bytes: u64,
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
    /// The Motet that made it.
    pub motet: String,
    /// The command line that made it.
    pub command: String,
    pub network: String,
    pub signature: String,
    pub ranks: u32,
    pub nodes: u32,
    pub seed: u64,
    pub margin_percent: u32,
    pub most_blocks: u32,
    /// Ranks that share a GPU.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub ranks_per_gpu: u32,
    /// Whether calls of MSCCL++ are in place.
    #[serde(default, skip_serializing_if = "is_no")]
    pub in_place: bool,
    /// The settings that the communicator is made with, where they are not NCCL's own.
    pub setup: Setup,
    pub tasks: Vec<TunedTask>,
    pub files: Vec<FileRow>,
    /// Candidates that could not be used, with why.
    pub left_out: Vec<(String, String)>,
}

const fn alone() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_alone(ranks: &u32) -> bool {
    *ranks <= 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_no(it: &bool) -> bool {
    !*it
}

/// The Motet and the command that made a plan, which `plan.json` records.
#[derive(Clone, Debug)]
pub struct Maker {
    pub motet: String,
    pub command: String,
}

/// The files of a plan by name, `extra` ones included.
pub fn files(
    plan: &Plan,
    maker: &Maker,
    priced: Option<&Priced<'_>>,
    extra: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, FolderError> {
    let mut all = extra;
    let programs = files::programs(plan).map_err(FolderError::Malformed)?;
    let of = |runtime| files::runs(&plan.tasks, runtime);
    let sum = |run: &ProgramFile| programs.get(&run.path()).map(|it| Checksum::of(it.as_bytes()));
    let runs: Vec<(ProgramFile, Checksum)> =
        of(Runtime::Msccl).into_iter().filter_map(|it| sum(&it).map(|sum| (it, sum))).collect();
    all.insert(TABLE.to_owned(), table::table(plan, &runs)?.write());
    all.insert(TUNER.to_owned(), files::tuner_csv(plan, priced));
    all.insert("nccl/env".to_owned(), env::nccl(plan));
    // Without a program there is nothing to load, and MSCCL fails on a folder that does not exist.
    if !runs.is_empty() {
        all.insert("msccl/env".to_owned(), env::msccl(plan));
    }
    if !of(Runtime::Mscclpp).is_empty() {
        all.insert("mscclpp/env".to_owned(), env::mscclpp());
    }
    let terms = plan.mscclpp.terms;
    if terms != PlanTerms::H200 {
        let file = TermsFile { mscclpp: Some(terms), ..TermsFile::default() };
        all.insert(TERMS_FILE.to_owned(), terms_file::write(&file));
    }
    let rows = of(Runtime::Msccl).into_iter().chain(of(Runtime::Mscclpp));
    let manifest = Manifest {
        motet_plan: VERSION,
        motet: maker.motet.clone(),
        command: maker.command.clone(),
        network: plan.network.clone(),
        signature: plan.signature.to_string(),
        ranks: plan.ranks,
        nodes: plan.nodes,
        seed: plan.seed,
        margin_percent: plan.margin_percent,
        most_blocks: plan.most_blocks,
        ranks_per_gpu: plan.mscclpp.ranks_per_gpu,
        in_place: plan.mscclpp.in_place,
        setup: plan.setup,
        tasks: plan.tasks.clone(),
        files: rows.map(|it| row(plan, &it)).collect(),
        left_out: plan.left_out.clone(),
    };
    all.extend(programs);
    // Text, numbers and lists of them are always JSON.
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
    all.insert(MANIFEST.to_owned(), text);
    let text = checksums(&all);
    all.insert(CHECKSUMS.to_owned(), text);
    Ok(all)
}

fn row(plan: &Plan, run: &ProgramFile) -> FileRow {
    FileRow {
        file: run.path(),
        collective: run.collective,
        runtime: run.runtime,
        way: run.way.clone(),
        about: plan.candidate(&run.way).map_or_else(String::new, |it| it.about.clone()),
        protocol: run.protocol,
        instances: run.instances,
        packed: run.packed,
        least_bytes: run.least.get(),
        most_bytes: run.most.get(),
    }
}

/// A plan as it was read, every file of it checked.
#[derive(Clone, Debug)]
pub struct Stored {
    pub manifest: Manifest,
    pub table: Table,
    pub files: BTreeMap<String, String>,
}

impl Stored {
    /// How plans of MSCCL++ are called and priced.
    ///
    /// # Errors
    /// If the terms cannot be read.
    pub fn mscclpp(&self) -> Result<MscclppUse, String> {
        let Manifest { ranks_per_gpu, in_place, .. } = self.manifest;
        let terms = match self.files.get(TERMS_FILE) {
            Some(text) => {
                let file = terms_file::read(text).map_err(|it| format!("{TERMS_FILE}: {it}"))?;
                file.mscclpp.unwrap_or(PlanTerms::H200)
            }
            None => PlanTerms::H200,
        };
        Ok(MscclppUse { ranks_per_gpu, in_place, terms })
    }

    /// Reads a plan, with every file checked; `get` gives the text of a file.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, FolderError> {
        let text = get(MANIFEST).ok_or(FolderError::NoManifest)?;
        // Of another version nothing else can be said.
        version(&text)?;
        let sums = get(CHECKSUMS).ok_or_else(|| FolderError::Missing(CHECKSUMS.to_owned()))?;
        let sums = read_list(&sums)?;
        for needed in [MANIFEST, TABLE, NETWORK, TUNER] {
            if !sums.contains_key(needed) {
                return Err(FolderError::Malformed(format!("it names no {needed}")));
            }
        }
        let mut files = BTreeMap::new();
        for (name, sum) in sums {
            let text = get(&name).ok_or_else(|| FolderError::Missing(name.clone()))?;
            if Checksum::of(text.as_bytes()) != sum {
                return Err(FolderError::Corrupt(name));
            }
            files.insert(name, text);
        }
        let manifest = Manifest::read(&files[MANIFEST])?;
        Ok(Self { table: Table::read(&files[TABLE])?, manifest, files })
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
        version(text)?;
        serde_json::from_str(text).map_err(|it| FolderError::Malformed(format!("{MANIFEST}: {it}")))
    }
}

fn version(text: &str) -> Result<(), FolderError> {
    let malformed = |it: serde_json::Error| FolderError::Malformed(format!("{MANIFEST}: {it}"));
    let version: Versioned = serde_json::from_str(text).map_err(malformed)?;
    match version.motet_plan {
        Some(VERSION) => Ok(()),
        Some(other) => Err(FolderError::Version(other)),
        None => Err(FolderError::Malformed(format!("{MANIFEST} has no `motet_plan` key"))),
    }
}
