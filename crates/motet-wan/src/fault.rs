//! [`Fault`]: links that fail and recover at given times of the run's clock.

use motet_net::{Network, NetworkState};
use motet_units::{Duration, Instant, LinkId};

/// Links that are down for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A description, for reports.
    pub what: String,
    pub links: Vec<LinkId>,
    pub at: Instant,
    /// How long; forever if not given.
    pub lasts: Option<Duration>,
}

impl Fault {
    /// Every link that leaves or enters a datacenter.
    #[must_use]
    pub fn region(network: &Network, dc: &str) -> Vec<LinkId> {
        let inside = |node| network.node(node).location.dc.as_deref() == Some(dc);
        let crosses = |link: &LinkId| {
            let it = network.link(*link);
            inside(it.from) != inside(it.to)
        };
        network.link_ids().filter(crosses).collect()
    }

    /// When the links come back; `None` if never.
    #[must_use]
    pub fn end(&self) -> Option<Instant> {
        self.lasts.map(|it| Instant::from_ps(self.at.as_ps().saturating_add(it.as_ps())))
    }

    /// Whether the links are down at `now`.
    #[must_use]
    pub fn is_on(&self, now: Instant) -> bool {
        self.at <= now && self.end().is_none_or(|it| now < it)
    }
}

/// Takes down the links that are failed at `now`.
pub fn apply(faults: &[Fault], now: Instant, state: &mut NetworkState) {
    for link in faults.iter().filter(|it| it.is_on(now)).flat_map(|it| &it.links) {
        state.set_up(*link, false);
    }
}

/// When the next fault begins or ends after `now`.
#[must_use]
pub fn next_change(faults: &[Fault], now: Instant) -> Option<Instant> {
    let changes = faults.iter().flat_map(|it| [Some(it.at), it.end()]).flatten();
    changes.filter(|it| *it > now).min()
}
