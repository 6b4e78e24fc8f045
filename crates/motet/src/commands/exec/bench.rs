//! `motet exec bench`: all ranks as processes of this machine, with a table like nccl-tests'.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use motet_collective::{CollectiveKind, Program};
use motet_units::{Bytes, Duration};
use serde::Serialize;

use super::failure;
use super::program::{choose, network};
use super::run::{RankJson, Row};
use crate::args::exec::{BenchArgs, TlsArgs, WhatArgs};
use crate::c_format::fixed;
use crate::commands::verify;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::{progress::Progress, token};

#[derive(Serialize)]
struct BenchJson {
    collective: &'static str,
    ranks: u32,
    rows: Vec<RowJson>,
}

/// What calls of one size took.
#[derive(Serialize)]
pub(crate) struct RowJson {
    size_bytes: u64,
    elements: u64,
    #[serde(rename = "type")]
    element: &'static str,
    reduction: &'static str,
    pub(crate) program: String,
    /// The median over the calls of the slowest rank's time.
    pub(crate) time_us: f64,
    min_us: f64,
    max_us: f64,
    algbw_gbps: f64,
    busbw_gbps: f64,
    pub(crate) wrong: u64,
    /// What the simulator says for the cluster that was given.
    pub(crate) predicted_us: Option<f64>,
}

pub(crate) fn run(args: &BenchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let ranks = ranks(args, printer)?;
    let (kind, rows) = measure(&args.what, ranks, printer)?;
    let kind = kind.map_or("", CollectiveKind::name);
    let wrong: u64 = rows.iter().map(|it| it.wrong).sum();
    if printer.is_json() {
        printer.json(&BenchJson { collective: kind, ranks, rows })?;
    } else {
        printer.out(&text(kind, ranks, &rows))?;
    }
    Ok(if wrong == 0 { Status::Done } else { Status::Wrong })
}

/// Runs all sizes with as many ranks on this machine; a row for each size, and of which collective.
pub(crate) fn measure(
    what: &WhatArgs,
    ranks: u32,
    printer: &mut Printer,
) -> Result<(Option<CollectiveKind>, Vec<RowJson>), Failure> {
    // Wrong files are told of once, and not by each rank.
    what.tls.load().map_err(|it| failure(&it))?;
    let sizes = what.sizes()?;
    let progress = Progress::start(printer, format!("running {ranks} ranks"));
    let said = start_and_wait(what, &sizes, ranks)?;
    drop(progress);
    let mut rows = Vec::new();
    let mut kind = None;
    for (index, size) in sizes.into_iter().enumerate() {
        let of_ranks: Vec<&Row> = said.iter().filter_map(|it| it.rows.get(index)).collect();
        let chosen = choose(what, ranks, size, printer)?;
        kind = Some(chosen.program.collective().kind());
        rows.push(row(what, &chosen.program, size, &of_ranks, chosen.predicted));
        if let Some(first) = of_ranks.iter().find_map(|it| it.first_wrong.as_ref()) {
            printer.warning(first);
        }
    }
    Ok((kind, rows))
}

/// How many ranks there are to be.
fn ranks(args: &BenchArgs, printer: &Printer) -> Result<u32, Failure> {
    if let Some(ranks) = args.ranks {
        return Ok(ranks);
    }
    if let Some(file) = &args.what.program {
        return Ok(verify::read(file)?.1.program.collective().ranks());
    }
    match network(&args.what, printer)? {
        Some(network) => Ok(u32::try_from(network.ranks().len()).unwrap_or(u32::MAX)),
        None => Err(Failure::unreadable("how many ranks?").with_remedy("say so with `--ranks`")),
    }
}

/// Processes that do not outlive this one.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed, and need not.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start_and_wait(what: &WhatArgs, sizes: &[Bytes], ranks: u32) -> Result<Vec<RankJson>, Failure> {
    let here = |error: std::io::Error| Failure::unreadable(format!("cannot start ranks: {error}"));
    // A port that was free a moment ago; rank 0 serves the store there.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(here)?;
    let program = std::env::current_exe().map_err(here)?;
    let group = token::random();
    let mut all = Ranks(Vec::new());
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.args(["--json", "exec", "run", "--store", &port.to_string(), "--group", &group]);
        command.args(["--rank", &rank.to_string(), "--ranks", &ranks.to_string()]);
        command.args(words(what, sizes)).env("MOTET_EXEC_TOKEN", what.token());
        command.args(tls_words(&what.tls));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        all.0.push(command.spawn().map_err(here)?);
    }
    let mut said = Vec::new();
    let mut problems = Vec::new();
    for (rank, child) in std::mem::take(&mut all.0).into_iter().enumerate() {
        let output = child.wait_with_output().map_err(here)?;
        match serde_json::from_slice::<RankJson>(&output.stdout) {
            Ok(json) => said.push(json),
            Err(_) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                problems.push(format!("rank {rank}: {}", stderr.trim_end()));
            }
        }
    }
    if problems.is_empty() {
        return Ok(said);
    }
    Err(Failure::wrong(format!("not all ranks came to the end:\n{}", problems.join("\n"))))
}

/// The files of TLS, for a rank; what is not given here it finds in the environment, as this process does.
fn tls_words(args: &TlsArgs) -> Vec<OsString> {
    let TlsArgs { tls_certificate, tls_key, tls_ca, tls_name } = args;
    let given = [
        ("--tls-certificate", tls_certificate.as_ref().map(OsString::from)),
        ("--tls-key", tls_key.as_ref().map(OsString::from)),
        ("--tls-ca", tls_ca.as_ref().map(OsString::from)),
        ("--tls-name", tls_name.as_ref().map(OsString::from)),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some([name.into(), value?]));
    given.flatten().collect()
}

/// The arguments again, for a rank.
fn words(what: &WhatArgs, sizes: &[Bytes]) -> Vec<String> {
    let mut words: Vec<String> = what.program.iter().cloned().collect();
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    if let Some(kind) = what.collective {
        option("collective", kind.to_string());
    }
    if let Some(cluster) = &what.cluster {
        option("cluster", cluster.clone());
    }
    for size in sizes {
        option("size", format!("{} B", size.get()));
    }
    option("method", what.method.name().to_owned());
    option("root", what.root.to_string());
    option("type", what.element.to_string());
    option("reduction", what.reduction.to_string());
    option("iterations", what.iterations.to_string());
    option("warm-up", what.warm_up.to_string());
    option("seed", what.seed.to_string());
    if let Some(streams) = what.streams {
        option("streams", streams.to_string());
    }
    option("slice", format!("{} B", what.slice.get()));
    option("silence", what.silence.to_string());
    option("deadline", what.deadline.to_string());
    option("wait", what.wait.to_string());
    if what.no_shared_memory {
        words.push("--no-shared-memory".to_owned());
    }
    if what.checksums {
        words.push("--checksums".to_owned());
    }
    words
}

fn row(
    what: &WhatArgs,
    program: &Program,
    size: Bytes,
    ranks: &[&Row],
    predicted: Option<Duration>,
) -> RowJson {
    let calls = ranks.iter().map(|it| it.times_us.len()).min().unwrap_or(0);
    let slowest = |call: usize| ranks.iter().map(|it| it.times_us[call]).fold(0.0, f64::max);
    let mut times: Vec<f64> = (0..calls).map(slowest).collect();
    times.sort_by(f64::total_cmp);
    let time_us = times.get(times.len() / 2).copied().unwrap_or(0.0);
    let algbw = if time_us > 0.0 { size.get() as f64 / time_us / 1e3 } else { 0.0 };
    let (numerator, denominator) = program.collective().busbw_factor();
    RowJson {
        size_bytes: size.get(),
        elements: ranks.first().map_or(0, |it| it.elements),
        element: what.element.name(),
        reduction: what.reduction.name(),
        program: program.name().to_owned(),
        time_us,
        min_us: times.first().copied().unwrap_or(0.0),
        max_us: times.last().copied().unwrap_or(0.0),
        algbw_gbps: algbw,
        busbw_gbps: algbw * f64::from(numerator) / f64::from(denominator),
        wrong: ranks.iter().map(|it| it.wrong).sum(),
        predicted_us: predicted.map(Duration::as_us_f64),
    }
}

fn text(kind: &str, ranks: u32, rows: &[RowJson]) -> String {
    let mut out = format!(
        "# {kind} over {ranks} ranks of this machine; time is the median of the slowest rank's\n"
    );
    let _ = writeln!(
        out,
        "# {:>10}  {:>12}  {:>6}  {:>7}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}  {:>6}  {:>12}  program",
        "size",
        "count",
        "type",
        "redop",
        "time",
        "min",
        "max",
        "algbw",
        "busbw",
        "#wrong",
        "predicted"
    );
    let _ = writeln!(
        out,
        "# {:>10}  {:>12}  {:>6}  {:>7}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}  {:>6}  {:>12}",
        "(B)", "(a part)", "", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "(us)"
    );
    for row in rows {
        let predicted = row.predicted_us.map_or_else(|| "N/A".to_owned(), |it| fixed(it, 9));
        let _ = writeln!(
            out,
            "{:>12}  {:>12}  {:>6}  {:>7}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}  {:>6}  {predicted:>12}  {}",
            row.size_bytes,
            row.elements,
            row.element,
            row.reduction,
            fixed(row.time_us, 9),
            fixed(row.min_us, 9),
            fixed(row.max_us, 9),
            fixed(row.algbw_gbps, 7),
            fixed(row.busbw_gbps, 7),
            row.wrong,
            row.program
        );
    }
    out
}
