//! [`Fluid`]: fluid model of concurrent communications: how fast each progresses while they share resources.
//!
//! Each communication needs shares of some resources. Rates are max–min fair, as those of `motet-sim`'s fair links: all grow
//! equally until a resource is fully used; those using it are then fixed, and the rest continue to grow. All arithmetic is in
//! integers: rates are multiples of 2⁻³², rounded down, and end times are rounded up to picoseconds.

use motet_units::{Duration, Instant};

use super::fabric::{Cost, Resource};

/// Full speed, and the whole of a resource.
pub const ONE: u64 = 1 << 32;

/// One communication that is under way.
#[derive(Clone, Debug)]
struct Flow {
    id: usize,
    /// The remaining time at full speed, in units of 2⁻³² picoseconds.
    left: u128,
    speed: u64,
    /// Resources by number, with the share at full speed.
    uses: Vec<(usize, u64)>,
    /// The largest of its shares.
    peak: u64,
}

/// All communications that are under way.
#[derive(Clone, Debug, Default)]
pub struct Fluid {
    now: Instant,
    flows: Vec<Flow>,
    resources: Vec<Resource>,
    /// Whether speeds must be computed anew, because communications have started or ended.
    stale: bool,
}

impl Fluid {
    /// A communication's data begins to flow.
    pub fn start(&mut self, id: usize, cost: &Cost, now: Instant) {
        self.advance(now);
        let wanted = cost.uses.iter().filter(|it| it.share > 0);
        let uses: Vec<(usize, u64)> =
            wanted.map(|it| (self.number(it.resource), it.share.min(ONE))).collect();
        let peak = uses.iter().map(|it| it.1).max().unwrap_or(ONE);
        let left = u128::from(cost.work.as_ps()) * u128::from(ONE);
        self.flows.push(Flow { id, left, speed: ONE, uses, peak });
        self.stale = true;
    }

    /// When the next one ends, if nothing starts before.
    pub fn next_end(&mut self) -> Option<Instant> {
        if std::mem::take(&mut self.stale) {
            self.share();
        }
        let ends = self.flows.iter().map(|it| {
            let ps = it.left.div_ceil(u128::from(it.speed.max(1)));
            self.now + Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
        });
        ends.min()
    }

    /// Advances to `now`, and removes and returns the communications that have ended by then, in the order of
    /// their starts.
    pub fn ended(&mut self, now: Instant) -> Vec<usize> {
        self.advance(now);
        let done: Vec<usize> =
            self.flows.iter().filter(|it| it.left == 0).map(|it| it.id).collect();
        if !done.is_empty() {
            self.flows.retain(|it| it.left > 0);
            self.stale = true;
        }
        done
    }

    fn advance(&mut self, now: Instant) {
        if std::mem::take(&mut self.stale) {
            self.share();
        }
        let passed = u128::from(now.since(self.now).as_ps());
        for flow in &mut self.flows {
            flow.left = flow.left.saturating_sub(passed * u128::from(flow.speed));
        }
        self.now = self.now.max(now);
    }

    fn number(&mut self, resource: Resource) -> usize {
        let known = self.resources.iter().position(|it| *it == resource);
        known.unwrap_or_else(|| {
            self.resources.push(resource);
            self.resources.len() - 1
        })
    }

    /// Computes all rates by progressive filling. A flow's *level* is its share of the resource that it needs most of; all levels
    /// grow together, and shares of its other resources grow in proportion.
    fn share(&mut self) {
        let one = u128::from(ONE);
        let mut left = vec![one; self.resources.len()];
        let mut open: Vec<usize> = (0..self.flows.len()).collect();
        let weight = |flow: &Flow, share: u64| u128::from(share) * one / u128::from(flow.peak);
        while !open.is_empty() {
            let mut wanted = vec![0u128; self.resources.len()];
            for flow in open.iter().map(|it| &self.flows[*it]) {
                flow.uses.iter().for_each(|(at, share)| wanted[*at] += weight(flow, *share));
            }
            let full = |at: &usize| (wanted[*at] > 0).then(|| left[*at] * one / wanted[*at]);
            let levels = (0..left.len()).filter_map(|at| full(&at).map(|level| (level, Some(at))));
            // No flow gets more than it needs.
            let wish = open.iter().map(|it| u128::from(self.flows[*it].peak)).min();
            let least = levels.chain(wish.map(|it| (it, None))).min();
            let Some((level, at)) = least else { break };
            let settled = |flow: &Flow| match at {
                Some(at) => flow.uses.iter().any(|it| it.0 == at),
                None => u128::from(flow.peak) <= level,
            };
            let (done, rest): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|it| settled(&self.flows[*it]));
            for index in done {
                let flow = &mut self.flows[index];
                let speed = (level * one / u128::from(flow.peak)).clamp(1, one);
                flow.speed = u64::try_from(speed).unwrap_or(ONE);
                for (at, share) in &flow.uses {
                    let taken = (u128::from(*share) * speed).div_ceil(one);
                    left[*at] = left[*at].saturating_sub(taken);
                }
            }
            open = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabric::{Side, Use};
    use super::*;

    fn nic(stage: u32, side: Side) -> Resource {
        Resource::Nic { stage, part: 0, side }
    }

    fn cost(ps: u64, uses: &[(Resource, u64)]) -> Cost {
        let uses = uses.iter().map(|(resource, share)| Use { resource: *resource, share: *share });
        Cost { work: Duration::from_ps(ps), latency: Duration::ZERO, uses: uses.collect() }
    }

    /// Ends of all flows, each started at its own time.
    fn ends(mut starts: Vec<(u64, Cost)>) -> Vec<u64> {
        let mut fluid = Fluid::default();
        let mut ends = vec![0; starts.len()];
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by_key(|it| starts[*it].0);
        let mut order = order.into_iter().peekable();
        loop {
            let start = order.peek().map(|it| Instant::from_ps(starts[*it].0));
            let end = fluid.next_end();
            let Some(now) = start.into_iter().chain(end).min() else { return ends };
            for id in fluid.ended(now) {
                ends[id] = now.as_ps();
            }
            while let Some(id) = order.next_if(|it| starts[*it].0 == now.as_ps()) {
                let cost = std::mem::take(&mut starts[id].1);
                fluid.start(id, &cost, now);
            }
        }
    }

    #[test]
    fn alone_it_takes_its_time_and_two_share() {
        let out = nic(0, Side::Out);
        assert_eq!(ends(vec![(5, cost(1000, &[(out, ONE)]))]), [1005]);
        // Both at half speed from 200 on; the first has 800 left, the second 1000.
        let both = vec![(0, cost(1000, &[(out, ONE)])), (200, cost(1000, &[(out, ONE)]))];
        assert_eq!(ends(both), [1800, 2000]);
        // Different sides do not meet.
        let apart = vec![
            (0, cost(1000, &[(out, ONE)])),
            (0, cost(700, &[(nic(0, Side::In), ONE)])),
            (0, cost(500, &[])),
        ];
        assert_eq!(ends(apart), [1000, 700, 500]);
    }

    /// One that wants a quarter keeps it; the other has the rest.
    #[test]
    fn small_wishes_are_met() {
        let out = nic(0, Side::Out);
        let both = vec![(0, cost(400, &[(out, ONE / 4)])), (0, cost(600, &[(out, ONE)]))];
        // 300 of 600 by 400, then full speed.
        assert_eq!(ends(both), [400, 700]);
    }

    /// The middle of a chain is held up at one end, and leaves room at the other.
    #[test]
    fn shares_are_max_min_fair() {
        let (a, b) = (nic(0, Side::Out), nic(1, Side::Out));
        let flows = vec![
            (0, cost(100, &[(a, ONE)])),
            (0, cost(100, &[(a, ONE)])),
            (0, cost(100, &[(a, ONE), (b, ONE)])),
            (0, cost(100, &[(b, ONE)])),
        ];
        let found = ends(flows);
        // A third each on a, two thirds for the last on b: 150; rounding may cost a picosecond.
        assert!((150..=151).contains(&found[3]), "{found:?}");
        assert!((300..=301).contains(&found[0]), "{found:?}");
        assert_eq!(found[0], found[1]);
    }
}
