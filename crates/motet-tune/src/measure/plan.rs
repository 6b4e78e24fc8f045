//! A plan of measured points: what was measured overrules what was modelled, and every pick says which it is.
//!
//! NCCL alone is measured, so such a plan has no programs for other runtimes. Where the budget did not reach, a task is as NCCL's model has it, and
//! left to NCCL unless the model's best gains the margin, as in any other plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_nccl::{Basis, Protocol};
use motet_net::{Network, Signature};

use super::point::Times;
use super::{Point, Setting, Task};
use crate::plan::make::{Nccl, bounds};
use crate::plan::table;
use crate::plan::tune::kept;
use crate::plan::{
    MscclppUse, Pick, Plan, PlanError, Request, Runtime, Setup, TunedTask, baseline,
};

/// The file of a plan that has all its measurements.
pub const MEASURED: &str = "nccl/measured.csv";

/// What NCCL was when it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// Such as `2.28.9`.
    pub nccl: String,
    /// As NCCL counts them on the communicator; none if no tuner was asked.
    pub nodes: Option<u32>,
    pub points: Vec<Point>,
}

/// Makes a plan.
///
/// # Errors
/// When a task was not measured and NCCL cannot be modelled on this network either.
pub fn plan(
    network: &Network,
    request: &Request,
    measured: &Measurements,
) -> Result<Plan, PlanError> {
    let nccl = Nccl::new(network, Setup::default());
    let priced = nccl.priced(network);
    let points: BTreeMap<Task, &Point> = measured.points.iter().map(|it| (it.task(), it)).collect();
    let mut tasks = Vec::new();
    for kind in &request.collectives {
        let found = bounds(network, &nccl, *kind, &request.sizes)?;
        for (size, bound) in request.sizes.iter().zip(found) {
            let point = points.get(&Task { kind: *kind, size: *size });
            let modelled =
                |of: fn(&_, _, _) -> _| priced.as_ref().and_then(|it| of(it, *kind, *size));
            let (own, best) = match point {
                Some(point) => (own(point), best(point)),
                None => (modelled(baseline::nccl), modelled(baseline::nccl_best)),
            };
            let pick = match point {
                Some(point) if point.choice() != Setting::Own => best.clone(),
                Some(_) => own.clone(),
                None => kept(own.as_ref(), best.as_ref(), request.margin_percent).cloned(),
            };
            tasks.push(TunedTask {
                collective: *kind,
                size_bytes: size.get(),
                bound_ps: bound.as_ps(),
                pick: pick.ok_or(PlanError::NoWay(*kind))?,
                mscclpp: None,
                nccl: own,
                nccl_best: best,
                program: None,
                msccl: None,
                sketch_only: None,
                knobs_only: None,
                // As many settings as there are in NCCL's tables at most.
                trials: point.map_or(0, |it| it.times.len() as u32),
            });
        }
    }
    let nodes = nccl.model.as_ref().map_or(1, |it| it.communicator().nodes);
    let nodes = measured.nodes.unwrap_or(u32::try_from(nodes).unwrap_or(u32::MAX));
    Ok(Plan {
        network: network.name().to_owned(),
        signature: Signature::of(network),
        ranks: u32::try_from(network.ranks().len()).unwrap_or(u32::MAX),
        nodes,
        seed: request.seed,
        margin_percent: request.margin_percent,
        most_blocks: request.most_blocks.unwrap_or_else(|| nccl.blocks()),
        mscclpp: MscclppUse::default(),
        setup: Setup::default(),
        tasks,
        candidates: Vec::new(),
        left_out: Vec::new(),
    })
}

/// What NCCL does by itself. Its algorithm is known as far as its table tells.
fn own(point: &Point) -> Option<Pick> {
    let times = point.of(Setting::Own).filter(|it| !it.ps.is_empty())?;
    Some(pick(point.own_is.unwrap_or(Setting::Own), times))
}

/// The best that was measured: the winner, or else the fastest in the middle.
fn best(point: &Point) -> Option<Pick> {
    if let Some(times) = point.winner.and_then(|it| point.of(it)) {
        return Some(pick(times.setting, times));
    }
    own(point)
}

fn pick(setting: Setting, times: &Times) -> Pick {
    let (algorithm, protocol, channels) = match setting {
        Setting::Own => (None, Protocol::Simple, None),
        Setting::Asked { algorithm, protocol, channels } => (Some(algorithm), protocol, channels),
    };
    Pick {
        runtime: Runtime::Nccl,
        way: algorithm.map_or("NCCL's own", |it| it.name()).to_owned(),
        algorithm,
        protocol,
        // How many NCCL takes by itself a tuner is not told.
        channels: channels.unwrap_or(0),
        asked: channels.is_some(),
        instances: 1,
        packed: false,
        blocks: channels.unwrap_or(0),
        time_ps: times.median().as_ps(),
        basis: Basis::Measured,
    }
}

/// The measurements as a table: what `motet calibrate` reads, and where a plan's times come from.
#[must_use]
pub fn csv(measured: &Measurements, ranks: u32) -> String {
    let mut out = String::from(
        "nccl,ranks,nodes,collective,bytes,algorithm,protocol,channels,chunk,rounds,us,least_us,most_us\n",
    );
    let nodes = measured.nodes.map_or_else(String::new, |it| it.to_string());
    for point in &measured.points {
        for times in point.times.iter().filter(|it| !it.ps.is_empty()) {
            let (algorithm, protocol, channels) = match times.setting {
                Setting::Own => (String::new(), String::new(), String::new()),
                Setting::Asked { algorithm, protocol, channels } => {
                    let (algorithm, protocol) = table::runtime(algorithm, protocol);
                    let channels = channels.map_or_else(String::new, |it| it.to_string());
                    (algorithm.name().to_owned(), protocol.name().to_owned(), channels)
                }
            };
            let us = |it: motet_units::Duration| format!("{:.6}", it.as_us_f64());
            let (least, most) = times.spread();
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{},{ranks},{nodes},{},{},{algorithm},{protocol},{channels},,{},{},{},{}",
                measured.nccl,
                point.collective,
                point.size_bytes,
                times.ps.len(),
                us(times.median()),
                us(least),
                us(most)
            );
        }
    }
    out
}

/// Whether the table has a pick's time for a task; `own` is NCCL asked for nothing.
pub(crate) fn is_measured(csv: &str, task: &TunedTask, pick: &Pick, own: bool) -> bool {
    let (algorithm, protocol, channels) = match pick.algorithm.filter(|_| !own) {
        None => ("", "", String::new()),
        Some(algorithm) => {
            let (algorithm, protocol) = table::runtime(algorithm, pick.protocol);
            let channels = if pick.asked { pick.channels.to_string() } else { String::new() };
            (algorithm.name(), protocol.name(), channels)
        }
    };
    let (kind, size) = (task.collective.name(), task.size_bytes.to_string());
    let time = format!("{:.6}", pick.time().as_us_f64());
    let wanted = [kind, &size, algorithm, protocol, &channels, "", &time];
    csv.lines().any(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        // All but the version, ranks, nodes, rounds and the spread.
        cells.len() == 13 && cells[3..9].iter().chain(&cells[10..11]).eq(&wanted)
    })
}
