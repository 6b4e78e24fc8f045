//! [`shares`]: how much of each link the trees need at the best rate.
//!
//! Only the links of the tightest cuts must be full all the time. Trees that fill the others too leave them no
//! time to catch up: data that comes late, from afar or over a slow link, then delays all that follows. So all
//! links are narrowed alike until some cut is only just wide enough; the links of that cut keep that width, the
//! others are narrowed further, and so on. In the end trees may use somewhat more than these widths.

use std::collections::BTreeMap;

use motet_collective::bound::Ratio;
use motet_units::{Duration, LinkId, NodeId};

use super::scale::{FULL, Nodes};
use crate::fabric::Fabric;

/// Units per root in which links are measured: fine enough that rounding does not count.
const UNITS: u64 = 1 << 12;

/// How many times links are narrowed; after that all have slack enough.
const ROUNDS: usize = 8;

/// No link is narrowed below this many thousandths of its bandwidth.
const LEAST: u64 = 100;

/// Trees may use one part in this many of the slack that was found: with too little room they would become
/// more and taller.
const KEPT: u64 = 2;

/// Shares are rounded up to a multiple of this, so that equal links have equal shares.
const STEP: u64 = FULL / 40;

/// For every link of the fabric (in its order), how many thousandths of it trees may use.
pub(super) fn shares(nodes: &Nodes, fabric: &Fabric, rate: Ratio) -> Vec<u64> {
    let mut shares = vec![FULL; fabric.links().len()];
    let mut settled = vec![false; shares.len()];
    let mut above = FULL;
    for _ in 0..ROUNDS {
        let (mut low, mut high) = (LEAST, above);
        let mut narrowed = shares.clone();
        let mut at = |share: u64| {
            for (narrowed, _) in narrowed.iter_mut().zip(&settled).filter(|(_, it)| !**it) {
                *narrowed = share;
            }
            nodes.narrow(fabric, rate, UNITS, &narrowed)
        };
        let mut tight = at(low);
        if tight.is_empty() {
            high = low;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            let cut = at(middle);
            if cut.is_empty() {
                high = middle;
            } else {
                (low, tight) = (middle, cut);
            }
        }
        for (share, _) in shares.iter_mut().zip(&settled).filter(|(_, it)| !**it) {
            *share = high;
        }
        let before = settled.iter().filter(|it| **it).count();
        for link in &tight {
            settled[*link] = true;
        }
        above = high;
        let after = settled.iter().filter(|it| **it).count();
        if high <= LEAST || after == before || after == settled.len() {
            break;
        }
    }
    for share in &mut shares {
        let kept = *share + (FULL - *share) / KEPT;
        *share = kept.next_multiple_of(STEP).min(FULL);
    }
    both_ways(fabric, &shares)
}

/// The same, but only links of more than `near` latency are narrowed, all alike, down to what the rate needs.
pub(super) fn shares_of_far(
    nodes: &Nodes,
    fabric: &Fabric,
    rate: Ratio,
    near: Duration,
) -> Vec<u64> {
    let with = |share: u64| -> Vec<u64> {
        let of = |it: &LinkId| if fabric.latency(*it) > near { share } else { FULL };
        fabric.links().iter().map(of).collect()
    };
    let (mut low, mut high) = (0, FULL);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if nodes.narrow(fabric, rate, UNITS, &with(middle)).is_empty() {
            high = middle;
        } else {
            low = middle;
        }
    }
    both_ways(fabric, &with(high.next_multiple_of(STEP).min(FULL)))
}

/// Gives each link and its opposite the greater share of the two, because a switch must be able to send on as
/// much as it receives.
fn both_ways(fabric: &Fabric, shares: &[u64]) -> Vec<u64> {
    let ends = |link: &LinkId| (fabric.from(*link), fabric.to(*link));
    let mut greatest: BTreeMap<(NodeId, NodeId), u64> = BTreeMap::new();
    for (link, share) in fabric.links().iter().zip(shares) {
        let (from, to) = ends(link);
        for way in [(from, to), (to, from)] {
            let greatest = greatest.entry(way).or_default();
            *greatest = (*greatest).max(*share);
        }
    }
    fabric.links().iter().map(|it| greatest.get(&ends(it)).copied().unwrap_or(FULL)).collect()
}
