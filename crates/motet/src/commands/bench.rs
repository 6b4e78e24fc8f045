//! `motet bench`: nccl-tests' table of what NCCL would do on a network, and how long that takes.
//!
//! NCCL chooses by its own model. The time is of its rings and trees run on this network by the same
//! constants ([`motet_nccl::kernel`]), so that a fabric which NCCL knows nothing of slows it; what NCCL
//! itself expects stands beside it with `-v` and in the JSON.
//!
//! Columns and footer are those of nccl-tests, so that what reads its output reads this. In and
//! out of place are the same to the model; nothing is computed, so nothing is checked (`N/A`).
//! With `--tuning` it is NCCL's own table of latencies and bandwidths instead (`tuning`), with
//! `--backend nccl` NCCL itself is run (`live`), with `--backend tcp` Motet's programs between processes (`sockets`).

mod live;
pub(crate) mod nccl_tests;
mod sockets;
mod tuning;

use std::sync::Arc;

use motet_collective::{Collective, CollectiveKind};
use motet_nccl::kernel::Kernels;
use motet_nccl::{AllToAll, Basis, NcclModel, Priced, SendRecvChoice, Timed, TunedCollective};
use motet_net::Network;
use motet_units::{Bytes, Rank};
use serde::Serialize;

use crate::args::bench::{Backend, BenchArgs};
use crate::args::sizes::sizes;
use crate::c_format::fixed;
use crate::commands::nccl;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;
use nccl_tests::{Group, NOTHING_RUN, Row, Table};

/// What takes time.
const SEARCHING: &str = "searching rings and trees as NCCL does";
#[derive(Serialize)]
struct BenchJson {
    backend: &'static str,
    model: String,
    collective: &'static str,
    ranks: u32,
    results: Vec<Line>,
    avg_busbw_gbps: f64,
}

#[derive(Serialize)]
struct Line {
    size_bytes: u64,
    /// Elements, as NCCL's call is given them.
    count: u64,
    r#type: &'static str,
    redop: &'static str,
    root: i32,
    time_us: f64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    /// What NCCL's own cost model expects; it has none for AllToAll.
    nccl_expects_us: Option<f64>,
    /// "kernels": rings and trees simulated; "belief": NCCL's own model, and at least what the links
    /// take; "links": an estimate from launch, steps and the busiest link.
    basis: Basis,
    algorithm: &'static str,
    protocol: &'static str,
    channels: usize,
    threads: u32,
}

/// What is run.
struct Bench {
    collective: Collective,
    network: Network,
    model: NcclModel,
}

/// What NCCL does for one size, and how long that takes.
struct Run {
    time_us: f64,
    nccl_expects_us: Option<f64>,
    basis: Basis,
    algorithm: &'static str,
    protocol: &'static str,
    channels: usize,
    threads: u32,
}

impl From<Timed> for Run {
    fn from(timed: Timed) -> Self {
        let choice = timed.choice;
        Self {
            time_us: timed.time.as_us_f64(),
            nccl_expects_us: Some(choice.time),
            basis: timed.basis,
            algorithm: choice.algorithm.name(),
            protocol: choice.protocol.name(),
            channels: choice.used_channels,
            threads: choice.threads,
        }
    }
}

impl From<SendRecvChoice> for Run {
    fn from(choice: SendRecvChoice) -> Self {
        Self {
            time_us: choice.time.as_us_f64(),
            nccl_expects_us: None,
            basis: Basis::Links,
            algorithm: "SendRecv",
            protocol: choice.protocol.name(),
            channels: usize::try_from(choice.channels).unwrap_or(usize::MAX),
            threads: AllToAll::THREADS,
        }
    }
}

pub(crate) fn run(args: &BenchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    match args.backend {
        Backend::Sim => {}
        Backend::Nccl => return live::run(args, printer),
        Backend::Tcp => return sockets::run(args, printer),
    }
    if args.tuning {
        return run_tuning(args, printer);
    }
    let sizes = sizes(args.min, args.max, args.factor)?;
    let kind = args.collective;
    if TunedCollective::of(kind).is_none() && kind != CollectiveKind::AllToAll {
        return Err(Failure::unreadable(format!("NCCL chooses no algorithm for {kind}"))
            .with_remedy(
                "it does for allreduce, allgather, reducescatter, broadcast and reduce, and alltoall is \
                 estimated",
            ));
    }
    let (bench, lines) = {
        let _progress = Progress::start(printer, SEARCHING);
        let bench = Bench::new(args, printer)?;
        let lines = bench.lines(args, sizes)?;
        (bench, lines)
    };
    note(printer, &bench.model);
    if kind == CollectiveKind::AllToAll {
        printer.note(
            "NCCL has no model of AllToAll: this is an estimate from its rules for grouped sends and \
             receives and the busiest link (docs/nccl-model.md)",
        );
    }
    if printer.is_json() {
        printer.json(&bench.json(lines))?;
    } else {
        printer.out(&bench.text(args, &lines, printer.is_verbose()))?;
    }
    Ok(Status::Done)
}

fn run_tuning(args: &BenchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let model = {
        let _progress = Progress::start(printer, SEARCHING);
        model(args, printer)?.1
    };
    printer.note(&format!("this is what {} believes of this network", name(&model)));
    if printer.is_json() {
        printer.json(&tuning::json(&model, name(&model)))?;
    } else {
        printer.out(&tuning::text(&model, printer.is_verbose()))?;
    }
    Ok(Status::Done)
}

/// NCCL on the network of the command line.
fn model(args: &BenchArgs, printer: &Printer) -> Result<(Network, NcclModel), Failure> {
    let (network, model) = nccl::model(cluster(args)?, &args.read, args.nccl, printer)?;
    Ok(match &args.terms {
        Some(name) => (network, model.with_terms(files::nccl_terms(name)?)),
        None => (network, model),
    })
}

fn cluster(args: &BenchArgs) -> Result<&str, Failure> {
    args.cluster.as_deref().ok_or_else(|| {
        Failure::unreadable(
            "`--ranks` starts ranks on this machine, and nothing is started for a model",
        )
        .with_remedy("name the CLUSTER to model, or give `--backend nccl` or `tcp`")
    })
}

fn name(model: &NcclModel) -> String {
    format!("NCCL {}", model.options().version.name())
}

fn note(printer: &Printer, model: &NcclModel) {
    printer.note(&match model.terms() {
        Some(_) => {
            "times are by terms fitted to measured calls of NCCL; nothing was run now".to_owned()
        }
        None => {
            let name = name(model);
            format!("times are by the constants of {name} on this network, not measurements")
        }
    });
}

impl Bench {
    fn new(args: &BenchArgs, printer: &Printer) -> Result<Self, Failure> {
        let (network, model) = model(args, printer)?;
        let ranks = u32::try_from(model.communicator().ranks).unwrap_or(u32::MAX);
        let collective = if args.collective.has_root() {
            Collective::rooted(args.collective, ranks, 1, Rank(0))
        } else {
            Collective::new(args.collective, ranks, 1)
        };
        let cluster = cluster(args)?;
        let collective =
            collective.map_err(|it| Failure::wrong(it.to_string()).in_file(cluster))?;
        Ok(Self { collective, network, model })
    }

    fn lines(&self, args: &BenchArgs, sizes: Vec<Bytes>) -> Result<Vec<Line>, Failure> {
        let (comm, options) = (self.model.communicator(), self.model.options());
        let kernels = Arc::new(Kernels::new(&self.network, comm, options));
        let priced = Priced::new(&self.network, &self.model, kernels);
        let (kind, cluster) = (self.collective.kind(), cluster(args)?);
        let unreachable = || {
            let problem =
                format!("NCCL has no algorithm for {kind} here that the network can carry");
            Failure::wrong(problem).in_file(cluster)
        };
        let all_to_all = match kind {
            CollectiveKind::AllToAll => {
                Some(AllToAll::new(&self.network, &self.model).ok_or_else(unreachable)?)
            }
            _ => None,
        };
        let mut lines = Vec::new();
        for asked in sizes {
            let (size_bytes, count) = nccl_tests::size(kind, self.collective.ranks(), asked);
            let bytes = Bytes::new(size_bytes);
            let run = match &all_to_all {
                Some(it) => Run::from(it.choose(bytes)),
                None => Run::from(priced.default(kind, bytes).ok_or_else(unreachable)?),
            };
            lines.push(self.line(size_bytes, count, &run));
        }
        Ok(lines)
    }

    fn line(&self, size_bytes: u64, count: u64, run: &Run) -> Line {
        let kind = self.collective.kind();
        let group = Group::new(&self.collective, size_bytes, run.time_us, None);
        Line {
            size_bytes,
            count,
            r#type: nccl_tests::TYPE,
            redop: nccl_tests::redop(kind),
            root: nccl_tests::root(kind),
            time_us: run.time_us,
            nccl_expects_us: run.nccl_expects_us,
            basis: run.basis,
            algbw_gbps: group.algbw,
            busbw_gbps: group.busbw,
            algorithm: run.algorithm,
            protocol: run.protocol,
            channels: run.channels,
            threads: run.threads,
        }
    }

    /// Which time scale the columns are on (docs/nccl-model.md).
    fn time_scale(&self, verbose: bool) -> &'static str {
        match (self.collective.kind(), verbose) {
            (kind, _) if kind != CollectiveKind::AllToAll && self.model.terms().is_some() => {
                "by terms fitted to measured calls; NVLS and CollNet as NCCL believes"
            }
            (CollectiveKind::AllToAll, _) => "an estimate on this network; NCCL has no model of it",
            (_, false) => "its kernels as modelled on this network",
            (_, true) => "its kernels as modelled on this network; NCCL expects: its own model",
        }
    }

    fn json(&self, results: Vec<Line>) -> BenchJson {
        BenchJson {
            backend: "sim",
            model: name(&self.model),
            collective: self.collective.kind().name(),
            ranks: self.collective.ranks(),
            avg_busbw_gbps: average(&results),
            results,
        }
    }

    fn text(&self, args: &BenchArgs, lines: &[Line], verbose: bool) -> String {
        let (nccl, ranks) = (name(&self.model), self.collective.ranks());
        let about = format!(
            "{nccl}'s choices by its constants on {}, {ranks} GPUs; nothing was run\n# time: {}",
            args.cluster.as_deref().unwrap_or_default(),
            self.time_scale(verbose)
        );
        let row = |it: &Line| {
            let group = Group::new(&self.collective, it.size_bytes, it.time_us, None);
            let choice = format!(
                "  {:>13}  {:>6}  {:>8}  {:>7}  {:>12}",
                it.algorithm,
                it.protocol,
                it.channels,
                it.threads,
                it.nccl_expects_us.map_or_else(|| "N/A".to_owned(), |it| fixed(it, 7))
            );
            let more = if verbose { choice } else { String::new() };
            // In and out of place are the same to the model.
            Row {
                size_bytes: it.size_bytes,
                count: it.count,
                groups: [Some(group), Some(group)],
                more,
            }
        };
        let table = Table {
            collective: &self.collective,
            run: NOTHING_RUN,
            about,
            more: if verbose {
                "           algo   proto  channels  threads  NCCL expects"
            } else {
                ""
            },
            rows: lines.iter().map(row).collect(),
        };
        table.text(args)
    }
}

/// The mean over all lines, in and out of place.
fn average(lines: &[Line]) -> f64 {
    let sum: f64 = lines.iter().map(|it| it.busbw_gbps).sum();
    sum / lines.len().max(1) as f64
}
