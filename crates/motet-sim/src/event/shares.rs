//! [`Shares`]: max–min fair rates by progressive filling, in integers.
//!
//! All flows grow at the same pace until a link is full; the flows on it keep that rate and the
//! others grow on. Rates are multiples of 2⁻²⁰ bit/s, rounded down: the flows of a link never add
//! up to more than its bandwidth, and rounding wastes less than 2⁻²⁰ bit/s per flow.
//!
//! Only rates that can have changed are recomputed: of flows that share a link with a change, of
//! flows that share a link with those, and so on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Binary places of a rate below one bit/s.
pub(super) const FRACTION: u32 = 20;

/// Flows on links.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By link: its bandwidth in 2⁻²⁰ bit/s.
    capacity: Vec<u128>,
    /// The links of flow f: `crossed[starts[f]..starts[f + 1]]`.
    starts: Vec<u32>,
    crossed: Vec<u32>,
    /// The flows on each link, one entry for each time a flow crosses it.
    on: Vec<Vec<u32>>,
    /// Links whose bandwidth or flows have changed since rates were last computed.
    dirty: Vec<u32>,
    /// The links and flows whose rates this round recomputes, and the round in which each was last among them.
    links: Vec<u32>,
    flows: Vec<u32>,
    link_seen: Vec<u64>,
    flow_seen: Vec<u64>,
    round: u64,
    /// By link of this round: the bandwidth not given out yet, and how many entries of `on` have no rate yet.
    left: Vec<u128>,
    open: Vec<u32>,
    fixed: Vec<bool>,
    order: BinaryHeap<Reverse<(u128, u32)>>,
    /// The result: flows and their rates.
    rates: Vec<(u32, u128)>,
}

impl Shares {
    /// Links of these rates; flow f crosses `crossed[starts[f]..starts[f + 1]]`.
    pub(super) fn new(rates: &[u64], starts: Vec<u32>, crossed: Vec<u32>) -> Self {
        let (links, flows) = (rates.len(), starts.len().saturating_sub(1));
        Self {
            starts,
            crossed,
            capacity: rates.iter().map(|it| u128::from(*it) << FRACTION).collect(),
            on: vec![Vec::new(); links],
            link_seen: vec![0; links],
            flow_seen: vec![0; flows],
            left: vec![0; links],
            open: vec![0; links],
            fixed: vec![false; flows],
            ..Self::default()
        }
    }

    pub(super) fn set_rate(&mut self, link: u32, rate: u64) {
        self.capacity[link as usize] = u128::from(rate) << FRACTION;
        self.touch(link);
    }

    pub(super) fn has_capacity(&self, link: u32) -> bool {
        self.capacity[link as usize] > 0
    }

    fn range(&self, flow: u32) -> std::ops::Range<usize> {
        self.starts[flow as usize] as usize..self.starts[flow as usize + 1] as usize
    }

    /// The links that a flow crosses, each as often as it does.
    pub(super) fn crossed(&self, flow: u32) -> &[u32] {
        &self.crossed[self.range(flow)]
    }

    /// Puts a flow on a link; whether the link was idle.
    pub(super) fn add(&mut self, flow: u32, link: u32) -> bool {
        let on = &mut self.on[link as usize];
        on.push(flow);
        let was_idle = on.len() == 1;
        self.touch(link);
        was_idle
    }

    /// Takes a flow off a link, once; whether the link is idle now.
    pub(super) fn remove(&mut self, flow: u32, link: u32) -> bool {
        let on = &mut self.on[link as usize];
        if let Some(index) = on.iter().position(|it| *it == flow) {
            on.swap_remove(index);
        }
        let is_idle = on.is_empty();
        self.touch(link);
        is_idle
    }

    fn touch(&mut self, link: u32) {
        if !self.on[link as usize].is_empty() {
            self.dirty.push(link);
        }
    }

    /// Whether rates must be shared out anew.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The rates of all flows that a change since the last call can have affected.
    pub(super) fn share(&mut self) -> &[(u32, u128)] {
        self.collect();
        self.rates.clear();
        self.order.clear();
        for link in &self.links {
            let index = *link as usize;
            self.left[index] = self.capacity[index];
            self.open[index] = self.on[index].len() as u32;
            if self.open[index] > 0 {
                let share = even_share(self.left[index], self.open[index]);
                self.order.push(Reverse((share, *link)));
            }
        }
        for flow in &self.flows {
            self.fixed[*flow as usize] = false;
        }
        while let Some(Reverse((share, link))) = self.order.pop() {
            let index = link as usize;
            if self.open[index] == 0 {
                continue;
            }
            let current = even_share(self.left[index], self.open[index]);
            if current != share {
                self.order.push(Reverse((current, link)));
                continue;
            }
            for slot in 0..self.on[index].len() {
                let flow = self.on[index][slot];
                if std::mem::replace(&mut self.fixed[flow as usize], true) {
                    continue;
                }
                self.rates.push((flow, share));
                for place in self.range(flow) {
                    // A share is the least of all links', so every link has as much left for
                    // each of its entries.
                    let crossed = self.crossed[place] as usize;
                    self.left[crossed] -= share;
                    self.open[crossed] -= 1;
                }
            }
        }
        &self.rates
    }

    /// Collects the links and flows whose rates may change: all that are connected to a changed link, directly
    /// or through flows and links in between.
    fn collect(&mut self) {
        self.round += 1;
        self.links.clear();
        self.flows.clear();
        for link in self.dirty.drain(..) {
            if std::mem::replace(&mut self.link_seen[link as usize], self.round) != self.round {
                self.links.push(link);
            }
        }
        let mut at = 0;
        while let Some(link) = self.links.get(at).copied() {
            at += 1;
            for slot in 0..self.on[link as usize].len() {
                let flow = self.on[link as usize][slot];
                if std::mem::replace(&mut self.flow_seen[flow as usize], self.round) == self.round {
                    continue;
                }
                self.flows.push(flow);
                for place in self.range(flow) {
                    let crossed = self.crossed[place];
                    let seen = &mut self.link_seen[crossed as usize];
                    if std::mem::replace(seen, self.round) != self.round {
                        self.links.push(crossed);
                    }
                }
            }
        }
    }
}

/// What each of the flows on a link gets of its bandwidth, rounded down. Most often one flow has the link to
/// itself, which needs no division of 128-bit numbers.
fn even_share(bandwidth: u128, flows: u32) -> u128 {
    if flows == 1 { bandwidth } else { bandwidth / u128::from(flows) }
}
