//! [`believe`]: compares the tuning tables, graphs and choices in NCCL's log with those of the model.

use std::collections::BTreeSet;

use motet_nccl::{Algorithm, NcclModel, Protocol, TunedCollective};
use motet_units::{Bytes, Rank};

use super::log::NcclLog;
use super::log::tables::TuningCell;

/// Figures are logged to one decimal.
const ROUNDING: f64 = 0.0501;

/// The result of comparing a log with the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Belief {
    /// How many TUNING entries NCCL or the model allows, and those of them that differ.
    pub cells: usize,
    pub other_cells: Vec<CellDifference>,
    /// How many tables are of communicators with other ranks or nodes than the model's; they are not compared.
    pub other_tables: usize,
    /// How many GRAPH lines both have; then those that only the log has, and those that only the model has.
    pub graphs: usize,
    pub graphs_logged: Vec<String>,
    pub graphs_modelled: Vec<String>,
    /// Channels of the communicator: as logged, and as modelled.
    pub channels: Option<(u32, usize)>,
    /// How many logged rings are as modelled, of how many.
    pub rings: (usize, usize),
    /// How many logged parents in trees are as modelled, of how many.
    pub parents: (usize, usize),
    /// How many distinct logged calls the model would run in the same way; then those that it would not.
    pub choices: usize,
    pub other_choices: Vec<ChoiceDifference>,
}

/// An entry that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellDifference {
    pub logged: TuningCell,
    /// Latency and bandwidth as modelled.
    pub modelled: (f64, f64),
}

/// A call that the model would run another way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceDifference {
    pub collective: TunedCollective,
    pub size: Bytes,
    pub logged: (Algorithm, Protocol, Option<u32>),
    pub modelled: Option<(Algorithm, Protocol, u32)>,
}

/// Holds a log against a model.
#[must_use]
pub fn believe(log: &NcclLog, model: &NcclModel) -> Belief {
    let mut belief = Belief::default();
    cells(&mut belief, log, model);
    graphs(&mut belief, log, model);
    let ranks = model.communicator().ranks;
    // What is said of channels is said of the largest communicator.
    if log.ranks.is_none_or(|it| it as usize == ranks) {
        belief.channels = log.channels.map(|it| (it, model.communicator().channels));
        shapes(&mut belief, log, model);
        choices(&mut belief, log, model);
    }
    belief
}

fn cells(belief: &mut Belief, log: &NcclLog, model: &NcclModel) {
    let (tuning, comm) = (model.tuning(), model.communicator());
    for table in &log.tables {
        let other = |said: Option<u32>, has: usize| said.is_some_and(|it| it as usize != has);
        if other(table.ranks, comm.ranks) || other(table.nodes, comm.nodes) {
            belief.other_tables += 1;
            continue;
        }
        for it in &table.cells {
            let bandwidth = tuning.bandwidth(it.collective, it.algorithm, it.protocol);
            let latency = tuning.latency(it.collective, it.algorithm, it.protocol);
            // What cannot be chosen does not matter.
            if it.bandwidth == 0.0 && bandwidth < ROUNDING {
                continue;
            }
            belief.cells += 1;
            let differ = |a: f64, b: f64| (a - b).abs() > ROUNDING;
            if differ(it.latency, latency) || differ(it.bandwidth, bandwidth) {
                let modelled = (latency, bandwidth);
                belief.other_cells.push(CellDifference { logged: *it, modelled });
            }
        }
    }
}

fn graphs(belief: &mut Belief, log: &NcclLog, model: &NcclModel) {
    if log.graphs.is_empty() {
        return;
    }
    let modelled: BTreeSet<String> = model.graph_lines().into_iter().collect();
    let logged: BTreeSet<String> = log.graphs.iter().cloned().collect();
    belief.graphs = modelled.intersection(&logged).count();
    belief.graphs_logged = logged.difference(&modelled).cloned().collect();
    belief.graphs_modelled = modelled.difference(&logged).cloned().collect();
}

fn shapes(belief: &mut Belief, log: &NcclLog, model: &NcclModel) {
    let channels = model.channels();
    let within = |channel: u32| (channel as usize) < channels.count();
    for ((channel, count), ranks) in &log.rings {
        if *count != model.communicator().ranks {
            continue;
        }
        belief.rings.1 += 1;
        let same = within(*channel) && is_same_ring(channels.ring(*channel as usize), ranks);
        belief.rings.0 += usize::from(same);
    }
    for ((channel, rank), parent) in &log.trees {
        belief.parents.1 += 1;
        let same = within(*channel)
            && channels.tree(*channel as usize).parent(Rank(*rank)) == parent.map(Rank);
        belief.parents.0 += usize::from(same);
    }
}

/// Whether two rings are the same but for where they begin.
fn is_same_ring(ours: &[Rank], theirs: &[u32]) -> bool {
    let Some(first) = theirs.first() else { return ours.is_empty() };
    let Some(start) = ours.iter().position(|it| it.0 == *first) else { return false };
    let turned = ours[start..].iter().chain(&ours[..start]).map(|it| it.0);
    turned.eq(theirs.iter().copied())
}

fn choices(belief: &mut Belief, log: &NcclLog, model: &NcclModel) {
    let ranks = u32::try_from(model.communicator().ranks).ok();
    let mut seen = BTreeSet::new();
    for call in &log.calls {
        let collective = call.collective.and_then(TunedCollective::of);
        let other = call.ranks.is_some() && call.ranks != ranks;
        let (Some(collective), Some(size), false) = (collective, call.size(ranks), other) else {
            continue;
        };
        if !seen.insert((collective, size, call.algorithm, call.protocol, call.channels)) {
            continue;
        }
        let chosen = model.choose(collective, size);
        let modelled = chosen.map(|it| {
            (it.algorithm, it.protocol, u32::try_from(it.used_channels).unwrap_or(u32::MAX))
        });
        let logged = (call.algorithm, call.protocol, call.channels);
        let same = modelled.is_some_and(|it| {
            (it.0, it.1) == (logged.0, logged.1) && logged.2.is_none_or(|count| count == it.2)
        });
        if same {
            belief.choices += 1;
        } else {
            belief.other_choices.push(ChoiceDifference { collective, size, logged, modelled });
        }
    }
}

#[cfg(test)]
mod tests {
    use motet_nccl::{Loopback, NcclOptions, NcclVersion};

    use super::super::log;
    use super::*;

    fn model() -> NcclModel {
        let machine = Loopback { ranks: 4, ..Loopback::default() };
        let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
        NcclModel::new(&machine.network().unwrap(), options).unwrap()
    }

    /// The log that NCCL would write if it were as the model says.
    fn text(model: &NcclModel) -> String {
        let mut lines = vec!["comm 0x1 rank 0 nRanks 4 nNodes 4 localRanks 1".to_owned()];
        lines.extend(model.graph_lines());
        lines.extend(["Channel 00/02 : 0 1 2 3", "Channel 01/02 : 2 3 0 1"].map(str::to_owned));
        lines.push("2 coll channels, 2 collnet channels, 0 nvls channels".to_owned());
        lines.extend(model.table().lines().map(str::to_owned));
        let choice = model.choose(TunedCollective::AllReduce, Bytes::kib(64)).unwrap();
        lines.push(format!(
            "AllReduce: 65536 Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..{}}}",
            choice.algorithm.name().to_uppercase(),
            choice.protocol.name().to_uppercase(),
            choice.used_channels - 1
        ));
        let lines: Vec<String> =
            lines.iter().map(|it| format!("h:1:1 [0] NCCL INFO {it}\n")).collect();
        lines.concat()
    }

    #[test]
    fn a_log_of_the_model_is_the_model() {
        let model = model();
        let found = believe(&log::read(&text(&model)).unwrap(), &model);
        assert!(found.cells >= 9 && found.other_cells.is_empty(), "{found:?}");
        assert_eq!(
            (found.graphs, found.graphs_logged.len(), found.graphs_modelled.len()),
            (2, 0, 0)
        );
        assert_eq!((found.channels, found.rings), (Some((2, 2)), (2, 2)));
        assert_eq!((found.choices, found.other_choices.len()), (1, 0));
    }

    #[test]
    fn what_differs_is_named() {
        let model = model();
        let changed = text(&model)
            .replacen("nChannels 1", "nChannels 2", 1)
            .replacen("36.6/", "37.6/", 1)
            .replacen(": 2 3 0 1", ": 3 2 1 0", 1)
            .replacen("Algo RING", "Algo TREE", 1);
        let found = believe(&log::read(&changed).unwrap(), &model);
        assert_eq!(found.other_cells.len(), 1);
        assert_eq!((found.other_cells[0].logged.latency * 10.0).round(), 376.0);
        assert_eq!((found.graphs_logged.len(), found.graphs_modelled.len()), (1, 1));
        assert_eq!(found.rings, (1, 2));
        assert_eq!(found.other_choices.len(), 1);
        let tables = changed.replace("nRanks 4", "nRanks 8");
        let found = believe(&log::read(&tables).unwrap(), &model);
        assert_eq!((found.cells, found.other_tables, found.channels), (0, 1, None));
    }
}
