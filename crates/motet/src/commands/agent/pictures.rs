//! The pictures of `motet agent eval`: regret over time, what ran by what would have been best, what ran at each tier.

use std::collections::{BTreeMap, BTreeSet};

use motet_agent::eval::score::PARTS;
use motet_agent::eval::{Kernel, Score};

use super::grid::Grid;
use crate::plot::{Line, Plot};

/// Regret of each policy, on the mean of all families.
pub(super) fn regret(scores: &[Score]) -> Plot {
    let mut names: Vec<&'static str> = Vec::new();
    for it in scores.iter().filter(|it| it.policy != "oracle") {
        if !names.contains(&it.policy) {
            names.push(it.policy);
        }
    }
    let line = |name: &&'static str| {
        let own: Vec<Vec<f64>> =
            scores.iter().filter(|it| it.policy == *name).map(Score::regret).collect();
        let mean =
            |part: usize| own.iter().map(|it| it[part]).sum::<f64>() / own.len().max(1) as f64;
        let points = (0..PARTS).map(|it| ((it + 1) as f64 / PARTS as f64, 100.0 * mean(it)));
        Line { name: (*name).to_owned(), points: points.collect() }
    };
    Plot {
        title: "Regret over time".to_owned(),
        x: "share of the scenario's calls".to_owned(),
        y: "time above the oracle's, % of its whole".to_owned(),
        log_x: false,
        lines: names.iter().map(line).collect(),
    }
}

fn kernel_name((algorithm, protocol): &Kernel) -> String {
    format!("{algorithm}/{protocol}")
}

/// Of a policy over all families: what ran, by what would have been best.
pub(super) fn confusion(policy: &str, scores: &[&Score]) -> Grid {
    let mut counts: BTreeMap<(Kernel, Kernel), u64> = BTreeMap::new();
    for (kernels, calls) in scores.iter().flat_map(|it| &it.trials).flat_map(|it| &it.confusion) {
        *counts.entry(*kernels).or_default() += calls;
    }
    let best: BTreeSet<Kernel> = counts.keys().map(|it| it.1).collect();
    let ran: BTreeSet<Kernel> = counts.keys().map(|it| it.0).collect();
    let cell =
        |ran: &Kernel, best: &Kernel| counts.get(&(*ran, *best)).map_or(0.0, |it| *it as f64);
    Grid {
        title: format!("What {policy} ran, by what would have been best"),
        axes: ("the best algorithm/protocol".to_owned(), "what ran".to_owned()),
        rows: best.iter().map(kernel_name).collect(),
        columns: ran.iter().map(kernel_name).collect(),
        cells: best.iter().map(|best| ran.iter().map(|ran| cell(ran, best)).collect()).collect(),
    }
}

/// Of a policy over all families: what ran, by the worst tier of the communicator.
pub(super) fn tiers(policy: &str, scores: &[&Score]) -> Grid {
    let mut counts: BTreeMap<(u8, Kernel), u64> = BTreeMap::new();
    for (at, calls) in scores.iter().flat_map(|it| &it.trials).flat_map(|it| &it.tiers) {
        *counts.entry(*at).or_default() += calls;
    }
    let tiers: BTreeSet<u8> = counts.keys().map(|it| it.0).collect();
    let ran: BTreeSet<Kernel> = counts.keys().map(|it| it.1).collect();
    let cell = |tier: &u8, ran: &Kernel| counts.get(&(*tier, *ran)).map_or(0.0, |it| *it as f64);
    Grid {
        title: format!("What {policy} ran at each tier"),
        axes: ("the communicator's worst tier".to_owned(), "what ran".to_owned()),
        rows: tiers.iter().map(|it| format!("tier {it}")).collect(),
        columns: ran.iter().map(kernel_name).collect(),
        cells: tiers.iter().map(|tier| ran.iter().map(|ran| cell(tier, ran)).collect()).collect(),
    }
}
