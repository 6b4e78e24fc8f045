//! [`Repairer`]: a good program for a network that has changed, in milliseconds.
//!
//! What is hard about a program is its trees. A repairer keeps all it has found for a task, with
//! the linear program that weighs them ([`crate::packing`]). When links become slower, fail or come
//! back, only right-hand sides change: the first answer is the start for the next, a few
//! trees join where the old ones no longer do, and the weights are rounded and lowered again. It
//! may also start from trees that another method found.
//!
//! It serves AllGather, Broadcast, ReduceScatter, Reduce and AllReduce.

use motet_collective::CollectiveKind;
use motet_net::NetworkState;
use motet_units::LinkId;

use crate::fabric::Fabric;
use crate::lower::{Lowered, Lowering, Trees};
use crate::packing::master::{Effort, Master, Packed};
use crate::packing::pricing::Shape;
use crate::packing::roads::Roads;
use crate::task::{SynthError, Task};
use crate::tree::{Forest, PairForest, Tree};

/// How hard to look for the first answer.
const FIRST: Effort = Effort { gap: 0.005, rounds: 40, turns: 400, idle: 30 };

/// How hard to look after a change.
const AFTER: Effort = Effort { gap: 0.02, rounds: 20, turns: 12, idle: 2 };

/// Most units that the weights of a group are rounded to, and what that may lose.
const MOST_UNITS: u32 = 64;
const LOSS: f64 = 0.02;

/// Most transfers of a repaired program: what can be ordered in a millisecond or two.
const MOST_TRANSFERS: u64 = 5000;

/// Keeps what is known about a task: see the head of this file. Cloning it is saving it.
#[derive(Clone, Debug)]
pub struct Repairer<'a> {
    task: Task<'a>,
    /// With one row for a link and its opposite, for as long as they are equal (AllReduce only).
    both_ways: Option<Master>,
    one_way: Master,
    most_transfers: u64,
}

impl<'a> Repairer<'a> {
    /// Solves the task as it is.
    pub fn new(task: &Task<'a>) -> Result<Self, SynthError> {
        let mut made = Self::unsolved(task)?;
        made.prepare()?;
        Ok(made)
    }

    /// Starts from trees that spread or collect, as the task's collective does.
    pub fn with_forest(task: &Task<'a>, forest: &Forest) -> Result<Self, SynthError> {
        let mut made = Self::unsolved(task)?;
        for tree in &forest.trees {
            made.one_way.learn(&[(tree, &forest.paths)]);
        }
        made.prepare()?;
        Ok(made)
    }

    /// Starts from pairs of trees, for an AllReduce.
    pub fn with_pairs(task: &Task<'a>, forest: &PairForest) -> Result<Self, SynthError> {
        let mut made = Self::unsolved(task)?;
        for pair in &forest.pairs {
            let halves: [(&Tree, _); 2] =
                [(&pair.spread, &forest.paths), (&pair.collect, &forest.paths)];
            made.one_way.learn(&halves);
            if let Some(both_ways) = &mut made.both_ways {
                both_ways.learn(&halves);
            }
        }
        made.prepare()?;
        Ok(made)
    }

    /// Programs with at most so many transfers: more make longer pipelines of thinner slices, and
    /// take longer to make.
    #[must_use]
    pub const fn most_transfers(mut self, most: u64) -> Self {
        self.most_transfers = most;
        self
    }

    /// A program for the network in another state. Links that the task allows may be used, whether
    /// they were up before or not. It starts from the first answer each time, so that the same
    /// state gives the same program whatever came between, and many can be repaired at once.
    pub fn repair(&self, state: &NetworkState) -> Result<Lowered, SynthError> {
        let mut now = self.clone();
        now.task.state = state.clone();
        if now.task.goal.ranks() < 2 {
            return crate::packing::alone(&now.task);
        }
        let packed = now.pack(AFTER)?;
        let fabric = Fabric::new(&now.task)?;
        now.lower(&fabric, &packed)
    }

    fn unsolved(task: &Task<'a>) -> Result<Self, SynthError> {
        use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        // Rows for all links that may ever be used, whatever their state is now.
        let nominal = Task { state: NetworkState::nominal(task.network), ..task.clone() };
        let fabric = Fabric::new(&nominal)?;
        let roots = || match task.goal.root() {
            Some(root) => vec![root],
            None => fabric.ranks().collect(),
        };
        let shape = match task.goal.kind() {
            AllGather | Broadcast => Shape::Spread(roots()),
            ReduceScatter | Reduce => Shape::Collect(roots()),
            AllReduce => Shape::Both,
            other => {
                let why = format!("{other} is not done by trees");
                return Err(SynthError::not_for("repair", why));
            }
        };
        let both_ways = Roads::both_ways(&fabric).filter(|_| shape == Shape::Both);
        Ok(Self {
            task: task.clone(),
            both_ways: both_ways.map(|it| Master::new(it, Shape::Both)),
            one_way: Master::new(Roads::one_way(&fabric), shape),
            most_transfers: MOST_TRANSFERS,
        })
    }

    /// The first answers, on which all others build.
    fn prepare(&mut self) -> Result<(), SynthError> {
        if self.task.goal.ranks() < 2 {
            return Ok(());
        }
        let (task, bits) = (&self.task, |it| bits_per_s(&self.task, it));
        let mut solved = Some(Packed::default());
        if let Some(both_ways) = &mut self.both_ways {
            solved = both_ways.solve(FIRST);
            self.one_way.learn_all(both_ways);
        }
        solved = solved.and_then(|_| self.one_way.solve(FIRST));
        if solved.is_none() {
            // The network as it nominally is has a gap: the bound knows the cut.
            task.bound()?;
        }
        let _ = self.one_way.resolve(bits, FIRST);
        Ok(())
    }

    /// How much each tree should carry now.
    fn pack(&mut self, effort: Effort) -> Result<Packed, SynthError> {
        let (task, bits) = (&self.task, |it| bits_per_s(&self.task, it));
        let equal = self.both_ways.as_ref().is_some_and(|it| it.is_equal_both_ways(bits));
        let master = match &mut self.both_ways {
            Some(both_ways) if equal => both_ways,
            _ => &mut self.one_way,
        };
        let Some(packed) = master.resolve(bits, effort) else {
            task.bound()?;
            return Err(SynthError::not_for("repair", "some rank cannot be reached"));
        };
        Ok(packed)
    }

    fn lower(&self, fabric: &Fabric, packed: &Packed) -> Result<Lowered, SynthError> {
        let master = match &self.both_ways {
            Some(both_ways) if packed.both_ways => both_ways,
            _ => &self.one_way,
        };
        let rounded = master.round(packed, MOST_UNITS, LOSS);
        let Some(rounded) = rounded else {
            return Err(SynthError::not_for("repair", "no packing could be found"));
        };
        let task = &self.task;
        match master.shape() {
            Shape::Both => {
                let pairs = master.pairs(&rounded);
                self.sliced(&Lowering::new(task, fabric, Trees::Both(&pairs))?)
            }
            Shape::Spread(_) => {
                let forest = master.forest(&rounded);
                self.sliced(&Lowering::new(task, fabric, Trees::Spread(&forest))?)
            }
            Shape::Collect(_) => {
                let forest = master.forest(&rounded);
                self.sliced(&Lowering::new(task, fabric, Trees::Collect(&forest))?)
            }
        }
    }

    /// With as many slices as the transfers allow: there is no time to try several.
    fn sliced(&self, lowering: &Lowering<'_>) -> Result<Lowered, SynthError> {
        let most = self.most_transfers / lowering.transfers(1).max(1);
        let mut slices = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        while slices > 1 && !lowering.fits(slices) {
            slices /= 2;
        }
        lowering.with_slices(slices)
    }
}

/// What a link can carry now; nothing if it may not be used.
fn bits_per_s(task: &Task<'_>, link: LinkId) -> u64 {
    if task.usable(link) { task.state.bandwidth(link).bits_per_s() } else { 0 }
}
