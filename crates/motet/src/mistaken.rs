//! What a file turns out to be when it is not what a command wanted.
//!
//! Commands take clusters, programs, scenarios and plans, and it is easy to give one where another belongs,
//! or two in the wrong order. The reader's own message ("unknown key `variation`") is then true and of no
//! help. These functions look at what the file is and say which argument or command it belongs to.

use std::path::Path;

use motet_net::builders;
use motet_net::formats::ReadOptions;
use motet_wan::formats::ScenarioFile;
use motet_wan::formats::scenario_toml::Cluster;

use crate::failure::Failure;

/// What a file was read as in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sort {
    Cluster,
    /// What the program does: "allgather over 4 ranks".
    Program(String),
    /// The cluster that the scenario names, if it names one.
    Scenario(Option<String>),
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
    let fetch = |_: &str| Err("other files are not read to find out what this one is".to_owned());
    let read = motet_net::formats::read_any(text, Some(name), &ReadOptions::default(), &fetch);
    // A cluster file that is made of other files cannot be read to its end here, so its tables must do.
    let is_table = |line: &str| matches!(line.trim(), "[[server]]" | "[[fabric]]" | "[[node]]");
    let is_cluster_toml = || name.ends_with(".toml") && text.lines().any(is_table);
    (read.is_ok() || is_cluster_toml()).then_some(Sort::Cluster)
}

/// Why `text` is no cluster, which is what `failure` says, or what it is instead.
pub(crate) fn for_cluster(name: &str, text: &str, failure: Failure) -> Failure {
    match sort(name, text) {
        Some(Sort::Program(what)) => {
            Failure::unreadable(format!("is a program ({what}), and a cluster is wanted here"))
                .in_file(name)
                .with_remedy(
                    "the cluster comes before the program: `motet sim CLUSTER FILE`, \
                     `motet verify FILE --net CLUSTER`",
                )
        }
        Some(Sort::Scenario(cluster)) => {
            let run = format!("`motet wan {name}` runs it");
            Failure::unreadable("is a scenario, and a cluster is wanted here")
                .in_file(name)
                .with_remedy(match cluster {
                    Some(cluster) => format!("{run}; the cluster that it names is `{cluster}`"),
                    None => format!("{run}; its cluster is what stands below [cluster]"),
                })
        }
        _ => failure,
    }
}

/// Why `text` is no program, or what it is instead.
pub(crate) fn for_program(name: &str, text: &str, failure: Failure) -> Failure {
    match sort(name, text) {
        Some(Sort::Cluster) => Failure::unreadable("is a cluster, and a program is wanted here")
            .in_file(name)
            .with_remedy(format!(
                "the cluster comes before the program: `motet sim {name} FILE`, `motet verify FILE \
                     --net {name}`; `motet synth {name}` makes a program"
            )),
        Some(Sort::Scenario(_)) => {
            Failure::unreadable("is a scenario, and a program is wanted here")
                .in_file(name)
                .with_remedy(format!("`motet wan {name}` runs it"))
        }
        _ => failure,
    }
}

/// Why `text` is no scenario, or what it is instead.
pub(crate) fn for_scenario(name: &str, text: &str, failure: Failure) -> Failure {
    match sort(name, text) {
        Some(Sort::Cluster) => {
            Failure::unreadable("is a cluster, and a scenario is wanted here")
                .in_file(name)
                .with_remedy(format!(
                    "write a scenario with `cluster = \"{name}\"` and what varies, as docs/wan.md says; \
                     examples/two-regions.toml is one"
                ))
        }
        Some(Sort::Program(what)) => {
            Failure::unreadable(format!("is a program ({what}), and a scenario is wanted here"))
                .in_file(name)
                .with_remedy(format!("`motet sim CLUSTER {name}` runs a program"))
        }
        _ => failure,
    }
}

/// A name that is no file where a program is wanted: it may be a template, or a folder.
pub(crate) fn for_missing_program(name: &str, failure: Failure) -> Failure {
    let kind = name.split(':').next().unwrap_or(name);
    let path = Path::new(name);
    if !path.exists() && builders::find(kind).is_ok() {
        return Failure::unreadable("is a template of a cluster, and a program is wanted here")
            .in_file(name)
            .with_remedy(format!(
                "the cluster comes before the program: `motet sim {name} FILE`, `motet verify FILE --net \
                 {name}`"
            ));
    }
    for_folder(name, failure)
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
