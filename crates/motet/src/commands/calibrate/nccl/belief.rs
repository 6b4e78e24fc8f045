//! What NCCL's log says that it believes, built and chose, beside the model.

use std::fmt::Write as _;

use motet_tune::calibrate::nccl::belief::{CellDifference, ChoiceDifference};
use motet_tune::calibrate::nccl::{Belief, Version, believe};
use serde::Serialize;

use super::gather::Gathered;
use super::{Place, place};
use crate::printer::Printer;

/// Differences that are listed one by one.
const LISTED: usize = 12;

#[derive(Serialize)]
pub(super) struct BeliefJson {
    file: String,
    model: String,
    cluster: String,
    /// TUNING entries compared, and those that differ.
    tuning_cells: usize,
    tuning_differences: Vec<CellJson>,
    graphs_same: usize,
    graphs_logged_only: Vec<String>,
    graphs_modelled_only: Vec<String>,
    channels_logged: Option<u32>,
    channels_modelled: Option<usize>,
    rings: usize,
    rings_same: usize,
    tree_parents: usize,
    tree_parents_same: usize,
    /// Distinct calls that the model would run the same way, and those it would not.
    choices_same: usize,
    choice_differences: Vec<ChoiceJson>,
}

#[derive(Serialize)]
struct CellJson {
    collective: &'static str,
    algorithm: &'static str,
    protocol: &'static str,
    logged_latency_us: f64,
    logged_bandwidth_gbytes_per_s: f64,
    modelled_latency_us: f64,
    modelled_bandwidth_gbytes_per_s: f64,
}

#[derive(Serialize)]
struct ChoiceJson {
    collective: &'static str,
    size_bytes: u64,
    logged: String,
    modelled: Option<String>,
}

/// Of every log whose communicator one of the networks has.
pub(super) fn add(
    all: &Gathered<'_>,
    places: &[Place<'_>],
    json: &mut Vec<BeliefJson>,
    text: &mut String,
) {
    for (name, log) in &all.logs {
        let version = log.version.map(Version::model);
        let version = version.or_else(|| Some(places.first()?.model.options().version));
        let Some(place) = version.and_then(|it| place(places, log.ranks, it)) else {
            let ranks = log.ranks.unwrap_or(0);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: no `--cluster` has the {ranks} ranks of this log\n");
            continue;
        };
        let found = believe(log, &place.model);
        let model = format!("NCCL {}", place.model.options().version.name());
        write(text, name, &model, place.cluster, &found);
        json.push(self::json(name, model, place.cluster, &found));
    }
}

fn write(text: &mut String, name: &str, model: &str, cluster: &str, found: &Belief) {
    let heading = format!("{name}: what NCCL logged beside {model} as modelled on {cluster}");
    let _ = writeln!(text, "{}", Printer::strong(&heading));
    let cells = found.other_cells.len();
    if found.cells > 0 {
        let _ = writeln!(
            text,
            "belief (TUNING): {} of {} entries are the same",
            found.cells - cells,
            found.cells
        );
    }
    for it in found.other_cells.iter().take(LISTED) {
        let CellDifference { logged, modelled } = it;
        let _ = writeln!(
            text,
            "  {} {}/{}: {:.1} µs and {:.1} GB/s logged, {:.1} and {:.1} modelled",
            logged.collective.name(),
            logged.algorithm,
            logged.protocol,
            logged.latency,
            logged.bandwidth,
            modelled.0,
            modelled.1
        );
    }
    more(text, cells);
    if found.other_tables > 0 {
        let _ =
            writeln!(text, "{} tables are of communicators with other ranks", found.other_tables);
    }
    graphs(text, found);
    let (same, choices) = (found.choices, found.other_choices.len());
    if same + choices > 0 {
        let _ = writeln!(text, "choices: {same} of {} calls are as modelled", same + choices);
    }
    for it in found.other_choices.iter().take(LISTED) {
        let (logged, modelled) = ways(it);
        let modelled = modelled.unwrap_or_else(|| "nothing".to_owned());
        let _ = writeln!(
            text,
            "  {} {}: {logged} logged, {modelled} modelled",
            it.collective.name(),
            it.size
        );
    }
    more(text, choices);
    text.push('\n');
}

fn graphs(text: &mut String, found: &Belief) {
    let count = found.graphs + found.graphs_logged.len();
    if count > 0 {
        let _ = writeln!(text, "graphs (GRAPH): {} of {count} are the same", found.graphs);
    }
    for (what, lines) in [("logged", &found.graphs_logged), ("modelled", &found.graphs_modelled)] {
        for line in lines.iter().take(LISTED) {
            let _ = writeln!(text, "  only {what}: {line}");
        }
        more(text, lines.len());
    }
    if let Some((logged, modelled)) = found.channels.filter(|it| it.0 as usize != it.1) {
        let _ = writeln!(text, "channels: {logged} logged, {modelled} modelled");
    }
    for (what, (same, count)) in [("rings", found.rings), ("parents in trees", found.parents)] {
        if count > 0 {
            let _ = writeln!(text, "{what}: {same} of {count} are the same");
        }
    }
}

fn more(text: &mut String, count: usize) {
    if count > LISTED {
        let _ = writeln!(text, "  and {} more; `--json` has all", count - LISTED);
    }
}

fn ways(it: &ChoiceDifference) -> (String, Option<String>) {
    let way = |name: String, channels: Option<u32>| match channels {
        Some(1) => format!("{name} on 1 channel"),
        Some(it) => format!("{name} on {it} channels"),
        None => name,
    };
    let (algorithm, protocol, channels) = it.logged;
    let modelled = it.modelled.map(|it| way(format!("{}/{}", it.0, it.1), Some(it.2)));
    (way(format!("{algorithm}/{protocol}"), channels), modelled)
}

fn json(name: &str, model: String, cluster: &str, found: &Belief) -> BeliefJson {
    let cell = |it: &CellDifference| CellJson {
        collective: it.logged.collective.kind().name(),
        algorithm: it.logged.algorithm.name(),
        protocol: it.logged.protocol.name(),
        logged_latency_us: it.logged.latency,
        logged_bandwidth_gbytes_per_s: it.logged.bandwidth,
        modelled_latency_us: it.modelled.0,
        modelled_bandwidth_gbytes_per_s: it.modelled.1,
    };
    let choice = |it: &ChoiceDifference| {
        let (logged, modelled) = ways(it);
        let collective = it.collective.kind().name();
        ChoiceJson { collective, size_bytes: it.size.get(), logged, modelled }
    };
    BeliefJson {
        file: name.to_owned(),
        model,
        cluster: cluster.to_owned(),
        tuning_cells: found.cells,
        tuning_differences: found.other_cells.iter().map(cell).collect(),
        graphs_same: found.graphs,
        graphs_logged_only: found.graphs_logged.clone(),
        graphs_modelled_only: found.graphs_modelled.clone(),
        channels_logged: found.channels.map(|it| it.0),
        channels_modelled: found.channels.map(|it| it.1),
        rings: found.rings.1,
        rings_same: found.rings.0,
        tree_parents: found.parents.1,
        tree_parents_same: found.parents.0,
        choices_same: found.choices,
        choice_differences: found.other_choices.iter().map(choice).collect(),
    }
}
