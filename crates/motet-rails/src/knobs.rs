//! The choice that the knobs hand has on rails: whether an AllReduce uses NCCL's rings or its trees.
//!
//! On ideal links channels and protocols make no difference, so that the algorithm is all there is to choose; and only where a packet
//! switch carries the call: inside a scale-up domain, on packet-switched rails, or over the host's network. Circuits between
//! neighbours can only carry rings. Before every step the hand is asked once for each recurring call, as for a table that is
//! valid for one step, and after it is told the mean time of those calls. Any [`KnobsHand`] will do; `motet-agent` has policies.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_control::hand::{Call, KnobsHand, Ran};
use motet_units::{Bytes, Duration};
use motet_workload::{Communication, Group, Run};

use crate::alone::{MOST_TREES, Topology};
use crate::error::RailsError;
use crate::levels::Levels;
use crate::step::TrainingStep;

/// The set of AllReduces that use trees; all others use rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms(BTreeSet<(u32, Group, Bytes)>);

impl Algorithms {
    pub(crate) fn is_tree(&self, stage: u32, what: &Communication) -> bool {
        what.kind == CollectiveKind::AllReduce && self.0.contains(&(stage, what.group, what.bytes))
    }
}

/// A recurring AllReduce of a stage, and how long it takes on packet switches with the network to itself, by each algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub stage: u32,
    pub group: Group,
    pub bytes: Bytes,
    /// The ranks of its largest group.
    pub ranks: u32,
    pub rings: Duration,
    pub trees: Duration,
}

/// The setting of a task that uses rings, the default; [`TREES`] is the other.
pub const RINGS: usize = 0;
pub const TREES: usize = 1;

/// The AllReduces of a step for which trees are an alternative.
pub fn tasks(step: &TrainingStep) -> Result<Vec<Task>, RailsError> {
    let star = |_| Topology::Star(step.machine.rail);
    let mut all = BTreeMap::new();
    for (_, operation, what) in step.iteration.communications() {
        if what.kind == CollectiveKind::AllReduce {
            all.insert((operation.stage, what.group, what.bytes), *what);
        }
    }
    let by_trees = Algorithms(all.keys().copied().collect());
    let mut rings = Levels::new(step.job.layout(), &step.machine);
    let mut trees = Levels::new(step.job.layout(), &step.machine).by(&by_trees);
    let mut found = Vec::new();
    for ((stage, group, bytes), what) in all {
        let ranks = step.job.layout().size(group);
        let (a, b) = (rings.cost(stage, &what, &star, 0)?, trees.cost(stage, &what, &star, 0)?);
        if a != b && ranks <= MOST_TREES {
            let (rings, trees) = (a.alone(), b.alone());
            found.push(Task { stage, group, bytes, ranks, rings, trees });
        }
    }
    Ok(found)
}

/// Runs a step so many times; before each, the hand chooses the algorithms.
pub fn steps(
    step: &TrainingStep,
    tasks: &[Task],
    count: u32,
    hand: &mut dyn KnobsHand,
    mut run: impl FnMut(&Algorithms) -> Result<Run, RailsError>,
) -> Result<Vec<Run>, RailsError> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let mut by = Algorithms::default();
        for (number, task) in tasks.iter().enumerate() {
            let Ok(proposal) = hand.propose(Call { task: number });
            if proposal.is_some_and(|it| it.action == TREES) {
                by.0.insert((task.stage, task.group, task.bytes));
            }
        }
        let ran = run(&by)?;
        for (number, task) in tasks.iter().enumerate() {
            let setting =
                if by.0.contains(&(task.stage, task.group, task.bytes)) { TREES } else { RINGS };
            if let Some(time) = mean(step, task, &ran) {
                hand.learn(&Ran { task: number, setting, time });
            }
        }
        runs.push(ran);
    }
    Ok(runs)
}

/// The mean time of a task's calls in a step.
fn mean(step: &TrainingStep, task: &Task, ran: &Run) -> Option<Duration> {
    let own = |stage: u32, what: &Communication| {
        what.kind == CollectiveKind::AllReduce
            && (stage, what.group, what.bytes) == (task.stage, task.group, task.bytes)
    };
    let (mut sum, mut calls) = (0_u128, 0_u128);
    for (index, operation, what) in step.iteration.communications() {
        if own(operation.stage, what) {
            let span = ran.spans().get(index)?;
            sum += u128::from(span.end.since(span.start).as_ps());
            calls += 1;
        }
    }
    let mean = sum.checked_div(calls)?;
    Some(Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX)))
}
