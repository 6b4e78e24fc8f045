//! In-switch operations: which switch serves each switch slot of a program, on a given network.
//!
//! A switch slot ([`Buffer::Switch`](crate::Buffer)) is a place inside a switch where one operation of it
//! happens. What is copied into it and then out to several ranks is a **multicast** (`multimem.st`);
//! what several ranks contribute to is a **reduction in the switch** (`multimem.ld_reduce`). The slot
//! belongs to the rank that asks for the operation. For the verifier it is memory like scratch; only here
//! does it matter that it stands in a switch:
//!
//! - One switch must be reached by everyone who puts something in or takes something out, without
//!   passing a GPU.
//! - It must be able to do what is asked ([`InNetwork`]).
//!
//! Slots that one transfer spans are served by the same switch. Where several switches will do, those are taken
//! that are nearest to all together, and of these one after the other: the parallel planes of a box
//! get equal shares.

use std::collections::BTreeMap;

use motet_graph::DisjointSets;
use motet_net::path::Cost;
use motet_net::{InNetwork, Metric, Network, Search, Transit};
use motet_units::{NodeId, Rank};

use crate::program::{Action, Program, Slot, Transfer};

/// Which switch serves each slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// By rank: where its slots begin in `by`.
    starts: Vec<usize>,
    by: Vec<Option<NodeId>>,
}

/// A slot that no switch of the network can serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no switch that can {needs} is reached by {} for {slot}; `in_network` in the cluster file says what \
     switches can",
    named(ranks)
)]
pub struct Unserved {
    pub slot: Slot,
    /// The ranks that write to the slot or read from it.
    pub ranks: Vec<Rank>,
    pub needs: InNetwork,
}

fn named(ranks: &[Rank]) -> String {
    const SHOWN: usize = 8;
    let list: Vec<String> = ranks.iter().take(SHOWN).map(Rank::to_string).collect();
    let more = if ranks.len() > SHOWN { ", …" } else { "" };
    format!("all of ranks {}{more}", list.join(", "))
}

impl Serving {
    /// Finds a switch for every slot; and the first of each group of slots for which there is none.
    /// The network must have a GPU for every rank, and the ranges of the program must be right.
    #[must_use]
    pub fn find(program: &Program, network: &Network) -> (Self, Vec<Unserved>) {
        let mut serving = Self::default();
        let mut next = 0;
        for rank in (0..program.collective().ranks()).map(Rank) {
            serving.starts.push(next);
            next += program.switch_chunks(rank) as usize;
        }
        serving.by = vec![None; next];
        if next == 0 {
            return (serving, Vec::new());
        }
        let groups = serving.groups(program);
        let mut reach = Reach::new(network);
        let mut unserved = Vec::new();
        for (turn, group) in groups.iter().enumerate() {
            match reach.nearest(group).as_slice() {
                [] => unserved.push(group.unserved()),
                found => {
                    for place in &group.places {
                        serving.by[*place] = Some(found[turn % found.len()]);
                    }
                }
            }
        }
        (serving, unserved)
    }

    /// The switch that serves a slot.
    #[must_use]
    pub fn node(&self, slot: Slot) -> Option<NodeId> {
        self.by.get(self.place(slot)?).copied().flatten()
    }

    fn place(&self, slot: Slot) -> Option<usize> {
        let start = self.starts.get(slot.rank.index()).filter(|_| slot.is_switch())?;
        Some(start + slot.offset as usize).filter(|it| *it < self.by.len())
    }

    /// Slots that one transfer spans, together, with who uses them and for what.
    fn groups(&self, program: &Program) -> Vec<SlotGroup> {
        let mut sets = DisjointSets::new(self.by.len());
        let ends = |it: &Transfer| [it.src, it.dst].map(|slot| self.place(slot));
        for transfer in program.transfers() {
            for place in ends(transfer).into_iter().flatten() {
                for next in place + 1..(place + transfer.count as usize).min(self.by.len()) {
                    sets.join(place, next);
                }
            }
        }
        let mut number = vec![usize::MAX; self.by.len()];
        let mut groups: Vec<SlotGroup> = Vec::new();
        for rank in (0..program.collective().ranks()).map(Rank) {
            for offset in 0..program.switch_chunks(rank) {
                let place = self.starts[rank.index()] + offset as usize;
                let root = sets.root(place);
                if number[root] == usize::MAX {
                    number[root] = groups.len();
                    groups.push(SlotGroup::new(Slot::switch(rank, offset)));
                }
                groups[number[root]].places.push(place);
            }
        }
        for transfer in program.transfers() {
            let [src, dst] = ends(transfer);
            if let Some(place) = dst {
                let group = &mut groups[number[sets.root(place)]];
                group.from.push(transfer.src.rank);
                group.sums |= transfer.action == Action::Reduce;
            }
            if let Some(place) = src {
                let group = &mut groups[number[sets.root(place)]];
                group.to.push(transfer.dst.rank);
            }
        }
        groups.retain_mut(SlotGroup::settle);
        groups
    }
}

/// Slots that one switch serves.
#[derive(Debug)]
struct SlotGroup {
    first: Slot,
    places: Vec<usize>,
    from: Vec<Rank>,
    to: Vec<Rank>,
    /// Whether something is reduced into them.
    sums: bool,
}

impl SlotGroup {
    fn new(first: Slot) -> Self {
        let (places, from, to) = (Vec::new(), Vec::new(), Vec::new());
        Self { first, places, from, to, sums: false }
    }

    /// Lists each rank once. Whether anyone uses the slots at all.
    fn settle(&mut self) -> bool {
        for ranks in [&mut self.from, &mut self.to] {
            ranks.sort_unstable();
            ranks.dedup();
        }
        !self.from.is_empty() || !self.to.is_empty()
    }

    /// What the switch must be able to do. A sum goes to the rank that asked for it; one that goes
    /// straight to others is more than NVLS does.
    fn needs(&self) -> InNetwork {
        let away = self.to.iter().any(|it| *it != self.first.rank);
        InNetwork { copies: !self.sums, reduces: self.sums, spreads: self.sums && away }
    }

    fn unserved(&self) -> Unserved {
        let mut ranks = [self.from.as_slice(), self.to.as_slice()].concat();
        ranks.sort_unstable();
        ranks.dedup();
        Unserved { slot: self.first, ranks, needs: self.needs() }
    }
}

/// How far switches are from GPUs, found when first asked for.
struct Reach<'a> {
    network: &'a Network,
    able: Vec<NodeId>,
    /// By rank, to each of `able`; and from each of them, to every rank.
    up: Vec<Option<Vec<Option<u64>>>>,
    down: Vec<Option<Vec<Option<u64>>>>,
}

impl<'a> Reach<'a> {
    fn new(network: &'a Network) -> Self {
        let able = network.node_ids().filter(|it| network.node(*it).in_network.is_any());
        let able: Vec<NodeId> = able.collect();
        let (up, down) = (vec![None; network.ranks().len()], vec![None; able.len()]);
        Self { network, able, up, down }
    }

    /// The switches that can do what a group needs and are nearest to all of it.
    fn nearest(&mut self, group: &SlotGroup) -> Vec<NodeId> {
        let needs = group.needs();
        let mut best = (u64::MAX, Vec::new());
        for index in 0..self.able.len() {
            let node = self.able[index];
            if !self.network.node(node).in_network.covers(needs) {
                continue;
            }
            let Some(far) = self.distance(index, group) else { continue };
            if far < best.0 {
                best = (far, Vec::new());
            }
            if far == best.0 {
                best.1.push(node);
            }
        }
        best.1
    }

    /// The latencies of all ways into and out of a switch together; `None` if there is none for someone.
    fn distance(&mut self, index: usize, group: &SlotGroup) -> Option<u64> {
        let Self { network, able, up, down } = self;
        let search = Search::new(network, Metric::Latency).through(Transit::NotGpus);
        let mut sum = 0u64;
        for rank in &group.from {
            let costs = up.get_mut(rank.index())?.get_or_insert_with(|| {
                let paths = search.all_from(network.ranks()[rank.index()]);
                able.iter().map(|it| paths.cost(*it).map(Cost::get)).collect()
            });
            sum = sum.saturating_add(costs[index]?);
        }
        for rank in &group.to {
            let costs = down[index].get_or_insert_with(|| {
                let paths = search.all_from(able[index]);
                network.ranks().iter().map(|it| paths.cost(*it).map(Cost::get)).collect()
            });
            sum = sum.saturating_add((*costs.get(rank.index())?)?);
        }
        Some(sum)
    }
}

/// Whether a program has switches do everything, each time for all ranks: every transfer between ranks
/// goes through a switch slot, every reduction goes into one, and each slot either takes what all ranks
/// hold and gives the sum to the rank that asked, or takes from that rank and gives to all. This is the form that
/// [`InSwitchBound`](crate::bound::InSwitchBound) is about.
#[must_use]
pub fn is_whole_group(program: &Program) -> bool {
    let transfers = program.transfers();
    let outside = |it: &&Transfer| !it.is_local() && !it.is_in_switch();
    let adds = |it: &&Transfer| it.action == Action::Reduce && !it.dst.is_switch();
    if transfers.iter().any(|it| outside(&it) || adds(&it)) {
        return false;
    }
    // By slot: who puts something in, who takes it out, whether it is a sum.
    let mut uses: BTreeMap<Slot, (Vec<Rank>, Vec<Rank>, bool)> = BTreeMap::new();
    for transfer in transfers {
        for chunk in 0..transfer.count {
            let at = |slot: Slot| Slot { offset: slot.offset.saturating_add(chunk), ..slot };
            if transfer.dst.is_switch() {
                let slot = uses.entry(at(transfer.dst)).or_default();
                slot.0.push(transfer.src.rank);
                slot.2 |= transfer.action == Action::Reduce;
            }
            if transfer.src.is_switch() {
                uses.entry(at(transfer.src)).or_default().1.push(transfer.dst.rank);
            }
        }
    }
    let ranks = program.collective().ranks() as usize;
    uses.into_iter().all(|(slot, (mut from, mut to, sum))| {
        from.sort_unstable();
        to.sort_unstable();
        let (asked, all) = if sum { (to, from) } else { (from, to) };
        let each_once = all.len() == ranks && all.windows(2).all(|it| it[0] != it[1]);
        asked == [slot.rank] && each_once
    })
}
