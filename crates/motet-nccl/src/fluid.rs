//! How long NCCL's traffic takes on the links, by counting what each link carries instead of simulating steps:
//! for algorithms that have no laid-out program here (PAT, CollNet), and for rings and trees over so many ranks
//! that simulating their steps would take long.
//!
//! Every pair of ranks that exchange data loads the links between them. The time is that of the link that takes
//! longest for its load, plus the latency between the two ranks farthest apart for each trip of the data.

use std::collections::BTreeMap;

use motet_net::Network;
use motet_sim::DefaultRoutes;
use motet_units::{Bytes, Duration, LinkId, Rank};

use crate::choice::Choice;
use crate::connect::Channels;
use crate::kinds::{Algorithm, TunedCollective};
use crate::model::NcclModel;

/// How long a call under `choice` takes on the links at least; zero for CollNet, which is not counted. `None` if
/// some ranks do not reach one another.
pub(crate) fn time(
    network: &Network,
    model: &NcclModel,
    channels: &Channels,
    tuned: TunedCollective,
    choice: &Choice,
    size: Bytes,
) -> Option<Duration> {
    let ranks = model.communicator().ranks as u64;
    let flows = match choice.algorithm {
        Algorithm::Ring => rings(channels, tuned, choice, ranks),
        Algorithm::Tree => trees(channels, choice),
        Algorithm::Pat => pat(ranks),
        // What the network sums itself is outside of what ranks send one another.
        _ => return Some(Duration::ZERO),
    };
    let load = Load::of(network, flows)?;
    // Data go over the longest route at least once, and twice where they come back as sums.
    let trips = if tuned == TunedCollective::AllReduce { 2 } else { 1 };
    Some(load.time(size, trips))
}

/// The load that traffic between pairs of ranks puts on links.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// By loaded link: the share of the collective's size that it carries, and its bandwidth in bit/s.
    links: Vec<(f64, f64)>,
    /// The latency of the links between the two ranks that are farthest apart.
    farthest: Duration,
}

impl Load {
    /// `None` if two of the ranks do not reach one another.
    pub(crate) fn of(network: &Network, flows: Flows) -> Option<Self> {
        let mut loads: BTreeMap<LinkId, f64> = BTreeMap::new();
        let mut ways = DefaultRoutes::new(network);
        let mut farthest = 0u64;
        for ((from, to), share) in flows {
            let mut latency = 0u64;
            for link in ways.between(from, to)? {
                *loads.entry(*link).or_default() += share;
                latency = latency.saturating_add(network.link(*link).spec.latency.as_ps());
            }
            farthest = farthest.max(latency);
        }
        let rate = |link: LinkId| network.link(link).spec.bandwidth.bits_per_s() as f64;
        let links = loads.into_iter().map(|(link, share)| (share, rate(link))).collect();
        Some(Self { links, farthest: Duration::from_ps(farthest) })
    }

    /// How long a collective of `size` takes whose data cross the network `trips` times, one after the other.
    pub(crate) fn time(&self, size: Bytes, trips: u64) -> Duration {
        let busiest =
            self.links.iter().map(|(share, rate)| share * size.get() as f64 * 8e12 / rate);
        let data = busiest.fold(0.0f64, f64::max);
        let data = if data < 1.8e19 { data as u64 } else { u64::MAX };
        Duration::from_ps(self.farthest.as_ps().saturating_mul(trips).saturating_add(data))
    }
}

/// By sender and receiver: the share of the collective's size that goes from the one to the other.
pub(crate) type Flows = BTreeMap<(Rank, Rank), f64>;

fn rings(channels: &Channels, tuned: TunedCollective, choice: &Choice, ranks: u64) -> Flows {
    let mut flows = Flows::new();
    let used = choice.used_channels.max(1);
    let share = match tuned {
        TunedCollective::Broadcast | TunedCollective::Reduce => 1.0,
        _ => tuned.ring_steps(ranks) as f64 / ranks.max(1) as f64,
    };
    for channel in 0..used {
        let ring = channels.ring(channel);
        for (at, rank) in ring.iter().enumerate() {
            let next = ring[(at + 1) % ring.len()];
            *flows.entry((*rank, next)).or_default() += share / used as f64;
        }
    }
    flows
}

fn trees(channels: &Channels, choice: &Choice) -> Flows {
    let mut flows = Flows::new();
    let used = choice.used_channels.max(1);
    for channel in 0..used {
        let tree = channels.tree(channel);
        for rank in channels.ring(channel) {
            if let Some(parent) = tree.parent(*rank) {
                for pair in [(*rank, parent), (parent, *rank)] {
                    *flows.entry(pair).or_default() += 1.0 / used as f64;
                }
            }
        }
    }
    flows
}

/// PAT (parallel aggregated trees): for every power of two, each of n ranks sends n ÷ 2ᵏ⁺¹ of the n parts, at
/// least one, to the rank 2ᵏ further on.
fn pat(ranks: u64) -> Flows {
    let mut flows = Flows::new();
    let mut distance = 1u64;
    while distance < ranks {
        let parts = (ranks / (2 * distance)).max(1) as f64 / ranks as f64;
        for rank in 0..ranks {
            let pair = (Rank(rank as u32), Rank(((rank + distance) % ranks) as u32));
            *flows.entry(pair).or_default() += parts;
        }
        distance *= 2;
    }
    flows
}
