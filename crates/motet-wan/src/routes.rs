//! The routes hand: which way each WAN flow takes, by the present state.
//!
//! The aim is that the slowest link is done as early as possible: flows are placed one after the
//! other, the largest first, each where the busiest of its links is least busy, and then moved
//! once more with all others in place. Whether that is better than staying is for the simulator
//! to say; the hand moves only if it is.

use motet_net::NetworkState;
use motet_units::LinkId;

use crate::built::{Built, Routes};

/// How long every link is busy with what is routed over it, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    busy: Vec<f64>,
    /// Seconds per byte.
    per_byte: Vec<f64>,
}

impl Loads {
    /// What the links do under `routes`.
    pub fn of(&mut self, built: &Built, routes: &Routes, state: &NetworkState) {
        self.start(state);
        for flow in 0..built.flows().len() {
            self.add(built, flow, routes.0[flow], 1.0);
        }
    }

    /// The link that is busy longest, and for how many seconds.
    #[must_use]
    pub fn busiest(&self) -> Option<(LinkId, f64)> {
        let most = self.busy.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((LinkId::from_index(most.0), *most.1))
    }

    fn start(&mut self, state: &NetworkState) {
        let links = (0..state.link_count()).map(LinkId::from_index);
        self.per_byte.clear();
        self.per_byte.extend(links.map(|it| 8.0 / state.bandwidth(it).bits_per_s() as f64));
        self.busy.clear();
        self.busy.resize(state.link_count(), 0.0);
    }

    fn add(&mut self, built: &Built, flow: usize, way: u32, sign: f64) {
        let bytes = built.flows()[flow].bytes.get() as f64 * sign;
        for link in built.ways(flow)[way as usize].links() {
            let added = bytes * self.per_byte[link.index()];
            // A link that is down is infinitely busy; taking a flow off it must not leave ∞ − ∞.
            if added.is_finite() {
                self.busy[link.index()] += added;
            }
        }
    }

    /// How busy the busiest link of the way would be with the flow on it.
    fn cost(&self, built: &Built, flow: usize, way: usize) -> f64 {
        let bytes = built.flows()[flow].bytes.get() as f64;
        let links = built.ways(flow)[way].links();
        links
            .map(|it| self.busy[it.index()] + bytes * self.per_byte[it.index()])
            .fold(0.0, f64::max)
    }

    /// Routes for the present state. The first of equals wins, so that the result is one.
    pub fn choose(&mut self, built: &Built, state: &NetworkState) -> Routes {
        self.start(state);
        let mut routes = built.own().clone();
        let mut order: Vec<usize> = built.movable().to_vec();
        order.sort_by_key(|it| std::cmp::Reverse(built.flows()[*it].bytes));
        let moves = |flow: &usize| order.contains(flow);
        for flow in (0..built.flows().len()).filter(|it| !moves(it)) {
            self.add(built, flow, routes.0[flow], 1.0);
        }
        for round in 0..2 {
            for flow in &order {
                if round > 0 {
                    self.add(built, *flow, routes.0[*flow], -1.0);
                }
                let cost = |way: &usize| self.cost(built, *flow, *way);
                let ways = 0..built.ways(*flow).len();
                let best = ways.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(0);
                routes.0[*flow] = best as u32;
                self.add(built, *flow, best as u32, 1.0);
            }
        }
        routes
    }
}

/// Routes with every flow whose way is down moved to the first that is not: what routers do by
/// themselves when a link fails.
#[must_use]
pub fn around_failures(built: &Built, routes: &Routes, state: &NetworkState) -> Routes {
    let up =
        |way: &motet_sim::reroute::Way| way.links().all(|it| state.bandwidth(it).bits_per_s() > 0);
    let mut routes = routes.clone();
    for flow in built.movable() {
        if !up(built.way(&routes, *flow)) {
            let other = built.ways(*flow).iter().position(up);
            if let Some(other) = other {
                routes.0[*flow] = other as u32;
            }
        }
    }
    routes
}
