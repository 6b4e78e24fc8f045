//! Compares the model of NCCL with a log of nccl-tests. Nothing is fitted: the constants are NCCL's own, and the
//! result says how far they are off on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::kernel::Kernels;
use motet_nccl::{AllToAll, NcclModel, Priced};
use motet_net::Network;
use motet_net::formats::ReadError;
use motet_units::{Bytes, Duration};

use super::super::nccl_tests::{Log, LogCall};
use super::super::report::median;

/// A measured call and its modelled time.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub kind: CollectiveKind,
    pub size: Bytes,
    /// As measured, in µs.
    pub out_of_place: Option<f64>,
    pub in_place: Option<f64>,
    pub modelled: Duration,
    /// Modelled over measured, out of place if that was measured.
    pub ratio: f64,
}

/// All calls of a log with their modelled times.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub calls: Vec<Compared>,
    /// The median of the ratios.
    pub ratio: f64,
    /// The median of how far ratios are from 1.
    pub error: f64,
}

/// Prices every call of a log. `kind` is what was run where the log does not say.
///
/// # Errors
/// If a call is of a collective that is not known or not modelled, the ranks of the log are not
/// the network's, or nothing was timed.
pub fn compare(
    log: &Log,
    kind: Option<CollectiveKind>,
    network: &Network,
    model: &NcclModel,
) -> Result<Comparison, ReadError> {
    let ranks = model.communicator().ranks;
    if let Some(listed) = log.ranks.filter(|it| *it as usize != ranks) {
        let problem = format!("the log has {listed} ranks, and the network {ranks}");
        return Err(ReadError::new(problem).with_remedy("name the network that the log is from"));
    }
    let kernels = Arc::new(Kernels::new(network, model.communicator(), model.options()));
    let priced = Priced::new(network, model, kernels);
    let all_to_all = AllToAll::new(network, model);
    let mut known: BTreeMap<(CollectiveKind, Bytes), Duration> = BTreeMap::new();
    let mut calls = Vec::new();
    for call in &log.calls {
        // nccl-tests times calls of nothing, too.
        let Some(measured) = call.out_of_place.or(call.in_place).filter(|_| !call.size.is_zero())
        else {
            continue;
        };
        let kind = kind_of(call, kind)?;
        let modelled = match (known.get(&(kind, call.size)), kind) {
            (Some(it), _) => Some(*it),
            (None, CollectiveKind::AllToAll) => {
                all_to_all.as_ref().map(|it| it.choose(call.size).time)
            }
            (None, _) => priced.default(kind, call.size).map(|it| it.time),
        };
        let none = || {
            let problem = format!("NCCL is not modelled for {kind} on this network");
            ReadError::new(problem).at_line(call.line)
        };
        let modelled = modelled.ok_or_else(none)?;
        known.insert((kind, call.size), modelled);
        let ratio = modelled.as_us_f64() / measured;
        let (size, out_of_place, in_place) = (call.size, call.out_of_place, call.in_place);
        calls.push(Compared { kind, size, out_of_place, in_place, modelled, ratio });
    }
    if calls.is_empty() {
        return Err(ReadError::new("the log has no time of a call that moves anything"));
    }
    let ratio = median(calls.iter().map(|it| it.ratio));
    let error = median(calls.iter().map(|it| (it.ratio - 1.0).abs()));
    Ok(Comparison { calls, ratio, error })
}

fn kind_of(call: &LogCall, given: Option<CollectiveKind>) -> Result<CollectiveKind, ReadError> {
    let unknown = || {
        ReadError::new("the log does not say which collective was run")
            .at_line(call.line)
            .with_remedy("say it with `--collective`")
    };
    match (call.kind, given) {
        (Some(kind), Some(given)) if kind != given => {
            let problem = format!("the log is of {kind}, not of {given}");
            Err(ReadError::new(problem).at_line(call.line))
        }
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
        (None, None) => Err(unknown()),
    }
}
