//! [`Samples`]: measured calls beside the plans that they ran.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::formats::mscclpp_json;
use motet_nccl::mscclpp::{PlanCost, Sample, Sharing};
use motet_net::Network;
use rayon::prelude::*;
use thiserror::Error;

use super::entry::Entry;
use super::results::Measured;

/// Where the calls were measured.
#[derive(Clone, Copy, Debug)]
pub enum Machine<'a> {
    /// All ranks on one GPU, joined by its memory alone.
    OneGpu,
    /// On a network's first GPUs, so many ranks on each.
    Network { network: &'a Network, ranks_per_gpu: u32 },
}

/// How many calls cannot be used for fitting, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their plan is not at hand, and its name does not say how to make it.
    pub no_plan: u64,
    /// The plan has other thread blocks than its name says, or does not fit the GPU.
    pub another_shape: u64,
    /// The plan has operations that are not priced.
    pub not_priced: u64,
}

/// Why terms cannot be fitted to measurements.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalibrateError {
    /// A plan that cannot be read or priced.
    #[error("the plan `{name}`: {problem}")]
    Plan { name: String, problem: String },
    #[error("{found} calls are too few to find {terms} terms by")]
    TooFew { found: usize, terms: usize },
}

/// Calls with their plans, in an order that does not depend on that of the files.
#[derive(Clone, Debug)]
pub struct Samples {
    plans: BTreeMap<String, PlanCost>,
    calls: Vec<Measured>,
    pub left_out: LeftOut,
}

/// What the search for the plan of a call found.
enum Found {
    Priced(Box<PlanCost>),
    NoPlan,
    AnotherShape,
    NotPriced,
}

impl Samples {
    /// Finds the plan of every call: the text that `text` gives for its name or, if it gives none, the plan that the
    /// name [describes](Entry).
    ///
    /// # Errors
    /// If a text is no plan, or a plan cannot run on the machine.
    pub fn new(
        calls: Vec<Measured>,
        machine: Machine<'_>,
        text: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<Self, CalibrateError> {
        let names: BTreeSet<String> = calls.iter().map(|it| it.plan.clone()).collect();
        let find = |name: String| {
            let problem = |problem| CalibrateError::Plan { name: name.clone(), problem };
            let found = find(&name, machine, text(&name)).map_err(problem)?;
            Ok((name, found))
        };
        let found: Result<BTreeMap<String, Found>, CalibrateError> =
            names.into_par_iter().map(find).collect();
        let found = found?;
        let mut left_out = LeftOut::default();
        let mut kept = Vec::with_capacity(calls.len());
        for call in calls {
            match found.get(&call.plan) {
                Some(Found::Priced(plan)) => {
                    let collective = &plan.outline.collective;
                    let key = (collective.kind(), collective.ranks(), call.size);
                    kept.push((key, call));
                }
                Some(Found::AnotherShape) => left_out.another_shape += 1,
                Some(Found::NotPriced) => left_out.not_priced += 1,
                Some(Found::NoPlan) | None => left_out.no_plan += 1,
            }
        }
        kept.sort_by(|(key, a), (other, b)| {
            key.cmp(other).then(a.plan.cmp(&b.plan)).then(a.micros.total_cmp(&b.micros))
        });
        let plans = found.into_iter().filter_map(|(name, found)| match found {
            Found::Priced(plan) => Some((name, *plan)),
            _ => None,
        });
        let calls = kept.into_iter().map(|it| it.1).collect();
        Ok(Self { plans: plans.collect(), calls, left_out })
    }

    /// Each call with its plan's name, in order.
    #[must_use]
    pub fn list(&self) -> Vec<(&str, Sample<'_>)> {
        let sample = |it: &'_ Measured| {
            let (name, plan) = self.plans.get_key_value(&it.plan)?;
            Some((name.as_str(), Sample { plan, size: it.size, micros: it.micros }))
        };
        self.calls.iter().filter_map(sample).collect()
    }

    #[must_use]
    pub fn plans(&self) -> usize {
        self.plans.len()
    }
}

fn find(name: &str, machine: Machine<'_>, text: Option<String>) -> Result<Found, String> {
    let entry = Entry::of_name(name);
    let text = match (text, &entry) {
        (Some(text), _) => text,
        (None, None) => return Ok(Found::NoPlan),
        (None, Some(entry)) => {
            let sharing = match machine {
                Machine::OneGpu => entry.ranks,
                Machine::Network { ranks_per_gpu, .. } => ranks_per_gpu,
            };
            match entry.plan(sharing) {
                Some(text) => text,
                None => return Ok(Found::AnotherShape),
            }
        }
    };
    let Some(cost) = cost(&text, machine)? else { return Ok(Found::NotPriced) };
    let says = entry.map(|it| it.blocks());
    if says.is_some_and(|it| it != cost.outline.most_blocks()) {
        return Ok(Found::AnotherShape);
    }
    Ok(Found::Priced(Box::new(cost)))
}

fn cost(text: &str, machine: Machine<'_>) -> Result<Option<PlanCost>, String> {
    match machine {
        Machine::OneGpu => PlanCost::on_one_gpu(text).map_err(|it| it.to_string()),
        Machine::Network { network, ranks_per_gpu } => {
            let read = mscclpp_json::read(text).map_err(|it| it.to_string())?;
            let program = read.verify(None).map_err(|it| it.to_string())?;
            PlanCost::on_network(text, &program, network, Sharing { ranks_per_gpu }).map(Some)
        }
    }
}
