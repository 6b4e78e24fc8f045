//! [`Mind`]: a network and which of its parts are on: what training plays lives with and what a job is decided by, so
//! that both see the same.

use std::sync::Arc;

use super::features::{Catalogue, Nominal};
use super::file::{PolicyFile, Variant};
use super::forward::Step;
use super::input::Input;
use super::memory::{Ledger, Memory};
use super::net::Net;
use super::odds::{Faced, Odds};
use crate::gate::Expert;
use crate::state::{Anomaly, State};

/// See the [module](self).
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

/// A call as a network faces it.
#[derive(Clone, Copy, Debug)]
pub struct Facing<'a> {
    pub state: &'a State,
    /// The gate's.
    pub expert: Expert,
    pub catalogue: &'a Arc<Catalogue>,
    pub nominal: &'a Nominal,
}

impl Mind<'_> {
    /// Reads a call and moves the memory on: what the network found, what it faced, and the odds.
    #[must_use]
    pub fn think(&self, call: &Facing<'_>, memory: &mut Memory) -> (Step, Faced, Odds) {
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
