//! [`Lstm`]: the trained network as a [`Policy`].
//!
//! It always takes the most probable action, so it is a deterministic function of its inputs; it explores only where training found
//! that to pay. Each communicator has a memory and a trigger of its own.
//! A choice takes some microseconds: it belongs off the call path ([`distill`](crate::distill) makes tables of it).

use std::sync::Arc;

use motet_runtime::Checksum;
use motet_units::Duration;

use super::features::{Catalogue, Nominal};
use super::file::PolicyFile;
use super::memory::{Memory, Seen};
use super::mind::{Facing, Mind};
use crate::env::{Brief, Observation};
use crate::gate::{Expert, Verdict};
use crate::policy::{Choice, Policy};
use crate::reward::Outcome;
use crate::state::{Anomaly, State};
use crate::trigger::Trigger;

/// A task's actions in the form that the network needs; made once for each task.
#[derive(Clone, Debug)]
pub(crate) struct Briefed {
    brief: Arc<Brief>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) nominal: Arc<Nominal>,
    /// The least nominal time, in µs.
    least: f64,
}

impl Briefed {
    pub(crate) fn new(brief: &Arc<Brief>) -> Self {
        let comes_to = |it: usize| {
            let (algorithm, protocol) = *brief.kernels.get(it)?;
            Some((algorithm, protocol, *brief.channels.get(it)?))
        };
        Self {
            catalogue: Catalogue::resolved(&brief.space, comes_to).into(),
            nominal: Nominal::of(brief.nominal.iter().copied()).into(),
            least: brief.nominal.iter().copied().fold(f64::INFINITY, f64::min),
            brief: Arc::clone(brief),
        }
    }

    /// The logarithm of a time in µs over the least nominal one.
    pub(crate) fn lost(&self, micros: f64) -> f64 {
        libm::log(micros.max(1e-6) / self.least.max(1e-6))
    }

    /// The result of a call, as a memory keeps it.
    pub(crate) fn seen(&self, seen: &Observation, action: usize, outcome: &Outcome) -> Seen {
        let micros = |it: f64| Duration::from_ps((it * 1e6) as u64);
        let nominal = self.brief.nominal.get(action).copied().unwrap_or(self.least);
        let call = (seen.state.call.kind, seen.state.call.bytes);
        let did = (outcome.action, self.catalogue.kernel(action));
        Seen::new(call, did, outcome.time, micros(nominal), micros(self.least))
    }
}

/// The expert that a gate's verdict names.
pub(crate) const fn expert(verdict: Verdict) -> Expert {
    match verdict {
        Verdict::Policy(expert) => expert,
        Verdict::Passthrough | Verdict::LibraryDefault => Expert::Shared,
    }
}

/// What a trigger says, as numbers.
fn signals(trigger: &Trigger) -> [f32; 3] {
    let Anomaly { cusum, reconstruction, congestion } = trigger.anomaly();
    [cusum, reconstruction, congestion].map(|it| it as f32)
}

/// The trained network as a policy.
#[derive(Clone, Debug)]
pub struct Lstm {
    policy: Arc<PolicyFile>,
    memories: Vec<Memory>,
    /// One for each communicator, like `memories`; the network sees their signals.
    triggers: Vec<Trigger>,
    tasks: Vec<Option<Briefed>>,
}

impl Lstm {
    #[must_use]
    pub fn new(policy: Arc<PolicyFile>) -> Self {
        Self { policy, memories: Vec::new(), triggers: Vec::new(), tasks: Vec::new() }
    }

    /// The observed task in the form that the network needs, made anew if its brief has changed.
    fn briefed(&mut self, seen: &Observation) -> Briefed {
        if self.tasks.len() <= seen.task {
            self.tasks.resize(seen.task + 1, None);
        }
        let slot = &mut self.tasks[seen.task];
        match slot {
            Some(known) if Arc::ptr_eq(&known.brief, &seen.brief) => known.clone(),
            _ => slot.insert(Briefed::new(&seen.brief)).clone(),
        }
    }

    fn memory(&mut self, group: usize) -> &mut Memory {
        let shape = self.policy.net.shape();
        if self.memories.len() <= group {
            self.memories.resize_with(group + 1, || Memory::new(shape));
            self.triggers.resize_with(group + 1, Trigger::default);
        }
        &mut self.memories[group]
    }
}

impl Policy for Lstm {
    fn name(&self) -> &'static str {
        "lstm"
    }

    fn choose(&mut self, seen: &Observation) -> Choice {
        let task = self.briefed(seen);
        let policy = Arc::clone(&self.policy);
        self.memory(seen.group);
        let state = State { anomaly: self.triggers[seen.group].anomaly(), ..seen.state };
        let call = Facing {
            state: &state,
            expert: expert(seen.gate.verdict),
            catalogue: &task.catalogue,
            nominal: &task.nominal,
        };
        let (_, _, odds) = Mind::from(&*policy).think(&call, self.memory(seen.group));
        Choice::best(odds.best())
    }

    fn learn(&mut self, seen: &Observation, choice: &Choice, outcome: &Outcome) {
        let came_out = self.briefed(seen).seen(seen, choice.action, outcome);
        self.memory(seen.group).learn(came_out);
        self.triggers[seen.group].step(seen, choice.action, outcome);
    }

    fn reset(&mut self) {
        self.memories.clear();
        self.triggers.clear();
    }

    fn checksum(&self) -> Checksum {
        let bytes: Vec<u8> = self
            .memories
            .iter()
            .flat_map(Memory::numbers)
            .chain(self.triggers.iter().flat_map(signals))
            .chain(self.policy.net.weights().iter().copied())
            .flat_map(|it| it.to_bits().to_le_bytes())
            .collect();
        Checksum::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use motet_units::{Bytes, Seed};

    use super::super::{Net, Shape, Variant};
    use super::*;
    use crate::env::testing::scenario;
    use crate::env::{Environment, Timeline};

    fn lstm() -> Lstm {
        let net = Net::new(Shape { encoder: 8, hidden: 8 }, Seed::new(1));
        Lstm::new(Arc::new(PolicyFile { net, variant: Variant::FULL, seed: 1, updates: 0 }))
    }

    /// Two ranks that are fed the same stay the same, bit by bit; one that is fed times of its own does not, which is why
    /// times come from the leader.
    #[test]
    fn ranks_that_are_fed_the_same_stay_the_same() {
        let sizes = [Bytes::kib(8), Bytes::mib(1)];
        let scenario = scenario(&sizes, 400, Timeline::default(), Seed::new(2));
        let mut environment = Environment::new(scenario).unwrap();
        let (mut one, mut two, mut astray) = (lstm(), lstm(), lstm());
        while !environment.is_over() {
            let seen = environment.observe();
            let choice = one.choose(&seen);
            assert_eq!(two.choose(&seen), choice);
            astray.choose(&seen);
            let outcome = environment.step(choice).unwrap().outcome;
            one.learn(&seen, &choice, &outcome);
            two.learn(&seen, &choice, &outcome);
            let other = Outcome { time: outcome.time.saturating_mul(2), ..outcome };
            astray.learn(&seen, &choice, &other);
            assert_eq!(one.checksum(), two.checksum());
        }
        assert_ne!(one.checksum(), astray.checksum());
        one.reset();
        assert_eq!(one.checksum(), lstm().checksum());
    }
}
