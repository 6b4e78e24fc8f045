//! Takes switches out of a net, so that only ranks are left, without lowering any rank's supply.
//!
//! Splitting off a pair of arcs (u → w, w → t) by an amount replaces that much of both by u → t. Only cuts
//! with u and t on one side and the switch w on the other lose capacity, so flows tell by how much a pair can
//! be split off ([`Removal::room`]). If as much capacity leads into a switch as out of it, its pairs can
//! always be split off until it has no arcs left (Mader, Frank, Jackson); so any excess on one side is
//! trimmed first.
//!
//! That exact way asks for flows pair by pair and may leave a switch with odd pairs. So first all
//! switches are taken out by an even [`guess`](super::exchange::guess), and one check says whether
//! the rate was kept; if not, switches are guessed one by one; and only a switch for which that
//! fails is split exactly, beginning with the pairs of its guess.
//!
//! What was done is recorded, so that [`super::ways`] can find the links again.

use super::exchange::{self, Rest, Share};
use super::net::FlowNet;

/// One step of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitStep {
    /// So much of `from → switch → to` became `from → to`.
    Split { from: u32, switch: u32, to: u32, amount: u64 },
    /// So much of an arc was given up.
    Trim { from: u32, to: u32, amount: u64 },
}

/// A net without switches, and how it came about.
#[derive(Clone, Debug)]
pub(super) struct Removed {
    pub(super) net: FlowNet,
    pub(super) steps: Vec<SplitStep>,
}

/// Takes all switches out of a net that feeds `wanted` to every rank. `group` is the server of each node.
/// `None` if the rate cannot be kept because more capacity leads out of a switch than into it.
pub(super) fn remove_switches(net: &FlowNet, wanted: u64, group: &[u32]) -> Option<Removed> {
    for rest in [Rest::GivenUp, Rest::Spread] {
        let mut quick = Removal { net: net.clone(), wanted, group, steps: Vec::new() };
        while let Some(switch) = quick.next_switch() {
            for share in exchange::guess(&quick.net, switch, group, rest) {
                quick.split(switch, share);
            }
            quick.net.isolate(switch);
        }
        if quick.net.feeds_all(wanted) {
            return Some(Removed { net: quick.net, steps: quick.steps });
        }
    }
    let mut careful = Removal { net: net.clone(), wanted, group, steps: Vec::new() };
    while let Some(switch) = careful.next_switch() {
        if !careful.by_guess(switch, Rest::GivenUp) && !careful.by_guess(switch, Rest::Spread) {
            careful.exactly(switch)?;
        }
        careful.net.isolate(switch);
    }
    Some(Removed { net: careful.net, steps: careful.steps })
}

struct Removal<'a> {
    net: FlowNet,
    wanted: u64,
    group: &'a [u32],
    steps: Vec<SplitStep>,
}

impl Removal<'_> {
    /// The switch with the fewest neighbours, so that NICs go before what they lead to.
    fn next_switch(&self) -> Option<u32> {
        let switches = self.net.ranks() as u32..self.net.nodes() as u32;
        let joined = switches.filter(|it| !self.net.arcs_of(*it).is_empty());
        joined.min_by_key(|it| self.net.arcs_of(*it).len())
    }

    fn split(&mut self, switch: u32, share: Share) {
        let Share { from, to, amount } = share;
        self.net.take(from, switch, amount);
        self.net.take(switch, to, amount);
        if from != to {
            self.net.add(from, to, amount);
        }
        self.steps.push(SplitStep::Split { from, switch, to, amount });
    }

    fn unsplit(&mut self, switch: u32, share: Share) {
        let Share { from, to, amount } = share;
        self.net.add(from, switch, amount);
        self.net.add(switch, to, amount);
        self.net.take(from, to, amount);
        self.steps.pop();
    }

    /// Splits the switch as guessed and gives up what is left of it, if the rate is kept so.
    fn by_guess(&mut self, switch: u32, rest: Rest) -> bool {
        let shares = exchange::guess(&self.net, switch, self.group, rest);
        for share in &shares {
            self.split(switch, *share);
        }
        let into: Vec<_> = self.net.incoming(switch).collect();
        let out: Vec<_> = self.net.outgoing(switch).collect();
        into.iter().for_each(|(node, amount)| self.net.take(*node, switch, *amount));
        out.iter().for_each(|(node, amount)| self.net.take(switch, *node, *amount));
        // A neighbouring switch would lose capacity into it: more might then lead out of it than in, and not
        // all of that can always be given up.
        let starves = out.iter().any(|(node, _)| !self.net.is_rank(*node));
        if !starves && self.net.feeds_all(self.wanted) {
            return true;
        }
        into.iter().for_each(|(node, amount)| self.net.add(*node, switch, *amount));
        out.iter().for_each(|(node, amount)| self.net.add(switch, *node, *amount));
        for share in shares.iter().rev() {
            self.unsplit(switch, *share);
        }
        false
    }

    /// Splits the switch off pair by pair; `None` if something is left that cannot be given up.
    fn exactly(&mut self, switch: u32) -> Option<()> {
        self.balance(switch);
        for share in exchange::guess(&self.net, switch, self.group, Rest::Spread) {
            self.split_at_most(switch, share);
        }
        let from: Vec<u32> = self.net.incoming(switch).map(|it| it.0).collect();
        let to: Vec<u32> = self.net.outgoing(switch).map(|it| it.0).collect();
        let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b)));
        // A pair back to where it came from is a waste, and comes last.
        let (back, forth): (Vec<_>, Vec<_>) = pairs.partition(|(a, b)| a == b);
        for (from, to) in forth.into_iter().chain(back) {
            self.split_at_most(switch, Share { from, to, amount: u64::MAX });
        }
        if self.net.incoming(switch).next().is_some() || self.net.outgoing(switch).next().is_some()
        {
            self.net.isolate(switch);
            return self.net.feeds_all(self.wanted).then_some(());
        }
        Some(())
    }

    fn split_at_most(&mut self, switch: u32, share: Share) {
        let Share { from, to, amount } = share;
        let there = self.net.capacity_between(from, switch);
        let amount = amount.min(there).min(self.net.capacity_between(switch, to));
        let amount = self.room(from, switch, to, amount);
        if amount > 0 {
            self.split(switch, Share { from, to, amount });
        }
    }

    /// By how much a pair can be split off, up to `most`, without lowering the flow into any rank.
    fn room(&mut self, from: u32, switch: u32, to: u32, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let (wanted, ends) = (self.wanted, [from, to]);
        let into = self.net.least(&ends, &[switch], wanted + most, wanted) - wanted;
        if into == 0 {
            return 0;
        }
        self.net.least(&[switch], &ends, wanted + into, wanted) - wanted
    }

    /// If more capacity leads into the switch than out of it, or the other way round, gives up the excess as
    /// far as the rate allows.
    fn balance(&mut self, switch: u32) {
        let into: Vec<(u32, u64)> = self.net.incoming(switch).collect();
        let out: Vec<(u32, u64)> = self.net.outgoing(switch).collect();
        let sum = |arcs: &[(u32, u64)]| arcs.iter().map(|it| it.1).sum::<u64>();
        let (taken, given) = (sum(&into), sum(&out));
        let mut excess = taken.abs_diff(given);
        let arcs: Vec<(u32, u32, u64)> = if taken > given {
            into.into_iter().map(|(node, amount)| (node, switch, amount)).collect()
        } else {
            out.into_iter().map(|(node, amount)| (switch, node, amount)).collect()
        };
        for (from, to, capacity) in arcs {
            let most = capacity.min(excess);
            if most == 0 {
                continue;
            }
            let wanted = self.wanted;
            let amount = self.net.least(&[to], &[from], wanted + most, wanted) - wanted;
            self.net.take(from, to, amount);
            self.steps.push(SplitStep::Trim { from, to, amount });
            excess -= amount;
        }
    }
}
