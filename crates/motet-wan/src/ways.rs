//! [`WayTable`]: the routes that flows between two ranks may take, found once.

use std::collections::BTreeMap;
use std::sync::Arc;

use motet_net::{LinkClass, Metric, Network, Search};
use motet_sim::SwitchForwarding;
use motet_sim::reroute::Way;
use motet_units::{Rank, Seed};
use rand::Rng;

use crate::scenario::StartRoutes;

/// Ways between ranks of a network.
#[derive(Clone, Debug)]
pub struct WayTable<'a> {
    network: &'a Network,
    paths: usize,
    start: StartRoutes,
    seed: Seed,
    known: BTreeMap<(Rank, Rank), Arc<[Way]>>,
}

impl<'a> WayTable<'a> {
    #[must_use]
    pub fn new(network: &'a Network, paths: usize, start: StartRoutes, seed: Seed) -> Self {
        let seed = seed.named("routes");
        Self { network, paths: paths.max(1), start, seed, known: BTreeMap::new() }
    }

    #[must_use]
    pub const fn network(&self) -> &'a Network {
        self.network
    }

    /// The shortest ways from one rank to another that pass through no GPU, by latency; empty if
    /// there is none.
    pub fn between(&mut self, from: Rank, to: Rank) -> Arc<[Way]> {
        let (network, paths) = (self.network, self.paths);
        let found = self.known.entry((from, to)).or_insert_with(|| {
            let (a, b) = (network.ranks()[from.index()], network.ranks()[to.index()]);
            let ways = Search::new(network, Metric::Latency).k_shortest(a, b, paths);
            let way =
                |it: &motet_net::Path| Way::new(network, it.links(), SwitchForwarding::CutThrough);
            ways.iter().map(way).collect()
        });
        Arc::clone(found)
    }

    /// Which way a flow takes as long as nobody moves it: one of those with the least latency.
    #[must_use]
    pub fn start(&self, ways: &[Way], from: Rank, to: Rank, part: u32) -> u32 {
        let Some(first) = ways.first() else { return 0 };
        let alike = ways.iter().take_while(|it| it.latency() == first.latency()).count();
        match self.start {
            StartRoutes::First => 0,
            StartRoutes::Hashed => {
                let ends = (u64::from(from.0) << 40) | (u64::from(to.0) << 8) | u64::from(part);
                let draw = self.seed.numbered(ends).stream("hash").next_u64();
                (draw % alike as u64) as u32
            }
        }
    }

    /// Whether what goes from one rank to the other crosses the WAN, and so is the routes hand's
    /// to move.
    #[must_use]
    pub fn crosses_wan(&self, from: Rank, to: Rank, way: &Way) -> bool {
        let dc = |rank: Rank| {
            self.network.node(self.network.ranks()[rank.index()]).location.dc.as_deref()
        };
        match (dc(from), dc(to)) {
            (Some(a), Some(b)) => a != b,
            _ => way.links().any(|it| self.network.link(it).spec.class == LinkClass::Wan),
        }
    }
}
