//! What a file turns out to be when it is not what a command wanted.
//!
//! Commands take clusters, programs, scenarios, jobs, lists of hosts, sketches and plans, and it is easy to give
//! one where another belongs, or two in the wrong order. The reader's own message ("unknown key `variation`") is
//! then true and of no help. These functions look at what the file is and say which argument or command it
//! belongs to.

use std::path::Path;

use motet_net::builders;
use motet_net::formats::ReadOptions;
use motet_net::probe::hosts;
use motet_wan::formats::ScenarioFile;
use motet_wan::formats::scenario_toml::Cluster;
use motet_workload::formats::job_toml;

use crate::failure::Failure;

/// What a command wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Cluster,
    Program,
    Scenario,
    Job,
    Hosts,
    Sketch,
}

impl Wanted {
    const fn words(self) -> &'static str {
        match self {
            Self::Cluster => "a cluster",
            Self::Program => "a program",
            Self::Scenario => "a scenario",
            Self::Job => "a training job",
            Self::Hosts => "a list of hosts",
            Self::Sketch => "a sketch",
        }
    }
}

/// What a file was read as in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sort {
    Cluster,
    /// What the program does: "allgather over 4 ranks".
    Program(String),
    /// The cluster that the scenario names, if it names one.
    Scenario(Option<String>),
    Job,
    Hosts,
    Sketch,
}

impl Sort {
    const fn as_wanted(&self) -> Wanted {
        match self {
            Self::Cluster => Wanted::Cluster,
            Self::Program(_) => Wanted::Program,
            Self::Scenario(_) => Wanted::Scenario,
            Self::Job => Wanted::Job,
            Self::Hosts => Wanted::Hosts,
            Self::Sketch => Wanted::Sketch,
        }
    }

    /// Where a file `name` of this sort belongs, for whoever gave it in the place of `wanted`.
    fn remedy(&self, name: &str, wanted: Wanted) -> String {
        match (self, wanted) {
            (Self::Cluster, Wanted::Scenario) => format!(
                "write a scenario with `cluster = \"{name}\"` and what varies, as docs/wan.md says; \
                 examples/two-regions.toml is one"
            ),
            (Self::Cluster, Wanted::Program) => format!(
                "the cluster comes before the program: `motet sim {name} FILE`, `motet verify FILE --net \
                 {name}`; `motet synth {name}` makes a program"
            ),
            (Self::Cluster, Wanted::Job) => format!(
                "a job's file says what is trained and how (docs/workloads.md; examples/opus-job.toml is one); \
                 `motet plan {name} --workload JOB` takes both"
            ),
            (Self::Cluster, Wanted::Hosts) => {
                "a list of hosts has a [[host]] with its address for each agent, as \
                 docs/discovery.md says; examples/hosts.toml is one"
                    .to_owned()
            }
            (Self::Cluster, _) => format!("`motet net show {name}` prints it"),
            (Self::Program(_), Wanted::Cluster) => {
                "the cluster comes before the program: `motet sim CLUSTER \
                 FILE`, `motet verify FILE --net CLUSTER`"
                    .to_owned()
            }
            (Self::Program(_), _) => format!("`motet sim CLUSTER {name}` runs a program"),
            (Self::Scenario(cluster), Wanted::Cluster) => {
                let run = format!("`motet wan {name}` runs it");
                match cluster {
                    Some(cluster) => format!("{run}; the cluster that it names is `{cluster}`"),
                    None => format!("{run}; its cluster is what stands below [cluster]"),
                }
            }
            (Self::Scenario(_), _) => format!("`motet wan {name}` runs it"),
            (Self::Job, _) => format!(
                "`motet workload show {name}` prints it, `motet plan CLUSTER --workload {name}` plans for it"
            ),
            (Self::Hosts, _) => format!(
                "`motet probe run {name} -o cluster.toml` measures between the hosts and writes what it found as \
                 a cluster"
            ),
            (Self::Sketch, _) => format!("`motet synth CLUSTER --sketch {name}` follows it"),
        }
    }
}

/// Tries the readers one after the other. Only used once a command has failed, so time does not count.
fn sort(name: &str, text: &str) -> Option<Sort> {
    if let Ok((_, imported)) = motet_collective::formats::read_any(text) {
        let collective = imported.program.collective();
        let (kind, ranks) = (collective.kind(), collective.ranks());
        return Some(Sort::Program(format!("{kind} over {ranks} ranks")));
    }
    if let Ok(scenario) = ScenarioFile::read(text) {
        let named = match scenario.cluster() {
            Ok(Cluster::Named(name)) => Some(name),
            _ => None,
        };
        return Some(Sort::Scenario(named));
    }
    if hosts::read(text).is_ok() {
        return Some(Sort::Hosts);
    }
    if job_toml::read(text).is_ok() {
        return Some(Sort::Job);
    }
    let has = |headers: &[&str]| {
        name.ends_with(".toml") && text.lines().any(|line| headers.contains(&line.trim()))
    };
    let fetch = |_: &str| Err("other files are not read to find out what this one is".to_owned());
    let read = motet_net::formats::read_any(text, Some(name), &ReadOptions::default(), &fetch);
    // A cluster file that is made of other files cannot be read to its end here, so its tables must do;
    if read.is_ok() || has(&["[[server]]", "[[fabric]]", "[[node]]"]) {
        return Some(Sort::Cluster);
    }
    // nor a sketch, which can be read only with the network that it is for.
    has(&["[links]", "[binding]", "[[group]]", "[[above]]"]).then_some(Sort::Sketch)
}

/// Why `text` is not what is wanted, which is what `failure` says, or what it is instead.
pub(crate) fn for_text(wanted: Wanted, name: &str, text: &str, failure: Failure) -> Failure {
    if failure.is_too_large {
        return failure;
    }
    let Some(sort) = sort(name, text).filter(|it| it.as_wanted() != wanted) else { return failure };
    let what = match &sort {
        Sort::Program(what) => format!("a program ({what})"),
        it => it.as_wanted().words().to_owned(),
    };
    Failure::unreadable(format!("is {what}, and {} is wanted here", wanted.words()))
        .in_file(name)
        .with_remedy(sort.remedy(name, wanted))
}

/// A name that is no file where something else than a cluster is wanted: it may be a template, or a folder.
pub(crate) fn for_missing(wanted: Wanted, name: &str, failure: Failure) -> Failure {
    let kind = name.split(':').next().unwrap_or(name);
    if Path::new(name).exists() || builders::find(kind).is_err() {
        return for_folder(name, failure);
    }
    let words = wanted.words();
    Failure::unreadable(format!("is a template of a cluster, and {words} is wanted here"))
        .in_file(name)
        .with_remedy(Sort::Cluster.remedy(name, wanted))
}

/// A folder where a file is wanted: it may be a plan.
pub(crate) fn for_folder(name: &str, failure: Failure) -> Failure {
    let path = Path::new(name);
    if !path.is_dir() {
        return failure;
    }
    let folder = Failure::unreadable("is a folder, and a file is wanted here").in_file(name);
    match path.join("plan.json").is_file() {
        true => folder.with_remedy(format!(
            "it holds a plan: `motet plan show {name}` prints it, and its programs are files below it"
        )),
        false => folder,
    }
}
