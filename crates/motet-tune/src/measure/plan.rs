//! A plan of measured points: measured times replace those of the model, and every pick says which of the two it has.
//!
//! NCCL alone is measured, so such a plan has no programs for other runtimes. Where the budget did not reach, a task has
//! the model's times and is left to NCCL.

use std::collections::BTreeMap;

use motet_nccl::{Algorithm, Basis, Protocol};
use motet_net::{Network, Signature};

use super::point::Times;
use super::{Point, Setting, Task};
use crate::calibrate::nccl::NcclCall;
use crate::plan::make::{Nccl, bounds};
use crate::plan::{
    MscclppUse, Pick, Plan, PlanError, Request, Runtime, Setup, TunedTask, baseline,
};

/// The name of the file that has all measurements of a plan.
pub const MEASURED: &str = "nccl/measured.csv";

/// All measurements, and the NCCL that they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// NCCL's version, such as `2.28.9`.
    pub nccl: String,
    /// The nodes of the communicator as NCCL counts them, which it tells a tuner plugin; `None` if it asked none.
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
    for (kind, sizes) in &request.tasks {
        let found = bounds(network, &nccl, *kind, sizes)?;
        for (size, bound) in sizes.iter().zip(found) {
            let point = points.get(&Task { kind: *kind, size: *size });
            let modelled =
                |of: fn(&_, _, _) -> _| priced.as_ref().and_then(|it| of(it, *kind, *size));
            let (own, best) = match point {
                Some(point) => (own(point), best(point)),
                None => (modelled(baseline::nccl), modelled(baseline::nccl_best)),
            };
            let pick = match point {
                Some(point) if point.choice() != Setting::Own => best.clone(),
                // Also where nothing was measured: beside what was, a model's word is not enough to ask for anything.
                _ => own.clone().or_else(|| best.clone()),
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

/// NCCL's own choice with its measured time. Its algorithm is known as far as NCCL's cost table shows it.
fn own(point: &Point) -> Option<Pick> {
    let times = point.of(Setting::Own).filter(|it| !it.ps.is_empty())?;
    Some(pick(point.own_is.unwrap_or(Setting::Own), times))
}

/// The best that was measured: the winner, or NCCL's own choice if there is none.
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
        // NCCL does not tell a tuner how many channels it takes by itself.
        channels: channels.unwrap_or(0),
        asked: channels.is_some(),
        instances: 1,
        packed: false,
        blocks: channels.unwrap_or(0),
        time_ps: times.median().as_ps(),
        basis: Basis::Measured,
    }
}

/// The measurements as calls: what `motet calibrate` reads, and where a plan's times come from. Calls by NCCL's own
/// choice have neither algorithm nor protocol.
#[must_use]
pub fn calls(measured: &Measurements, ranks: u32) -> Vec<NcclCall> {
    let of = |point: &Point, times: &Times| {
        let (algorithm, protocol, channels) = parts(times.setting);
        let (least, most) = times.spread();
        NcclCall {
            nccl: measured.nccl.parse().ok(),
            ranks: Some(ranks),
            nodes: measured.nodes,
            collective: point.collective,
            size: point.task().size,
            algorithm,
            protocol,
            channels,
            chunk: None,
            rounds: u32::try_from(times.ps.len()).ok(),
            micros: times.median().as_us_f64(),
            least: Some(least.as_us_f64()),
            most: Some(most.as_us_f64()),
        }
    };
    let all = measured.points.iter().flat_map(|point| {
        let timed = point.times.iter().filter(|it| !it.ps.is_empty());
        timed.map(move |it| of(point, it))
    });
    all.collect()
}

const fn parts(setting: Setting) -> (Option<Algorithm>, Option<Protocol>, Option<u32>) {
    match setting {
        Setting::Own => (None, None, None),
        Setting::Asked { algorithm, protocol, channels } => {
            (Some(algorithm), Some(protocol), channels)
        }
    }
}

/// Whether a pick's time for a task is among the calls; `own` says that the pick leaves the choice to NCCL.
pub(crate) fn is_measured(calls: &[NcclCall], task: &TunedTask, pick: &Pick, own: bool) -> bool {
    let asked = pick.algorithm.filter(|_| !own);
    let protocol = asked.map(|_| pick.protocol);
    let channels = Some(pick.channels).filter(|_| pick.asked && !own);
    let same = |it: &&NcclCall| {
        (it.collective, it.size) == (task.collective, task.size())
            && (it.algorithm, it.protocol, it.channels) == (asked, protocol, channels)
    };
    // Written with all its digits, so read as the same number.
    calls.iter().filter(same).any(|it| it.micros.to_bits() == pick.time().as_us_f64().to_bits())
}
