//! How demands should spread over the network so that the busiest link is as little busy as can
//! be: multi-commodity flow, one commodity for each sender.
//!
//! The traffic of one sender after the other is routed over ways that are shortest under prices
//! of links, and links that were used become dearer (the multiplicative-weights method, as in the
//! bound of such traffic, `motet_collective::bound`). The mean over rounds is a routing; the
//! prices prove a time that no routing beats. The search ends when the two are close. Where ways
//! are equally short, traffic is split among them: on symmetric networks the first round is the
//! optimum already.

use super::demand::Demands;
use super::ways::{Shortest, Ways};
use crate::watch::Watch;

/// How much longer than what is proved the routing may take.
const GAP: f64 = 1.002;

/// How much dearer a link gets that one sender's traffic fills: so much at first, and less and
/// less after so many rounds.
const STEP: f64 = 0.1;
const STEADY_ROUNDS: usize = 128;

/// Most rounds; and after so many (more for few senders), a doubling that saves less than this
/// ends the search.
const MAX_ROUNDS: usize = 16_384;
const SETTLED: usize = 128;
const FEW_SENDERS: usize = 32;
const SETTLING: f64 = 1.001;

/// The least price, as a share of the mean.
const CHEAPEST: f64 = 1e-5;

/// Most times that the ways of one sender are looked for in a round.
const MAX_TURNS: usize = 64;

/// So many visits of an arc are a unit of work.
const VISITS_PER_WORK: u64 = 4;

/// A fractional routing.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) senders: Vec<u32>,
    /// Chunks over each arc, one row for each sender.
    amounts: Vec<f64>,
    arcs: usize,
    /// How long the busiest link is busy, in picoseconds per byte of a chunk.
    pub(super) time: f64,
}

impl Flow {
    /// What the `nth` sender sends over each arc.
    pub(super) fn row(&self, nth: usize) -> &[f64] {
        &self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }

    pub(super) fn row_mut(&mut self, nth: usize) -> &mut [f64] {
        &mut self.amounts[nth * self.arcs..(nth + 1) * self.arcs]
    }
}

/// A routing close to the best, within about `budget` visits of an arc and what the watch allows, where
/// no routing takes less than `least`. Every demand must be reachable.
pub(super) fn spread(
    ways: &Ways,
    demands: &Demands,
    least: f64,
    budget: u64,
    watch: Watch<'_>,
) -> Flow {
    let mut router = Router::new(ways, demands);
    let visits = (ways.arcs() as u64 * router.senders.len() as u64).max(1);
    let rounds = usize::try_from(budget / visits).unwrap_or(usize::MAX).clamp(16, MAX_ROUNDS);
    router.round(0.0, false);
    let mut best = router.snapshot(1);
    let mut proved = least.max(router.proved());
    let settled = SETTLED * (FEW_SENDERS / router.senders.len().max(1)).max(1);
    let mut counted = 0;
    for round in 1..=rounds {
        if best.time <= proved * GAP || !watch.affords(visits / VISITS_PER_WORK) {
            break;
        }
        watch.spend(visits / VISITS_PER_WORK);
        // Any run of rounds, averaged, is a routing: forget the clumsy first ones now and then.
        if round.is_power_of_two() {
            let before = best.time;
            router.keep_best(&mut best, counted);
            router.forget();
            counted = 0;
            // What proves the optimum comes late; the optimum itself is mostly there long before.
            if round >= settled && best.time * SETTLING > before {
                break;
            }
        }
        router.step = STEP * STEADY_ROUNDS as f64 / round.max(STEADY_ROUNDS) as f64;
        router.round(proved, true);
        proved = proved.max(router.proved());
        router.normalize();
        counted += 1;
        if router.time() / f64::from(counted) <= proved * GAP {
            break;
        }
    }
    router.keep_best(&mut best, counted);
    best
}

/// Routes over shortest ways and makes dearer what it used.
struct Router<'a> {
    ways: &'a Ways,
    demands: &'a Demands,
    senders: Vec<u32>,
    step: f64,
    /// Per link.
    prices: Vec<f64>,
    busy: Vec<f64>,
    /// Of links that some arc uses.
    total: f64,
    used: Vec<bool>,
    amounts: Vec<f64>,
    /// Chunks times distance in the last round.
    travelled: f64,
    shortest: Shortest,
    wanted: Vec<f64>,
    /// What one turn sends over arcs.
    sent: Vec<(u32, f64)>,
    /// How busy each link would be by one turn, and which links are not zero.
    turn: Vec<f64>,
    touched: Vec<u32>,
}

impl<'a> Router<'a> {
    fn new(ways: &'a Ways, demands: &'a Demands) -> Self {
        let senders = demands.senders();
        let mut used = vec![false; ways.links()];
        for link in &ways.link {
            used[link.index()] = true;
        }
        Self {
            ways,
            demands,
            step: STEP,
            prices: vec![1.0; ways.links()],
            busy: vec![0.0; ways.links()],
            total: used.iter().filter(|it| **it).count() as f64,
            used,
            amounts: vec![0.0; senders.len() * ways.arcs()],
            senders,
            travelled: 0.0,
            shortest: Shortest::new(ways),
            wanted: vec![0.0; ways.nodes()],
            sent: Vec::new(),
            turn: vec![0.0; ways.links()],
            touched: Vec::new(),
        }
    }

    /// Routes everything once. Prices move as it goes if `moving`; else they stay, which keeps
    /// what is symmetric so.
    fn round(&mut self, time: f64, moving: bool) {
        self.travelled = 0.0;
        for nth in 0..self.senders.len() {
            self.route(nth, time, moving);
        }
    }

    /// Routes what one rank sends. Of what would keep a link busy for longer than `time`, only as
    /// much is routed as fits before the ways are looked for anew.
    fn route(&mut self, nth: usize, time: f64, moving: bool) {
        let from = self.senders[nth] as usize;
        let mut left: f64 = 1.0;
        for turn in 1..=MAX_TURNS {
            if left <= 0.0 {
                break;
            }
            let (ways, prices) = (self.ways, &self.prices);
            self.shortest.search(ways, from, |arc| prices[ways.link[arc].index()] * ways.busy[arc]);
            let fullest = self.gather(from);
            let last = !moving || turn == MAX_TURNS;
            let share = if last { left } else { left.min(time / fullest) };
            left -= share;
            for pair in self.demands.from(from) {
                let far = self.shortest.distance(pair.dst);
                self.travelled += far * f64::from(pair.chunks) * share;
            }
            let row = &mut self.amounts[nth * ways.arcs()..(nth + 1) * ways.arcs()];
            for (arc, amount) in &self.sent {
                row[*arc as usize] += amount * share;
            }
            for link in self.touched.drain(..) {
                let link = link as usize;
                let busy = std::mem::replace(&mut self.turn[link], 0.0) * share;
                self.busy[link] += busy;
                if moving {
                    let dearer = self.prices[link] * self.step * (busy / time).min(1.0);
                    self.prices[link] += dearer;
                    self.total += dearer;
                }
            }
        }
    }

    /// What goes over each arc if everything takes a shortest way, into `sent` and `turn`; returns
    /// how long the busiest link would be busy.
    fn gather(&mut self, from: usize) -> f64 {
        for pair in self.demands.from(from) {
            self.wanted[pair.dst as usize] += f64::from(pair.chunks);
        }
        self.sent.clear();
        let mut fullest: f64 = 0.0;
        for at in (0..self.shortest.order().len()).rev() {
            let node = self.shortest.order()[at] as usize;
            let amount = std::mem::replace(&mut self.wanted[node], 0.0);
            if amount <= 0.0 || node == from {
                continue;
            }
            let before = self.sent.len();
            for arc in self.ways.into(node) {
                let index = *arc as usize;
                let length = self.prices[self.ways.link[index].index()] * self.ways.busy[index];
                if self.shortest.is_last(self.ways, index, length) {
                    self.sent.push((*arc, amount));
                }
            }
            let count = (self.sent.len() - before) as f64;
            for (arc, share) in &mut self.sent[before..] {
                let arc = *arc as usize;
                *share /= count;
                self.wanted[self.ways.tail[arc] as usize] += *share;
                let link = self.ways.link[arc].index();
                if self.turn[link] <= 0.0 {
                    self.touched.push(link as u32);
                }
                self.turn[link] += *share * self.ways.busy[arc];
                fullest = fullest.max(self.turn[link]);
            }
        }
        fullest
    }

    /// A time that no routing beats, by the prices as they are and the distances they were
    /// routed under. Prices only rise within a round, so that this errs to the low side.
    fn proved(&self) -> f64 {
        self.travelled / self.total
    }

    /// Prices count relative to each other: divided by their sum floats never run out. Nothing
    /// becomes so cheap that long ways round are taken for it.
    fn normalize(&mut self) {
        let (mut total, least) = (0.0, CHEAPEST / self.prices.len() as f64);
        for (price, used) in self.prices.iter_mut().zip(&self.used) {
            *price = (*price / self.total).max(least);
            total += if *used { *price } else { 0.0 };
        }
        self.total = total;
    }

    fn time(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    fn forget(&mut self) {
        self.busy.fill(0.0);
        self.amounts.fill(0.0);
    }

    fn keep_best(&self, best: &mut Flow, rounds: u32) {
        if rounds > 0 && self.time() / f64::from(rounds) < best.time {
            *best = self.snapshot(rounds);
        }
    }

    /// The mean of so many rounds.
    fn snapshot(&self, rounds: u32) -> Flow {
        let rounds = f64::from(rounds);
        Flow {
            senders: self.senders.clone(),
            amounts: self.amounts.iter().map(|it| it / rounds).collect(),
            arcs: self.ways.arcs(),
            time: self.time() / rounds,
        }
    }
}
