//! Reading the plans that `MOTET_PLAN` names, and which communicators they are for.
//!
//! Of a plan's folder only `checksums`, `plan.json` and `table` are read, and by the agent `network.toml` and
//! `nccl/measured.csv`. A tuner is told how many ranks and nodes a
//! communicator has, and nothing else of its network. So a plan is **for** the communicators with exactly its number
//! of ranks and of nodes; where NCCL says how the ranks are spread (tuner v5 on), a communicator whose nodes have
//! different numbers of ranks is none of a plan with equal ones. Whether the machine is the plan's machine is for the
//! user to know who sets `MOTET_PLAN`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use motet_runtime::folder::{CHECKSUMS, ListError, MANIFEST, TABLE, VERSION, read_list};
use motet_runtime::{
    Algorithm, Bucket, Candidate, Checksum, Collective, Entry, Key, Method, Protocol, Setting,
    Signature, Table, TableError, TableKnobs, View,
};
use motet_units::Bytes;
use rustix::fs::OFlags;
use serde::Deserialize;

/// The most bytes of a plan's file: far above any plan, with a million entries.
const MOST_BYTES: u64 = 1 << 30;

/// Files that only the agent reads.
const NETWORK: &str = "network.toml";
const MEASURED: &str = "nccl/measured.csv";

/// Why a plan is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("{0} cannot be read: {1}; is it the folder of a plan, and on this host too?")]
    Unreadable(PathBuf, std::io::Error),
    #[error("{0} is not what the plan was written with; copy the plan again, or make it anew")]
    Corrupt(PathBuf),
    #[error("{0}: {1}")]
    List(PathBuf, ListError),
    #[error("{0} is not a plan's: {1}; make the plan anew")]
    Manifest(PathBuf, serde_json::Error),
    #[error(
        "{0} has version {1} of the format, and this plugin reads {VERSION}; make the plan anew"
    )]
    Version(PathBuf, u64),
    #[error("{0}: the network's signature is none; make the plan anew")]
    Signature(PathBuf),
    #[error("{0}: {1}")]
    Table(PathBuf, TableError),
}

/// The fields of `plan.json` that are needed here.
#[derive(Deserialize)]
struct Manifest {
    motet_plan: u64,
    signature: String,
    ranks: u32,
    nodes: u32,
    #[serde(default)]
    setup: Setup,
    #[serde(default)]
    tasks: Vec<Task>,
}

/// What the plan wants communicators to be made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Setup {
    pub(crate) threads: Option<u32>,
    pub(crate) buffer: Option<Bytes>,
}

#[derive(Deserialize)]
struct Task {
    collective: Word<Collective>,
    size_bytes: u64,
    pick: Pick,
    /// What NCCL does by itself.
    nccl: Option<Pick>,
}

#[derive(Deserialize)]
struct Pick {
    basis: Basis,
    algorithm: Option<Word<Algorithm>>,
    protocol: Option<Word<Protocol>>,
    #[serde(default)]
    channels: u32,
    /// Whether NCCL must be asked for so many channels.
    #[serde(default)]
    asked: bool,
}

/// How a time was determined, as far as it matters here.
#[derive(PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Basis {
    /// On the machine.
    Measured,
    /// In whatever other way.
    #[serde(other)]
    Modelled,
}

/// A name that may be unknown here: a newer Motet's plan must not stop a job, only goes without what this one does not know.
#[derive(Clone, Copy, Deserialize)]
#[serde(from = "String", bound(deserialize = "T: FromStr"))]
struct Word<T>(Option<T>);

impl<T: FromStr> From<String> for Word<T> {
    fn from(name: String) -> Self {
        Self(name.parse().ok())
    }
}

impl Pick {
    /// Whether its time was measured on the machine, and not modelled.
    fn is_measured(&self) -> bool {
        self.basis == Basis::Measured
    }

    fn is(&self, setting: &Setting) -> bool {
        let Method::Nccl { algorithm } = setting.method else { return false };
        algorithm == self.algorithm.and_then(|it| it.0)
            && setting.knobs.protocol == self.protocol.and_then(|it| it.0)
            && setting.knobs.channels == self.asked.then_some(self.channels)
            && setting.knobs.chunk.is_none()
    }
}

/// A collective and a bucket of sizes, as a key of the table has them.
type Place = (Collective, Bucket);

/// A plan whose files, those that we need, agree with their checksums.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) folder: PathBuf,
    /// The checksum of the `table` file, so that ranks' logs can be compared.
    pub(crate) checksum: Checksum,
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    pub(crate) setup: Setup,
    /// The plan's table without entries that NCCL cannot run ([`runnable`]).
    table: Table,
    signature: Signature,
    /// Of each entry of the table: whether its times were measured on the machine rather than modelled.
    pub(crate) measured: Box<[bool]>,
}

impl Plan {
    pub(crate) fn read(folder: &Path) -> Result<Self, PlanError> {
        let path = |name: &str| folder.join(name);
        let list = read_list(&text(&path(CHECKSUMS))?)
            .map_err(|it| PlanError::List(path(CHECKSUMS), it))?;
        let checked = |name: &str| {
            let text = text(&path(name))?;
            let right = list.get(name) == Some(&Checksum::of(text.as_bytes()));
            if right { Ok(text) } else { Err(PlanError::Corrupt(path(name))) }
        };
        let manifest: Manifest = serde_json::from_str(&checked(MANIFEST)?)
            .map_err(|it| PlanError::Manifest(path(MANIFEST), it))?;
        if manifest.motet_plan != VERSION {
            return Err(PlanError::Version(path(MANIFEST), manifest.motet_plan));
        }
        let signature = manifest.signature.parse();
        let signature = signature.map_err(|_| PlanError::Signature(path(MANIFEST)))?;
        let wrong = |it| PlanError::Table(path(TABLE), it);
        let whole = Table::read(&checked(TABLE)?).map_err(wrong)?;
        let checksum = whole.checksum();
        let tasks = placed(&manifest.tasks);
        let table = runnable(&whole, &tasks).map_err(wrong)?;
        let measured = |key: &Key| {
            let task = tasks.get(&(key.collective, key.bucket));
            task.is_some_and(|it| it.pick.is_measured())
        };
        let measured = table.entries().iter().map(|it| measured(&it.key)).collect();
        let Manifest { ranks, nodes, setup, .. } = manifest;
        let folder = folder.to_owned();
        Ok(Self { folder, checksum, ranks, nodes, setup, table, signature, measured })
    }

    /// The plan among those of `MOTET_PLAN` that has this table.
    pub(crate) fn of_table(table: &Table) -> Option<Self> {
        let folders = std::env::var_os("MOTET_PLAN")?;
        let mut plans = std::env::split_paths(&folders).filter_map(|it| Self::read(&it).ok());
        plans.find(|it| it.table.checksum() == table.checksum())
    }

    /// The files that the agent needs beside the table, as text: the network, and the measurements if there are any.
    pub(crate) fn texts(&self) -> Result<(String, Option<String>), PlanError> {
        let path = |name: &str| self.folder.join(name);
        let list = read_list(&text(&path(CHECKSUMS))?)
            .map_err(|it| PlanError::List(path(CHECKSUMS), it))?;
        let checked = |name: &str| {
            let text = text(&path(name))?;
            let right = list.get(name) == Some(&Checksum::of(text.as_bytes()));
            if right { Ok(text) } else { Err(PlanError::Corrupt(path(name))) }
        };
        let measured = list.contains_key(MEASURED).then(|| checked(MEASURED)).transpose()?;
        Ok((checked(NETWORK)?, measured))
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::new(View::new(self.table.clone(), self.signature))
    }

    /// For how many pairs of collective and size the plan has an entry, and in how many of them it leaves the choice to NCCL.
    pub(crate) fn entries(&self) -> (usize, usize) {
        let own = |it: &&Entry| it.candidates[0].setting.method == Method::Nccl { algorithm: None };
        let entries = self.table.entries();
        (entries.len(), entries.iter().filter(own).count())
    }
}

/// The plan's tasks, by collective and bucket of sizes.
fn placed(tasks: &[Task]) -> BTreeMap<Place, &Task> {
    let place = |it: &Task| {
        let bucket = Bucket::of(Bytes::new(it.size_bytes));
        it.collective.0.map(|collective| (collective, bucket))
    };
    tasks.iter().filter_map(|it| Some((place(it)?, it))).collect()
}

/// The table as NCCL can follow it. Candidates that are programs are left out, because NCCL has no executor for them; the
/// next candidate that NCCL can run takes their place. Where a choice was modelled, and is what the model thinks NCCL does by
/// itself, nothing is asked for: NCCL knows better than a model of it. A choice that was measured is asked for in any case.
fn runnable(table: &Table, tasks: &BTreeMap<Place, &Task>) -> Result<Table, TableError> {
    let entries = table.entries().iter().filter_map(|entry| {
        let task = tasks.get(&(entry.key.collective, entry.key.bucket));
        let own = task.filter(|it| !it.pick.is_measured()).and_then(|it| it.nccl.as_ref());
        let runs = |it: &&Candidate| matches!(it.setting.method, Method::Nccl { .. });
        let mut candidates: Vec<_> = entry.candidates.iter().filter(runs).cloned().collect();
        let first = candidates.first_mut()?;
        if own.is_some_and(|it| it.is(&first.setting)) {
            let method = Method::Nccl { algorithm: None };
            first.setting = Setting { method, knobs: TableKnobs::default() };
        }
        Some(Entry { key: entry.key, candidates })
    });
    Table::new(entries.collect())
}

/// The text of an ordinary file. Opening never waits: someone may have put a pipe there.
fn text(path: &Path) -> Result<String, PlanError> {
    let unreadable = |it| PlanError::Unreadable(path.to_owned(), it);
    let other = |what: &str| unreadable(std::io::Error::other(what.to_owned()));
    // The flag has the bits of C's `int`.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let about = File::metadata(&file).map_err(unreadable)?;
    if !about.is_file() {
        return Err(other("it is not an ordinary file"));
    }
    if about.len() > MOST_BYTES {
        return Err(other("it is larger than any plan"));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// What a tuner is told of a communicator's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) ranks: u64,
    pub(crate) nodes: u64,
    /// The least and the most ranks of a node, where NCCL says so.
    pub(crate) spread: Option<(i32, i32)>,
}

impl Shape {
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        let even = self.ranks.is_multiple_of(self.nodes.max(1));
        let uneven = self.spread.is_some_and(|it| it.0 != it.1);
        u64::from(plan.ranks) == self.ranks
            && u64::from(plan.nodes) == self.nodes
            && !(even && uneven)
    }
}

/// The first of several plans that is for a communicator, those before it that are for others, and what is wrong with those that
/// cannot be read.
pub(crate) fn find(
    folders: &[PathBuf],
    shape: &Shape,
) -> (Option<Plan>, Vec<Plan>, Vec<PlanError>) {
    let (mut others, mut errors) = (Vec::new(), Vec::new());
    for folder in folders {
        match Plan::read(folder) {
            Ok(plan) if shape.is_of(&plan) => return (Some(plan), others, errors),
            Ok(plan) => others.push(plan),
            Err(error) => errors.push(error),
        }
    }
    (None, others, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_no_error() {
        let read = |text: &str| serde_json::from_str::<Task>(text).unwrap();
        let known = read(
            r#"{"collective": "allreduce", "size_bytes": 1,
                "pick": {"basis": "measured", "algorithm": "ring", "protocol": "ll128"}}"#,
        );
        assert_eq!(known.collective.0, Some(Collective::AllReduce));
        assert!(known.pick.is_measured());
        assert_eq!(known.pick.algorithm.and_then(|it| it.0), Some(Algorithm::Ring));
        assert_eq!(known.pick.protocol.and_then(|it| it.0), Some(Protocol::Ll128));
        let unknown = read(
            r#"{"collective": "all-to-some", "size_bytes": 1,
                "pick": {"basis": "guessed", "algorithm": "moebius", "protocol": null}}"#,
        );
        assert_eq!(unknown.collective.0, None);
        assert!(!unknown.pick.is_measured());
        assert_eq!(unknown.pick.algorithm.and_then(|it| it.0), None);
        assert!(unknown.pick.protocol.is_none());
    }

    #[test]
    fn a_plan_is_for_as_many_ranks_and_nodes_spread_as_evenly() {
        let plan = |ranks, nodes| Plan {
            folder: PathBuf::new(),
            checksum: Checksum(0),
            ranks,
            nodes,
            setup: Setup::default(),
            table: Table::new(Vec::new()).unwrap(),
            signature: Signature(1),
            measured: Box::default(),
        };
        let shape = |ranks, nodes, spread| Shape { ranks, nodes, spread };
        for spread in [None, Some((8, 8))] {
            assert!(shape(16, 2, spread).is_of(&plan(16, 2)));
            assert!(
                !shape(16, 4, spread).is_of(&plan(16, 2))
                    && !shape(8, 2, spread).is_of(&plan(16, 2))
            );
        }
        assert!(!shape(16, 2, Some((4, 12))).is_of(&plan(16, 2)), "uneven");
        assert!(shape(7, 2, Some((3, 4))).is_of(&plan(7, 2)), "cannot be even");
        assert!(!shape(16, 0, None).is_of(&plan(16, 2)));
    }
}
