//! The bound: the least time any program could take on a network, and what sets it.
//!
//! | collective | bandwidth bound, M = size | found |
//! | --- | --- | --- |
//! | AllGather | M/n · max over S of ranks(S) ÷ B⁺(S), S not all ranks | exactly ([`tightest`]) |
//! | ReduceScatter | the same on the transposed network | exactly |
//! | Gather, Scatter | the same with only the root as sink; transposed | exactly |
//! | Broadcast, Reduce | M ÷ least B⁺(S), root in S, some rank not; transposed | exactly |
//! | AllReduce | M ÷ least B⁺(S), S with some ranks but not all | exactly |
//! | AllToAll, AllToAllV, SendRecv | best cut or lengths ([`pairs`]) | mostly within 1% |
//!
//! B⁺(S) is the bandwidth out of the node set S. To this comes latency: the farthest pair
//! ([`latency`]), and what the data of a cut loses on the way to it and from it ([`delay`]). At
//! middle sizes the latter is what counts, and the cut that takes longest need not be the tightest:
//! several are kept, and [`Bound::time`] takes the latest.
//!
//! **What is assumed.** A cut bound says how much information must cross a border, so it holds
//! whatever the devices can do: switches that copy (multicast) or reduce (NVLS, SHARP) cannot
//! carry more over a link. For reductions: the far side of a cut must learn its result's share of
//! the near side's sum, which is as many bytes as the result. The bound of AllToAll by lengths
//! holds because each of its bytes is wanted by one rank only and a sum cannot be taken apart
//! again; copying and reducing do not help. [`Work`] is sharper for AllReduce and does depend on
//! what switches can do; it is given apart from the cut bound and only where it holds. Where links
//! are equal both ways it is the bound by packing spanning trees (Nash-Williams and Tutte).
//!
//! **Which figure to compare with.** Two limits are given for AllReduce. What *any* device could do,
//! switches that reduce included, is the cut bound ([`Bound::algbw`], [`Bound::time`]). What *programs*
//! can reach on this network, where switches do only what the network says they can, is at most that
//! and often less ([`Bound::program_algbw`], [`Bound::program_time`]). A program's time is compared
//! with the second. For all other collectives the two are one. A program that itself asks switches to copy
//! or reduce is compared with neither, but with [`InSwitchBound`] or the cut bound, by its form
//! ([`Bound::held_against`]).
//!
//! **Groups.** Ranks of the group send, receive and relay. Other GPUs do none of these: a
//! library's communicator has no buffers or kernels on them. NICs, CPUs and switches relay.

mod around;
mod concurrent;
mod cut;
mod delay;
mod demand;
mod demand_cuts;
mod distance;
mod graph;
mod in_switch;
mod latency;
mod lengths;
mod pairs;
mod partition;
mod ratio;
mod reach;
mod spread;
mod strength;
#[cfg(test)]
mod tests;
mod tightest;
mod work;

use motet_net::{Network, NodeKind};
use motet_units::{Bytes, Duration, LinkId, NodeId, Rank};

use crate::collective::{Collective, CollectiveKind};
use delay::Delays;
use demand::Demands;
use distance::NO_LINK;
use graph::{BothWays, BoundGraph};
use pairs::Slowest;
use partition::Partition;

pub use cut::Cut;
pub use in_switch::{HeldAgainst, InSwitchBound};
pub use partition::Level;
pub use ratio::Ratio;
pub use work::Work;

/// The least time any program could take for a collective on a network, and what sets it. The head of
/// this file says which of its figures to compare a program with.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub collective: CollectiveKind,
    pub ranks: u32,
    /// Seconds per byte of size in nccl-tests' sense, from bandwidth alone; zero if nothing moves.
    pub time_per_byte: Ratio,
    pub set_by: SetBy,
    /// The least time from latency alone, and the two ranks that are so far apart.
    pub latency: Duration,
    pub latency_pair: Option<(Rank, Rank)>,
    /// For AllReduce: the bound on programs that counts messages, where switches of the network do
    /// not both reduce and copy. Not always the sharper one: see [`sharper_work`](Self::sharper_work).
    pub work: Option<Work>,
    /// What programs reach at best that have switches copy and reduce over all ranks, where the network has
    /// switches that programs may ask.
    pub in_switch: Option<InSwitchBound>,
    /// For traffic between pairs: how many times the bound a fractional routing takes that was
    /// found on the way. At 1.0 the bound is the optimum.
    pub reached: Option<f64>,
    /// What latency adds to cuts and lengths.
    delays: Vec<Delays>,
    /// The same for [`Work`].
    work_delays: Vec<Delays>,
}

/// What sets the bandwidth bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// Nothing moves.
    Nothing,
    /// What must cross a cut.
    Cut(Cut),
    /// How far everything must travel: links with their lengths, those of length 0 left out. The
    /// bound is Σ demand·distance ÷ Σ length·bandwidth.
    Lengths(Vec<(LinkId, u64)>),
}

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundError {
    #[error("no path leads from rank {} to rank {}; the bound is infinite: add a link, or leave \
             one of them out of the group", .0.from, .0.to)]
    Unreachable(Box<Unreachable>),
    #[error("the collective has {ranks} ranks but the group has {gpus} GPUs; make them equal")]
    Ranks { ranks: u32, gpus: usize },
    #[error("`{name}` is listed twice in the group, or is no GPU of the network")]
    NotInGroup { name: String },
}

/// Two ranks without a path between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    pub from: Rank,
    pub to: Rank,
    /// What the sender does reach: a cut with no links out of it.
    pub cut: Cut,
}

/// The bound over all GPUs of the network, or the first of them if the collective has fewer
/// ranks.
pub fn bound(network: &Network, collective: &Collective) -> Result<Bound, BoundError> {
    let (ranks, gpus) = (collective.ranks(), network.ranks().len());
    match network.ranks().get(..ranks as usize) {
        Some(group) => bound_of_group(network, group, collective),
        None => Err(BoundError::Ranks { ranks, gpus }),
    }
}

/// The bound over a group of GPUs, the first of which is rank 0 of the collective.
pub fn bound_of_group(
    network: &Network,
    group: &[NodeId],
    collective: &Collective,
) -> Result<Bound, BoundError> {
    check_group(network, group, collective)?;
    let graph = BoundGraph::new(network, group);
    let turned = graph.transposed();
    let both = (&graph, &turned);
    let demands = Demands::of(collective);
    if let Some(gap) = reach::gap(both, &demands) {
        let cut = Cut::new(network, &graph, group, &gap.reached, Ratio::ZERO);
        let unreachable = Unreachable { from: gap.from, to: gap.to, cut };
        return Err(BoundError::Unreachable(Box::new(unreachable)));
    }
    let farthest = latency::farthest(both, &demands);
    let mut bound = Bound {
        collective: collective.kind(),
        ranks: collective.ranks(),
        time_per_byte: Ratio::ZERO,
        set_by: SetBy::Nothing,
        latency: farthest.map_or(Duration::ZERO, |it| it.latency),
        latency_pair: farthest.map(|it| it.pair),
        work: None,
        in_switch: None,
        reached: None,
        delays: Vec::new(),
        work_delays: Vec::new(),
    };
    if !demands.any() {
        return Ok(bound);
    }
    // On very large groups not all pairs are measured; any will do then.
    let farthest = bound.latency_pair.unwrap_or((Rank(0), Rank(0)));
    let partitions = Partition::all(network, &graph);
    match collective.kind() {
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV | CollectiveKind::SendRecv => {
            bound.set_by_pairs(network, both, group, collective, &partitions, farthest);
        }
        _ => {
            let slowest = || spread::slowest(both, collective, &partitions, farthest);
            let (found, work) = match collective.kind() {
                CollectiveKind::AllReduce => {
                    rayon::join(slowest, || work::work(network, both, &partitions))
                }
                _ => (slowest(), None),
            };
            if let Some(found) = found {
                let cut = Cut::new(network, &graph, group, &found.sending, found.share);
                bound.set_by_cut(cut, found.capacity * graph.unit);
                bound.delays = found.delays;
            }
            if let Some((work, delays)) = work {
                bound.work = Some(work);
                bound.work_delays = delays;
            }
        }
    }
    bound.in_switch = in_switch::in_switch(network, group, collective.kind());
    Ok(bound)
}

fn check_group(
    network: &Network,
    group: &[NodeId],
    collective: &Collective,
) -> Result<(), BoundError> {
    if group.len() != collective.ranks() as usize {
        return Err(BoundError::Ranks { ranks: collective.ranks(), gpus: group.len() });
    }
    let mut seen = vec![false; network.nodes().len()];
    for gpu in group {
        let node = network.nodes().get(gpu.index());
        let known = node.is_some_and(|it| it.kind == NodeKind::Gpu);
        if !known || std::mem::replace(&mut seen[gpu.index()], true) {
            let name = node.map_or_else(|| gpu.to_string(), |it| it.name.clone());
            return Err(BoundError::NotInGroup { name });
        }
    }
    Ok(())
}

impl Bound {
    /// The cut that sets the bound, if one does.
    #[must_use]
    pub const fn cut(&self) -> Option<&Cut> {
        match &self.set_by {
            SetBy::Cut(cut) => Some(cut),
            _ => None,
        }
    }

    /// The greatest algorithm bandwidth, size ÷ time, in GB/s (10⁹ bytes), whatever switches can do;
    /// `None` if nothing moves.
    #[must_use]
    pub fn algbw(&self) -> Option<Ratio> {
        gb_per_s(self.time_per_byte)
    }

    /// The greatest algorithm bandwidth in GB/s that programs can reach on this network, whose switches
    /// do only what the network says they can; `None` if nothing moves. Never above
    /// [`algbw`](Self::algbw), which holds for switches that reduce, too.
    #[must_use]
    pub fn program_algbw(&self) -> Option<Ratio> {
        gb_per_s(self.program_time_per_byte())
    }

    /// Seconds per byte of size that a program takes at least on this network, from bandwidth alone.
    #[must_use]
    pub fn program_time_per_byte(&self) -> Ratio {
        self.sharper_work().map_or(self.time_per_byte, |it| it.time_per_byte)
    }

    /// What limits programs more than the cut does: there if [`program_algbw`](Self::program_algbw) is
    /// below [`algbw`](Self::algbw).
    #[must_use]
    pub fn sharper_work(&self) -> Option<&Work> {
        self.work.as_ref().filter(|it| it.time_per_byte > self.time_per_byte)
    }

    /// The least time for `size` bytes in nccl-tests' sense, from bandwidth and latency, rounded
    /// down. It holds whatever switches can do.
    #[must_use]
    pub fn time(&self, size: Bytes) -> Duration {
        let plain = picoseconds(self.time_per_byte, size);
        plain.max(self.latency).max(latest(&self.delays, size))
    }

    /// The least time for a program whose switches do on the way only what the network says they
    /// can: [`time`](Self::time), sharpened by [`Work`].
    #[must_use]
    pub fn program_time(&self, size: Bytes) -> Duration {
        let plain = picoseconds(self.program_time_per_byte(), size);
        self.time(size).max(plain).max(latest(&self.work_delays, size))
    }

    /// What sets the bound, in words.
    #[must_use]
    pub fn describe(&self, network: &Network) -> String {
        match &self.set_by {
            SetBy::Nothing => "nothing has to move".to_owned(),
            SetBy::Cut(cut) => cut.describe(network),
            SetBy::Lengths(lengths) => format!(
                "the distances between the ranks over {} weighted links; no cut that was tried is as tight",
                lengths.len()
            ),
        }
    }

    fn set_by_cut(&mut self, cut: Cut, bits_per_s: u128) {
        let time = Ratio::new(8, bits_per_s).and_then(|it| it.checked_mul(cut.share));
        self.time_per_byte = time.unwrap_or(Ratio::ZERO);
        self.set_by = SetBy::Cut(cut);
    }

    fn set_by_pairs(
        &mut self,
        network: &Network,
        both: BothWays<'_>,
        group: &[NodeId],
        collective: &Collective,
        partitions: &[Partition],
        farthest: (Rank, Rank),
    ) {
        let demands = Demands::of(collective);
        let chunks = u128::from(collective.size_chunks());
        let far = (farthest.0.index(), farthest.1.index());
        let Some(found) = pairs::pairs(both, &demands, chunks, partitions, far) else { return };
        let graph = both.0;
        self.delays = found.delays;
        self.reached = found.reached;
        match found.set_by {
            Slowest::Cut(slowest) => {
                let share = Ratio::new(slowest.chunks, chunks).unwrap_or(Ratio::ZERO);
                let cut = Cut::new(network, graph, group, &slowest.sending, share);
                self.set_by_cut(cut, slowest.capacity * graph.unit);
            }
            Slowest::Lengths(lengths) => {
                let per_chunk = Ratio::new(8, chunks * graph.unit);
                let time = per_chunk.and_then(|it| it.checked_mul(lengths.time));
                self.time_per_byte = time.unwrap_or(Ratio::ZERO);
                self.set_by =
                    SetBy::Lengths(lengths_of_links(network, graph, &lengths.lengths.of_arc));
            }
        }
    }
}

/// Each link with the length of its arc, if that is not zero.
fn lengths_of_links(network: &Network, graph: &BoundGraph, of_arc: &[u64]) -> Vec<(LinkId, u64)> {
    let length = |id: LinkId| {
        let (from, to) = (network.link(id).from.index(), network.link(id).to.index());
        let arc = graph.arcs_of(from).find(|it| graph.head(*it) == to)?;
        Some(of_arc[arc]).filter(|it| *it > 0 && *it != NO_LINK)
    };
    network.link_ids().filter_map(|id| Some((id, length(id)?))).collect()
}

/// The latest of the times that these prove.
fn latest(delays: &[Delays], size: Bytes) -> Duration {
    delays.iter().filter_map(|it| it.time(size)).max().unwrap_or(Duration::ZERO)
}

/// Seconds per byte as gigabytes (10⁹) per second.
fn gb_per_s(time_per_byte: Ratio) -> Option<Ratio> {
    Ratio::new(1, 1_000_000_000)?.checked_mul(time_per_byte.inverse()?)
}

/// Picoseconds for `size` bytes, rounded down.
fn picoseconds(time_per_byte: Ratio, size: Bytes) -> Duration {
    let scaled = u128::from(size.get()) * 1_000_000_000_000;
    let ps = match time_per_byte.times(scaled) {
        Some(exact) => exact.floor(),
        // Dividing first rounds down more, which a bound may.
        None => (scaled / time_per_byte.denominator()).saturating_mul(time_per_byte.numerator()),
    };
    Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}
