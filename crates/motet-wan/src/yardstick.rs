//! What a run is measured against: the lower bound, and the best program in hindsight.
//!
//! *Hindsight* looks back at single collectives. It knows the state that the collective ran in, makes
//! programs for exactly that state, routes them and all programs of the modes' pools freely, and
//! takes the fastest; where a mode was faster still, it takes that. Making and moving cost it
//! nothing. It does not know more of the future than the modes do, since a state stays the same
//! during a collective, and it is not an optimum: a better program may exist, down to the bound.
//!
//! The bound, hindsight and the tightest cut between regions are computed for an evenly spread sample of the
//! collectives only; the report says so.

use motet_collective::{Program, Verified};
use motet_net::NetworkState;
use motet_synth::{Effort, Method, Repairer, SynthError, Task, synthesize};
use motet_units::{Duration, Instant};
use rayon::prelude::*;

use crate::account::Account;
use crate::built::{Bench, Built};
use crate::cut::RegionCut;
use crate::error::WanError;
use crate::fault;
use crate::mode::Strength;
use crate::programs::{Rebuilder, if_possible};
use crate::route_table::RouteTable;
use crate::routes::Loads;
use crate::scenario::Scenario;
use crate::variation::{Course, Variation};

/// Means over a sample of the collectives.
#[derive(Clone, Debug, PartialEq)]
pub struct Yardstick {
    /// The numbers of the sampled collectives.
    pub sampled: Vec<u32>,
    /// The mean of the lower bounds.
    pub bound: Duration,
    /// The fastest program found for the exact state of each collective.
    pub hindsight: Duration,
    /// The tightest cuts between regions and how often each was tightest, most frequent first.
    pub cuts: Vec<(RegionCut, u32)>,
}

/// The result for one collective of the sample.
struct Found {
    bound: Duration,
    hindsight: Duration,
    cut: Option<RegionCut>,
}

/// Measures on `sample` of the collectives. A trace and faults, which go by the clock, are taken
/// as they are at the start; otherwise what `modes` took on the same collectives, in the same
/// states, is open to hindsight too.
pub fn measure(
    scenario: &Scenario<'_>,
    sample: u32,
    modes: &[&Account],
) -> Result<Yardstick, WanError> {
    let states = states(scenario, sample);
    let mut table = RouteTable::of(scenario);
    let mut pools = Vec::new();
    for asked in &scenario.collectives {
        let of = |strength| Rebuilder::new(scenario, asked, &mut table, Some(strength));
        pools.push([Strength::Remap, Strength::Synth].map(of));
    }
    let mut known: Vec<Vec<Rebuilder<'_>>> = Vec::new();
    for pool in pools {
        known.push(pool.into_iter().collect::<Result<_, _>>()?);
    }
    let by_clock = !scenario.faults.is_empty() || matches!(scenario.variation, Variation::Trace(_));
    let found: Result<Vec<Found>, WanError> = states
        .par_iter()
        .map(|(index, state)| {
            let which = *index as usize % scenario.collectives.len();
            let mut found = one(scenario, which, state, &known[which], table.clone())?;
            if !by_clock {
                let took = modes.iter().filter_map(|it| it.times.get(*index as usize));
                found.hindsight = took.copied().fold(found.hindsight, Duration::min);
            }
            Ok(found)
        })
        .collect();
    let found = found?;
    let mean = |of: &dyn Fn(&Found) -> Duration| {
        let sum: u128 = found.iter().map(|it| u128::from(of(it).as_ps())).sum();
        Duration::from_ps((sum / found.len().max(1) as u128) as u64)
    };
    Ok(Yardstick {
        sampled: states.iter().map(|it| it.0).collect(),
        bound: mean(&|it| it.bound),
        hindsight: mean(&|it| it.hindsight),
        cuts: counted(found.iter().filter_map(|it| it.cut.as_ref())),
    })
}

/// The states that the sampled collectives find.
fn states(scenario: &Scenario<'_>, sample: u32) -> Vec<(u32, NetworkState)> {
    let sample = sample.clamp(1, scenario.count.max(1));
    let step = (scenario.count / sample).max(1);
    let mut course = Course::new(scenario.network, &scenario.variation, scenario.seed);
    let mut states = Vec::new();
    for index in 0..scenario.count {
        let (state, _) = course.state(index, Instant::START);
        if index % step == 0 && states.len() < sample as usize {
            let mut state = state.clone();
            fault::apply(&scenario.faults, Instant::START, &mut state);
            states.push((index, state));
        }
    }
    states
}

fn one(
    scenario: &Scenario<'_>,
    which: usize,
    state: &NetworkState,
    pools: &[Rebuilder<'_>],
    mut table: RouteTable<'_>,
) -> Result<Found, WanError> {
    let asked = &scenario.collectives[which];
    let task = Task::new(scenario.network, asked.goal.clone(), asked.size).in_state(state.clone());
    let made: Vec<Built> = made(scenario, &task)?
        .into_iter()
        .map(|it| Built::new("hindsight", it, asked.size, &mut table, scenario.routes.split))
        .collect::<Result<_, _>>()?;
    let (mut loads, mut bench) = (Loads::default(), Bench::default());
    let known = pools.iter().flat_map(Rebuilder::programs);
    let times = known.chain(&made).filter_map(|it| loads.best(it, None, state, &mut bench));
    let hindsight = times.map(|it| it.time).min();
    Ok(Found {
        bound: task.bound()?.program_time(asked.size),
        hindsight: hindsight.ok_or_else(|| stuck(which))?,
        cut: RegionCut::of(scenario.network, state, asked),
    })
}

fn stuck(index: usize) -> WanError {
    let problem = "no program can run in a state that was sampled".to_owned();
    WanError::Stuck { index: index as u32, problem }
}

/// Programs made for one state: repaired, and anew.
fn made(scenario: &Scenario<'_>, task: &Task<'_>) -> Result<Vec<Verified<Program>>, WanError> {
    let effort = Effort::unlimited(scenario.seed);
    let anew = synthesize(task, Method::Auto, &effort)?.prove(task)?.program;
    let repaired = if_possible(Repairer::new(task).and_then(|it| it.repair(&task.state)))?;
    let repaired = repaired.map(|it| verified(it.program, task)).transpose()?;
    Ok([Some(anew), repaired].into_iter().flatten().collect())
}

fn verified(program: Program, task: &Task<'_>) -> Result<Verified<Program>, SynthError> {
    Verified::new(program, Some(task.network))
        .map_err(|it| SynthError::Wrong { method: "repair", report: it.report.to_string() })
}

/// Each cut once, with its links' mean bandwidth, and how often it is there; most often first.
fn counted<'a>(cuts: impl Iterator<Item = &'a RegionCut>) -> Vec<(RegionCut, u32)> {
    let mut known: Vec<(RegionCut, u32, f64)> = Vec::new();
    for cut in cuts {
        let bits = cut.bandwidth.bits_per_s() as f64;
        match known.iter_mut().find(|it| it.0.is_same(cut)) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + bits),
            None => known.push((cut.clone(), 1, bits)),
        }
    }
    known.sort_by_key(|it| std::cmp::Reverse(it.1));
    let averaged = |(mut cut, count, sum): (RegionCut, u32, f64)| {
        let mean = (sum / f64::from(count)).round() as u64;
        cut.bandwidth = motet_units::Bandwidth::from_bits_per_s(mean);
        (cut, count)
    };
    known.into_iter().map(averaged).collect()
}
