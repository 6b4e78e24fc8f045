//! What the knobs hand may choose on rails: by which of NCCL's algorithms an AllReduce goes, rings or trees.
//!
//! On ideal links that is what knobs come to (channels and protocols make no difference there), and only where a packet switch
//! carries the call: inside a scale-up domain, on packet-switched rails, over the host's network. Circuits between neighbours carry rings only. The
//! hand is asked once for each call that comes again and again before every step, as of a table that is published for one step, and told what
//! they took in the mean of the step. Who has the hand is of no matter here ([`KnobsHand`]); `motet-agent` has policies.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_control::hand::{Call, KnobsHand, Ran};
use motet_units::{Bytes, Duration};
use motet_workload::{Communication, Group, Run};

use crate::alone::{MOST_TREES, Topology};
use crate::error::RailsError;
use crate::levels::Levels;
use crate::step::Step;

/// The AllReduces that go by trees; all others go by rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms(BTreeSet<(u32, Group, Bytes)>);

impl Algorithms {
    pub(crate) fn is_tree(&self, stage: u32, what: &Communication) -> bool {
        what.kind == CollectiveKind::AllReduce && self.0.contains(&(stage, what.group, what.bytes))
    }
}

/// An AllReduce of a stage that comes again and again, and what it takes on packet switches with the network to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub stage: u32,
    pub group: Group,
    pub bytes: Bytes,
    /// Of its widest group.
    pub ranks: u32,
    pub rings: Duration,
    pub trees: Duration,
}

/// The settings of a task: by rings, as ever, or by trees.
pub const RINGS: usize = 0;
pub const TREES: usize = 1;

/// The AllReduces of a step that trees can be tried for.
pub fn tasks(step: &Step) -> Result<Vec<Task>, RailsError> {
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

/// Runs a step so many times, each by what the hand says before it.
pub fn steps(
    step: &Step,
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

/// What the calls of a task took in a step, in the mean.
fn mean(step: &Step, task: &Task, ran: &Run) -> Option<Duration> {
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
