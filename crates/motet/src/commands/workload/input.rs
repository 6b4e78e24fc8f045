//! What was given to a command that takes a workload, found out and read.
//!
//! Files are told apart by what is in them, not by their names: profilers call everything `.json`. Of a folder
//! the files that end as jobs and traces do are read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use motet_runtime::Trace as NcclTrace;
use motet_workload::formats::aicb::{self, AicbWorkload};
use motet_workload::formats::chakra::recorded::{self, Groups};
use motet_workload::formats::{chakra, job_toml, kineto, nccl_trace};
use motet_workload::recording::{Clocks, JoinError, RankLog};
use motet_workload::{Job, Recording, models};

use crate::args::workload::LayoutArgs;
use crate::failure::Failure;
use crate::files;
use crate::mistaken::{self, Wanted};
use crate::printer::Printer;

/// What a command was given.
#[derive(Debug)]
pub(crate) enum Workload {
    Job(Box<Job>),
    Recording(Recording),
    Chakra(ChakraTraces),
    Aicb(AicbWorkload),
}

/// Chakra traces by rank.
#[derive(Debug, Default)]
pub(crate) struct ChakraTraces {
    pub(crate) traces: BTreeMap<u32, chakra::Trace>,
    pub(crate) groups: Groups,
}

impl ChakraTraces {
    /// As a recording, if the traces have times; the names of files are for errors.
    pub(crate) fn recording(&self) -> Option<Result<Recording, Failure>> {
        if !self.traces.values().any(recorded::has_times) {
            return None;
        }
        let world = self.traces.last_key_value().map_or(0, |it| it.0 + 1);
        let world =
            self.groups.values().flatten().fold(world, |all, it| all.max(it.saturating_add(1)));
        let logs = self.traces.iter().map(|(rank, trace)| {
            let log = recorded::log(trace, *rank, world, &self.groups);
            log.map_err(|it| Failure::from(it).in_file(&format!("the trace of rank {rank}")))
        });
        let logs: Result<Vec<RankLog>, Failure> = logs.collect();
        Some(logs.and_then(|it| join(it, Clocks::Shared)))
    }
}

/// All files by what they are.
#[derive(Default)]
struct Pieces {
    jobs: Vec<Job>,
    kineto: Vec<RankLog>,
    nccl: Vec<NcclTrace>,
    chakra: ChakraTraces,
    aicb: Vec<AicbWorkload>,
}

/// Reads a workload; what the user should know of it is noted.
pub(crate) fn read(
    inputs: &[String],
    layout: &LayoutArgs,
    printer: &Printer,
) -> Result<Workload, Failure> {
    if let [name] = inputs
        && !Path::new(name).exists()
        && name != "-"
    {
        return Ok(Workload::Job(Box::new(named(name, layout)?)));
    }
    if *layout != LayoutArgs::default() {
        return Err(Failure::unreadable(
            "options of the layout are for a model's name, and files were given",
        )
        .with_remedy("write them into the job's file, or give a model's name in its place"));
    }
    let mut pieces = Pieces::default();
    for name in expanded(inputs)? {
        pieces.add(&name)?;
    }
    pieces.workload(printer)
}

/// The files that are meant: those of a folder for the folder.
fn expanded(inputs: &[String]) -> Result<Vec<String>, Failure> {
    const ENDINGS: [&str; 6] = ["toml", "et", "json", "trace", "txt", "bin"];
    let mut all = Vec::new();
    for name in inputs {
        if !Path::new(name).is_dir() {
            all.push(name.clone());
            continue;
        }
        let entries = std::fs::read_dir(name)
            .map_err(|it| Failure::unreadable(format!("cannot be read: {it}")).in_file(name))?;
        let mut found: Vec<String> = entries
            .flatten()
            .map(|it| it.path())
            .filter(|it| {
                it.is_file()
                    && it.extension().is_some_and(|it| ENDINGS.iter().any(|end| it == *end))
            })
            .map(|it| it.to_string_lossy().into_owned())
            .collect();
        if found.is_empty() {
            return Err(Failure::unreadable("has no traces")
                .in_file(name)
                .with_remedy("traces end in .json, .et or .trace; unpack those that end in .gz"));
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

impl Pieces {
    fn add(&mut self, name: &str) -> Result<(), Failure> {
        let bytes = files::read_bytes(name)?;
        let in_file = |it: motet_net::formats::ReadError| Failure::from(it).in_file(name);
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(Failure::unreadable("is compressed")
                .in_file(name)
                .with_remedy(format!("gunzip {name}")));
        }
        if bytes.starts_with(b"MOTETTRC") {
            let trace = NcclTrace::read(&bytes);
            self.nccl.push(trace.map_err(|it| Failure::unreadable(it.to_string()).in_file(name))?);
            return Ok(());
        }
        let text = std::str::from_utf8(&bytes).ok().filter(|it| {
            // A binary trace may happen to be UTF-8; its first message's length and tag are control characters.
            !it.chars().take(8).any(|it| it.is_control() && !it.is_ascii_whitespace())
        });
        let Some(text) = text else {
            return self.add_chakra(name, chakra::read(&bytes).map_err(in_file)?);
        };
        let head = text.trim_start();
        if head.starts_with('{') {
            if text.contains("\"traceEvents\"") {
                self.kineto.push(kineto::read(text).map_err(in_file)?);
            } else if let Ok(groups) = recorded::groups(text) {
                self.chakra.groups.extend(groups);
            } else {
                self.add_chakra(name, chakra::json::read(text).map_err(in_file)?)?;
            }
        } else if head.starts_with("HYBRID_TRANSFORMER") || head.starts_with("MICRO") {
            self.aicb.push(aicb::read(text).map_err(in_file)?);
        } else if head.is_empty() || name.ends_with(".et") {
            self.add_chakra(name, chakra::read(&bytes).map_err(in_file)?)?;
        } else {
            let draft = job_toml::read(text);
            let draft =
                draft.map_err(|it| mistaken::for_text(Wanted::Job, name, text, in_file(it)))?;
            self.jobs.push(checked(draft, Some(name))?);
        }
        Ok(())
    }

    fn add_chakra(&mut self, name: &str, trace: chakra::Trace) -> Result<(), Failure> {
        let rank = rank_in(name).unwrap_or(self.chakra.traces.len() as u32);
        if self.chakra.traces.insert(rank, trace).is_some() {
            return Err(Failure::wrong(format!("is a second trace of rank {rank}"))
                .in_file(name)
                .with_remedy("names of traces end with the rank, as in all_gather.3.et"));
        }
        Ok(())
    }

    fn workload(mut self, printer: &Printer) -> Result<Workload, Failure> {
        let sorts = [
            (self.jobs.len(), "training jobs"),
            (self.kineto.len(), "Kineto traces"),
            (self.nccl.len(), "traces of the NCCL plugin"),
            (self.chakra.traces.len(), "Chakra traces"),
            (self.aicb.len(), "AICB workloads"),
        ];
        let found: Vec<_> = sorts.into_iter().filter(|it| it.0 > 0).collect();
        let mixed = |found: &[(usize, &str)]| {
            found.iter().map(|it| format!("{} {}", it.0, it.1)).collect::<Vec<_>>().join(", ")
        };
        if found.len() > 1 || self.jobs.len() > 1 || self.aicb.len() > 1 {
            return Err(Failure::unreadable(format!("these are {}", mixed(&found)))
                .with_remedy("give one job, or traces of one sort of all its ranks"));
        }
        if let Some(job) = self.jobs.pop() {
            return Ok(Workload::Job(Box::new(job)));
        }
        if let Some(it) = self.aicb.pop() {
            return Ok(Workload::Aicb(it));
        }
        if !self.chakra.traces.is_empty() {
            return Ok(Workload::Chakra(self.chakra));
        }
        let recording = if self.nccl.is_empty() {
            join(self.kineto, Clocks::Shared)?
        } else {
            join(nccl_trace::logs(&self.nccl), Clocks::Own)?
        };
        for note in recording.notes() {
            printer.note(note);
        }
        Ok(Workload::Recording(recording))
    }
}

fn join(logs: Vec<RankLog>, clocks: Clocks) -> Result<Recording, Failure> {
    Recording::join(logs, clocks).map_err(|it: JoinError| {
        let remedy = it.remedy();
        Failure::wrong(it.to_string()).with_remedy(remedy)
    })
}

/// The number before the ending of a file's name, or at its end: `all_gather.3.et`, `rank-3.json`.
fn rank_in(name: &str) -> Option<u32> {
    let stem = Path::new(name).file_stem()?.to_string_lossy().into_owned();
    let digits = stem.len() - stem.trim_end_matches(|it: char| it.is_ascii_digit()).len();
    stem[stem.len() - digits..].parse().ok()
}

fn checked(draft: motet_workload::Draft, name: Option<&str>) -> Result<Job, Failure> {
    draft.check().map_err(|it| {
        let problems: Vec<&str> = it.0.iter().map(|it| it.problem.as_str()).collect();
        let nearest: Vec<&str> = it.0.iter().map(|it| it.nearest.as_str()).collect();
        let failure = Failure::wrong(problems.join("; ")).with_remedy(nearest.join("; "));
        match name {
            Some(name) => failure.in_file(name),
            None => failure,
        }
    })
}

/// A model by name with its layout. The options become the text of a job's file, so that both mean the same.
fn named(name: &str, it: &LayoutArgs) -> Result<Job, Failure> {
    if models::named(name).is_none() {
        let known: Vec<String> = models::known().into_iter().map(|it| it.name).collect();
        let failure = Failure::unreadable("there is no such file, and no model of that name")
            .in_file(name)
            .with_remedy(format!("models are {}", known.join(", ")));
        return Err(mistaken::for_missing(Wanted::Job, name, failure));
    }
    let gpu = it.gpu.as_deref().unwrap_or("h100");
    let mut text = format!("model = \"{name}\"\ngpu = {gpu:?}\n[layout]\n");
    let degrees = [("tp", it.tp), ("dp", it.dp), ("pp", it.pp), ("cp", it.cp), ("ep", it.ep)];
    for (key, value) in degrees {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {}", value.unwrap_or(1));
    }
    for (key, value) in [("sharding", &it.sharding), ("schedule", &it.schedule)] {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value:?}");
        }
    }
    let _ = writeln!(text, "ends_count = {}", it.ends_count);
    let micro = it.micro_batch.unwrap_or(1);
    let usual =
        || micro.saturating_mul(u64::from(it.dp.unwrap_or(1)) * u64::from(it.pp.unwrap_or(1)));
    let global = it.global_batch.unwrap_or_else(usual);
    let sequence = it.sequence.unwrap_or(8192);
    let _ = write!(text, "[batch]\nsequence = {sequence}\nmicro = {micro}\nglobal = {global}\n");
    // The place of an error would be one in a text that nobody wrote.
    let draft = job_toml::read(&text).map_err(|mut it| {
        it.at = None;
        Failure::from(it)
    })?;
    checked(draft, None)
}
