//! [`Delays`]: what latency adds to a bandwidth bound.
//!
//! Bandwidth bounds say that so many bits must pass over certain links: over a cut, into and out of
//! groups of ranks, or over all links weighted by lengths. Latency shortens the time for which each
//! of these links is of any use. Nothing can be sent over link e = (u, v) before a = the least
//! latency from any sender to u has passed, and what is sent after T − α − c, where c is the least
//! latency from v to a receiver, comes too late. So by time T the link has carried at most
//! b·max(0, T − δ) useful bits, δ = a + α + c, and
//!
//! > Σ b·max(0, T − δ) ≥ the bits that must pass.
//!
//! The least T that satisfies this is a bound: never below bits ÷ Σ b, and about one path's
//! latency above it. It holds link by link, so slow and fast, near and far links may be mixed;
//! it does not depend on what switches can do, for it only asks when information can be where. It holds
//! for links as the simulator has them, whose streams may interleave: counted from the first start,
//! which is never before a, a link carries no more than its bandwidth. One case is not proved: under fair
//! sharing the simulator lets a flow occupy all links of a segment from its start, so that behind a
//! single sender it could in theory be early; random tests have found none.
//!
//! Every cut gives such a bound, and which one says most depends on the size: for large sizes the
//! tightest, for small ones those around far ranks. A bound therefore keeps several
//! ([`spread`](super::spread) and [`pairs`](super::pairs) choose them) and takes the latest time.

use motet_units::{Bytes, Duration};

use super::distance::{FAR, distances};
use super::graph::{BothWays, BoundGraph};
use super::ratio::Ratio;

/// Picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;

/// Links that certain bits must pass, by the time that each loses, least first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delays {
    /// Bits that must pass per byte of size.
    bits: Ratio,
    /// (δ in picoseconds, bits per second).
    links: Vec<(u64, u128)>,
}

/// Where the data of a cut must arrive, by nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receivers<'r> {
    /// All of it at each of these that is outside: the farthest counts.
    Each(&'r [usize]),
    /// Some of it here, some there: the nearest outside counts.
    Nearest(&'r [usize]),
    /// All of it at one node outside, to which every node has this latency.
    At(&'r [u64]),
}

impl Delays {
    /// Of the cut between `sending` and the rest, over which `share` bytes per byte of size must go
    /// from `senders`, which are nodes, to `receivers`.
    pub(super) fn of_cut(
        (graph, turned): BothWays<'_>,
        (sending, share): (&[bool], Ratio),
        senders: impl Iterator<Item = usize>,
        receivers: Receivers<'_>,
    ) -> Option<Self> {
        let senders: Vec<usize> = senders.filter(|it| sending[*it]).collect();
        let crossing: Vec<(usize, usize, usize)> = graph.links_out_of(sending).collect();
        let mut ready = vec![FAR; graph.nodes()];
        senders.iter().for_each(|it| ready[*it] = 0);
        // Where GPUs are joined directly, every link of the cut leaves a sender, and nothing else is asked.
        if crossing.iter().any(|(from, ..)| ready[*from] == FAR) {
            ready = distances(graph, graph.latencies(), senders.into_iter().map(|it| (it, 0)));
        }
        let outside = |of: &[usize]| -> Vec<usize> {
            of.iter().copied().filter(|it| !sending[*it]).collect()
        };
        let ends: Vec<usize> = match receivers {
            Receivers::Each(nodes) => {
                let through = crossing.iter().filter(|(from, ..)| ready[*from] != FAR);
                let heads = through.map(|(from, to, arc)| {
                    (*to, ready[*from].saturating_add(graph.latency(*arc)).min(FAR - 1))
                });
                let arrival = distances(graph, graph.latencies(), heads);
                let farthest = |it: &usize| (arrival[*it], std::cmp::Reverse(*it));
                outside(nodes).into_iter().max_by_key(farthest).into_iter().collect()
            }
            Receivers::Nearest(nodes) => outside(nodes),
            Receivers::At(_) => Vec::new(),
        };
        let bandwidths = crossing.into_iter().map(|link| (link, graph.capacity(link.2)));
        let bits = share.times(8)?;
        if let Receivers::At(rest) = receivers {
            return Self::new(graph, bits, &ready, rest, bandwidths);
        }
        let rest = distances(turned, turned.latencies(), ends.into_iter().map(|it| (it, 0)));
        Self::new(graph, bits, &ready, &rest, bandwidths)
    }

    /// Of links (from, to, arc), each with its bandwidth in units of the graph times whatever weight
    /// it has, that `bits` per byte of size must pass. Nothing can be at a node before `ready`, and
    /// from there it takes `rest` to a receiver. `None` if the numbers are beyond 128 bits.
    pub(super) fn new(
        graph: &BoundGraph,
        bits: Ratio,
        ready: &[u64],
        rest: &[u64],
        links: impl Iterator<Item = ((usize, usize, usize), u128)>,
    ) -> Option<Self> {
        let mut links = links
            .filter(|(_, bandwidth)| *bandwidth > 0)
            // A link that no sender reaches, or that leads to no receiver, serves for nothing.
            .filter(|((from, to, _), _)| ready[*from] != FAR && rest[*to] != FAR)
            .map(|((from, to, arc), bandwidth)| {
                let lost = ready[from].saturating_add(graph.latency(arc));
                Some((lost.saturating_add(rest[to]), bandwidth.checked_mul(graph.unit)?))
            })
            .collect::<Option<Vec<(u64, u128)>>>()?;
        links.sort_unstable();
        // Links that lose as much are as one.
        let mut merged: Vec<(u64, u128)> = Vec::new();
        for (lost, bandwidth) in links {
            match merged.last_mut() {
                Some((last, sum)) if *last == lost => *sum = sum.checked_add(bandwidth)?,
                _ => merged.push((lost, bandwidth)),
            }
        }
        Some(Self { bits, links: merged })
    }

    /// The least time in which the bits of so many bytes can pass, rounded down; `None` if there are
    /// no links or the numbers are beyond 128 bits.
    pub(super) fn time(&self, size: Bytes) -> Option<Duration> {
        let bits = self.bits.times(u128::from(size.get()).checked_mul(PS_PER_S)?)?.floor();
        let mut bandwidth = 0u128;
        let mut lost = 0u128;
        let mut least = None;
        for (index, (delay, b)) in self.links.iter().enumerate() {
            bandwidth = bandwidth.checked_add(*b)?;
            lost = lost.checked_add(b.checked_mul(u128::from(*delay))?)?;
            // With these links only, T = (bits + Σ b·δ) ÷ Σ b; the next would help if it were
            // ready before that.
            let time = bits.checked_add(lost)? / bandwidth;
            least = Some(time);
            if self.links.get(index + 1).is_none_or(|next| u128::from(next.0) >= time) {
                break;
            }
        }
        least.map(|it| Duration::from_ps(u64::try_from(it).unwrap_or(u64::MAX)))
    }
}

/// The least latency from the nearest rank to every node, and from every node to the nearest rank.
pub(super) fn nearest_ranks((graph, turned): BothWays<'_>) -> (Vec<u64>, Vec<u64>) {
    let ranks = || graph.ranks.iter().map(|it| (*it as usize, 0));
    (distances(graph, graph.latencies(), ranks()), distances(turned, turned.latencies(), ranks()))
}
