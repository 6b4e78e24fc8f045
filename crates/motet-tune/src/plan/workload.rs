//! A workload's calls as tasks: for which networks its groups need plans, and how much a training step gains by them.
//!
//! A plan is for one network and all its ranks. A group is planned on its own part of the cluster
//! ([`Network::part`]); groups whose parts have the same signature share a plan ([`GroupClass`]), as the
//! tensor-parallel groups of all servers do. Tasks are just the calls that the workload makes.
//!
//! The run-time table has one entry for all sizes between two powers of two, so of the sizes there the one that
//! moves most bytes is planned for ([`GroupClass::for_table`]). A call of another size counts as gaining only if
//! the plan would do it in the same way; otherwise as NCCL by itself.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_net::{Network, PartError, Signature};
use motet_runtime::Bucket;
use motet_units::{Bytes, Duration, Rank};
use motet_workload::{Demand, Parallelism};

use super::{Pick, Plan, TunedTask};

/// The smallest call that is planned for; smaller calls take the latency of a hop however they are done.
pub const SMALLEST: Bytes = Bytes::new(1024);

/// A rank that stands for others like it, and the collectives that it calls.
#[derive(Clone, Debug)]
pub struct Line {
    /// Describes the rank for people, such as "a rank of stage 0".
    pub label: String,
    pub demands: Vec<Demand>,
}

/// Groups whose parts of the cluster are alike.
#[derive(Clone, Debug)]
pub struct GroupClass {
    /// What the groups are for and how many ranks they have, such as `tp-8`.
    pub name: String,
    /// The part of the cluster that one of the groups is on.
    pub network: Network,
    /// For each collective, each size with the bytes that its calls move in all.
    pub sizes: BTreeMap<CollectiveKind, BTreeMap<Bytes, u128>>,
    parallelisms: BTreeSet<Option<Parallelism>>,
}

/// Calls of a line that the plan of a class serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Place in [`Workload::classes`].
    pub class: usize,
    pub kind: CollectiveKind,
    pub bytes: Bytes,
    pub calls: u64,
}

/// Calls that are left to NCCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub parallelism: Option<Parallelism>,
    pub kind: CollectiveKind,
    pub why: &'static str,
    /// How many calls there are over all lines.
    pub calls: u64,
    pub bytes: u128,
}

/// A workload made ready for planning.
#[derive(Clone, Debug)]
pub struct Workload {
    pub classes: Vec<GroupClass>,
    /// By line: its calls that are planned for.
    pub uses: Vec<Vec<Use>>,
    pub left_out: Vec<LeftOut>,
}

/// Sorts the calls of all lines by the part of the network that they are made on.
///
/// # Errors
/// When a group has ranks that the network has not.
pub fn sorted(network: &Network, lines: &[Line]) -> Result<Workload, PartError> {
    let mut classes: Vec<GroupClass> = Vec::new();
    let mut by_signature: BTreeMap<Signature, usize> = BTreeMap::new();
    let mut by_members: BTreeMap<&[Rank], usize> = BTreeMap::new();
    let mut left_out: BTreeMap<(Option<Parallelism>, CollectiveKind, &'static str), (u64, u128)> =
        BTreeMap::new();
    let mut uses = Vec::new();
    for line in lines {
        let mut of_line = Vec::new();
        for demand in &line.demands {
            let moved = u128::from(demand.bytes.get()) * u128::from(demand.calls);
            if let Some(why) = unplanned(demand) {
                let out = left_out.entry((demand.parallelism, demand.kind, why)).or_default();
                *out = (out.0 + demand.calls, out.1 + moved);
                continue;
            }
            let class = match by_members.get(demand.members.as_slice()) {
                Some(class) => *class,
                None => {
                    let part = network.part(&demand.members)?;
                    let class = *by_signature.entry(Signature::of(&part)).or_insert_with(|| {
                        classes.push(GroupClass {
                            name: String::new(),
                            network: part,
                            sizes: BTreeMap::new(),
                            parallelisms: BTreeSet::new(),
                        });
                        classes.len() - 1
                    });
                    by_members.insert(&demand.members, class);
                    class
                }
            };
            let of = &mut classes[class];
            of.parallelisms.insert(demand.parallelism);
            *of.sizes.entry(demand.kind).or_default().entry(demand.bytes).or_default() += moved;
            let Demand { kind, bytes, calls, .. } = *demand;
            of_line.push(Use { class, kind, bytes, calls });
        }
        uses.push(of_line);
    }
    name(&mut classes, network.name());
    let left_out = left_out.into_iter().map(|((parallelism, kind, why), (calls, bytes))| LeftOut {
        parallelism,
        kind,
        why,
        calls,
        bytes,
    });
    Ok(Workload { classes, uses, left_out: left_out.collect() })
}

/// Why a call is not planned for.
fn unplanned(demand: &Demand) -> Option<&'static str> {
    match demand.kind {
        CollectiveKind::SendRecv => Some("a message has one way to go"),
        CollectiveKind::AllToAllV => Some("who sends how much differs from call to call"),
        _ if demand.members.len() < 2 => Some("its group is one rank"),
        _ if demand.bytes < SMALLEST => Some("smaller than 1 KiB"),
        _ => None,
    }
}

/// Names that tell classes apart: parallelism and ranks, and a number where that is not enough.
fn name(classes: &mut [GroupClass], network: &str) {
    let mut taken = BTreeSet::new();
    for class in classes {
        let names: Vec<String> = class
            .parallelisms
            .iter()
            .map(|it| it.map_or_else(|| "group".to_owned(), |it| it.name().to_lowercase()))
            .collect();
        let plain = format!("{}-{}", names.join("-"), class.network.ranks().len());
        let numbered = (2..).map(|it| format!("{plain}-{it}"));
        let free = std::iter::once(plain.clone()).chain(numbered).find(|it| !taken.contains(it));
        class.name = free.unwrap_or(plain);
        taken.insert(class.name.clone());
        class.network = class.network.clone().renamed(format!("{network} {}", class.name));
    }
}

impl GroupClass {
    /// The tasks to tune.
    #[must_use]
    pub fn tasks(&self) -> Vec<(CollectiveKind, Vec<Bytes>)> {
        let mut tasks: Vec<_> =
            self.sizes.iter().map(|(kind, all)| (*kind, all.keys().copied().collect())).collect();
        tasks.sort_by_key(|it: &(CollectiveKind, Vec<Bytes>)| it.0.name());
        tasks
    }

    /// The size that stands for all sizes in the same bucket of the run-time table: the one whose calls move most
    /// bytes.
    fn representative(&self, kind: CollectiveKind, size: Bytes) -> Bytes {
        let alike = self.sizes.get(&kind).into_iter().flatten();
        let alike = alike.filter(|it| Bucket::of(*it.0) == Bucket::of(size));
        alike.max_by_key(|it| (*it.1, *it.0)).map_or(size, |it| *it.0)
    }

    /// The plan with the tasks that its table has.
    #[must_use]
    pub fn for_table(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        plan.tasks.retain(|it| self.representative(it.collective, it.size()) == it.size());
        let uses =
            |name: &str| plan.tasks.iter().flat_map(TunedTask::picks).any(|it| it.1.way == name);
        plan.candidates = plan.candidates.iter().filter(|it| uses(&it.name)).cloned().collect();
        plan
    }
}

/// How long a line's calls take, one after the other, each alone on its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTime {
    /// NCCL by itself.
    pub nccl: Duration,
    /// NCCL with a tuner.
    pub tuned: Duration,
    /// What the plans do, programs included.
    pub planned: Duration,
    /// Calls that NCCL cannot be modelled for; they are in none of the times.
    pub unknown: u64,
}

/// The times of a line by the plans of all classes, tuned for every size.
#[must_use]
pub fn line_time(workload: &Workload, uses: &[Use], plans: &[Plan]) -> LineTime {
    let mut all = LineTime::default();
    for it in uses {
        let (class, plan) = (&workload.classes[it.class], &plans[it.class]);
        let find = |size: Bytes| {
            plan.tasks.iter().find(|task| task.collective == it.kind && task.size() == size)
        };
        let task = find(it.bytes);
        let stands_for = find(class.representative(it.kind, it.bytes));
        let times = task.zip(stands_for).and_then(|(task, other)| times(plan, task, other));
        let Some([nccl, tuned, planned]) = times else {
            all.unknown += it.calls;
            continue;
        };
        all.nccl += nccl.saturating_mul(it.calls);
        all.tuned += tuned.saturating_mul(it.calls);
        all.planned += planned.saturating_mul(it.calls);
    }
    all
}

/// A call's times: by NCCL itself, with a tuner, and as planned.
fn times(plan: &Plan, task: &TunedTask, stands_for: &TunedTask) -> Option<[Duration; 3]> {
    let nccl = task.nccl.as_ref()?.time();
    let same = |a: &Pick, b: &Pick| {
        (a.runtime, &a.way, a.protocol, a.channels, a.instances, a.packed)
            == (b.runtime, &b.way, b.protocol, b.channels, b.instances, b.packed)
    };
    let of = |own: Option<&Pick>, other: Option<&Pick>| match (own, other) {
        (Some(own), Some(other)) if same(own, other) => own.time(),
        _ => nccl,
    };
    let tuned = of(plan.kept(task), plan.kept(stands_for));
    let planned = of(Some(&task.pick), Some(&stands_for.pick));
    Some([nccl, tuned, planned])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::communicator::Effort;
    use crate::plan::{MscclppUse, NoJournal, Request, make};
    use crate::search::Method;
    use CollectiveKind::{AllGather, AllReduce, SendRecv};
    use motet_net::builders::{self, Params};

    fn demand(
        of: Parallelism,
        kind: CollectiveKind,
        bytes: u64,
        members: &[u32],
        calls: u64,
    ) -> Demand {
        Demand {
            parallelism: Some(of),
            kind,
            bytes: Bytes::new(bytes),
            members: members.iter().map(|it| Rank(*it)).collect(),
            calls,
        }
    }

    fn cluster() -> Network {
        let params = Params::from_words(["count=2"]).unwrap();
        builders::find("dgx-a100").unwrap().build(&params).unwrap()
    }

    /// Two ranks in different servers: both have a tensor-parallel group at home and share one across.
    fn lines() -> Vec<Line> {
        let of = |stage: u32| {
            let home: Vec<u32> = (8 * stage..8 * stage + 8).collect();
            let demands = vec![
                demand(Parallelism::Tp, AllGather, 40_000_000, &home, 4),
                demand(Parallelism::Tp, AllGather, 50_000_000, &home, 1),
                demand(Parallelism::Dp, AllReduce, 1 << 20, &[stage, 8 + stage], 2),
                demand(Parallelism::Pp, SendRecv, 1 << 20, &[0, 8], 3),
                demand(Parallelism::Dp, AllReduce, 4, &[stage, 8 + stage], 1),
            ];
            Line { label: format!("stage {stage}"), demands }
        };
        vec![of(0), of(1)]
    }

    #[test]
    fn groups_that_are_alike_share_a_plan() {
        let it = sorted(&cluster(), &lines()).unwrap();
        let names: Vec<&str> = it.classes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            ["tp-8", "dp-2"],
            "both servers' groups are one class, both rails' another"
        );
        assert_eq!(it.classes[0].network.name(), "dgx-a100 tp-8");
        let moved = &it.classes[0].sizes[&AllGather];
        assert_eq!(moved[&Bytes::new(40_000_000)], 2 * 4 * 40_000_000, "of both servers");
        assert_eq!(it.uses[1].len(), 3);
        let left: Vec<_> = it.left_out.iter().map(|it| (it.kind, it.calls, it.why)).collect();
        let expected =
            [(AllReduce, 2, "smaller than 1 KiB"), (SendRecv, 6, "a message has one way to go")];
        assert_eq!(left, expected);
        let strange = vec![Line {
            label: String::new(),
            demands: vec![demand(Parallelism::Dp, AllReduce, 1 << 20, &[0, 16], 1)],
        }];
        assert!(sorted(&cluster(), &strange).is_err());
    }

    #[test]
    fn a_step_gains_what_its_table_gives() {
        let it = sorted(&cluster(), &lines()).unwrap();
        let plan = |class: &GroupClass| {
            let request = Request {
                tasks: class.tasks(),
                seed: 0,
                effort: Effort { method: Method::Surrogate, trials: 0 },
                sketch: None,
                most_blocks: None,
                margin_percent: 5,
                mscclpp: MscclppUse::default(),
                runtime: None,
            };
            make(&class.network, &request, &NoJournal).unwrap()
        };
        let mut plans: Vec<Plan> = it.classes.iter().map(plan).collect();
        assert_eq!(plans[0].tasks.len(), 2);
        // 40 and 50 MB lie between the same powers of two; the one that moves more stands for both.
        let table = it.classes[0].for_table(&plans[0]);
        let kept: Vec<u64> = table.tasks.iter().map(|it| it.size_bytes).collect();
        assert_eq!(kept, [40_000_000]);
        let time = line_time(&it, &it.uses[0], &plans);
        assert!(time.planned <= time.tuned && time.tuned <= time.nccl, "{time:?}");
        assert!(time.nccl > Duration::ZERO && time.unknown == 0);
        // What the larger size would gain in another way does not count: the table does not give it that.
        let own: Vec<Duration> =
            plans[0].tasks.iter().map(|it| it.nccl.as_ref().unwrap().time()).collect();
        for task in &mut plans[0].tasks {
            task.pick.time_ps /= 2;
            task.pick.way = format!("way for {}", task.size_bytes);
        }
        let other = line_time(&it, &it.uses[0][..2], &plans);
        let half = plans[0].tasks[0].pick.time().saturating_mul(4);
        assert_eq!(other.planned, half + own[1]);
    }
}
