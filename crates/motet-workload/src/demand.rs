//! [`Demand`]: the distinct calls that a rank makes, each with its count: what tuning needs to know of a workload.
//!
//! Calls are counted together if they are the same collective of the same size in the same group. One rank represents all of
//! its stage, because the groups of the others have the same shape and make the same calls.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Rank};

use crate::iteration::Iteration;
use crate::job::Job;
use crate::layout::{Group, Parallelism};
use crate::recording::Recording;

/// Equal calls and how often they are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The parallelism they serve, if known.
    pub parallelism: Option<Parallelism>,
    pub kind: CollectiveKind,
    /// The size in nccl-tests' sense.
    pub bytes: Bytes,
    /// The ranks of the group, in ascending order.
    pub members: Vec<Rank>,
    /// How often the call is made.
    pub calls: u64,
}

type Alike = (Option<Parallelism>, CollectiveKind, Vec<Rank>, Bytes);

fn counted(all: BTreeMap<Alike, u64>) -> Vec<Demand> {
    let demand = |((parallelism, kind, members, bytes), calls)| Demand {
        parallelism,
        kind,
        bytes,
        members,
        calls,
    };
    all.into_iter().map(demand).collect()
}

impl Job {
    /// The first rank of a stage.
    #[must_use]
    pub fn first_rank(&self, stage: u32) -> Rank {
        let layout = self.layout();
        Rank(layout.dp * layout.tp * layout.cp * stage)
    }

    /// The calls of a stage's first rank in a step. A message counts for its sender only.
    #[must_use]
    pub fn demands(&self, iteration: &Iteration, stage: u32) -> Vec<Demand> {
        let layout = self.layout();
        let rank = self.first_rank(stage);
        let mut groups: BTreeMap<Group, Vec<Rank>> = BTreeMap::new();
        let mut all: BTreeMap<Alike, u64> = BTreeMap::new();
        for (_, operation, it) in iteration.communications() {
            if !layout.takes_part(it.group, operation.stage, stage) {
                continue;
            }
            let members = groups.entry(it.group).or_insert_with(|| {
                let mut members = layout.members(it.group, rank);
                members.sort_unstable();
                members
            });
            let alike = (Some(it.parallelism), it.kind, members.clone(), it.bytes);
            *all.entry(alike).or_default() += 1;
        }
        counted(all)
    }
}

impl Recording {
    /// The recorded calls of a rank, over all steps.
    #[must_use]
    pub fn demands(&self, rank: Rank) -> Vec<Demand> {
        let mut all: BTreeMap<Alike, u64> = BTreeMap::new();
        for call in self.calls().iter().filter(|it| it.seen.iter().any(|it| it.rank == rank)) {
            let group = self.group(call);
            let members = match call.kind {
                // A message is between its two ends, whatever group it was sent in.
                CollectiveKind::SendRecv => call.seen.iter().map(|it| it.rank).collect(),
                _ => group.members.clone(),
            };
            *all.entry((group.parallelism, call.kind, members, call.bytes)).or_default() += 1;
        }
        counted(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::job_toml;

    #[test]
    fn demands_add_up_to_the_volumes() {
        let text = "model = \"mixtral-8x7b\"\ngpu = \"h100\"\n[layout]\ntp = 2\ndp = 4\nep = 2\npp = 2\n\
                    sharding = \"optimizer\"\n[batch]\nsequence = 4096\nmicro = 1\nglobal = 12\n";
        let job = job_toml::read(text).unwrap().check().unwrap();
        let iteration = job.iteration(0).unwrap();
        for stage in 0..2 {
            let demands = job.demands(&iteration, stage);
            let mut sums = crate::Volumes::default();
            for it in &demands {
                let bytes = u128::from(it.bytes.get()) * u128::from(it.calls);
                sums.add((it.parallelism.unwrap(), it.kind), it.calls, bytes);
                assert!(it.members.contains(&job.first_rank(stage)));
            }
            assert_eq!(sums, iteration.volumes(job.layout(), stage));
        }
        assert_eq!(job.first_rank(1), Rank(8));
    }
}
