//! [`CircuitSet`]: the circuits that a communication group needs, and on which ports.
//!
//! In a ring of more than two members each uses half of its ports toward one neighbour and half toward the other. Two
//! members use all their ports in parallel. For messages between pipeline stages the ports are divided among a stage's neighbours: all of
//! them in a pipeline of two stages, half toward each neighbour in a longer one, so that both circuits can stay. Circuits are
//! bidirectional, so activations forward and gradients backward use the same ones.
//!
//! All ranks of a stage do the same with their own partners, so a set is described once for all of a stage's ranks;
//! [`CircuitSet::expand`] lists the ports of every rank on a rail.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;
use motet_workload::windows::stages;
use motet_workload::{Group, Iteration, Layout, Placement, Refusal};

use super::switching::Ports;
use crate::levels::Levels;

/// The identity of a circuit set: which communications it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetKey {
    /// A ring (or pair) within each group of this kind on a stage.
    Within { stage: u32, group: Group },
    /// A circuit between each rank of one stage and the rank in the same place of another; `first` is the lower stage.
    Between { first: u32, second: u32 },
    /// A ring through all stages.
    Stages,
}

/// Circuits that are set and torn down together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitSet {
    pub key: SetKey,
    /// The stages it connects, each with the NIC ports it uses there, as a bit set.
    pub ends: Vec<(u32, u64)>,
    /// How many ports in parallel make each connection.
    pub width: u32,
    /// The number of servers that each ring connects.
    pub members: u32,
}

impl CircuitSet {
    /// Whether the two sets use a common port, so that they cannot both be set up.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.ends.iter().any(|(stage, ports)| other.on(*stage) & ports != 0)
    }

    /// The ports that it uses on a stage, as a bit set.
    #[must_use]
    pub fn on(&self, stage: u32) -> u64 {
        self.ends.iter().find(|it| it.0 == stage).map_or(0, |it| it.1)
    }

    /// Every circuit of the set on one rail, each as two pairs of a rank and one of its ports.
    #[must_use]
    pub fn expand(
        &self,
        layout: &Layout,
        placement: Placement,
        rail: u32,
    ) -> Vec<[(Rank, u32); 2]> {
        let per_stage = u32::try_from(layout.ranks()).unwrap_or(u32::MAX) / layout.pp;
        let of_stage = |stage: u32| stage * per_stage..(stage + 1) * per_stage;
        let on_rail = |it: &Rank| placement.rail(*it) == rail;
        let mut all = Vec::new();
        match self.key {
            SetKey::Within { stage, group } => {
                let mut seen: BTreeSet<Rank> = BTreeSet::new();
                for rank in of_stage(stage).map(Rank).filter(on_rail) {
                    if !seen.contains(&rank) {
                        let members = layout.members(group, rank);
                        let members: Vec<Rank> = members.into_iter().filter(on_rail).collect();
                        seen.extend(&members);
                        self.ring(&members, |_| stage, &mut all);
                    }
                }
            }
            SetKey::Between { first, second } => {
                for rank in of_stage(first).map(Rank).filter(on_rail) {
                    let ends = [rank, Rank(rank.0 + (second - first) * per_stage)];
                    let ports = [self.on(first), self.on(second)].map(bits);
                    let pairs = ports[0].iter().zip(&ports[1]).take(self.width as usize);
                    all.extend(pairs.map(|(a, b)| [(ends[0], *a), (ends[1], *b)]));
                }
            }
            SetKey::Stages => {
                for rank in of_stage(0).map(Rank).filter(on_rail) {
                    let members = layout.members(Group::Pipeline, rank);
                    self.ring(&members, |it| layout.stage(it), &mut all);
                }
            }
        }
        all
    }

    fn ring(&self, members: &[Rank], stage: impl Fn(Rank) -> u32, all: &mut Vec<[(Rank, u32); 2]>) {
        let width = self.width as usize;
        let ports = |it: Rank| bits(self.on(stage(it)));
        match members {
            [] | [_] => {}
            [a, b] => {
                let pairs = ports(*a).into_iter().zip(ports(*b)).take(width);
                all.extend(pairs.map(|(x, y)| [(*a, x), (*b, y)]));
            }
            _ => {
                for (at, it) in members.iter().enumerate() {
                    let next = members[(at + 1) % members.len()];
                    // The lower half of the ports faces the member before, the upper half the one after.
                    let (out, into) = (ports(*it), ports(next));
                    let pairs = out.into_iter().skip(width).zip(into).take(width);
                    all.extend(pairs.map(|(x, y)| [(*it, x), (next, y)]));
                }
            }
        }
    }
}

/// The positions of the bits that are set.
pub(super) fn bits(set: u64) -> Vec<u32> {
    (0..64).filter(|it| set >> it & 1 == 1).collect()
}

/// The lowest `count` ports.
const fn lowest(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The circuit sets that a step needs, and which of them each of its groups uses.
#[derive(Debug, Default)]
pub(super) struct Sets {
    pub(super) all: Vec<CircuitSet>,
    by_key: BTreeMap<SetKey, usize>,
    neighbours: BTreeMap<u32, BTreeSet<u32>>,
}

impl Sets {
    /// Starts without sets, and finds each stage's pipeline neighbours over the rails.
    pub(super) fn new(iteration: &Iteration, levels: &mut Levels<'_>) -> Self {
        let mut sets = Self::default();
        for (_, operation, what) in iteration.communications() {
            if let Group::Hop { to } = what.group
                && levels.domains(operation.stage, what.group) > 1
            {
                sets.neighbours.entry(operation.stage).or_default().insert(to);
                sets.neighbours.entry(to).or_default().insert(operation.stage);
            }
        }
        sets
    }

    /// The most pipeline neighbours that any stage has.
    pub(super) fn most_neighbours(&self) -> u32 {
        self.neighbours.values().map(|it| it.len() as u32).max().unwrap_or(0)
    }

    /// The set for a group that spans so many servers; made if it is new.
    pub(super) fn find(
        &mut self,
        layout: &Layout,
        ports: Ports,
        (stage, group): (u32, Group),
        members: u32,
    ) -> Result<usize, Refusal> {
        let key = key(layout, stage, group);
        if let Some(known) = self.by_key.get(&key) {
            return Ok(*known);
        }
        let set = match key {
            SetKey::Between { first, second } => self.between(ports, first, second),
            SetKey::Within { .. } | SetKey::Stages => {
                ring(layout, ports, key, (stage, group), members)?
            }
        };
        self.all.push(set);
        self.by_key.insert(key, self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    fn between(&self, ports: Ports, first: u32, second: u32) -> CircuitSet {
        let part = |stage: u32, other: u32| {
            let neighbours = self.neighbours.get(&stage);
            let place = neighbours.and_then(|it| it.iter().position(|it| *it == other));
            // Two stages that are not pipeline neighbours but sum something (such as tied weights) use all ports while they do.
            let (place, count) = match (place, neighbours) {
                (Some(place), Some(it)) => (place as u32, it.len() as u32),
                _ => (0, 1),
            };
            let each = (ports.count / count).max(1);
            let from = (place * each) % ports.count.max(1);
            (each, lowest(each) << from)
        };
        let (a, b) = (part(first, second), part(second, first));
        let width = a.0.min(b.0);
        CircuitSet {
            key: SetKey::Between { first, second },
            ends: vec![(first, a.1), (second, b.1)],
            width,
            members: 2,
        }
    }
}

/// The key of a group's set. A sum over two stages uses the same circuits as messages between them.
pub(super) fn key(layout: &Layout, stage: u32, group: Group) -> SetKey {
    let between = |a: u32, b: u32| SetKey::Between { first: a.min(b), second: a.max(b) };
    match group {
        Group::Hop { to } => between(stage, to),
        Group::Ends => between(0, layout.pp - 1),
        Group::Pipeline if layout.pp == 2 => between(0, 1),
        Group::Pipeline => SetKey::Stages,
        _ => SetKey::Within { stage, group },
    }
}

fn ring(
    layout: &Layout,
    ports: Ports,
    key: SetKey,
    (stage, group): (u32, Group),
    members: u32,
) -> Result<CircuitSet, Refusal> {
    let (width, used) = if members <= 2 {
        (ports.count, ports.count)
    } else if ports.count >= 2 {
        (ports.count / 2, ports.count / 2 * 2)
    } else {
        return Err(Refusal {
            problem: format!(
                "a ring of {} groups over {members} servers needs circuits to two neighbours, and a NIC has one port",
                name(group)
            ),
            nearest: format!(
                "choose 2 ports, or {} 2",
                if key == SetKey::Stages { "pp" } else { "dp" }
            ),
        });
    };
    let ends = stages(layout, group, stage).into_iter().map(|it| (it, lowest(used))).collect();
    Ok(CircuitSet { key, ends, width, members })
}

/// The group's name in output.
pub(super) const fn name(group: Group) -> &'static str {
    match group {
        Group::Tensor => "tensor-parallel",
        Group::Context => "context-parallel",
        Group::Data => "data-parallel",
        Group::ExpertData => "expert-data-parallel",
        Group::Expert => "expert-parallel",
        Group::Hop { .. } | Group::Pipeline | Group::Ends => "pipeline",
    }
}
