//! [`Control`]: who gets which circuits when. This is what Opus' controller does (§4).
//!
//! Without provisioning, circuits are asked for by traffic that wants to start. First come, first served: whoever asked
//! before and wants one of the same ports goes first. Circuits are set only if they are not there; ports are taken from
//! other circuits only when nothing is sent over those; and for the whole delay nobody sends over them.
//!
//! With provisioning, the order in which traffic takes each port is known from a step before. It is kept, and circuits for
//! the next traffic are set as soon as the traffic before it on those ports has ended. Keeping the order is what makes sure that nothing
//! comes later than without: each start is a maximum of ends before it, and none of those has become later.

use motet_units::{Duration, Instant};
use motet_workload::Run;
use motet_workload::simulate::fabric::Call;
use motet_workload::simulate::{Cost, Fabric};

use super::circuits::CircuitSet;
use crate::table::Table;

/// Whether a set's circuits are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Down,
    /// Being set until then.
    Setting(Instant),
    Up,
}

/// Circuits that were set for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub set: usize,
    /// When its ports were taken, when it could be sent over, and when it was torn down.
    pub taken: Instant,
    pub up: Instant,
    pub until: Instant,
}

/// Sets that are there at the start, or will be at a time.
pub(super) type Initial = Vec<(usize, Instant)>;

/// Which operations take each port of each stage, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    queues: Vec<Vec<usize>>,
    /// The queues of each operation.
    of: Vec<Vec<usize>>,
}

impl Order {
    /// As they happened in a run.
    pub(super) fn of(run: &Run, wants: &[Option<usize>], sets: &[CircuitSet], ports: u32) -> Self {
        let stages = sets.iter().flat_map(|it| &it.ends).map(|it| it.0 + 1).max().unwrap_or(0);
        let mut order = Self {
            queues: vec![Vec::new(); (stages * ports) as usize],
            of: vec![Vec::new(); wants.len()],
        };
        let mut all: Vec<usize> = (0..wants.len()).filter(|it| wants[*it].is_some()).collect();
        all.sort_by_key(|it| (run.spans()[*it].start, *it));
        for operation in all {
            let Some(set) = wants[operation] else { continue };
            for (stage, held) in &sets[set].ends {
                for port in (0..ports).filter(|it| held >> it & 1 == 1) {
                    let queue = (stage * ports + port) as usize;
                    order.queues[queue].push(operation);
                    order.of[operation].push(queue);
                }
            }
        }
        order
    }

    /// The first operations of all queues that are first wherever they stand.
    pub(super) fn first(&self) -> Vec<usize> {
        let at = vec![0; self.queues.len()];
        self.heads(&at)
    }

    fn is_head(&self, at: &[usize], operation: usize) -> bool {
        self.of[operation].iter().all(|it| self.queues[*it].get(at[*it]) == Some(&operation))
    }

    fn heads(&self, at: &[usize]) -> Vec<usize> {
        let heads = self.queues.iter().zip(at).filter_map(|(queue, at)| queue.get(*at));
        let mut heads: Vec<usize> = heads.copied().filter(|it| self.is_head(at, *it)).collect();
        heads.sort_unstable();
        heads.dedup();
        heads
    }
}

/// Optical rails during one step.
#[derive(Debug)]
pub(super) struct Control<'a> {
    costs: &'a Table,
    /// The set that each operation needs, if it is on the rails.
    wants: &'a [Option<usize>],
    conflicts: Vec<Vec<usize>>,
    delay: Duration,
    order: Option<&'a Order>,
    /// How far each of its queues has come.
    at: Vec<usize>,
    status: Vec<Status>,
    /// How many communications each set carries.
    busy: Vec<u32>,
    /// Operations that wait, in the order of asking.
    pending: Vec<usize>,
    taken: Vec<(Instant, Instant)>,
    log: Vec<Held>,
    changes: u64,
}

impl<'a> Control<'a> {
    pub(super) fn new(
        costs: &'a Table,
        wants: &'a [Option<usize>],
        sets: &[CircuitSet],
        delay: Duration,
        order: Option<&'a Order>,
        initial: &Initial,
    ) -> Self {
        let others = |it: &CircuitSet| {
            let all = sets.iter().enumerate();
            all.filter(|(_, other)| other.key != it.key && it.conflicts(other))
                .map(|(index, _)| index)
                .collect()
        };
        let mut control = Self {
            costs,
            wants,
            conflicts: sets.iter().map(others).collect(),
            delay,
            order,
            at: vec![0; order.map_or(0, |it| it.queues.len())],
            status: vec![Status::Down; sets.len()],
            busy: vec![0; sets.len()],
            pending: Vec::new(),
            taken: vec![(Instant::START, Instant::START); sets.len()],
            log: Vec::new(),
            changes: 0,
        };
        for (set, ready) in initial {
            control.status[*set] = Status::Setting(*ready);
            control.taken[*set] = (Instant::START, *ready);
        }
        control.arrange(Instant::START);
        control
    }

    /// All circuits of the step, and how often some were changed.
    pub(super) fn finish(mut self, end: Instant) -> (Vec<Held>, u64, Initial) {
        let there = |it: &usize| self.status[*it] != Status::Down;
        let there: Vec<usize> = (0..self.status.len()).filter(there).collect();
        for set in &there {
            self.tear_down(*set, end);
        }
        (self.log, self.changes, there.into_iter().map(|it| (it, Instant::START)).collect())
    }

    fn tear_down(&mut self, set: usize, now: Instant) {
        if self.status[set] != Status::Down {
            let (taken, up) = self.taken[set];
            self.log.push(Held { set, taken, up, until: now });
            self.status[set] = Status::Down;
        }
    }

    fn settle(&mut self, now: Instant) {
        for status in &mut self.status {
            if matches!(status, Status::Setting(at) if *at <= now) {
                *status = Status::Up;
            }
        }
    }

    /// Sets circuits, if nobody sends over what must go for them.
    fn set(&mut self, set: usize, now: Instant) {
        let in_use = |it: &usize| {
            self.busy[*it] > 0 || matches!(self.status[*it], Status::Setting(at) if at > now)
        };
        if self.status[set] != Status::Down || self.conflicts[set].iter().any(in_use) {
            return;
        }
        for other in self.conflicts[set].clone() {
            self.tear_down(other, now);
        }
        self.changes += 1;
        let up = now + self.delay;
        self.taken[set] = (now, up);
        self.status[set] = Status::Setting(up);
    }

    fn arrange(&mut self, now: Instant) {
        self.settle(now);
        let next = match self.order {
            Some(order) => order.heads(&self.at),
            None => self.pending.iter().copied().filter(|it| self.is_next(*it)).collect(),
        };
        for set in next.into_iter().filter_map(|it| self.wants[it]) {
            self.set(set, now);
        }
    }

    /// Whether it is an operation's turn on all ports that it wants.
    fn is_next(&self, operation: usize) -> bool {
        let Some(set) = self.wants[operation] else { return true };
        match self.order {
            Some(order) => order.is_head(&self.at, operation),
            None => {
                let before = self.pending.iter().take_while(|it| **it != operation);
                let mut before = before.filter_map(|it| self.wants[*it]);
                !before.any(|it| self.conflicts[set].contains(&it))
            }
        }
    }
}

impl Fabric for Control<'_> {
    fn cost(&mut self, call: Call<'_>) -> Cost {
        self.costs.get(call.operation).clone()
    }

    fn requested(&mut self, call: Call<'_>, _now: Instant) {
        if self.wants[call.operation].is_some() {
            self.pending.push(call.operation);
        }
    }

    fn may_start(&mut self, call: Call<'_>, now: Instant) -> bool {
        let Some(set) = self.wants[call.operation] else { return true };
        self.arrange(now);
        self.status[set] == Status::Up && self.is_next(call.operation)
    }

    fn started(&mut self, call: Call<'_>, now: Instant) {
        let Some(set) = self.wants[call.operation] else { return };
        self.busy[set] += 1;
        self.pending.retain(|it| *it != call.operation);
        if let Some(order) = self.order {
            for queue in &order.of[call.operation] {
                self.at[*queue] += 1;
            }
            self.arrange(now);
        }
    }

    fn ended(&mut self, call: Call<'_>, now: Instant) {
        let Some(set) = self.wants[call.operation] else { return };
        self.busy[set] -= 1;
        if self.order.is_some() {
            self.arrange(now);
        }
    }

    fn wakes(&mut self, now: Instant) -> Option<Instant> {
        let times = self.status.iter().filter_map(|it| match it {
            Status::Setting(at) if *at > now => Some(*at),
            _ => None,
        });
        times.min()
    }
}
