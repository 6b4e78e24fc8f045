//! [`Delays`]: what latency adds to a cut bound.
//!
//! Data that starts at senders inside a cut and must be outside, at a receiver, by time T crosses
//! some link e = (u, v) of the cut. It cannot be at u before a = the least latency from any
//! sender to u, and what leaves u later than T − α − c, where c is the least latency from v to
//! the receiver, comes too late. So each link serves for at most T − δ, δ = a + α + c, and
//!
//! > Σ b·max(0, T − δ) ≥ the bits that must cross.
//!
//! The least T that satisfies this is a bound: never below bits ÷ Σ b, and about one path's
//! latency above it. It holds link by link, so slow and fast, near and far links may be mixed;
//! it does not depend on what switches can do, for it only asks when information can be where.

use motet_units::Duration;

use super::distance::{FAR, distances};
use super::graph::BoundGraph;
use super::ratio::Ratio;

/// Picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;

/// Links of a cut by the time that each loses, least first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delays {
    /// (δ in picoseconds, bits per second).
    links: Vec<(u64, u128)>,
}

/// Where the data of a cut must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// All of it at each receiver outside: the farthest counts.
    Each,
    /// Some of it here, some there: the nearest counts.
    Nearest,
}

impl Delays {
    /// Of the cut between `sending` and the rest. `senders` and `receivers` are nodes.
    pub(super) fn new(
        graph: &BoundGraph,
        sending: &[bool],
        senders: impl Iterator<Item = usize>,
        receivers: &[usize],
        receiver: Receiver,
    ) -> Self {
        let senders = senders.filter(|it| sending[*it]).map(|it| (it, 0));
        let ready = distances(graph, graph.latencies(), senders);
        let crossing: Vec<(usize, usize, usize)> =
            graph.links().filter(|(from, to, _)| sending[*from] && !sending[*to]).collect();
        let outside = receivers.iter().copied().filter(|it| !sending[*it]);
        let ends: Vec<usize> = match receiver {
            Receiver::Nearest => outside.collect(),
            Receiver::Each => {
                let through = crossing.iter().filter(|(from, ..)| ready[*from] != FAR);
                let heads = through.map(|(from, to, arc)| {
                    (*to, ready[*from].saturating_add(graph.latencies()[*arc]).min(FAR - 1))
                });
                let arrival = distances(graph, graph.latencies(), heads);
                outside
                    .max_by_key(|it| (arrival[*it], std::cmp::Reverse(*it)))
                    .into_iter()
                    .collect()
            }
        };
        let turned = graph.transposed();
        let rest = distances(&turned, turned.latencies(), ends.into_iter().map(|it| (it, 0)));
        let mut links: Vec<(u64, u128)> = crossing
            .iter()
            // A link that no sender reaches, or that leads to no receiver, serves for nothing.
            .filter(|(from, to, _)| ready[*from] != FAR && rest[*to] != FAR)
            .map(|(from, to, arc)| {
                let lost = ready[*from].saturating_add(graph.latencies()[*arc]);
                (lost.saturating_add(rest[*to]), graph.capacity(*arc) * graph.unit)
            })
            .collect();
        links.sort_unstable();
        Self { links }
    }

    /// The least time in which `bits` can cross, rounded down; `None` if there are no links or
    /// the numbers are beyond 128 bits.
    pub(super) fn time(&self, bits: Ratio) -> Option<Duration> {
        let mut bandwidth = 0u128;
        let mut lost = 0u128;
        let mut least = None;
        for (index, (delay, b)) in self.links.iter().enumerate() {
            bandwidth = bandwidth.checked_add(*b)?;
            lost = lost.checked_add(b.checked_mul(u128::from(*delay))?)?;
            if self.links.get(index + 1).is_some_and(|next| next.0 == *delay) {
                continue;
            }
            // With these links only, T = (bits + Σ b·δ) ÷ Σ b; the next would help if it were
            // ready before that.
            let whole = bits.times(PS_PER_S)?.floor();
            let time = whole.checked_add(lost)? / bandwidth;
            least = Some(time);
            if self.links.get(index + 1).is_none_or(|next| u128::from(next.0) >= time) {
                break;
            }
        }
        least.map(|it| Duration::from_ps(u64::try_from(it).unwrap_or(u64::MAX)))
    }
}
