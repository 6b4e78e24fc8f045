//! [`Family`]: scenarios of one kind, drawn from a seed: where, which calls, and what happens.
//!
//! Training has the three stages of the curriculum (§14 of DynamICCL's design-space analysis); what is held out has a
//! family for each thing that can happen. **Held-out families share nothing with training** that could be learned
//! by heart: other networks ([`atlas`](super::atlas)), other sizes (3·2ᵏ against 2ᵏ), and other congestion
//! (strengths and periods from other ranges, and both sides at once). All else is drawn alike.
//!
//! **Fresh families** ([`fresh`]) share nothing with either, and slow calls by laws that no policy assumes. They
//! were written down before any policy was run on them.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration, Seed, Stream};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

use super::atlas::{Atlas, Split, Spot, sockets, spots};
use super::environment::log_normal;
use super::fresh;
use super::place::PlaceError;
use super::scenario::{Group, Noise, PerKernel, Scenario, Task};
use super::weather::{self, Weather};
use crate::state::{
    FaultTolerance, Packing, Role, Scheduler, Spread, Synchrony, TrainedModel, Workload,
};
use crate::words::category;

category! {
    /// A kind of scenario.
    Family {
        /// Tier 1, BSP, no compression, data parallelism.
        Stage1 = "stage-1",
        /// Tiers 1 and 2, Local SGD, 16 bits, one pipeline.
        Stage2 = "stage-2",
        /// All tiers, 3D parallelism, strong compression, aggregation in the network, faults.
        Stage3 = "stage-3",
        /// Without any other load.
        Quiet = "quiet",
        Abrupt = "abrupt",
        Periodic = "periodic",
        Drifting = "drifting",
        /// Another job on the same GPUs.
        Neighbour = "neighbour",
        Faults = "faults",
        /// A competing load switched on and off on one machine's sockets.
        Sockets = "sockets",
        /// Three communicators at three tiers, each with its own troubles.
        ThreeD = "3d",
        /// Fresh: a rank comes late, and everybody waits.
        Straggler = "straggler",
        /// Fresh: congestion in bursts of heavy-tailed lengths.
        Bursts = "bursts",
        /// Fresh: a fixed delay for every message.
        Messages = "messages",
        /// Fresh: some channels' flows share their paths.
        Paths = "paths",
        /// Fresh: one protocol is slowed.
        Protocols = "protocols",
        /// Fresh: one algorithm gets slower and slower.
        Creep = "creep",
        /// Fresh: many sizes, some of them rare; other sizes in the second half of the scenario.
        Sizes = "sizes",
    }
}

/// The usual number of calls of a scenario.
pub const CALLS: u64 = 3000;

impl Family {
    #[must_use]
    pub const fn split(self) -> Split {
        match self {
            Self::Stage1 | Self::Stage2 | Self::Stage3 => Split::Training,
            Self::Quiet
            | Self::Abrupt
            | Self::Periodic
            | Self::Drifting
            | Self::Neighbour
            | Self::Faults
            | Self::Sockets
            | Self::ThreeD => Split::HeldOut,
            Self::Straggler
            | Self::Bursts
            | Self::Messages
            | Self::Paths
            | Self::Protocols
            | Self::Creep
            | Self::Sizes => Split::Fresh,
        }
    }

    /// The families of a split.
    pub fn of(split: Split) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |it| it.split() == split)
    }

    const fn weather(self) -> Weather {
        match self {
            Self::Stage1
            | Self::Quiet
            | Self::Straggler
            | Self::Messages
            | Self::Paths
            | Self::Protocols
            | Self::Creep
            | Self::Sizes => Weather::Calm,
            Self::Bursts => Weather::Bursts,
            Self::Stage2 | Self::Abrupt | Self::Sockets => Weather::Abrupt,
            Self::Stage3 | Self::ThreeD => Weather::Any,
            Self::Periodic => Weather::Periodic,
            Self::Drifting => Weather::Drifting,
            Self::Neighbour => Weather::Neighbour,
            Self::Faults => Weather::Faults,
        }
    }

    /// For each of its communicators, the list of places to draw from.
    fn spots(self) -> Vec<Vec<Spot>> {
        let split = self.split();
        let tiers = |all: &[u8]| all.iter().flat_map(|it| spots(split, *it)).collect::<Vec<_>>();
        match self {
            Self::Stage1 => vec![tiers(&[1])],
            Self::Stage2 => vec![[tiers(&[1, 2]), vec![sockets(split)]].concat()],
            Self::Stage3 => vec![tiers(&[1]), tiers(&[2, 3]), tiers(&[3, 4])],
            Self::Sockets => vec![vec![sockets(split)]],
            Self::ThreeD => vec![tiers(&[1]), tiers(&[2, 3]), tiers(&[4])],
            // Inside a server there are no network messages and no shared paths.
            Self::Messages | Self::Paths => {
                vec![[tiers(&[2, 2, 3, 3, 4]), vec![sockets(split)]].concat()]
            }
            _ if split == Split::Fresh => {
                vec![[tiers(&[1, 2, 2, 3, 3, 4]), vec![sockets(split)]].concat()]
            }
            _ => vec![tiers(&[1, 2, 2, 3, 3, 4])],
        }
    }

    /// Draws the scenario of a seed, with so many calls.
    pub fn draw(self, atlas: &Atlas, seed: Seed, calls: u64) -> Result<Scenario, PlaceError> {
        let seed = seed.named(self.name());
        let mut dice = seed.stream("scenario");
        let mut groups = Vec::new();
        let mut tasks = Vec::new();
        for lists in self.spots() {
            // Every list has a spot: a test draws them all.
            let Some(spot) = lists.choose(&mut dice).copied() else { continue };
            let in_network = self == Self::Stage3 && dice.random_bool(0.1);
            let place = atlas.place(spot, in_network)?;
            let inside = place.topology.worst_tier().is_some_and(|it| it.get() <= 1);
            let timeline = weather::draw(self.weather(), self.split(), inside, calls, &mut dice);
            let error = per_kernel(&mut dice, MODEL_ERROR);
            let response = per_kernel(&mut dice, RESPONSE_ERROR);
            let tier = place.topology.worst_tier().map_or(0, motet_net::Tier::get);
            let own = self.tasks(groups.len(), tier, &mut dice);
            let mut dice = seed.numbered(groups.len() as u64).stream("troubles");
            let troubles = fresh::troubles(self, &place, &own, calls, &mut dice)?;
            tasks.extend(own);
            groups.push(Group { place, timeline, error, response, troubles });
        }
        let step = self.step(tasks.len(), calls, &mut dice);
        let three_d = self == Self::Stage3 || self == Self::ThreeD;
        Ok(Scenario {
            name: format!("{self}"),
            seed,
            groups,
            tasks,
            step,
            calls,
            gap: Duration::from_us(dice.random_range(20..=2000)),
            noise: Noise { spread: dice.random_range(0.02..0.05), outliers: 0.01, outlier: 3.0 },
            quirk: 0.04,
            scheduler: Scheduler { stage: u32::from(three_d), ..Scheduler::NONE },
            model: TrainedModel {
                spread: if three_d { Spread::ThreeD } else { Spread::Dp },
                parameters: dice.random_range(1..=100) * 1_000_000_000,
                fault_tolerance: FaultTolerance::None,
                three_d,
            },
        })
    }

    /// The order of the tasks in one training step, which is repeated.
    fn step(self, tasks: usize, calls: u64, dice: &mut Stream) -> Vec<usize> {
        if self == Self::Sizes {
            return fresh::mixed(tasks, calls, dice);
        }
        let mut step: Vec<usize> = Vec::new();
        for task in 0..tasks {
            step.extend(std::iter::repeat_n(task, dice.random_range(1..=3)));
        }
        step.shuffle(dice);
        step
    }

    /// Draws a few recurring calls of a communicator.
    fn tasks(self, group: usize, tier: u8, dice: &mut Stream) -> Vec<Task> {
        let several = self.spots().len() > 1;
        let count = match self {
            Self::Sizes => 14,
            _ if several => 2,
            _ => dice.random_range(3..=5),
        };
        let mut made: Vec<Task> = Vec::new();
        while made.len() < count {
            let kind = *[
                CollectiveKind::AllReduce,
                CollectiveKind::AllReduce,
                CollectiveKind::AllGather,
                CollectiveKind::ReduceScatter,
            ]
            .choose(dice)
            .unwrap_or(&CollectiveKind::AllReduce);
            let bytes = size(self.split(), dice);
            let workload = self.workload(tier, bytes);
            let role = match (several, tier) {
                (false, _) => Role::None,
                (true, 0 | 1) => Role::IntraStage,
                (true, _) => Role::InterStage,
            };
            if made.iter().all(|it| (it.kind, it.bytes) != (kind, bytes)) {
                made.push(Task { group, kind, bytes, role, workload });
            }
        }
        made
    }

    /// The job's synchronization and compression: what is plausible at a tier (§10.1, §10.2).
    const fn workload(self, tier: u8, effective: Bytes) -> Workload {
        let (synchrony, period) = match (self, tier) {
            (Self::Stage1, _) | (_, 0..=2) => (Synchrony::Bsp, 1),
            _ => (Synchrony::Local, 8),
        };
        let (packing, bits, rate) = match (self, tier) {
            (Self::Stage1, _) | (_, 0 | 1) => (Packing::None, 32, 1.0),
            (_, 2 | 3) => (Packing::Quantized, 16, 2.0),
            _ => (Packing::TopK, 16, 83.0),
        };
        Workload { synchrony, period, packing, bits, rate, effective }
    }
}

/// The standard deviation of the logarithm of the cost model's error, drawn per algorithm and protocol. Terms fitted to one
/// machine are 13% off in the median on calls held back (docs/nccl-model.md), NCCL's own constants far more.
pub const MODEL_ERROR: f64 = 0.2;
/// The standard deviation of the logarithm of the exponent by which load acts (see `Group::response`).
pub const RESPONSE_ERROR: f64 = 0.1;

fn per_kernel(dice: &mut Stream, spread: f64) -> PerKernel {
    let mut all = [[1.0; Protocol::COUNT]; Algorithm::COUNT];
    for it in all.iter_mut().flatten() {
        *it = log_normal(dice, spread).clamp(0.5, 2.0);
    }
    all
}

/// From 4 KiB to 32 MiB: powers of two for training, three times a power of two held out, five times fresh.
#[must_use]
pub fn size(split: Split, dice: &mut Stream) -> Bytes {
    let power = dice.random_range(12..=25);
    Bytes::new(match split {
        Split::Training => 1 << power,
        Split::HeldOut => 3 << (power - 1),
        Split::Fresh => 5 << (power - 2),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::timeline::Pattern;
    use super::super::weather::Ranges;
    use super::*;

    /// The splits have no network, size or congestion in common.
    #[test]
    fn what_is_held_out_is_never_trained_on() {
        let names = |split: Split| -> BTreeSet<String> {
            let all = Family::of(split).flat_map(Family::spots).flatten();
            all.map(|it| it.name()).collect()
        };
        let (training, held) = (names(Split::Training), names(Split::HeldOut));
        let fresh = names(Split::Fresh);
        assert!(training.len() >= 12 && held.len() >= 10, "{training:?} {held:?}");
        assert!(training.is_disjoint(&held), "{training:?} {held:?}");
        assert!(fresh.len() >= 8 && fresh.is_disjoint(&training) && fresh.is_disjoint(&held));
        let sizes = |split: Split| -> BTreeSet<u64> {
            let mut dice = Seed::new(1).stream("sizes");
            (0..500).map(|_| size(split, &mut dice).get()).collect()
        };
        let all = [Split::Training, Split::HeldOut, Split::Fresh];
        for (a, b) in [(0, 1), (0, 2), (1, 2)].map(|(a, b)| (all[a], all[b])) {
            assert!(sizes(a).is_disjoint(&sizes(b)), "{a} {b}");
            let (a, b) = (Ranges::of(a), Ranges::of(b));
            assert!(a.shares.iter().all(|it| !b.shares.contains(it)));
            assert!(a.delays.iter().all(|it| !b.delays.contains(it)));
            assert!(a.periods.1 < b.periods.0);
        }
        assert!(!Ranges::of(Split::Training).both && Ranges::of(Split::HeldOut).both);
    }

    /// The same, of scenarios as they are drawn.
    #[test]
    fn scenarios_of_both_splits_share_no_place_size_or_congestion() {
        let atlas = Atlas::default();
        type Found = (BTreeSet<String>, BTreeSet<u64>, BTreeSet<(u64, u64)>);
        let mut found: [Found; 3] = Default::default();
        for family in Family::ALL {
            for seed in 0..4 {
                let scenario = family.draw(&atlas, Seed::new(seed), 500).unwrap();
                assert!(!scenario.groups.is_empty() && scenario.step.len() >= 3);
                let slot = &mut found[family.split().index()];
                slot.0.extend(scenario.groups.iter().map(|it| it.place.name.clone()));
                slot.1.extend(scenario.tasks.iter().map(|it| it.bytes.get()));
                for it in scenario.groups.iter().flat_map(|it| &it.timeline.episodes) {
                    assert!(it.calls.0 < it.calls.1 && it.calls.1 <= 500, "{it:?}");
                    let strengths = (it.load.share.to_bits(), it.load.delay.to_bits());
                    if it.load.share < 1.0 || it.load.delay > 1.0 {
                        slot.2.insert(strengths);
                    }
                }
            }
        }
        for (a, b) in [(0, 1), (0, 2), (1, 2)].map(|(a, b)| (&found[a], &found[b])) {
            assert!(a.0.is_disjoint(&b.0) && a.1.is_disjoint(&b.1));
            assert!(a.2.is_disjoint(&b.2) && !b.2.is_empty());
        }
    }

    #[test]
    fn families_have_the_weather_that_they_are_named_after() {
        let atlas = Atlas::default();
        let draw = |family: Family, seed| {
            let drawn = family.draw(&atlas, Seed::new(seed), 1000).unwrap();
            drawn.groups[0].timeline.clone()
        };
        for seed in 0..3 {
            assert!(draw(Family::Quiet, seed).episodes.is_empty());
            let abrupt = draw(Family::Abrupt, seed);
            assert_eq!(
                (abrupt.episodes[0].pattern, abrupt.changes(1000).len()),
                (Pattern::Abrupt, 2)
            );
            assert_eq!(draw(Family::Drifting, seed).episodes[0].pattern, Pattern::Drifting);
            assert!(draw(Family::Neighbour, seed).episodes[0].load.neighbour > 0.0);
            assert!(draw(Family::Faults, seed).episodes.iter().all(|it| it.load.fault));
            assert!(matches!(
                draw(Family::Periodic, seed).episodes[0].pattern,
                Pattern::Periodic { .. }
            ));
        }
    }
}
