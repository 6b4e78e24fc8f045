//! [`Desk`]: a policy that is asked about the calls of one communicator by somebody who has no scenario: the leader of a live
//! job ([`pilot`](crate::pilot)), or a simulation of something else ([`hand`](crate::hand)).
//!
//! They know where the communicator lies, what is called and how long it took. The job's model, its schedule and the rhythm of its
//! calls they do not know: those parts of the [`State`] are blank.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::NcclTerms;
use motet_units::{Bytes, Duration};

use crate::action::Action;
use crate::env::{Brief, Observation};
use crate::gate::{Experts, gate};
use crate::policy::{Choice, Policy};
use crate::reward::Outcome;
use crate::state::{CallState, LastKnobs, State, Topology};
use crate::trigger::Trigger;

/// What is asked about: a call that comes again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topic<'a> {
    pub(crate) number: usize,
    pub(crate) kind: CollectiveKind,
    pub(crate) bytes: Bytes,
    pub(crate) brief: &'a Arc<Brief>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) policy: Box<dyn Policy>,
    topology: Topology,
    terms: NcclTerms,
    trigger: Trigger,
    experts: Experts,
    last: Option<LastKnobs>,
    /// What was learned so far.
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
            // What one call is here is as long whether it is a trial or not.
            lease: 1,
        }
    }

    /// What the gates or the policy say of a call.
    pub(crate) fn choose(&mut self, topic: Topic<'_>) -> Choice {
        let seen = self.observe(topic);
        seen.settled().unwrap_or_else(|| self.policy.choose(&seen))
    }

    /// What came of a choice. `switched`: another one was in use before.
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
            sms: (brief.channels[action], 132),
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
