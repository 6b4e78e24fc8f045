//! [`Costs`]: what every transfer of one iteration takes, settled before anything runs.

use super::slicing::Slicing;
use super::{Knobbed, LOCAL, Moved};
use crate::Terms;

const PS_PER_S: u128 = 1_000_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// By hop: how long the link is taken, by all instances together.
    pub(super) hops: Vec<u64>,
    /// By transfer: how long a thread block is, at least.
    pub(super) blocks: Vec<u64>,
}

impl Costs {
    /// Of an iteration on `bytes` of each piece.
    pub(super) fn new(knobbed: &Knobbed, terms: &Terms, slicing: &Slicing, bytes: u64) -> Self {
        let instances = u128::from(slicing.instances);
        // Most transfers over a link have the same count.
        let mut known = vec![(0u32, 0u64); knobbed.links.len()];
        let mut hops = Vec::with_capacity(knobbed.hops.len());
        let mut blocks = Vec::with_capacity(knobbed.transfers.len());
        for moved in &knobbed.transfers {
            let payload = u64::from(moved.count).saturating_mul(bytes);
            for hop in &knobbed.hops[moved.first as usize..moved.end as usize] {
                let (count, time) = &mut known[hop.link as usize];
                if *count != moved.count {
                    let wire = u128::from(terms.line.on_wire(payload)) * instances;
                    let rate = knobbed.links[hop.link as usize].bits_per_s;
                    (*count, *time) = (moved.count, time_at(wire, rate));
                }
                hops.push(*time);
            }
            blocks.push(block_time(knobbed, terms, slicing, moved, payload));
        }
        Self { hops, blocks }
    }
}

/// At a block's rate; and where a transfer takes more places than there are, not faster than they
/// come back.
fn block_time(
    knobbed: &Knobbed,
    terms: &Terms,
    slicing: &Slicing,
    moved: &Moved,
    payload: u64,
) -> u64 {
    if moved.connection == LOCAL {
        return time_at(u128::from(payload), terms.copy_rate.bits_per_s());
    }
    let time = time_at(u128::from(payload), terms.block_rate.bits_per_s());
    let (places, all) = (slicing.places(moved.count), u64::from(terms.places));
    if places <= all {
        return time;
    }
    // Each place is filled, sent, and free again after a trip there and one back.
    let trips = u128::from(places) * 2 * u128::from(trip(knobbed, terms, moved));
    let window = (u128::from(time) + trips).div_ceil(u128::from(all));
    time.max(u64::try_from(window).unwrap_or(u64::MAX))
}

/// From a block to the other: the links' latency and the protocol's.
pub(super) fn trip(knobbed: &Knobbed, terms: &Terms, moved: &Moved) -> u64 {
    let hops = &knobbed.hops[moved.first as usize..moved.end as usize];
    hops.iter().fold(0u64, |sum, hop| {
        let over = hop.over.map_or(0, |it| terms.latency[it as usize].as_ps());
        sum.saturating_add(knobbed.links[hop.link as usize].latency).saturating_add(over)
    })
}

/// Rounded up; the end of time where it does not fit.
fn time_at(bytes: u128, bits_per_s: u64) -> u64 {
    // Bytes are below 2⁶⁴ × 2⁵, so the product is below 2¹¹².
    let time = (bytes * 8 * PS_PER_S).div_ceil(u128::from(bits_per_s.max(1)));
    u64::try_from(time).unwrap_or(u64::MAX)
}
