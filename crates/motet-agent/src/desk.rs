//! [`Desk`]: adapts a policy to callers that have no scenario, only the calls of one communicator: the leader of a live job
//! ([`pilot`](crate::pilot)), or another simulation ([`hand`](crate::hand)).
//!
//! Such callers know the communicator's topology, the calls and how long they took, but not the job's model, its schedule or
//! the rhythm of its calls. Those parts of the [`State`] are left blank.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::NcclTerms;
use motet_units::{Bytes, Duration};

use crate::action::Action;
use crate::env::{Brief, Observation};
use crate::gate::{Experts, gate};
use crate::policy::{Choice, Policy};
use crate::reward::{Outcome, SMS};
use crate::state::{CallState, LastKnobs, State, Topology};
use crate::trigger::Trigger;

/// The recurring call that a question or an outcome is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topic<'a> {
    pub(crate) number: usize,
    pub(crate) kind: CollectiveKind,
    pub(crate) bytes: Bytes,
    pub(crate) brief: &'a Arc<Brief>,
}

/// A policy with the state that it needs for one communicator.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) policy: Box<dyn Policy>,
    topology: Topology,
    terms: NcclTerms,
    trigger: Trigger,
    experts: Experts,
    last: Option<LastKnobs>,
    /// How many outcomes were learned.
    calls: u64,
}

impl Desk {
    pub(crate) fn new(policy: Box<dyn Policy>, topology: Topology, terms: NcclTerms) -> Self {
        Self {
            policy,
            topology,
            terms,
            trigger: Trigger::default(),
            experts: Experts::default(),
            last: None,
            calls: 0,
        }
    }

    fn observe(&self, topic: Topic<'_>) -> Observation {
        let state = State {
            topology: self.topology,
            call: CallState { last: self.last, ..CallState::first(topic.kind, topic.bytes) },
            anomaly: self.trigger.anomaly(),
            ..State::BLANK
        };
        Observation {
            call: self.calls,
            task: topic.number,
            group: 0,
            gate: gate(&state, &self.experts),
            state,
            brief: Arc::clone(topic.brief),
            terms: self.terms,
            // A caller's unit of decision is equally long whether it is a trial or not.
            lease: 1,
        }
    }

    /// The choice for a call, by the gates or else by the policy.
    pub(crate) fn choose(&mut self, topic: Topic<'_>) -> Choice {
        let seen = self.observe(topic);
        seen.settled().unwrap_or_else(|| self.policy.choose(&seen))
    }

    /// Reports the outcome of a choice. `switched` says whether another action was in use before.
    pub(crate) fn learn(&mut self, topic: Topic<'_>, choice: Choice, micros: f64, switched: bool) {
        let seen = self.observe(topic);
        let (brief, action) = (&seen.brief, choice.action);
        let us = |it: f64| Duration::from_ps((it * 1e6) as u64);
        let reference = if brief.nominal[0].is_finite() { brief.nominal[0] } else { micros };
        let outcome = Outcome {
            action: brief.space.get(action).unwrap_or(Action::DEFAULT),
            time: us(micros),
            reference: us(reference),
            switched,
            congestion: seen.state.anomaly.congestion,
            exploratory: choice.exploratory,
            loss_change: None,
            sms: (brief.channels[action], SMS),
            worst_tier: seen.state.topology.worst_tier(),
            fault: false,
        };
        self.policy.learn(&seen, &choice, &outcome);
        self.trigger.step(&seen, action, &outcome);
        let (algorithm, protocol) = brief.kernels[action];
        let threads = motet_nccl::knobs::most_threads(protocol);
        let channels = brief.channels[action];
        self.last = Some(LastKnobs { algorithm, protocol, channels, threads });
        self.calls += 1;
    }
}
