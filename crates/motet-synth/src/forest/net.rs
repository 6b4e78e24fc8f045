//! [`FlowNet`]: ranks and switches joined by links of integer capacity, for maximum-flow questions.
//!
//! Every question that the method `forest` asks is a maximum flow: a super-source feeds each node's supply into it, and the
//! question is how much can reach the sinks ([`MaxFlow`]).
//!
//! [`FlowNet::least`] asks for the least flow over all ranks. Once the flow into a rank is known, the only
//! cuts still to be looked at are those that have the rank on the source's side. So its supply is made
//! endless, which keeps the flows into later ranks short: all ranks together cost little more than the first
//! few.

use motet_graph::{Arcs, Capacity, MaxFlow, PairedArcs};
use rustc_hash::FxHashMap;

/// Supply that never runs out.
pub(super) const ENDLESS: u64 = <u64 as Capacity>::ENDLESS;

/// Nodes `0..ranks` are the ranks; all others are switches.
#[derive(Clone, Debug)]
pub(super) struct FlowNet {
    ranks: usize,
    /// Arc `a` and its opposite `a ^ 1` are made together.
    flow: MaxFlow<PairedArcs, u64>,
    /// The arc between each two nodes that are joined.
    known: FxHashMap<(u32, u32), u32>,
}

impl FlowNet {
    pub(super) fn new(ranks: usize, nodes: usize) -> Self {
        Self { ranks, flow: MaxFlow::new(PairedArcs::new(nodes)), known: FxHashMap::default() }
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    pub(super) fn nodes(&self) -> usize {
        self.flow.graph().node_count()
    }

    pub(super) fn arc_count(&self) -> usize {
        self.flow.graph().arc_count()
    }

    pub(super) fn is_rank(&self, node: u32) -> bool {
        (node as usize) < self.ranks
    }

    /// The arcs out of a node, those without capacity among them.
    pub(super) fn arcs_of(&self, node: u32) -> &[u32] {
        self.flow.graph().of(node)
    }

    pub(super) fn head(&self, arc: u32) -> u32 {
        self.flow.graph().head(arc as usize) as u32
    }

    pub(super) fn tail(&self, arc: u32) -> u32 {
        self.head(arc ^ 1)
    }

    pub(super) fn capacity(&self, arc: u32) -> u64 {
        self.flow.capacity(arc as usize)
    }

    /// The arc between two nodes, if one was ever added.
    pub(super) fn arc(&self, from: u32, to: u32) -> Option<u32> {
        self.known.get(&(from, to)).copied()
    }

    pub(super) fn capacity_between(&self, from: u32, to: u32) -> u64 {
        self.arc(from, to).map_or(0, |it| self.capacity(it))
    }

    /// The neighbours that a node sends to, with how much.
    pub(super) fn outgoing(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.arcs_of(node).iter();
        all.map(|it| (self.head(*it), self.capacity(*it))).filter(|(_, it)| *it > 0)
    }

    /// The neighbours that send to a node, with how much.
    pub(super) fn incoming(&self, node: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.arcs_of(node).iter();
        all.map(|it| (self.head(*it), self.capacity(*it ^ 1))).filter(|(_, it)| *it > 0)
    }

    /// Adds capacity from one node to another.
    pub(super) fn add(&mut self, from: u32, to: u32, amount: u64) {
        let arc = match self.arc(from, to) {
            Some(arc) => arc,
            None => self.new_pair(from, to),
        };
        self.set_capacity(arc, self.capacity(arc) + amount);
    }

    /// Takes capacity away; the caller knows that it is there.
    pub(super) fn take(&mut self, from: u32, to: u32, amount: u64) {
        if let Some(arc) = self.arc(from, to) {
            self.set_capacity(arc, self.capacity(arc).saturating_sub(amount));
        }
    }

    pub(super) fn set_capacity(&mut self, arc: u32, amount: u64) {
        self.flow.set_capacity(arc as usize, amount);
    }

    pub(super) fn set_supply(&mut self, node: u32, amount: u64) {
        self.flow.set_supply(node as usize, amount);
    }

    pub(super) fn supply(&self, node: u32) -> u64 {
        self.flow.supply(node as usize)
    }

    /// Forgets the arcs of a node that has no capacity left, so that searches pass it by.
    pub(super) fn isolate(&mut self, node: u32) {
        self.flow.isolate(node);
    }

    fn new_pair(&mut self, from: u32, to: u32) -> u32 {
        let arc = self.flow.add_pair(from, to);
        self.known.insert((from, to), arc);
        self.known.insert((to, from), arc + 1);
        arc
    }

    /// For each rank, let the maximum flow into it and the sinks `with` together be found: the least of these
    /// flows, but at most `limit`. The search ends with `enough` as soon as the least is known to be no more
    /// than that. Nodes in `endless` have endless supply.
    pub(super) fn least(&mut self, with: &[u32], endless: &[u32], limit: u64, enough: u64) -> u64 {
        let mut before: Vec<(u32, u64)> = Vec::with_capacity(self.ranks + endless.len());
        for node in endless {
            before.push((*node, self.supply(*node)));
            self.set_supply(*node, ENDLESS);
        }
        let mut sinks = with.to_vec();
        let mut least = limit;
        if with.iter().any(|it| self.is_rank(*it)) {
            least = self.flow(&sinks, least);
        } else {
            sinks.push(0);
            for rank in 0..self.ranks as u32 {
                if self.supply(rank) >= ENDLESS {
                    continue;
                }
                if let Some(last) = sinks.last_mut() {
                    *last = rank;
                }
                least = self.flow(&sinks, least);
                if least <= enough {
                    least = enough;
                    break;
                }
                before.push((rank, self.supply(rank)));
                self.set_supply(rank, ENDLESS);
            }
        }
        for (node, supply) in before.into_iter().rev() {
            self.set_supply(node, supply);
        }
        least
    }

    /// Whether every rank can get `amount` from all supplies together.
    pub(super) fn feeds_all(&mut self, amount: u64) -> bool {
        amount == 0 || self.least(&[], &[], amount, amount - 1) >= amount
    }

    /// The greatest flow into the sinks together, or `limit` if that much is possible.
    pub(super) fn flow(&mut self, sinks: &[u32], limit: u64) -> u64 {
        self.flow.flow_into(sinks.iter().map(|it| (*it, ENDLESS)), limit)
    }

    /// After a flow below its limit: whether `node` is on the source's side of the minimum cut.
    pub(super) fn is_sending(&self, node: u32) -> bool {
        self.flow.is_sending(node as usize)
    }
}
