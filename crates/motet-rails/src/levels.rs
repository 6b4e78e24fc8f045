//! [`Levels`]: the cost of each of a job's communications, composed of the times of single collectives ([`Alone`]).
//!
//! A group that lies inside a scale-up domain, or on one rail, runs one collective there. A group that spans both is done
//! hierarchically, in one collective per level, one after the other: an AllGather first over the rails, then inside the domain; a
//! ReduceScatter the other way; an AllReduce scatters inside, reduces over the rails and gathers inside. Members that are not on the
//! same rail forward through scale-up to a neighbour that is (NCCL's PXN), which adds latency and load on the scale-up links.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind::{self, AllGather, AllReduce, AllToAll, ReduceScatter};
use motet_units::Bytes;
use motet_workload::simulate::fluid::ONE;
use motet_workload::simulate::{Cost, Reach, Resource, Side, Use};
use motet_workload::windows::stages;
use motet_workload::{Communication, Group, Layout};

use crate::alone::{Alone, AloneError, Timing, Topology};
use crate::knobs::Algorithms;
use crate::machine::Machine;

/// Computes the cost of a job's communications on a machine.
#[derive(Debug)]
pub(crate) struct Levels<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) machine: &'a Machine,
    alone: Alone,
    /// Which AllReduces use trees.
    by: Algorithms,
    reaches: BTreeMap<(u32, Group), Vec<Reach>>,
}

/// The level of the network that a collective runs on, which determines the resources it occupies.
#[derive(Clone, Copy)]
enum Tier {
    ScaleUp,
    Nic(u32),
    Host,
}

impl<'a> Levels<'a> {
    pub(crate) fn new(layout: &'a Layout, machine: &'a Machine) -> Self {
        let (alone, by) = (Alone::default(), Algorithms::default());
        Self { layout, machine, alone, by, reaches: BTreeMap::new() }
    }

    /// Sets which AllReduces use trees.
    pub(crate) fn by(self, by: &Algorithms) -> Self {
        Self { by: by.clone(), ..self }
    }

    /// How long one collective of a communication takes alone; by trees where that was chosen and a packet switch carries it.
    fn time(
        &mut self,
        trees: bool,
        (kind, ranks): (CollectiveKind, u32),
        topology: Topology,
        size: Bytes,
    ) -> Result<Timing, AloneError> {
        if let (true, AllReduce, Topology::Star(wire)) = (trees, kind, topology)
            && let Some(timing) = self.alone.by_trees(ranks, wire, size)?
        {
            return Ok(timing);
        }
        self.alone.time(kind, ranks, topology, size)
    }

    /// How far the groups of a communication at a stage reach.
    pub(crate) fn reaches(&mut self, stage: u32, group: Group) -> &[Reach] {
        let (layout, placement) = (self.layout, self.machine.placement());
        let found = || placement.reaches(layout, group, stage);
        self.reaches.entry((stage, group)).or_insert_with(found)
    }

    /// How many scale-up domains the widest of these groups spans; 1 if all of them lie inside one.
    pub(crate) fn domains(&mut self, stage: u32, group: Group) -> u32 {
        self.reaches(stage, group).iter().map(|it| it.domains).max().unwrap_or(1)
    }

    /// The cost of a communication over rails that connect `domains` by the given topology, using the NIC ports numbered `part`. Where
    /// groups of a stage are placed differently, the slowest counts, because ranks of a stage proceed in lockstep.
    pub(crate) fn cost(
        &mut self,
        stage: u32,
        what: &Communication,
        rail: &dyn Fn(u32) -> Topology,
        part: u32,
    ) -> Result<Cost, AloneError> {
        let mut worst = Cost::default();
        for reach in self.reaches(stage, what.group).to_vec() {
            let cost = self.one(stage, what, reach, rail, part)?;
            if cost.alone() >= worst.alone() {
                worst = cost;
            }
        }
        Ok(worst)
    }

    /// The cost of a communication over the host's packet network.
    pub(crate) fn host_cost(
        &mut self,
        stage: u32,
        what: &Communication,
    ) -> Result<Cost, AloneError> {
        let ranks = self.layout.size(what.group);
        let topology = Topology::Star(self.machine.host);
        let trees = self.by.is_tree(stage, what);
        let timing = self.time(trees, (what.kind, ranks), topology, what.bytes)?;
        Ok(self.occupying(stage, what.group, timing, Tier::Host))
    }

    fn one(
        &mut self,
        stage: u32,
        what: &Communication,
        reach: Reach,
        rail: &dyn Fn(u32) -> Topology,
        part: u32,
    ) -> Result<Cost, AloneError> {
        let Reach { domains, inside, aligned } = reach;
        let (kind, bytes) = (what.kind, what.bytes);
        let place = (stage, what.group);
        let trees = self.by.is_tree(stage, what);
        if domains <= 1 {
            let topology = Topology::Star(self.machine.scale_up);
            let timing = self.time(trees, (kind, inside), topology, bytes)?;
            return Ok(self.occupying(stage, what.group, timing, Tier::ScaleUp));
        }
        let share = Bytes::new(bytes.get().div_ceil(u64::from(inside)));
        let own = if kind == AllToAll { bytes } else { share };
        let timing = self.time(trees, (kind, domains), rail(domains), own)?;
        let mut over = self.occupying(stage, what.group, timing, Tier::Nic(part));
        if !aligned {
            self.forward(&mut over, stage, what.group);
        }
        if inside <= 1 {
            return Ok(over);
        }
        Ok(match kind {
            AllReduce => {
                let before = self.inside(place, ReduceScatter, inside, bytes)?;
                before.then(&over).then(&self.inside(place, AllGather, inside, bytes)?)
            }
            ReduceScatter => self.inside(place, kind, inside, bytes)?.then(&over),
            _ => over.then(&self.inside(place, kind, inside, bytes)?),
        })
    }

    fn inside(
        &mut self,
        (stage, group): (u32, Group),
        kind: CollectiveKind,
        ranks: u32,
        bytes: Bytes,
    ) -> Result<Cost, AloneError> {
        let topology = Topology::Star(self.machine.scale_up);
        let timing = self.alone.time(kind, ranks, topology, bytes)?;
        Ok(self.occupying(stage, group, timing, Tier::ScaleUp))
    }

    fn occupying(&self, stage: u32, group: Group, timing: Timing, tier: Tier) -> Cost {
        let full = |(stage, side)| Use { resource: resource(tier, stage, side), share: ONE };
        let uses = self.sides(stage, group).into_iter().map(full).collect();
        Cost { work: timing.work, latency: timing.latency, uses }
    }

    /// Which stages send and which receive. In a message each end does only one of the two, otherwise each rank does both.
    fn sides(&self, stage: u32, group: Group) -> Vec<(u32, Side)> {
        if let Group::Hop { to } = group {
            return vec![(stage, Side::Out), (to, Side::In)];
        }
        let all = stages(self.layout, group, stage);
        all.into_iter().flat_map(|it| [(it, Side::Out), (it, Side::In)]).collect()
    }

    /// Adds the cost of forwarding through scale-up to the right rail: all that the NIC sends crosses scale-up first.
    fn forward(&self, cost: &mut Cost, stage: u32, group: Group) {
        let (nic, up) = (self.machine.rail.bandwidth, self.machine.scale_up.bandwidth);
        let share = u128::from(nic.bits_per_s()) * u128::from(ONE);
        let share = share / u128::from(up.bits_per_s().max(1));
        let share = u64::try_from(share).unwrap_or(ONE).min(ONE);
        cost.latency += self.machine.scale_up.latency;
        for (stage, side) in self.sides(stage, group) {
            if side == Side::Out {
                for side in [Side::Out, Side::In] {
                    let resource = Resource::ScaleUp { stage, side };
                    cost.uses.push(Use { resource, share });
                }
            }
        }
    }
}

const fn resource(tier: Tier, stage: u32, side: Side) -> Resource {
    match tier {
        Tier::ScaleUp => Resource::ScaleUp { stage, side },
        Tier::Nic(part) => Resource::Nic { stage, part, side },
        Tier::Host => Resource::Host { stage, side },
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind::SendRecv;
    use motet_units::Duration;
    use motet_workload::Parallelism;

    use super::*;

    fn star(machine: &Machine) -> impl Fn(u32) -> Topology {
        let wire = machine.rail;
        move |_| Topology::Star(wire)
    }

    /// Two replicas in each of two DGX: the NICs carry half of the buffer each, NVLink all of it.
    #[test]
    fn groups_across_go_in_two_levels() {
        let machine = Machine::named("dgx-h100").unwrap();
        let layout = Layout { tp: 4, dp: 4, ..Layout::default() };
        let mut levels = Levels::new(&layout, &machine);
        let of = |kind| Communication {
            parallelism: Parallelism::Dp,
            kind,
            group: Group::Data,
            bytes: Bytes::new(400_000_000),
        };
        let rail = star(&machine);
        let gather = levels.cost(0, &of(AllGather), &rail, 0).unwrap();
        // 100 MB at 50 GB/s, then 200 MB at 450 GB/s.
        let (nic, nvlink) = (Duration::from_ms(2), Duration::from_ps(444_444_445));
        assert_eq!(gather.work, nic + nvlink);
        let whole: u64 = gather
            .uses
            .iter()
            .filter(|it| matches!(it.resource, Resource::Nic { .. }))
            .map(|it| it.share)
            .sum();
        let part = nic.as_ps() as f64 / gather.work.as_ps() as f64;
        assert!((whole as f64 / ONE as f64 / 2.0 - part).abs() < 1e-6);
        let reduce = levels.cost(0, &of(AllReduce), &rail, 0).unwrap();
        assert_eq!(reduce.alone(), gather.alone() + gather.alone());
    }

    /// A message to another rail takes scale-up's latency too, and its part of the NVLinks.
    #[test]
    fn other_rails_are_reached_through_a_neighbour() {
        let machine = Machine::named("dgx-h100").unwrap();
        let layout = Layout { tp: 2, dp: 2, pp: 4, ..Layout::default() };
        let mut levels = Levels::new(&layout, &machine);
        let hop = |to| Communication {
            parallelism: Parallelism::Pp,
            kind: SendRecv,
            group: Group::Hop { to },
            bytes: Bytes::new(50_000_000),
        };
        let rail = star(&machine);
        let inside = levels.cost(0, &hop(1), &rail, 0).unwrap();
        assert_eq!(inside.uses[0].resource, Resource::ScaleUp { stage: 0, side: Side::Out });
        let across = levels.cost(1, &hop(2), &rail, 0).unwrap();
        assert_eq!(across.work, Duration::from_ms(1));
        assert_eq!(across.latency, machine.rail.latency + machine.scale_up.latency);
        let forwarded = across.uses.iter().filter(|it| it.share == ONE / 9);
        assert_eq!(forwarded.count(), 2);
    }
}
