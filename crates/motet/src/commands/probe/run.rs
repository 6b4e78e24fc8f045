//! `motet probe run`: has the agents of hosts measure the ways between them, and makes a network
//! of it.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration as Wall;

use motet_net::probe::sample::Class;
use motet_net::probe::{
    Hosts, Model, Pair, ProbeError, ProbePlan, Probed, RunOptions, Sample, SampleOptions, greet,
    history, hosts, resolve, run as probe, sample,
};
use motet_units::Seed;
use serde_json::{Map, Value, json};

use super::matrix;
use crate::args::discovery::{ModelArg, RunArgs};
use crate::commands::sourced;
use crate::failure::{Failure, Status};
use crate::files;
use crate::mistaken::{self, Wanted};
use crate::printer::Printer;
use crate::progress::{Bar, Progress};

pub(crate) fn run(args: &RunArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if let Some(failure) = is_address(&args.hosts) {
        return Err(failure);
    }
    if let Some(more) = args.more.first() {
        return Err(Failure::unreadable("only one file of hosts is asked for")
            .in_file(more)
            .with_remedy(
                "write all hosts into one file, each as [[host]] with its name and its address, as \
             docs/discovery.md says",
            ));
    }
    let (name, wanted) = (&args.hosts, Wanted::Hosts);
    let text =
        files::read(name).map_err(|it| mistaken::for_missing(wanted, name, missing(name, it)))?;
    let mut hosts = hosts::read(&text)
        .map_err(|it| mistaken::for_text(wanted, name, &text, Failure::from(it).in_file(name)))?;
    if let Some(file) = &args.history {
        let more = history::read_csv(&files::read(file)?);
        hosts.history.extend(more.map_err(|it| Failure::from(it).in_file(file))?);
    }
    let options = options(args)?;
    let sampling = SampleOptions {
        rings: args.rings as usize,
        representatives: args.representatives as usize,
        low: args.low,
        seed: Seed::new(args.seed),
    };
    if args.dry_run {
        let all: Vec<usize> = (0..hosts.hosts.len()).collect();
        let chosen = sample(&hosts.hosts, &all, &hosts.history, &sampling);
        dry_run(&hosts, &chosen, args.seed, printer)?;
        return Ok(Status::Done);
    }
    let clock = super::clock();
    let greeted = {
        let _progress = Progress::start(printer, "greeting the hosts");
        greet(&hosts.hosts, &options, &clock)
    };
    let seen: Vec<usize> = (0..greeted.len()).filter(|it| greeted[*it].is_ok()).collect();
    let chosen = sample(&hosts.hosts, &seen, &hosts.history, &sampling);
    let probed = {
        let bar = Bar::start(printer, chosen.pairs.len() as u64, "probes");
        probe(&hosts.hosts, &chosen.pairs, &options, &clock, &|done| bar.set(done as u64))
    };
    if !probed.iter().any(|it| it.outcome.is_ok()) {
        return Err(nothing(&hosts, &greeted, &probed).in_file(&args.hosts));
    }
    let model = match args.model {
        ModelArg::Racks => Model::Racks,
        ModelArg::Direct => Model::Direct,
    };
    let found =
        resolve(&hosts.name, &hosts.hosts, &greeted, &probed, model).map_err(|it| {
            match it.remedy {
                Some(remedy) => Failure::wrong(it.problem).with_remedy(remedy),
                None => Failure::wrong(it.problem),
            }
        })?;
    let mut more = Map::new();
    more.insert("seed".to_owned(), args.seed.into());
    more.insert("probes".to_owned(), probed.iter().map(|it| listed(&hosts, it)).collect());
    more.insert("left_out".to_owned(), pairs(&hosts, &chosen.left_out));
    if !printer.is_json() && args.output.as_deref() != Some("-") {
        printer.out(&matrix::text(&hosts.hosts, &probed))?;
    }
    sourced::show(&found, "measured between hosts", args.output.as_deref(), more, printer)?;
    Ok(Status::Done)
}

/// The refusal for whoever gives an agent's address where a file of hosts is asked for.
fn is_address(name: &str) -> Option<Failure> {
    // Without a port, as the list may have it too: the agents' own is then taken.
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let host = match name.rsplit_once(':') {
        _ if bare == "localhost" || bare.parse::<IpAddr>().is_ok() => name,
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => return None,
    };
    if Path::new(name).exists() {
        return None;
    }
    let remedy = format!(
        "write the hosts into a file, each as [[host]] with name = \"{host}\" and address = \"{name}\"; \
         two at least, for a probe is between two of them (docs/discovery.md)"
    );
    let problem = "this is an address, and a file of hosts is asked for";
    Some(Failure::unreadable(problem).in_file(name).with_remedy(remedy))
}

/// A name that is neither a file nor an address with a port: it may be that of a host.
fn missing(name: &str, failure: Failure) -> Failure {
    if Path::new(name).exists() || name == "-" {
        return failure;
    }
    Failure::unreadable("there is no such file, and a file of hosts is asked for")
        .in_file(name)
        .with_remedy(
            "write the hosts into a file, each as [[host]] with its name and its address, as \
             docs/discovery.md says; examples/hosts.toml is one",
        )
}

/// Why there is nothing to make a network of.
fn nothing(hosts: &Hosts, greeted: &[Result<(), ProbeError>], probed: &[Probed]) -> Failure {
    let silent = greeted.iter().zip(&hosts.hosts).find_map(|(it, host)| {
        let error = it.as_ref().err()?;
        Some(format!("{}: {error}", host.name))
    });
    let failed = probed.iter().find_map(|it| {
        let (from, to) = names(hosts, &it.pair);
        it.outcome.as_ref().err().map(|error| format!("{from} to {to}: {error}"))
    });
    let count = greeted.iter().filter(|it| it.is_ok()).count();
    let problem = format!("nothing was measured: {count} of {} hosts answered", greeted.len());
    match silent.or(failed) {
        Some(why) => Failure::wrong(problem).with_remedy(why),
        None => Failure::wrong(problem).with_remedy("a probe needs two hosts at least"),
    }
}

fn options(args: &RunArgs) -> Result<RunOptions, Failure> {
    let plan = ProbePlan {
        pings: args.pings,
        warm_up: args.pings.div_ceil(10).min(ProbePlan::MAX_PINGS),
        bytes: args.bytes.get(),
        streams: args.streams,
        deadline_ms: args.deadline.saturating_mul(1000),
    };
    plan.check().map_err(Failure::unreadable)?;
    Ok(RunOptions {
        plan,
        token: args.shared.given_token().unwrap_or_default(),
        timeout: Wall::from_secs(args.shared.timeout),
        parallel: args.parallel as usize,
    })
}

fn names<'a>(hosts: &'a Hosts, pair: &Pair) -> (&'a str, &'a str) {
    (&hosts.hosts[pair.a].name, &hosts.hosts[pair.b].name)
}

fn pairs(hosts: &Hosts, of: &[Pair]) -> Value {
    of.iter().map(|it| json!(names(hosts, it))).collect()
}

fn listed(hosts: &Hosts, probed: &Probed) -> Value {
    let (from, to) = names(hosts, &probed.pair);
    match &probed.outcome {
        Ok(it) => json!({
            "from": from,
            "to": to,
            "round_trip_us": it.round_trip.as_us_f64(),
            "there_gbps": it.there.as_gb_per_s_f64(),
            "back_gbps": it.back.as_gb_per_s_f64(),
        }),
        Err(error) => json!({ "from": from, "to": to, "error": error.to_string() }),
    }
}

/// Which pairs would be probed.
fn dry_run(
    hosts: &Hosts,
    chosen: &Sample,
    seed: u64,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if printer.is_json() {
        return printer.json(&json!({
            "hosts": hosts.hosts.len(),
            "pairs": pairs(hosts, &chosen.pairs),
            "left_out": pairs(hosts, &chosen.left_out),
            "seed": seed,
        }));
    }
    let count = hosts.hosts.len();
    let all = count * count.saturating_sub(1) / 2;
    let mut out = String::new();
    let _ = writeln!(out, "{} of {all} pairs of {count} hosts, seed {seed}", chosen.pairs.len());
    for (class, words) in [
        (Class::Rack, "within racks"),
        (Class::Racks, "between racks"),
        (Class::Dcs, "between datacenters"),
    ] {
        let of = chosen
            .pairs
            .iter()
            .filter(|it| Class::of(&hosts.hosts[it.a], &hosts.hosts[it.b]) == class);
        let named: Vec<String> =
            of.map(|it| names(hosts, it)).map(|(a, b)| format!("{a}-{b}")).collect();
        if !named.is_empty() {
            let _ = writeln!(out, "  {words:19}  {:4}  {}", named.len(), named.join(" "));
        }
    }
    if !chosen.left_out.is_empty() {
        let named: Vec<String> = chosen
            .left_out
            .iter()
            .map(|it| names(hosts, it))
            .map(|(a, b)| format!("{a}-{b}"))
            .collect();
        let _ = writeln!(out, "  {:19}  {:4}  {}", "idle, left out", named.len(), named.join(" "));
    }
    printer.out(&out)
}
