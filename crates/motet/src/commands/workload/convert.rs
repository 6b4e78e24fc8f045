//! `motet workload convert`: jobs, recordings and Chakra traces, written as Chakra traces.

use std::collections::BTreeMap;
use std::path::Path;

use motet_units::Rank;
use motet_workload::formats::chakra::recorded::Groups;
use motet_workload::formats::chakra::{self, Trace, export, replay};
use motet_workload::{Job, Recording};
use serde::Serialize;

use super::input::{Workload, read};
use crate::args::workload::ConvertArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

#[derive(Serialize)]
struct ConvertJson<'a> {
    output: &'a str,
    format: &'static str,
    ranks: usize,
    nodes: usize,
    groups: usize,
}

/// How traces are written.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Et,
    Json,
}

impl Format {
    const fn ending(self) -> &'static str {
        match self {
            Self::Et => "et",
            Self::Json => "json",
        }
    }

    fn bytes(self, trace: &Trace) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Et => Ok(chakra::write(trace)),
            Self::Json => {
                let text = chakra::json::write(trace);
                text.map(String::into_bytes).map_err(|it| Failure::wrong(it.to_string()))
            }
        }
    }
}

pub(crate) fn run(args: &ConvertArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let out = Output { name: &args.output, format: format(args) };
    let (ranks, nodes, groups) = match read(&args.inputs, &args.layout, printer)? {
        Workload::Job(job) => out.job(&job)?,
        Workload::Recording(it) => out.recording(&it)?,
        Workload::Chakra(it) => match it.traces.values().next() {
            Some(trace) if it.traces.len() == 1 && !Path::new(&args.output).is_dir() => {
                files::write_bytes(&args.output, &out.format.bytes(trace)?)?;
                (1, trace.nodes.len(), 0)
            }
            _ => {
                out.folder(it.traces.iter().map(|(rank, it)| Ok((*rank, it.clone()))), &it.groups)?
            }
        },
        Workload::Aicb(_) => {
            return Err(Failure::wrong(
                "an AICB workload says what one rank does, not which ranks are together",
            )
            .in_file(&args.inputs[0])
            .with_remedy(
                "describe the job in a file of its own (docs/workloads.md) and convert that",
            ));
        }
    };
    if printer.is_json() {
        let format = out.format.ending();
        printer.json(&ConvertJson { output: &args.output, format, ranks, nodes, groups })?;
    } else {
        let groups = if groups > 0 { format!(", {groups} groups") } else { String::new() };
        printer.out(&format!("{}: {ranks} ranks, {nodes} nodes{groups}\n", args.output))?;
    }
    Ok(Status::Done)
}

/// As asked, or by the ending of the output.
fn format(args: &ConvertArgs) -> Format {
    let asked = args.to.as_deref().or_else(|| Path::new(&args.output).extension()?.to_str());
    if asked == Some("json") { Format::Json } else { Format::Et }
}

struct Output<'a> {
    name: &'a str,
    format: Format,
}

/// Ranks, nodes and groups that were written.
type Written = (usize, usize, usize);

impl Output<'_> {
    fn job(&self, job: &Job) -> Result<Written, Failure> {
        let iteration = job.iteration(0).map_err(|it| Failure::wrong(it.to_string()))?;
        let ranks = u32::try_from(job.layout().ranks()).unwrap_or(u32::MAX);
        let text = export::groups(job, &iteration).map_err(|it| Failure::wrong(it.to_string()))?;
        let groups: Groups =
            serde_json::from_str(&text).map_err(|it| Failure::wrong(it.to_string()))?;
        let traces = (0..ranks).map(|rank| {
            let trace = export::trace(job, &iteration, Rank(rank));
            trace
                .map(|it| (rank, it))
                .ok_or_else(|| Failure::wrong(format!("there is no rank {rank}")))
        });
        self.folder(traces, &groups)
    }

    fn recording(&self, it: &Recording) -> Result<Written, Failure> {
        let groups: Groups = (1..)
            .zip(it.groups())
            .map(|(number, it)| (number.to_string(), it.members.iter().map(|it| it.0).collect()))
            .collect();
        self.folder(replay::traces(it).into_iter().map(Ok), &groups)
    }

    /// `FOLDER/NAME.RANK.et` for every rank, and `FOLDER/groups.json`.
    fn folder(
        &self,
        traces: impl Iterator<Item = Result<(u32, Trace), Failure>>,
        groups: &Groups,
    ) -> Result<Written, Failure> {
        std::fs::create_dir_all(self.name).map_err(|it| {
            Failure::unreadable(format!("cannot be made a folder: {it}")).in_file(self.name)
        })?;
        let stem = files::stem(self.name);
        let at = |name: String| Path::new(self.name).join(name).to_string_lossy().into_owned();
        let (mut ranks, mut nodes) = (0, 0);
        for trace in traces {
            let (rank, trace) = trace?;
            let file = at(format!("{stem}.{rank}.{}", self.format.ending()));
            files::write_bytes(&file, &self.format.bytes(&trace)?)?;
            ranks += 1;
            nodes += trace.nodes.len();
        }
        // Numbers sort as numbers, so that people find their way.
        let sorted: BTreeMap<(usize, &String), &Vec<u32>> =
            groups.iter().map(|(name, it)| ((name.len(), name), it)).collect();
        let lines: Vec<String> =
            sorted.iter().map(|((_, name), it)| format!("  {name:?}: {it:?}")).collect();
        let text = if lines.is_empty() {
            "{}\n".to_owned()
        } else {
            format!("{{\n{}\n}}\n", lines.join(",\n"))
        };
        files::write_bytes(&at("groups.json".to_owned()), text.as_bytes())?;
        Ok((ranks, nodes, groups.len()))
    }
}
