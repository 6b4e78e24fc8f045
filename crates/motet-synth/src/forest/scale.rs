//! Rounds the exact rate of a tree packing to whole numbers: into how many equal units each root's data is cut, and how many units
//! each link can carry.
//!
//! The bound gives the exact rate x at which every root can spread its data. If that is cut into k units per root, of which a tree
//! of weight w carries w, a unit flows at the rate x ÷ k and a link of b bit/s has room for ⌊b · k ÷ x⌋ units; what the floor cuts off
//! is lost bandwidth. The least k without any loss can be large (83 for two boxes of MI250), and always is where bandwidths were
//! measured. So k is the least number for which rounding costs at most [`LOSS`]; if no k that is tried (see [`MOST`]) achieves
//! that, the largest one is used.

use motet_collective::bound::Ratio;
use motet_net::Network;
use motet_units::{LinkId, Rank};

use super::net::FlowNet;
use super::split::{Removed, remove_switches};
use super::ways::ArcLinks;
use crate::fabric::Fabric;
use crate::watch::Watch;

/// The most that rounding may cost, in thousandths of the time.
const LOSS: u64 = 2;

/// Numbers of units per root up to this are tried one by one; larger ones in steps of a sixteenth.
const ONE_BY_ONE: u64 = 64;

/// The most units over all roots that are tried; up to [`MOST_PER_ROOT`] per root are tried in any case.
const MOST: u64 = 8192;
const MOST_PER_ROOT: u64 = 96;

/// The most units per root that are tried where their number must be a power of two.
const MOST_EVEN: u64 = 16;

/// The whole bandwidth of a link, in thousandths.
pub(super) const FULL: u64 = 1000;

/// A fabric whose link capacities are whole numbers of units, with its switches replaced by links between ranks.
#[derive(Debug)]
pub(super) struct Scaled {
    pub(super) net: FlowNet,
    pub(super) ways: ArcLinks,
}

/// The ranks and switches of a fabric as nodes of a flow network.
#[derive(Debug)]
pub(super) struct Nodes {
    /// For each node of the network, its node in the flow network.
    of: Vec<u32>,
    /// For each node of the flow network, its server, or a unique number if it is in none.
    group: Vec<u32>,
    roots: Vec<u32>,
}

/// The fabric scaled to the least number of units per root that reaches the rate within [`LOSS`], where trees may use as many
/// thousandths of each link as `shares` says. With `even` the number is a power of two up to [`MOST_EVEN`], the one that loses
/// least. `None` also if time was up.
pub(super) fn scale(
    nodes: &Nodes,
    fabric: &Fabric,
    rate: Ratio,
    shares: &[u64],
    even: bool,
    watch: Watch<'_>,
) -> Option<Scaled> {
    let most = (MOST / nodes.roots.len().max(1) as u64).max(MOST_PER_ROOT);
    let mut units = 1;
    while units <= if even { MOST_EVEN } else { most } {
        if watch.out_of_time() {
            return None;
        }
        if let Some(scaled) = nodes.attempt(fabric, rate, units, FULL + LOSS, shares) {
            return Some(scaled);
        }
        units += match units {
            _ if even => units,
            ..ONE_BY_ONE => 1,
            _ => units / 16,
        };
    }
    if !even {
        return nodes.least_stretch(fabric, rate, most, shares).map(|it| it.1);
    }
    let powers = (0..=MOST_EVEN.ilog2()).map(|it| 1 << it);
    let found = powers.filter_map(|it| nodes.least_stretch(fabric, rate, it, shares));
    // Of equals the fewest.
    found.min_by_key(|it| it.0).map(|it| it.1)
}

impl Nodes {
    pub(super) fn new(network: &Network, fabric: &Fabric, roots: &[Rank]) -> Self {
        let ranks = fabric.rank_count() as u32;
        let mut switches = ranks..;
        let mut of = vec![u32::MAX; fabric.node_count()];
        for rank in fabric.ranks() {
            of[fabric.node(rank).index()] = rank.0;
        }
        for link in fabric.links() {
            for node in [fabric.from(*link), fabric.to(*link)] {
                if of[node.index()] == u32::MAX {
                    of[node.index()] = switches.next().unwrap_or(u32::MAX);
                }
            }
        }
        let mut servers: Vec<&str> =
            network.nodes().iter().filter_map(|it| it.location.server.as_deref()).collect();
        servers.sort_unstable();
        servers.dedup();
        let count = switches.start as usize;
        let mut group: Vec<u32> = (0..count).map(|it| (servers.len() + it) as u32).collect();
        for (node, own) in network.nodes().iter().zip(&of) {
            if let (Some(server), true) = (node.location.server.as_deref(), *own != u32::MAX) {
                group[*own as usize] = servers.partition_point(|it| *it < server) as u32;
            }
        }
        Self { of, group, roots: roots.iter().map(|it| it.0).collect() }
    }

    /// The fabric with `units` per root and the least stretch, within a thousandth.
    fn least_stretch(
        &self,
        fabric: &Fabric,
        rate: Ratio,
        units: u64,
        shares: &[u64],
    ) -> Option<(u64, Scaled)> {
        let (mut low, mut high) = (FULL + LOSS, FULL + LOSS + 1);
        let mut best = None;
        while best.is_none() {
            high = high.checked_mul(2)?;
            best = self.attempt(fabric, rate, units, high, shares);
            if best.is_none() {
                low = high;
            }
        }
        while high - low > low.div_ceil(1000) {
            let middle = low.midpoint(high);
            match self.attempt(fabric, rate, units, middle, shares) {
                Some(better) => {
                    best = Some(better);
                    high = middle;
                }
                None => low = middle,
            }
        }
        best.map(|it| (high, it))
    }

    /// The fabric with `units` per root, `stretch` thousandths of the best time; `None` if that
    /// is too few.
    fn attempt(
        &self,
        fabric: &Fabric,
        rate: Ratio,
        units: u64,
        stretch: u64,
        shares: &[u64],
    ) -> Option<Scaled> {
        let wanted = units.checked_mul(self.roots.len() as u64)?;
        let mut ways = ArcLinks::default();
        let mut net = FlowNet::new(fabric.rank_count(), self.group.len());
        for (link, share) in fabric.links().iter().zip(shares) {
            let (from, to) = self.ends(fabric, *link);
            let capacity = self.capacity(fabric, *link, rate, units, stretch * share)?;
            if capacity > 0 {
                net.add(from, to, capacity);
                ways.add_link(from, to, *link, capacity);
            }
        }
        for root in &self.roots {
            net.set_supply(*root, units);
        }
        if !net.feeds_all(wanted) {
            return None;
        }
        let Removed { net, steps } = remove_switches(&net, wanted, &self.group)?;
        ways.follow(&steps);
        Some(Scaled { net, ways })
    }

    /// The links (by index in the fabric's order) whose capacity limits the packing if trees may use only their `shares`; empty if
    /// none does.
    pub(super) fn narrow(
        &self,
        fabric: &Fabric,
        rate: Ratio,
        units: u64,
        shares: &[u64],
    ) -> Vec<usize> {
        let mut net = FlowNet::new(fabric.rank_count(), self.group.len());
        for (link, share) in fabric.links().iter().zip(shares) {
            let (from, to) = self.ends(fabric, *link);
            let capacity = self.capacity(fabric, *link, rate, units, (FULL + LOSS) * share);
            net.add(from, to, capacity.unwrap_or(0));
        }
        for root in &self.roots {
            net.set_supply(*root, units);
        }
        let wanted = units * self.roots.len() as u64;
        let mut narrow = vec![false; shares.len()];
        for rank in 0..fabric.rank_count() as u32 {
            if net.flow(&[rank], wanted) < wanted {
                for (narrow, link) in narrow.iter_mut().zip(fabric.links()) {
                    let (from, to) = self.ends(fabric, *link);
                    *narrow |= net.is_sending(from) && !net.is_sending(to);
                }
            }
        }
        (0..narrow.len()).filter(|it| narrow[*it]).collect()
    }

    fn ends(&self, fabric: &Fabric, link: LinkId) -> (u32, u32) {
        (self.of[fabric.from(link).index()], self.of[fabric.to(link).index()])
    }

    /// How many units a link can carry, with `units` per root and in `share` millionths of the best time.
    fn capacity(
        &self,
        fabric: &Fabric,
        link: LinkId,
        rate: Ratio,
        units: u64,
        share: u64,
    ) -> Option<u64> {
        let times = rate.denominator().checked_mul(u128::from(units))?;
        let times = times.checked_mul(u128::from(share))?;
        let divisor = rate.numerator().checked_mul(u128::from(FULL * FULL))?;
        let capacity = times.checked_mul(u128::from(fabric.bits_per_s(link)))? / divisor;
        // More than all that all ranks want together is never used.
        let all = units.checked_mul(self.roots.len() as u64 * fabric.rank_count() as u64)?;
        Some(u64::try_from(capacity).unwrap_or(u64::MAX).min(all))
    }
}
