//! A job as Chakra traces: [`trace`] for one rank, [`groups`] for the members of all groups.
//!
//! One DAG represents all ranks of a stage ([`crate::iteration`]). A rank's trace is its stage's part of the
//! DAG, with the rank's own groups and partners. A message between stages is a node in both ranks' traces,
//! with the same tag. Groups are named by numbers, because ASTRA-sim expects that.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::rounding::div;
use motet_units::{Duration, Rank, Rounding};

use super::{Collective, Message, Node, NodeKind, Trace};
use crate::iteration::{Communication, Iteration, Operation, Work};
use crate::job::Job;
use crate::layout::{Group, Layout};

/// The version of Chakra's schema that the traces are written by.
pub(super) const VERSION: &str = "0.0.4";
/// The kinds of groups that collectives have; numbers of groups follow the order of this list.
const KINDS: [Group; 7] = [
    Group::Tensor,
    Group::Context,
    Group::Data,
    Group::ExpertData,
    Group::Expert,
    Group::Pipeline,
    Group::Ends,
];

/// The part that a rank has in an operation.
enum Role {
    /// It carries the operation out, alone or with its group.
    Does,
    Sends {
        to: Rank,
    },
    Receives {
        from: Rank,
    },
}

/// The trace of one rank of a job, or none if there is no such rank.
#[must_use]
pub fn trace(job: &Job, iteration: &Iteration, rank: Rank) -> Option<Trace> {
    let layout = job.layout();
    if u64::from(rank.0) >= layout.ranks() {
        return None;
    }
    let mut mine = BTreeSet::new();
    let mut nodes = Vec::new();
    for (index, operation) in iteration.operations().iter().enumerate() {
        let Some(role) = role(layout, operation, rank) else { continue };
        let before = iteration.waits(index).iter().filter(|it| mine.contains(*it));
        let mut waits: Vec<u64> = before.map(|it| u64::from(*it)).collect();
        waits.sort_unstable();
        waits.dedup();
        mine.insert(index as u32);
        nodes.push(node(job, operation, index, rank, &role, waits));
    }
    Some(Trace { version: VERSION.to_owned(), nodes })
}

fn role(layout: &Layout, operation: &Operation, rank: Rank) -> Option<Role> {
    let stage = layout.stage(rank);
    let partner = |stage| layout.members(Group::Hop { to: stage }, rank).last().copied();
    match operation.communication().map(|it| it.group) {
        Some(Group::Hop { to }) if operation.stage == stage => {
            partner(to).map(|to| Role::Sends { to })
        }
        Some(Group::Hop { to }) if to == stage => {
            partner(operation.stage).map(|from| Role::Receives { from })
        }
        Some(Group::Pipeline) => Some(Role::Does),
        Some(Group::Ends) => (stage == 0 || stage + 1 == layout.pp).then_some(Role::Does),
        _ => (operation.stage == stage).then_some(Role::Does),
    }
}

fn node(
    job: &Job,
    operation: &Operation,
    index: usize,
    rank: Rank,
    role: &Role,
    waits: Vec<u64>,
) -> Node {
    let kind = match operation.work {
        Work::Compute { flops, memory } => {
            NodeKind::Compute { operations: Some(flops), bytes: Some(memory) }
        }
        Work::Host(_) => NodeKind::Compute { operations: None, bytes: None },
        Work::Communicate(it) => communicate(job.layout(), &it, index, rank, role),
    };
    // A receiver waits for its message, not for what its sender has done before.
    let waits = if matches!(role, Role::Receives { .. }) { Vec::new() } else { waits };
    Node {
        id: index as u64,
        name: name(operation),
        waits,
        control: Vec::new(),
        start: 0,
        duration: micros(operation.compute_time(&job.draft().gpu)),
        is_cpu: Some(matches!(operation.work, Work::Host(_))),
        kind,
    }
}

/// Chakra's whole microseconds, rounded up.
pub(super) fn micros(time: Duration) -> u64 {
    let micros = div(time.as_ps().into(), 1_000_000, Rounding::Up).unwrap_or(0);
    u64::try_from(micros).unwrap_or(u64::MAX)
}

fn communicate(
    layout: &Layout,
    it: &Communication,
    index: usize,
    rank: Rank,
    role: &Role,
) -> NodeKind {
    let tag = u32::try_from(index).ok();
    let message = |from, to| Message { bytes: Some(it.bytes), from: Some(from), to: Some(to), tag };
    match *role {
        Role::Sends { to } => NodeKind::Send(message(rank, to)),
        Role::Receives { from } => NodeKind::Receive(message(from, rank)),
        Role::Does => NodeKind::Collective {
            what: Some(Collective::Data(it.kind)),
            bytes: Some(it.input(layout)),
            group: number(layout, it.group, rank).map(|it| it.to_string()),
        },
    }
}

/// `forward layer 3 micro-batch 0 TP allgather`.
fn name(operation: &Operation) -> String {
    use crate::iteration::Phase;
    use crate::model::Part;
    let mut words = vec![
        match operation.phase {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Weights => "weights",
            Phase::Optimizer => "optimizer",
        }
        .to_owned(),
    ];
    words.extend(operation.part.map(|it| match it {
        Part::Embedding => "embedding".to_owned(),
        Part::Layer(layer) => format!("layer {layer}"),
        Part::Head => "head".to_owned(),
    }));
    words.extend(operation.micro_batch.map(|it| format!("micro-batch {it}")));
    words.push(match operation.communication() {
        Some(it) => format!("{} {}", it.parallelism.name(), it.kind.name()),
        None => "compute".to_owned(),
    });
    words.join(" ")
}

/// The number of a rank's group; no two groups of a job have the same number.
fn number(layout: &Layout, group: Group, rank: Rank) -> Option<u64> {
    let kind = KINDS.iter().position(|it| *it == group)? as u64;
    let first = layout.members(group, rank).first().copied()?;
    Some(1 + kind * layout.ranks() + u64::from(first.0))
}

/// The members of all groups that a step uses, as the JSON that ASTRA-sim takes beside traces
/// (`comm-group-configuration`): `{"1": [0, 1]}`.
pub fn groups(job: &Job, iteration: &Iteration) -> Result<String, serde_json::Error> {
    let layout = job.layout();
    let used: BTreeSet<Group> = iteration.communications().map(|(_, _, it)| it.group).collect();
    let mut all: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for group in KINDS.into_iter().filter(|it| used.contains(it)) {
        for rank in (0..u32::try_from(layout.ranks()).unwrap_or(u32::MAX)).map(Rank) {
            let members = layout.members(group, rank);
            // Each group once, by its first rank.
            if members.first() == Some(&rank)
                && let Some(number) = number(layout, group, rank)
            {
                all.insert(number, members.into_iter().map(|it| it.0).collect());
            }
        }
    }
    serde_json::to_string(&all)
}
