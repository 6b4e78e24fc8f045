//! [`NetworkState`]: what varies with time over a fixed [`Network`]: each link's available
//! bandwidth, and whether it is up.
//!
//! A state holds nine bytes a link and no reference to its network, so that thousands of them can
//! be kept, cloned and sent between threads. It must only be used with the network it was made
//! from: link ids index straight into it.
//!
//! Available bandwidth is not held below the nominal one. A nominal rate is often a data sheet's,
//! and a measured or a drawn rate is taken at its word; [`set_background`](NetworkState::set_background)
//! is the way to say "nominal less this much other traffic".
//!
//! How a state changes as time goes on is in [`trace`]; drawing states at random in [`ranges`];
//! a state with some links failed or slower, named by a user, in [`what_if`].

pub mod ranges;
pub mod trace;
pub mod what_if;

use motet_units::{Bandwidth, LinkId, NodeId};

use crate::network::Network;

pub use ranges::{BandwidthRange, RangeError, RangeTable};
pub use trace::{LinkChange, StateEvent, StateTrace, TraceCursor, TraceError};
pub use what_if::{Factor, WhatIf, WhatIfError};

/// Why a link is down, as bits: it can fail itself and with either end, and each cause must end
/// before it is up again.
const LINK_DOWN: u8 = 1;
const FROM_DOWN: u8 = 2;
const TO_DOWN: u8 = 4;

/// The available bandwidth of every link of a network, and which links are up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkState {
    /// What a link carries when it is up.
    available: Vec<Bandwidth>,
    /// Zero when up.
    down: Vec<u8>,
}

impl NetworkState {
    /// Every link up, at its nominal bandwidth.
    #[must_use]
    pub fn nominal(network: &Network) -> Self {
        Self {
            available: network.links().iter().map(|it| it.spec.bandwidth).collect(),
            down: vec![0; network.links().len()],
        }
    }

    /// How many links this is the state of.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.available.len()
    }

    /// What the link can carry now: zero when it is down.
    #[must_use]
    pub fn bandwidth(&self, link: LinkId) -> Bandwidth {
        if self.is_up(link) { self.available[link.index()] } else { Bandwidth::ZERO }
    }

    /// What the link can carry once it is up, whether it is now or not.
    #[must_use]
    pub fn bandwidth_when_up(&self, link: LinkId) -> Bandwidth {
        self.available[link.index()]
    }

    /// Whether the link and both its ends are up. A link that is up may still have no bandwidth.
    #[must_use]
    pub fn is_up(&self, link: LinkId) -> bool {
        self.down[link.index()] == 0
    }

    /// Sets what the link can carry, which takes effect at once or, if it is down, on its return.
    pub fn set_bandwidth(&mut self, link: LinkId, bandwidth: Bandwidth) {
        self.available[link.index()] = bandwidth;
    }

    /// Leaves the link its nominal bandwidth less `traffic` of others, and never less than zero.
    pub fn set_background(&mut self, network: &Network, link: LinkId, traffic: Bandwidth) {
        let nominal = network.link(link).spec.bandwidth.bits_per_s();
        let left = nominal.saturating_sub(traffic.bits_per_s());
        self.set_bandwidth(link, Bandwidth::from_bits_per_s(left));
    }

    /// Takes the link itself down or up; it stays down while one of its ends is.
    pub fn set_up(&mut self, link: LinkId, up: bool) {
        self.set_cause(link, LINK_DOWN, up);
    }

    /// Takes a whole node down or up, and with it every link from and to it. Links that had
    /// failed by themselves stay down when the node returns.
    pub fn set_node_up(&mut self, network: &Network, node: NodeId, up: bool) {
        for link in network.outgoing(node) {
            self.set_cause(*link, FROM_DOWN, up);
        }
        for link in network.incoming(node) {
            self.set_cause(*link, TO_DOWN, up);
        }
    }

    /// Applies one change of a trace.
    pub fn apply(&mut self, link: LinkId, change: LinkChange) {
        match change {
            LinkChange::Bandwidth(bandwidth) => self.set_bandwidth(link, bandwidth),
            LinkChange::Down => self.set_up(link, false),
            LinkChange::Up => self.set_up(link, true),
        }
    }

    fn set_cause(&mut self, link: LinkId, cause: u8, up: bool) {
        let down = &mut self.down[link.index()];
        *down = if up { *down & !cause } else { *down | cause };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkClass, LinkSpec};
    use crate::network::NetworkBuilder;
    use crate::node::{Node, NodeKind};
    use motet_units::Duration;

    /// a ⇄ b ⇄ c at 10 GB/s: links 0 to 3.
    fn line() -> Network {
        let mut b = NetworkBuilder::new("line");
        let ids: Vec<NodeId> = ["a", "b", "c"]
            .iter()
            .map(|it| b.add_node(Node::new(*it, NodeKind::Gpu)).unwrap())
            .collect();
        let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(10), Duration::ZERO);
        b.add_duplex(ids[0], ids[1], spec).unwrap();
        b.add_duplex(ids[1], ids[2], spec).unwrap();
        b.build().unwrap()
    }

    #[test]
    fn background_traffic_lowers_and_never_goes_below_zero() {
        let network = line();
        let mut state = NetworkState::nominal(&network);
        state.set_background(&network, LinkId(0), Bandwidth::gb_per_s(4));
        assert_eq!(state.bandwidth(LinkId(0)), Bandwidth::gb_per_s(6));
        state.set_background(&network, LinkId(0), Bandwidth::gb_per_s(40));
        assert_eq!(state.bandwidth(LinkId(0)), Bandwidth::ZERO);
        assert!(state.is_up(LinkId(0)));
        assert_eq!(state.bandwidth(LinkId(1)), Bandwidth::gb_per_s(10));
    }

    #[test]
    fn a_link_is_up_only_when_every_cause_has_ended() {
        let network = line();
        let mut state = NetworkState::nominal(&network);
        state.set_up(LinkId(0), false);
        state.set_node_up(&network, NodeId(1), false);
        assert!(network.link_ids().all(|it| !state.is_up(it)));
        state.set_bandwidth(LinkId(2), Bandwidth::gb_per_s(3));
        assert_eq!(state.bandwidth(LinkId(2)), Bandwidth::ZERO);
        state.set_node_up(&network, NodeId(2), false);
        state.set_node_up(&network, NodeId(1), true);
        let up: Vec<bool> = network.link_ids().map(|it| state.is_up(it)).collect();
        assert_eq!(up, [false, true, false, false]);
        state.set_node_up(&network, NodeId(2), true);
        assert_eq!(state.bandwidth(LinkId(2)), Bandwidth::gb_per_s(3));
        state.set_up(LinkId(0), true);
        assert!(network.link_ids().all(|it| state.is_up(it)));
    }
}
