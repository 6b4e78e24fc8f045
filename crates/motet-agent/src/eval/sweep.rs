//! [`sweep`]: the same call at every tier, decided by one policy (§13.9 of DynamICCL's design-space analysis): a policy
//! that takes the topology into account chooses different knobs in a server than between datacenters.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::run::{Kernel, Pace, run};
use crate::env::atlas::spots;
use crate::env::{Atlas, Group, Noise, PlaceError, Scenario, Split, Task, Timeline};
use crate::policy::Policy;
use crate::state::{Role, Scheduler, State};

/// How many calls the policy may learn from at each tier before its choice is recorded.
const CALLS: u64 = 400;

/// A choice at a tier: algorithm and protocol, channels, and its modelled time in µs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenKernel {
    pub kernel: Kernel,
    pub channels: u32,
    pub micros: f64,
}

/// The choices for a call at one tier.
#[derive(Clone, Debug, PartialEq)]
pub struct AtTier {
    pub tier: u8,
    pub place: String,
    /// The policy's choice after some hundred calls.
    pub chosen: ChosenKernel,
    /// The fastest by the model.
    pub best: ChosenKernel,
    /// NCCL's own choice.
    pub nccl: ChosenKernel,
}

/// Runs the call on one held-out communicator of each tier from 1 to 4, all decided by this one policy.
pub fn sweep(
    policy: &mut dyn Policy,
    atlas: &Atlas,
    (kind, bytes): (CollectiveKind, Bytes),
    seed: Seed,
) -> Result<Vec<AtTier>, PlaceError> {
    let mut places = Vec::new();
    for tier in 1..=4 {
        if let Some(spot) = spots(Split::HeldOut, tier).first() {
            places.push((tier, atlas.place(*spot, false)?));
        }
    }
    let as_the_model_says = [[1.0; Protocol::COUNT]; Algorithm::COUNT];
    let group = |it: &(u8, std::sync::Arc<crate::env::Place>)| Group {
        place: std::sync::Arc::clone(&it.1),
        timeline: Timeline::default(),
        error: as_the_model_says,
        response: as_the_model_says,
        troubles: Vec::new(),
    };
    let workload = State::BLANK.workload;
    let task = |group| Task { group, kind, bytes, role: Role::None, workload };
    let scenario = Scenario {
        name: "tiers".to_owned(),
        seed,
        groups: places.iter().map(group).collect(),
        tasks: (0..places.len()).map(task).collect(),
        step: (0..places.len()).collect(),
        calls: CALLS * places.len() as u64,
        gap: Duration::from_us(100),
        noise: Noise { spread: 0.03, outliers: 0.01, outlier: 2.0 },
        quirk: 0.0,
        scheduler: Scheduler::NONE,
        model: State::BLANK.model,
    };
    let mut held = vec![0; places.len()];
    run(policy, scenario, Pace::default(), |it| {
        if !it.choice.exploratory {
            held[it.task] = it.choice.action;
        }
    })?;
    let found = places.iter().zip(held).map(|((tier, place), chosen)| {
        let brief = place.brief(kind, bytes)?;
        let knobs = |at: usize| ChosenKernel {
            kernel: brief.kernels[at],
            channels: brief.channels[at],
            micros: brief.nominal[at],
        };
        let best = crate::policy::fixed::least(&brief.nominal);
        Ok(AtTier {
            tier: *tier,
            place: place.name.clone(),
            chosen: knobs(chosen),
            best: knobs(best),
            nccl: knobs(0),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::default_policy;

    /// One policy, one call, four tiers: other knobs, each within 3% of the best there.
    #[test]
    fn one_policy_chooses_other_knobs_at_other_tiers() {
        let atlas = Atlas::default();
        for bytes in [Bytes::kib(64), Bytes::mib(1), Bytes::mib(16)] {
            let mut policy = default_policy().make(Seed::new(1));
            let call = (CollectiveKind::AllReduce, bytes);
            let found = sweep(&mut *policy, &atlas, call, Seed::new(1)).unwrap();
            assert_eq!(found.iter().map(|it| it.tier).collect::<Vec<_>>(), [1, 2, 3, 4]);
            for it in &found {
                let (chosen, best) = (it.chosen.micros, it.best.micros);
                assert!(chosen <= 1.03 * best, "{bytes} at tier {}: {chosen} {best}", it.tier);
                assert!(chosen <= it.nccl.micros, "{it:?}");
            }
            let kinds: BTreeSet<_> =
                found.iter().map(|it| (it.chosen.kernel, it.chosen.channels)).collect();
            assert!(kinds.len() >= 2, "{bytes}: {kinds:?}");
            // Farther is slower.
            assert!(found.windows(2).all(|it| it[0].chosen.micros < it[1].chosen.micros));
        }
    }
}
