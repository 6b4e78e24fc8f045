//! [`RegionCut`]: the cut between datacenters that bounds a collective.
//!
//! The tightest cut of all may be inside a datacenter, at some GPU's port; what a WAN planner asks
//! is which regions are held back by which WAN links. So the bound is taken as if links inside
//! datacenters were as wide as needed, which leaves cuts along the WAN.

use std::collections::BTreeSet;

use motet_net::{LinkClass, Network, NetworkState};
use motet_synth::Task;
use motet_units::{Bandwidth, LinkId};

use crate::scenario::Asked;

/// Datacenters on two sides of the WAN, and the links that lead from one to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionCut {
    /// The datacenters on the sending side.
    pub from: Vec<String>,
    /// The datacenters on the receiving side.
    pub to: Vec<String>,
    pub links: Vec<LinkId>,
    /// The total bandwidth of the links, in the network state that was asked about.
    pub bandwidth: Bandwidth,
    /// Bytes that must cross, per byte of the collective's size.
    pub share: f64,
}

impl RegionCut {
    /// The tightest cut for a collective in a state. `None` if no WAN lies between its ranks, or if
    /// the bound is not set by a cut, which can happen for traffic between pairs.
    #[must_use]
    pub fn of(network: &Network, state: &NetworkState, asked: &Asked) -> Option<Self> {
        let wan = |it: &LinkId| network.link(*it).spec.class == LinkClass::Wan;
        let task = Task::new(network, asked.goal.clone(), asked.size).in_state(state.clone());
        let wide = network
            .link_ids()
            .filter(wan)
            .fold(Bandwidth::ZERO, |sum, it| sum.saturating_add(state.bandwidth(it)))
            .bits_per_s()
            // Make links inside datacenters so wide that the smallest share crossing a WAN cut takes longer than the whole size
            // inside.
            .saturating_mul(2 * u64::from(asked.goal.ranks()));
        let mut opened = state.clone();
        for link in network.link_ids().filter(|it| !wan(it) && task.usable(*it)) {
            opened.set_bandwidth(link, Bandwidth::from_bits_per_s(wide));
        }
        let usable: Vec<LinkId> = network.link_ids().filter(|it| task.usable(*it)).collect();
        let bound = task.in_state(opened).bound().ok()?;
        let cut = bound.cut()?;
        let links: Vec<LinkId> =
            cut.links.iter().filter_map(|it| usable.get(it.index()).copied()).collect();
        if links.is_empty() || !links.iter().all(wan) {
            return None;
        }
        let dc = |rank: usize| network.node(network.ranks()[rank]).location.dc.clone();
        let sending: BTreeSet<String> = cut.ranks.iter().filter_map(|it| dc(it.index())).collect();
        let all: BTreeSet<String> = (0..asked.goal.ranks() as usize).filter_map(dc).collect();
        let sum = |sum: Bandwidth, it: &LinkId| sum.saturating_add(state.bandwidth(*it));
        Some(Self {
            to: all.difference(&sending).cloned().collect(),
            from: sending.into_iter().collect(),
            bandwidth: links.iter().fold(Bandwidth::ZERO, sum),
            links,
            share: cut.share.to_f64(),
        })
    }

    /// Whether both cuts consist of the same links.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.links == other.links
    }
}
