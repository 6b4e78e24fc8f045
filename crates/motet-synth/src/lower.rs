//! [`Lowering`]: from trees to a program.
//!
//! What a tree carries is cut into *slices* that follow each other through it. With one slice a rank can
//! forward only after all of its data has arrived; with many slices the tree is a pipeline, at the price
//! of more transfers. [`slices`] finds how many are best. In which order links carry the slices of
//! different trees is decided by list scheduling ([`crate::schedule`]).
//!
//! Trees that collect (ReduceScatter, Reduce) were found on the network turned round. They are scheduled
//! there as if they spread, and the schedule is then read backwards in time: so a ReduceScatter takes as
//! long as the AllGather on the same trees.

mod emit;
mod slices;

use motet_collective::{Collective, CollectiveKind, Program};
use motet_units::{Bytes, Duration, Rank};

use crate::fabric::Fabric;
use crate::limits::{MAX_CELLS, MAX_TRANSFERS};
use crate::schedule::{Jobs, Schedule};
use crate::task::{SynthError, Task};
use crate::tree::{Edge, Forest, PairForest, Tree};

/// How many slices of an AllReduce may be in flight beyond those that fill two round trips up and down the
/// tree: some have to wait in queues.
const QUEUED: u64 = 4;

/// How long a slice may queue inside the network, as a multiple of its transmission time. Unlimited for
/// AllReduce, because `window_of` already bounds the slices in flight.
const PATIENCE: u64 = u64::MAX;

/// How many times as fast as the busiest link can carry them the slices of an AllReduce are due, in
/// [`Order::Ahead`]. A fast pace lets what goes up the trees run ahead, so that at the end nobody waits for
/// the last slice to come down.
const PACE: u64 = 4;

/// Which slices of an AllReduce a link carries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The slice with the lowest number, whether it is on its way up or down.
    ByWave,
    /// The slice that still has the longest way to go. Better where latencies are long.
    Ahead,
}

/// Trees, and in which direction data flows along them.
#[derive(Clone, Copy, Debug)]
pub enum Trees<'a> {
    /// AllGather, Broadcast.
    Spread(&'a Forest),
    /// ReduceScatter, Reduce; found on the fabric turned round.
    Collect(&'a Forest),
    /// AllReduce.
    Both(&'a PairForest),
}

/// A program, how long its schedule says it takes, and into how many slices its data is cut.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub program: Program,
    pub makespan: Duration,
    pub slices: u32,
}

/// Makes programs of trees for a task.
#[derive(Debug)]
pub struct Lowering<'a> {
    task: &'a Task<'a>,
    /// In the network's direction; `turned` is the same reversed.
    fabric: &'a Fabric,
    turned: Fabric,
    trees: Trees<'a>,
    /// Chunks per part and slice.
    weight: u32,
    at_one_go: bool,
    order: Order,
}

/// Trees cut into slices, with the order in which links carry them.
pub(crate) struct Sliced {
    collective: Collective,
    pub(crate) schedule: Schedule,
    pub(crate) slices: u32,
}

/// One tree's share of a part: where it starts, in units of the weight.
pub(crate) struct Share<'a> {
    tree: &'a Tree,
    /// The tree that collects, where there are two; `tree` is then the one that spreads.
    collect: Option<&'a Tree>,
    base: u32,
}

impl<'a> Lowering<'a> {
    /// Checks that the trees fit the task: that they are for its collective, and that the trees of every
    /// root have the same weight together.
    pub fn new(
        task: &'a Task<'a>,
        fabric: &'a Fabric,
        trees: Trees<'a>,
    ) -> Result<Self, SynthError> {
        use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        let kind = task.goal.kind();
        let fits = match trees {
            Trees::Spread(_) => matches!(kind, AllGather | Broadcast),
            Trees::Collect(_) => matches!(kind, ReduceScatter | Reduce),
            Trees::Both(_) => kind == AllReduce,
        };
        if !fits {
            return Err(SynthError::not_for("trees", format!("{kind} is not done by such trees")));
        }
        let mut weights = vec![0u64; fabric.rank_count()];
        for tree in trees_of(trees) {
            weights[tree.root.index()] += u64::from(tree.weight);
        }
        let weight = match task.goal.root() {
            Some(root) => weights[root.index()],
            None if kind == AllReduce => weights.iter().sum(),
            None => weights[0],
        };
        let even = kind == AllReduce || task.goal.root().is_some();
        if weight == 0 || (!even && weights.iter().any(|it| *it != weight)) {
            return Err(SynthError::not_for("trees", "some roots have less weight than others"));
        }
        let weight = u32::try_from(weight)
            .map_err(|_| SynthError::not_for("trees", "the weights are too large"))?;
        Ok(Self {
            task,
            fabric,
            turned: fabric.turned_round(),
            trees,
            weight,
            at_one_go: false,
            order: Order::ByWave,
        })
    }

    /// Schedules once, by the rule that is good on most networks, instead of trying several: for
    /// [`repair`](crate::repair), which has milliseconds.
    #[must_use]
    pub const fn at_one_go(mut self) -> Self {
        self.at_one_go = true;
        self
    }

    /// In which order slices go up and down trees.
    #[must_use]
    pub(crate) const fn in_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// How many transfers a program with this many slices has between ranks.
    #[must_use]
    pub fn transfers(&self, slices: u32) -> u64 {
        self.sum_of_edges(|_| 1) * u64::from(slices)
    }

    /// How many links the transfers of such a program cross, added up.
    pub(crate) fn crossings(&self, slices: u32) -> u64 {
        let paths = match self.trees {
            Trees::Spread(it) | Trees::Collect(it) => &it.paths,
            Trees::Both(it) => &it.paths,
        };
        self.sum_of_edges(|it| paths[it.path as usize].len() as u64) * u64::from(slices)
    }

    fn sum_of_edges(&self, of: impl Fn(&Edge) -> u64) -> u64 {
        let sum = |tree: &Tree| tree.edges.iter().map(&of).sum::<u64>();
        match self.trees {
            Trees::Spread(it) | Trees::Collect(it) => it.trees.iter().map(sum).sum(),
            Trees::Both(it) => it.pairs.iter().map(|it| sum(&it.collect) + sum(&it.spread)).sum(),
        }
    }

    /// Whether a program with this many slices is within what can be verified and run.
    #[must_use]
    pub fn fits(&self, slices: u32) -> bool {
        let ranks = u64::from(self.task.goal.ranks());
        let parts = match self.task.goal.kind() {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => ranks,
            _ => 1,
        };
        let cells = u64::from(self.weight).saturating_mul(u64::from(slices)) * parts * ranks;
        let most = self.task.most_transfers.min(MAX_TRANSFERS);
        cells <= MAX_CELLS && (slices == 1 || self.transfers(slices) <= most)
    }

    /// The program with this many slices.
    pub fn with_slices(&self, slices: u32) -> Result<Lowered, SynthError> {
        Ok(self.emit(self.scheduled(slices, self.order)?))
    }

    /// How long the program with this many slices takes, without making it.
    pub fn makespan(&self, slices: u32) -> Result<Duration, SynthError> {
        Ok(self.scheduled(slices, self.order)?.schedule.makespan)
    }

    /// The schedule with this many slices. Fails if the task's watch stops it.
    pub(crate) fn scheduled(&self, slices: u32, order: Order) -> Result<Sliced, SynthError> {
        let collective = self.collective(slices)?;
        let schedule = self.schedule(&collective, slices, order);
        if (schedule.order.len() as u64) < self.transfers(slices) {
            return Err(SynthError::OutOfTime { method: "trees" });
        }
        Ok(Sliced { collective, schedule, slices })
    }

    /// When to stop, and what to beat.
    pub(crate) const fn task(&self) -> &Task<'a> {
        self.task
    }

    fn collective(&self, slices: u32) -> Result<Collective, SynthError> {
        let chunks = self.weight.checked_mul(slices);
        let chunks = chunks.ok_or_else(|| SynthError::not_for("trees", "too many slices"))?;
        Ok(self.task.goal.collective(chunks)?)
    }

    /// Every tree with where its share of its part begins.
    fn shares(&self) -> Vec<Share<'a>> {
        let mut used = vec![0u32; self.fabric.rank_count()];
        let one_part = self.task.goal.kind() == CollectiveKind::AllReduce;
        let mut base_of = |root: Rank, weight: u32| {
            let used = &mut used[if one_part { 0 } else { root.index() }];
            std::mem::replace(used, *used + weight)
        };
        match self.trees {
            Trees::Spread(forest) | Trees::Collect(forest) => forest
                .trees
                .iter()
                .map(|tree| Share { tree, collect: None, base: base_of(tree.root, tree.weight) })
                .collect(),
            Trees::Both(forest) => forest
                .pairs
                .iter()
                .map(|it| Share {
                    tree: &it.spread,
                    collect: Some(&it.collect),
                    base: base_of(it.spread.root, it.spread.weight),
                })
                .collect(),
        }
    }

    /// The order of sendings. Jobs are numbered share by share within a slice: first the edges
    /// that collect, last edge first, then those that spread.
    fn schedule(&self, collective: &Collective, slices: u32, order: Order) -> Schedule {
        let chunk = collective.chunk_bytes(self.task.size);
        match self.trees {
            Trees::Spread(forest) => self.one_way(self.fabric, forest, chunk, slices),
            Trees::Collect(forest) => {
                self.one_way(&self.turned, forest, chunk, slices).turned_round()
            }
            Trees::Both(forest) => self.both_ways(forest, chunk, slices, order),
        }
    }

    fn jobs<'b>(&'b self, fabric: &'b Fabric) -> Jobs<'b> {
        let jobs = Jobs::new(fabric).overtaking(self.task.may_overtake).watched(self.task.watch);
        if self.at_one_go && self.task.may_overtake { jobs.always_queueing() } else { jobs }
    }

    fn one_way(&self, fabric: &Fabric, forest: &Forest, chunk: Bytes, slices: u32) -> Schedule {
        let mut jobs = self.jobs(fabric).urgent_first();
        let mut into = vec![0u32; fabric.rank_count()];
        let mut wave_of = Vec::new();
        let per_slice = self.transfers(1) as u32;
        for slice in 0..slices {
            for tree in &forest.trees {
                let bytes = bytes_of(chunk, tree.weight);
                for edge in &tree.edges {
                    let job = match (jobs.len() as u32).checked_sub(per_slice) {
                        Some(before) => jobs.send_like(before),
                        None => jobs.send(edge.path, &forest.paths[edge.path as usize], bytes),
                    };
                    if edge.from != tree.root {
                        jobs.wait(job, into[edge.from.index()]);
                    }
                    into[edge.to.index()] = job;
                }
            }
            wave_of.resize(jobs.len(), slice);
        }
        // Where links carry jobs by number, an order made for far links is kept by all others too, and when
        // rates change, as on a WAN, that costs more than it gains.
        if self.at_one_go || !self.task.may_overtake {
            jobs.schedule_in_waves(&wave_of, 1)
        } else {
            jobs.schedule_near_and_far(&wave_of)
        }
    }

    fn both_ways(&self, forest: &PairForest, chunk: Bytes, slices: u32, order: Order) -> Schedule {
        let mut jobs = self.jobs(self.fabric).with_patience(PATIENCE);
        let back: Vec<_> =
            forest.paths.iter().map(|it| it.iter().rev().copied().collect::<Vec<_>>()).collect();
        let ranks = self.fabric.rank_count();
        let mut arrived: Vec<Vec<u32>> = vec![Vec::new(); ranks];
        let mut into = vec![0u32; ranks];
        let turned = forest.paths.len() as u32;
        let mut wave_of = Vec::new();
        let per_slice = self.transfers(1) as u32;
        let mut window = u32::MAX;
        let mut down = vec![0u32; ranks];
        for slice in 0..slices {
            for pair in &forest.pairs {
                let first_down = jobs.len() as u32 + pair.collect.edges.len() as u32;
                for (job, edge) in (first_down..).zip(&pair.spread.edges) {
                    down[edge.to.index()] = job;
                }
                let bytes = bytes_of(chunk, pair.spread.weight);
                arrived.iter_mut().for_each(Vec::clear);
                for edge in pair.collect.edges.iter().rev() {
                    let job = jobs.send(turned + edge.path, &back[edge.path as usize], bytes);
                    for before in &arrived[edge.to.index()] {
                        jobs.wait(job, *before);
                    }
                    if slice >= window && arrived[edge.to.index()].is_empty() {
                        jobs.wait(job, down[edge.to.index()] - window * per_slice);
                    }
                    arrived[edge.from.index()].push(job);
                }
                for edge in &pair.spread.edges {
                    let job = jobs.send(edge.path, &forest.paths[edge.path as usize], bytes);
                    if edge.from == pair.spread.root {
                        for before in &arrived[edge.from.index()] {
                            jobs.wait(job, *before);
                        }
                    } else {
                        jobs.wait(job, into[edge.from.index()]);
                    }
                    into[edge.to.index()] = job;
                }
            }
            wave_of.resize(jobs.len(), slice);
            if slice == 0 {
                window = window_of(&jobs);
            }
        }
        let schedule = match order {
            Order::ByWave => jobs.schedule_wave_by_wave(&wave_of),
            Order::Ahead => jobs.schedule_in_waves(&wave_of, PACE),
        };
        Schedule { window, ..schedule }
    }
}

/// How many slices of an AllReduce may be in flight at once, given the jobs of one slice. A leaf waits for
/// nobody, so it would send slice after slice up its tree long before they are needed; at the end all sums
/// would still have to come down, which fills few links. So a leaf holds a slice back until the result of the
/// slice this many before has come down to it: twice as many as fill the time of a round trip, and some more
/// to queue.
fn window_of(jobs: &Jobs<'_>) -> u32 {
    let (there_and_back, period) = (jobs.longest(), jobs.busiest().max(1));
    let slices = there_and_back.saturating_mul(2).div_ceil(period).saturating_add(QUEUED);
    u32::try_from(slices).unwrap_or(u32::MAX)
}

fn bytes_of(chunk: Bytes, weight: u32) -> Bytes {
    chunk.checked_mul(u64::from(weight)).unwrap_or(Bytes::new(u64::MAX))
}

/// One tree for each share of a part. Its weight says how large the share is.
fn trees_of(trees: Trees<'_>) -> Vec<&Tree> {
    match trees {
        Trees::Spread(forest) | Trees::Collect(forest) => forest.trees.iter().collect(),
        Trees::Both(forest) => forest.pairs.iter().map(|it| &it.spread).collect(),
    }
}
