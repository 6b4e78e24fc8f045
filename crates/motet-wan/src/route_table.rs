//! [`RouteTable`]: the routes that flows between two ranks may take, each pair's found once.

use std::collections::BTreeMap;
use std::sync::Arc;

use motet_net::{LinkClass, Metric, Network, Search};
use motet_sim::SwitchForwarding;
use motet_sim::replay::FlowRoute;
use motet_units::{Rank, Seed};
use rand::Rng;

use crate::scenario::{Scenario, StartRoutes};

/// The candidate routes between ranks of a network.
#[derive(Clone, Debug)]
pub struct RouteTable<'a> {
    network: &'a Network,
    paths: usize,
    start: StartRoutes,
    seed: Seed,
    by_pair: bool,
    known: BTreeMap<(Rank, Rank), Arc<[FlowRoute]>>,
}

impl<'a> RouteTable<'a> {
    /// Up to `paths` routes for each pair of ranks; `start` and `seed` decide which one a flow
    /// starts on.
    #[must_use]
    pub fn new(network: &'a Network, paths: usize, start: StartRoutes, seed: Seed) -> Self {
        let seed = seed.named("routes");
        let (paths, known) = (paths.max(1), BTreeMap::new());
        Self { network, paths, start, seed, by_pair: false, known }
    }

    /// The table of a scenario's routes hand.
    #[must_use]
    pub fn of(scenario: &Scenario<'a>) -> Self {
        let routes = &scenario.routes;
        let table = Self::new(scenario.network, routes.paths, routes.start, scenario.seed);
        Self { by_pair: routes.by_pair, ..table }
    }

    /// Whether all flows between two ranks must use the same route.
    #[must_use]
    pub const fn is_by_pair(&self) -> bool {
        self.by_pair
    }

    #[must_use]
    pub const fn network(&self) -> &'a Network {
        self.network
    }

    /// The routes of least latency from one rank to another that pass through no GPU, the shortest
    /// first; empty if there is none.
    pub fn between(&mut self, from: Rank, to: Rank) -> Arc<[FlowRoute]> {
        let (network, paths) = (self.network, self.paths);
        let found = self.known.entry((from, to)).or_insert_with(|| {
            let (a, b) = (network.ranks()[from.index()], network.ranks()[to.index()]);
            let found = Search::new(network, Metric::Latency).k_shortest(a, b, paths);
            let route = |it: &motet_net::Path| {
                FlowRoute::new(network, it.links(), SwitchForwarding::CutThrough)
            };
            found.iter().map(route).collect()
        });
        Arc::clone(found)
    }

    /// Which of `routes` a flow uses until it is moved: one of those with the least latency, chosen by a hash, as routers with
    /// equal-cost multipath do.
    #[must_use]
    pub fn start(&self, routes: &[FlowRoute], from: Rank, to: Rank, part: u32) -> u32 {
        let Some(first) = routes.first() else { return 0 };
        let alike = routes.iter().take_while(|it| it.latency() == first.latency()).count();
        match self.start {
            StartRoutes::First => 0,
            StartRoutes::Hashed => {
                let ends = (u64::from(from.0) << 40) | (u64::from(to.0) << 8) | u64::from(part);
                let draw = self.seed.numbered(ends).stream("hash").next_u64();
                (draw % alike as u64) as u32
            }
        }
    }

    /// Whether this route crosses the WAN, so that the routes hand may move the flow.
    #[must_use]
    pub fn crosses_wan(&self, from: Rank, to: Rank, route: &FlowRoute) -> bool {
        let dc = |rank: Rank| {
            self.network.node(self.network.ranks()[rank.index()]).location.dc.as_deref()
        };
        match (dc(from), dc(to)) {
            (Some(a), Some(b)) => a != b,
            _ => route.links().any(|it| self.network.link(it).spec.class == LinkClass::Wan),
        }
    }
}
