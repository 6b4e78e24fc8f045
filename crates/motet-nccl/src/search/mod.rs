//! The search for channels at one given speed: depth first, channel after channel, taking
//! bandwidth from the wires on the way in and giving it back on the way out.
//!
//! It follows NCCL's search (`src/graph/search.cc`) in what it tries, in which order, and when it gives
//! up: NCCL stops after a number of steps, so on a large machine its result is the best found by then,
//! and only the same order of trials gives the same result.
//! [`compute`](super::compute) calls it with one speed after another; [`wires`] holds the account
//! of bandwidth, [`candidates`] which GPUs and interfaces come next.

mod candidates;
mod wires;

use super::graph::{Channel, Graph};
use super::kinds::Pattern;
use super::paths::{Paths, local};
use super::topology::System;

/// Where a step begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Gpu(usize),
    Net(usize),
    Nvs,
}

/// In which order GPUs are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The most promising first (see [`candidates`]).
    Best,
    /// By number.
    Number,
    /// The same as in the channel before.
    Replay,
}

/// What share of the speed a step takes, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(i64, i64);

const WHOLE: Share = Share(1, 1);

/// How a channel is to be completed: at which position in the channel it goes back to the network, or to its
/// first GPU, and in which order GPUs are tried.
#[derive(Clone, Copy, Debug)]
struct Route {
    back_to_net: Option<usize>,
    back_to_first: Option<usize>,
    order: Order,
}

/// The outcome of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The most channels allowed were found.
    Perfect,
    TimedOut,
    Exhausted,
}

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) min_channels: usize,
    pub(super) max_channels: usize,
    pub(super) collnet: bool,
}

/// Deeper than any real search goes; keeps a large NVLink domain within the stack.
const MAX_DEPTH: usize = 4096;

/// Steps left; `PERFECT` ends the search at once.
type Steps = i64;
const PERFECT: Steps = -1;

pub(super) struct Search<'a> {
    system: &'a System,
    paths: &'a Paths,
    limits: Limits,
    /// The bandwidth that each edge has left, in MB/s.
    free: Vec<i64>,
    /// The bandwidth that each network port has left, in MB/s; taken in whole GB/s.
    port_free: Vec<i64>,
    /// By GPU: a bit for each channel that it is in already.
    used: Vec<u64>,
    draft: Graph,
    best: Graph,
    depth: usize,
}

impl<'a> Search<'a> {
    /// Searches for a graph better than `best` under the conditions of `draft`. Returns the best graph, how the
    /// search ended, and how many of `steps` are left.
    pub(super) fn run(
        (system, paths): (&'a System, &'a Paths),
        limits: Limits,
        mut draft: Graph,
        best: Graph,
        steps: Steps,
    ) -> (Graph, Outcome, Steps) {
        draft.channels.clear();
        draft.hops = 0;
        let mut port_free = vec![0; system.nets.iter().map(|it| it.port + 1).max().unwrap_or(0)];
        for net in &system.nets {
            port_free[net.port] = net.mbps;
        }
        let mut search = Self {
            system,
            paths,
            limits,
            free: system.edges.iter().map(|it| it.mbps).collect(),
            port_free,
            used: vec![0; system.gpus.len()],
            draft,
            best,
            depth: 0,
        };
        let mut left = steps;
        search.start_channel(&mut left);
        let outcome = match left {
            PERFECT => Outcome::Perfect,
            0 => Outcome::TimedOut,
            _ => Outcome::Exhausted,
        };
        (search.best, outcome, left)
    }

    /// The number of channels finished before the one being made.
    fn finished(&self) -> usize {
        self.draft.channels.len().saturating_sub(1)
    }

    fn current(&mut self) -> Option<&mut Channel> {
        self.draft.channels.last_mut()
    }

    fn start_channel(&mut self, steps: &mut Steps) {
        let gpus = self.system.gpus.len();
        self.draft.channels.push(Channel { gpus: vec![0; gpus], nets: None });
        let last = gpus - 1;
        let ring = self.draft.pattern == Pattern::Ring;
        let route = if self.system.inter {
            let back = match self.draft.pattern {
                Pattern::Ring => last,
                Pattern::SplitTree => 1,
                _ => 0,
            };
            Route { back_to_net: Some(back), back_to_first: None, order: Order::Best }
        } else {
            Route { back_to_net: None, back_to_first: ring.then_some(last), order: Order::Best }
        };
        if self.system.inter {
            self.start_from_nets(route, steps);
        } else {
            self.start_inside(route, steps);
        }
        self.draft.channels.pop();
    }

    fn start_inside(&mut self, route: Route, steps: &mut Steps) {
        let made = self.finished();
        if self.draft.pattern == Pattern::Nvls {
            if made < self.system.gpus.len() {
                self.go(None, made, 0, route, steps);
            }
            return;
        }
        let (first, order) = match self.replayed(0) {
            Some(gpu) if made > 0 => (gpu, Order::Replay),
            _ => (0, Order::Number),
        };
        self.go(None, first, 0, Route { order, ..route }, steps);
        if !self.draft.same_channels || made == 0 {
            for gpu in 0..self.system.gpus.len() {
                self.go(None, gpu, 0, route, steps);
            }
        }
    }

    /// The GPU at `step` of the channel before.
    fn replayed(&self, step: usize) -> Option<usize> {
        let before = self.finished().checked_sub(1)?;
        self.draft.channels[before].gpus.get(step).copied()
    }

    /// The interfaces of the channel before.
    fn nets_before(&self) -> Option<(usize, usize)> {
        self.draft.channels[self.finished().checked_sub(1)?].nets
    }

    fn start_from_nets(&mut self, route: Route, steps: &mut Steps) {
        // NCCL keeps this account in whole GB/s.
        let whole = self.draft.inter_mbps / 1000 * 1000;
        let nets = self.select_nets(None);
        let heads = matches!(self.draft.pattern, Pattern::Nvls | Pattern::CollNetDirect);
        let made = self.finished();
        let pairs = self.draft.pattern == Pattern::Ring && self.draft.cross_nic == 2;
        for turn in 0..nets.len() {
            let net = nets[(made + turn) % nets.len()];
            let port = self.system.nets[net].port;
            let before = self.nets_before();
            if self.port_free[port] < whole
                || (pairs && made % 2 == 1 && before.is_some_and(|it| it.1 != net))
            {
                continue;
            }
            self.draft.latency_inter = self.system.nets[net].latency;
            if let Some(channel) = self.current() {
                channel.nets = Some((net, net));
            }
            self.port_free[port] -= whole;
            let found = if heads {
                made < nets.len() && self.try_head(net, route, steps)
            } else {
                self.try_gpus_at(net, route, steps);
                false
            };
            self.port_free[port] += whole;
            if found {
                break;
            }
        }
    }

    /// A channel of NVLS or CollNet is headed by the GPU at the interface.
    fn try_head(&mut self, net: usize, route: Route, steps: &mut Steps) -> bool {
        let Some(gpu) = self.paths.local_gpu[net] else { return false };
        let made = self.finished();
        if self.draft.channels[..made].iter().any(|it| it.gpus.first() == Some(&gpu)) {
            return false;
        }
        self.go(Some(Place::Net(net)), gpu, 0, route, steps);
        true
    }

    fn try_gpus_at(&mut self, net: usize, route: Route, steps: &mut Steps) {
        let from = Some(Place::Net(net));
        let made = self.finished();
        if let (true, Some(gpu)) = (made > 0 && self.draft.same_channels, self.replayed(0)) {
            self.go(from, gpu, 0, Route { order: Order::Replay, ..route }, steps);
            return;
        }
        if made == 0 && self.system.nvs.is_none() {
            // By number first, for comparison, on a budget of its own.
            let mut own = 1 << 10;
            self.go(from, 0, 0, Route { order: Order::Number, ..route }, &mut own);
            if own == PERFECT {
                *steps = PERFECT;
            }
        }
        let first = self.paths.local_gpu[net];
        let others = local(&self.paths.net_gpu[net]).into_iter().filter(|it| Some(*it) != first);
        for gpu in first.into_iter().chain(others.collect::<Vec<_>>()) {
            self.go(from, gpu, 0, route, steps);
        }
    }

    /// Goes to a GPU if there is bandwidth for the step, goes on from there, and gives the bandwidth back.
    fn go(
        &mut self,
        from: Option<Place>,
        gpu: usize,
        step: usize,
        route: Route,
        steps: &mut Steps,
    ) {
        // NCCL's search with no step left still takes and returns the bandwidth of every branch:
        // to no effect, so it is not done here.
        if *steps <= 0 {
            return;
        }
        let flag = 1u64 << self.finished();
        let to = Place::Gpu(gpu);
        if from.is_none_or(|it| self.take(it, to, WHOLE)) {
            self.used[gpu] ^= flag;
            self.visit(gpu, step, route, steps);
            self.used[gpu] ^= flag;
            if let Some(from) = from {
                self.give_back(from, to, WHOLE);
            }
        }
    }

    /// At a GPU, the `step`-th of its channel.
    fn visit(&mut self, gpu: usize, step: usize, route: Route, steps: &mut Steps) {
        if *steps <= 0 || self.depth >= MAX_DEPTH {
            return;
        }
        *steps -= 1;
        self.depth += 1;
        if let Some(channel) = self.current() {
            channel.gpus[step] = gpu;
        }
        let last = self.system.gpus.len() - 1;
        if route.back_to_net == Some(step) {
            self.back_to_nets(gpu, step, route, steps);
        } else if self.draft.pattern == Pattern::Nvls {
            self.visit_switch(gpu, steps);
        } else if self.draft.pattern == Pattern::CollNetDirect {
            self.visit_all(gpu, steps);
        } else if step < last {
            for next in self.next_gpus(gpu, step, route) {
                self.go(Some(Place::Gpu(gpu)), next, step + 1, route, steps);
            }
        } else if route.back_to_first == Some(step) {
            let first = self.current().map_or(0, |it| it.gpus[0]);
            let (from, to) = (Place::Gpu(gpu), Place::Gpu(first));
            if self.take(from, to, WHOLE) {
                self.finish_channel(steps);
                self.give_back(from, to, WHOLE);
            }
        } else {
            self.finish_channel(steps);
        }
        self.depth -= 1;
    }

    fn next_gpus(&mut self, gpu: usize, step: usize, route: Route) -> Vec<usize> {
        match route.order {
            Order::Number => vec![step + 1],
            Order::Replay => self.replayed(step + 1).into_iter().collect(),
            Order::Best => self.best_next(gpu, step, route),
        }
    }

    /// A channel is complete: keep the draft if it is better, and go on to the next channel.
    fn finish_channel(&mut self, steps: &mut Steps) {
        if *steps <= 0 {
            return;
        }
        *steps -= 1;
        let most = self.limits.max_channels;
        if self.is_better() {
            self.best = self.draft.clone();
            if self.draft.channels.len() == most {
                *steps = PERFECT;
            }
        }
        if self.draft.channels.len() < most && *steps > 0 {
            self.start_channel(steps);
        }
    }

    fn is_better(&self) -> bool {
        let (new, old) = (&self.draft, &self.best);
        let count = |it: &Graph| i64::try_from(it.channels.len()).unwrap_or(i64::MAX);
        if new.channels.len() < self.limits.min_channels {
            return false;
        }
        if new.pattern == Pattern::Nvls {
            // Each channel of NVLS is a GPU that pulls: the more the better.
            let fits = new.channels.len() <= self.system.gpus.len();
            return (fits && new.channels.len() > old.channels.len())
                || count(new) * new.inter_mbps > count(old) * old.inter_mbps;
        }
        let (a, b) = (count(new) * new.intra_mbps, count(old) * old.intra_mbps);
        let alike = new.pattern == old.pattern && new.cross_nic == old.cross_nic;
        a > b || (a == b && alike && new.hops < old.hops)
    }

    /// Goes from a GPU back to the network, by each interface that is allowed, and on from there.
    fn back_to_nets(&mut self, gpu: usize, step: usize, route: Route, steps: &mut Steps) {
        let balanced = self.draft.pattern == Pattern::BalancedTree;
        // A balanced tree has half of its outside traffic at each of its first two GPUs.
        let share = if balanced { Share(1, 2) } else { WHOLE };
        let next = (balanced && step == 0).then_some(1);
        for net in self.select_nets(Some(gpu)) {
            let Some((start, end)) = self.current().and_then(|it| it.nets) else { return };
            if !self.may_leave_by(net, start, end, step) {
                continue;
            }
            let (from, to) = (Place::Gpu(gpu), Place::Net(net));
            if self.take(from, to, share) {
                if let Some(channel) = self.current() {
                    channel.nets = Some((start, net));
                }
                self.visit(gpu, step, Route { back_to_net: next, ..route }, steps);
                self.give_back(from, to, share);
            }
        }
    }

    /// Whether a channel that entered the node by interface `start` may leave it by `net`.
    fn may_leave_by(&self, net: usize, start: usize, end: usize, step: usize) -> bool {
        let pattern = self.draft.pattern;
        if pattern == Pattern::Tree && net != start {
            return false;
        }
        if pattern == Pattern::Ring && self.draft.cross_nic == 2 {
            let before = self.nets_before().filter(|_| self.finished() % 2 == 1);
            if before.is_some_and(|it| it.0 != net) {
                return false;
            }
        } else if self.draft.cross_nic == 0
            && self.system.nets[net].port != self.system.nets[start].port
        {
            return false;
        }
        pattern != Pattern::BalancedTree || step == 0 || net == end
    }

    /// NVLS: takes bandwidth both ways between the switch and every GPU, twice as much for the head.
    fn visit_switch(&mut self, head: usize, steps: &mut Steps) {
        let mut taken: Vec<(Place, Place, Share)> = Vec::new();
        let gpus = 0..self.system.gpus.len();
        let share = |gpu: usize| Share(if gpu == head { 2 } else { 1 }, 1);
        let down = gpus.clone().map(|it| (Place::Nvs, Place::Gpu(it), share(it)));
        let up = gpus.map(|it| (Place::Gpu(it), Place::Nvs, share(it)));
        let fits = down.chain(up).all(|step| {
            let fits = self.take(step.0, step.1, step.2);
            if fits {
                taken.push(step);
            }
            fits
        });
        if fits {
            self.finish_channel(steps);
        }
        for (from, to, share) in taken.into_iter().rev() {
            self.give_back(from, to, share);
        }
    }

    /// CollNet direct: the head exchanges an equal part with every other GPU.
    fn visit_all(&mut self, head: usize, steps: &mut Steps) {
        let others: Vec<usize> = (0..self.system.gpus.len()).filter(|it| *it != head).collect();
        let part = Share(1, i64::try_from(others.len()).unwrap_or(1).max(1));
        let (mut taken, mut fits) = (Vec::new(), true);
        for other in &others {
            for (from, to) in [(head, *other), (*other, head)] {
                let (from, to) = (Place::Gpu(from), Place::Gpu(to));
                if !fits || !self.take(from, to, part) {
                    fits = false;
                    break;
                }
                taken.push((from, to));
            }
        }
        if fits {
            if let Some(channel) = self.current() {
                channel.gpus = std::iter::once(head).chain(others).collect();
            }
            self.finish_channel(steps);
        }
        for (from, to) in taken.into_iter().rev() {
            self.give_back(from, to, part);
        }
    }
}
