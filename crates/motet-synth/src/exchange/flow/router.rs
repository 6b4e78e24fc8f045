//! [`Router`]: one round of the multiplicative-weights method: routes over the cheapest paths and raises the
//! prices of the links used.

use super::super::demand::Demands;
use super::super::ways::{Shortest, Ways};
use super::{Flow, Horizon};

/// By what share the price of a link rises, in early rounds, when one sender's traffic fills it.
pub(super) const STEP: f64 = 0.1;

/// The least price, as a share of the mean.
const CHEAPEST: f64 = 1e-5;

/// Most times that paths of one sender are searched for in a round.
const MAX_TURNS: usize = 64;

/// A route counts as sending for at least this share of the time, however long its latency is.
const LEAST_USE: f64 = 0.1;

pub(super) struct Router<'a> {
    ways: &'a Ways,
    demands: &'a Demands,
    pub(super) senders: Vec<u32>,
    pub(super) step: f64,
    /// Per link.
    prices: Vec<f64>,
    /// Per link: how long it transmits in all rounds since the last [`Router::forget`].
    busy: Vec<f64>,
    /// The sum of the prices of links that some arc uses.
    total: f64,
    /// Per link: whether some arc uses it.
    used: Vec<bool>,
    /// Per sender and arc: chunks in all rounds since the last [`Router::forget`].
    amounts: Vec<f64>,
    /// Chunks times the price of their path, added up over the last round.
    travelled: f64,
    shortest: Shortest,
    /// Per node: the chunks that must come there.
    wanted: Vec<f64>,
    /// The same, with chunks weighted by the higher rate that the latency of their path calls for
    /// ([`Horizon::rate`]).
    pressing: Vec<f64>,
    /// What one turn sends: an arc, the chunks over it, and those chunks weighted.
    sent: Vec<(u32, f64, f64)>,
    /// Per link: how long one turn would keep it busy.
    turn: Vec<f64>,
    /// The links that a turn uses.
    touched: Vec<u32>,
    horizon: Option<Horizon>,
    /// Per node: the latency of the cheapest path, where there is a horizon.
    late: Vec<f64>,
    /// Per sender: what a unit of latency costs, in prices of links.
    pull: Vec<f64>,
}

impl<'a> Router<'a> {
    pub(super) fn new(ways: &'a Ways, demands: &'a Demands, horizon: Option<Horizon>) -> Self {
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
            travelled: 0.0,
            shortest: Shortest::new(ways),
            wanted: vec![0.0; ways.nodes()],
            pressing: vec![0.0; ways.nodes()],
            sent: Vec::new(),
            turn: vec![0.0; ways.links()],
            touched: Vec::new(),
            horizon,
            late: vec![0.0; ways.nodes()],
            pull: vec![0.0; senders.len()],
            senders,
        }
    }

    /// Routes everything once. With `moving`, prices rise meanwhile; without, they stay, so that on a symmetric
    /// network all senders are routed alike.
    pub(super) fn round(&mut self, time: f64, moving: bool) {
        self.travelled = 0.0;
        for nth in 0..self.senders.len() {
            self.route(nth, time, moving);
        }
    }

    /// Routes the data of one sender, in turns. If it would keep a link busy for longer than `time`, a turn
    /// routes only the share that fits, and the next turn searches paths under the new prices.
    fn route(&mut self, nth: usize, time: f64, moving: bool) {
        let from = self.senders[nth] as usize;
        let mut left: f64 = 1.0;
        for turn in 1..=MAX_TURNS {
            if left <= 0.0 {
                break;
            }
            self.search(nth);
            let pull = self.pull[nth];
            let travelled = self.want(nth);
            let fullest = self.gather(from, pull);
            let last = !moving || turn == MAX_TURNS;
            let share = if last { left } else { left.min(time / fullest) };
            left -= share;
            self.travelled += travelled * share;
            let arcs = self.ways.arcs();
            let row = &mut self.amounts[nth * arcs..(nth + 1) * arcs];
            for (arc, amount, _) in &self.sent {
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

    /// Searches the cheapest paths of a sender.
    fn search(&mut self, nth: usize) {
        let (ways, prices, from) = (self.ways, &self.prices, self.senders[nth] as usize);
        let length = |arc: usize| prices[ways.link[arc].index()] * ways.busy[arc];
        let Some(horizon) = &self.horizon else {
            return self.shortest.search(ways, from, length);
        };
        let pull = self.pull[nth];
        self.shortest.search(ways, from, |arc| length(arc) + pull * horizon.latency[arc]);
        for node in self.shortest.order() {
            let last = self.shortest.last_arc(*node).map(|it| it as usize);
            self.late[*node as usize] =
                last.map_or(0.0, |it| self.late[ways.tail[it] as usize] + horizon.latency[it]);
        }
    }

    /// Sets `wanted` and `pressing` at each receiver. Returns the sum of weighted chunks times the price of
    /// their path.
    fn want(&mut self, nth: usize) -> f64 {
        let from = self.senders[nth] as usize;
        let (mut chunks, mut far, mut late, mut travelled) = (0.0, 0.0, 0.0, 0.0);
        for pair in self.demands.from(from) {
            let (dst, amount) = (pair.dst as usize, f64::from(pair.chunks));
            let distance = self.shortest.distance(pair.dst) - self.pull[nth] * self.late[dst];
            let rate = self.horizon.as_ref().map_or(1.0, |it| it.rate(self.late[dst]));
            self.wanted[dst] += amount;
            self.pressing[dst] += amount * rate;
            travelled += amount * rate * distance;
            chunks += amount;
            far += amount * distance;
            late += amount * self.late[dst];
        }
        // A path of price P and latency l costs P · T ÷ (T − l). So a picosecond more of latency costs as
        // much as a price higher by P ÷ (T − l). P and l are means over the sender's chunks.
        if let Some(horizon) = &self.horizon {
            self.pull[nth] = far / horizon.left(late / chunks) / chunks;
        }
        travelled
    }

    /// Sends everything over cheapest paths, split evenly where several are equally cheap: sets `sent` and
    /// `turn`, and returns how long the busiest link would transmit.
    fn gather(&mut self, from: usize, pull: f64) -> f64 {
        self.sent.clear();
        let mut fullest: f64 = 0.0;
        for at in (0..self.shortest.order().len()).rev() {
            let node = self.shortest.order()[at] as usize;
            let amount = std::mem::replace(&mut self.wanted[node], 0.0);
            let pressing = std::mem::replace(&mut self.pressing[node], 0.0);
            if amount <= 0.0 || node == from {
                continue;
            }
            let before = self.sent.len();
            for arc in self.ways.into(node) {
                let index = *arc as usize;
                let price = self.prices[self.ways.link[index].index()] * self.ways.busy[index];
                let late = self.horizon.as_ref().map_or(0.0, |it| pull * it.latency[index]);
                if self.shortest.is_last(self.ways, index, price + late) {
                    self.sent.push((*arc, amount, pressing));
                }
            }
            let count = (self.sent.len() - before) as f64;
            for (arc, share, pressing) in &mut self.sent[before..] {
                let arc = *arc as usize;
                *share /= count;
                *pressing /= count;
                let tail = self.ways.tail[arc] as usize;
                self.wanted[tail] += *share;
                self.pressing[tail] += *pressing;
                let link = self.ways.link[arc].index();
                if self.turn[link] <= 0.0 {
                    self.touched.push(link as u32);
                }
                self.turn[link] += *pressing * self.ways.busy[arc];
                fullest = fullest.max(self.turn[link]);
            }
        }
        fullest
    }

    /// A time that no routing beats: the price of the last round's paths, relative to the sum of all prices as
    /// they are now. Prices only rise within a round, so this may be too low but not too high.
    pub(super) fn proved(&self) -> f64 {
        self.travelled / self.total
    }

    /// Divides prices by their sum, so that they never exceed what floats hold; only their ratios matter. A
    /// least price keeps long detours over almost free links from looking cheap.
    pub(super) fn normalize(&mut self) {
        let (mut total, least) = (0.0, CHEAPEST / self.prices.len() as f64);
        for (price, used) in self.prices.iter_mut().zip(&self.used) {
            *price = (*price / self.total).max(least);
            total += if *used { *price } else { 0.0 };
        }
        self.total = total;
    }

    /// Corrects the guessed time of the horizon, given the time that routes take under it. The truth lies
    /// between the two, since a guess that is too short makes routes take too long and the other way round; so
    /// the new guess is their mean.
    pub(super) fn guess_again(&mut self, time: f64) {
        if let Some(horizon) = &mut self.horizon {
            horizon.time = horizon.time.midpoint(time);
        }
    }

    /// How long the busiest link transmits, in all rounds since the last [`Router::forget`].
    pub(super) fn time(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    /// Starts the mean over rounds anew; prices stay.
    pub(super) fn forget(&mut self) {
        self.busy.fill(0.0);
        self.amounts.fill(0.0);
    }

    /// Replaces `best` by the mean of the last `rounds` rounds if that is faster.
    pub(super) fn keep_best(&self, best: &mut Flow, rounds: u32) {
        if rounds > 0 && self.time() / f64::from(rounds) < best.time {
            *best = self.snapshot(rounds);
        }
    }

    /// The mean of so many rounds.
    pub(super) fn snapshot(&self, rounds: u32) -> Flow {
        let rounds = f64::from(rounds);
        Flow {
            senders: self.senders.clone(),
            amounts: self.amounts.iter().map(|it| it / rounds).collect(),
            arcs: self.ways.arcs(),
            time: self.time() / rounds,
        }
    }
}

impl Horizon {
    /// For how long data can be sent on a path of this latency.
    fn left(&self, latency: f64) -> f64 {
        (self.time - latency).max(self.time * LEAST_USE)
    }

    /// How many times the bandwidth that data would need without latency it needs on a path of this latency.
    fn rate(&self, latency: f64) -> f64 {
        self.time / self.left(latency)
    }
}
