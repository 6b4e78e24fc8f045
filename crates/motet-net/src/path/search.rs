//! [`Search`]: finds paths by a [`Metric`], through allowed nodes, in a network state: the
//! shortest, all from one node, the k shortest, link-disjoint ones.
//!
//! Every answer is exact and the same on every machine: among paths of equal cost the one with the
//! fewest hops wins, and among those the one whose list of link ids is lexicographically first. The
//! algorithms are in `shortest.rs`, `k_shortest.rs` and `disjoint.rs`.

use motet_units::{Bytes, Duration, LinkId, NodeId, Rounding};

use super::shortest::{Query, ShortestPaths};
use super::{Forwarding, Path, bandwidth, disjoint, k_shortest, stores};
use crate::network::Network;
use crate::node::NodeKind;
use crate::state::NetworkState;

/// What makes a path short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The number of links.
    #[default]
    Hops,
    /// Σα.
    Latency,
    /// The time this many bytes take along the path ([`Path::transfer_time`]).
    Transfer { bytes: Bytes, forwarding: Forwarding },
}

/// Which nodes a path may pass through. Its ends may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transit {
    /// Everything but GPUs: what hardware forwards by itself.
    #[default]
    NotGpus,
    /// As [`NotGpus`](Self::NotGpus), and a path that has entered a server other than its
    /// first stays there: no way leads through the NICs, switches and CPUs of a third server.
    /// Nodes with no server given belong to none.
    NotOtherServers,
    /// Everything: GPUs too can pass data on, by store and forward.
    All,
}

/// The cost of a path under a metric: hops, or picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub(super) u64);

impl Cost {
    /// The cost as a number, in the unit of the metric.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The cost as a time, for the metrics that measure one.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_ps(self.0)
    }
}

/// A question about paths. Without a state every link is up at its nominal bandwidth; with one,
/// links that are down or have no bandwidth left are not used under any metric.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    network: &'a Network,
    state: Option<&'a NetworkState>,
    metric: Metric,
    transit: Transit,
}

impl<'a> Search<'a> {
    /// A search for paths that are shortest by `metric`, in the nominal network.
    #[must_use]
    pub fn new(network: &'a Network, metric: Metric) -> Self {
        Self { network, state: None, metric, transit: Transit::default() }
    }

    /// In this state: links that are down or carry nothing are not used.
    #[must_use]
    pub fn in_state(mut self, state: &'a NetworkState) -> Self {
        self.state = Some(state);
        self
    }

    /// Passing only through nodes that `transit` allows.
    #[must_use]
    pub fn through(mut self, transit: Transit) -> Self {
        self.transit = transit;
        self
    }

    /// The shortest path; `None` if there is none, or `from` is `to`.
    #[must_use]
    pub fn shortest(&self, from: NodeId, to: NodeId) -> Option<Path> {
        ShortestPaths::run(self, Query::between(from, to)).path(to)
    }

    /// Of all paths as short as the shortest, in hops too, one whose links have the least load: what a
    /// fabric that spreads its traffic over equal ways comes to. For metrics that are sums.
    #[must_use]
    pub fn least_loaded(
        &self,
        from: NodeId,
        to: NodeId,
        load: impl Fn(LinkId) -> u64,
    ) -> Option<Path> {
        ShortestPaths::run(self, Query::between(from, to)).least_loaded(self, to, load)
    }

    /// The shortest paths from one node to every other.
    #[must_use]
    pub fn all_from(&self, from: NodeId) -> ShortestPaths<'a> {
        ShortestPaths::run(self, Query::from(from))
    }

    /// The `k` shortest paths that visit no node twice, shortest first; fewer if there are no
    /// more. Parallel links make different paths.
    #[must_use]
    pub fn k_shortest(&self, from: NodeId, to: NodeId, k: usize) -> Vec<Path> {
        k_shortest::run(self, from, to, k)
    }

    /// As many paths as there are that share no link, at most `most`, over as few links in all
    /// as that number allows (whatever the metric), fewest hops first.
    #[must_use]
    pub fn disjoint(&self, from: NodeId, to: NodeId, most: usize) -> Vec<Path> {
        disjoint::run(self, from, to, most)
    }

    /// The cost of a path under this search's metric; `None` if a link of it cannot be used.
    #[must_use]
    pub fn cost(&self, path: &Path) -> Option<Cost> {
        let (sum, max) = self.prefix(path.links())?;
        Some(Cost(sum.saturating_add(max)))
    }

    pub(super) fn network(&self) -> &'a Network {
        self.network
    }

    /// The sum and the running maximum after these links.
    pub(super) fn prefix(&self, links: &[LinkId]) -> Option<(u64, u64)> {
        links.iter().try_fold((0, 0), |at, link| self.extend(at, *link))
    }

    /// The sum and the running maximum one link further; `None` if the link cannot be used.
    pub(super) fn extend(&self, (sum, max): (u64, u64), id: LinkId) -> Option<(u64, u64)> {
        let rate = bandwidth(self.network, self.state, id);
        if rate.is_zero() {
            return None;
        }
        let link = self.network.link(id);
        let latency = link.spec.latency.as_ps();
        Some(match self.metric {
            Metric::Hops => (sum.saturating_add(1), 0),
            Metric::Latency => (sum.saturating_add(latency), 0),
            Metric::Transfer { bytes, forwarding } => {
                let time = rate.transfer_time(bytes, Rounding::Up)?.as_ps();
                let (sum, max) = (sum.saturating_add(latency), max.max(time));
                // A node that waits for the whole ends the segment.
                let ends = stores(forwarding, self.network.node(link.to).kind);
                if ends { (sum.saturating_add(max), 0) } else { (sum, max) }
            }
        })
    }

    /// Whether a path from `origin` may go on over `link` from a node on its way.
    pub(super) fn may_pass(&self, origin: NodeId, link: LinkId) -> bool {
        let link = self.network.link(link);
        let via = self.network.node(link.from);
        if link.from == origin || self.transit == Transit::All {
            return true;
        }
        if via.kind == NodeKind::Gpu {
            return false;
        }
        let Some(server) = &via.location.server else {
            return true;
        };
        let server_of = |id: NodeId| self.network.node(id).location.server.as_ref();
        self.transit == Transit::NotGpus
            || server_of(origin) == Some(server)
            || server_of(link.to) == Some(server)
    }
}
