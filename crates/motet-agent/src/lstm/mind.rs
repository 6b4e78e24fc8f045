//! [`Mind`]: a network with its enabled parts, used alike in training and in jobs, so that both decide the same way.

use std::sync::Arc;

use super::features::{Catalogue, Nominal};
use super::file::{PolicyFile, Variant};
use super::forward::NetStep;
use super::input::Input;
use super::memory::{Ledger, Memory};
use super::net::Net;
use super::odds::{Faced, Odds};
use crate::gate::Expert;
use crate::state::{Anomaly, State};

/// A network and which of its parts are enabled.
#[derive(Clone, Copy, Debug)]
pub struct Mind<'a> {
    pub net: &'a Net,
    pub variant: Variant,
}

impl<'a> From<&'a PolicyFile> for Mind<'a> {
    fn from(policy: &'a PolicyFile) -> Self {
        Self { net: &policy.net, variant: policy.variant }
    }
}

/// A call in the form that the network needs.
#[derive(Clone, Copy, Debug)]
pub struct Facing<'a> {
    pub state: &'a State,
    /// The expert that the gate has chosen.
    pub expert: Expert,
    pub catalogue: &'a Arc<Catalogue>,
    pub nominal: &'a Nominal,
}

impl Mind<'_> {
    /// Runs the network on a call and updates the memory; returns the network's outputs, the actions' features, and the odds.
    #[must_use]
    pub fn think(&self, call: &Facing<'_>, memory: &mut Memory) -> (NetStep, Faced, Odds) {
        let variant = self.variant;
        if !variant.recurrent {
            memory.forget_state();
        }
        let anomaly = if variant.trigger { call.state.anomaly } else { Anomaly::default() };
        let state = State { anomaly, ..*call.state };
        let input = Input::new(&state, memory.last().filter(|_| variant.last));
        let expert = if variant.experts { call.expert } else { Expert::Shared };
        let step = self.net.step(input, expert, memory);
        let empty = (!variant.ledger).then(Ledger::new);
        let ledger = empty.as_ref().unwrap_or(memory.ledger());
        let unknown = (!variant.nominal).then(|| Nominal::unknown(call.catalogue.len()));
        let nominal = unknown.as_ref().unwrap_or(call.nominal);
        let task = (state.call.kind, state.call.bytes);
        let faced = Faced::new(call.catalogue, nominal, ledger, task);
        let odds = Odds::of(&step.rows, &faced);
        (step, faced, odds)
    }
}
