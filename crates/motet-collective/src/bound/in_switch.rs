//! [`InSwitchBound`]: what programs reach that have switches copy and reduce for all ranks at once, as
//! NVLS does it; and which bound a given program is held against.
//!
//! A program is of the **whole-group form** ([`is_whole_group`]) if all that goes between ranks goes
//! through switch slots, every sum is made in a switch from what *all* n ranks hold and comes down to the rank
//! that asked, and everything else that passes a switch is copied to *all* n ranks, the sender included. This is
//! what `multimem.ld_reduce` and `multimem.st` do over a group of all ranks. With B⁺ and B⁻ the bandwidth
//! between a rank and the switches, such a program of M bytes takes at least
//!
//! | collective | time | because |
//! | --- | --- | --- |
//! | AllReduce | (n + 1)·M ÷ Σ B⁺, and M ÷ least B⁺ or B⁻ | see below |
//! | AllGather, Broadcast | M ÷ least B⁻ | every byte is copied to all, the sender included |
//! | ReduceScatter, Reduce | M ÷ least B⁺ | all ranks send every byte up to be added |
//!
//! *AllReduce.* A chunk of the result holds every input once. Sums are made in switches only, each of
//! one value from every rank; if one of these values were a sum already, it would be a sum over all ranks,
//! and its inputs would be counted again. So every byte of the result is made from n bytes that go up,
//! one from each rank: M ÷ B⁺ at every rank. It comes down to the rank that asked, which must send it up
//! again to be copied to all (n + 1 bytes up in all), unless every other rank asks for it too (n² bytes up, which
//! is more). And every rank gets it: M ÷ B⁻. With equal links that is M·(1 + 1/n) ÷ B.
//!
//! Programs that leave the asking rank out of a group, or whose switches spread sums themselves (SHARP),
//! can do better; they are held against the cut bound, which nothing beats.

use motet_net::{Network, NodeKind};
use motet_units::{Bytes, Duration, NodeId};

use super::{Bound, Ratio};
use crate::collective::CollectiveKind;
use crate::in_switch::is_whole_group;
use crate::program::Program;

/// Most ranks of a group for which it is worked out: no switch has as many.
const MOST_RANKS: usize = 1024;

/// The bound of whole-group programs on a network whose switches serve all ranks together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSwitchBound {
    /// Seconds per byte of size.
    pub time_per_byte: Ratio,
    /// How many switches serve the group.
    pub switches: usize,
}

impl InSwitchBound {
    /// The algorithm bandwidth it allows, in GB/s (10⁹ bytes).
    #[must_use]
    pub fn algbw(&self) -> Option<Ratio> {
        super::gb_per_s(self.time_per_byte)
    }
}

/// Which bound a program's time is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldAgainst {
    /// The bound of programs that leave copying and reducing to GPUs.
    Programs,
    /// The bound of whole-group programs: [`InSwitchBound`].
    WholeGroup,
    /// What nothing beats, whatever switches do: the cut bound.
    Anything,
}

impl HeldAgainst {
    /// The name in JSON: "programs", "in-switch" or "any".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::WholeGroup => "in-switch",
            Self::Anything => "any",
        }
    }

    /// What the bound is of, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Programs => "programs that copy and reduce in GPUs",
            Self::WholeGroup => "programs whose switches copy and reduce over all ranks (NVLS)",
            Self::Anything => "anything, whatever switches do",
        }
    }
}

impl Bound {
    /// Which bound holds for `program`.
    #[must_use]
    pub fn held_against(&self, program: &Program) -> HeldAgainst {
        match (program.uses_switches(), &self.in_switch) {
            (false, _) => HeldAgainst::Programs,
            (true, Some(_)) if is_whole_group(program) => HeldAgainst::WholeGroup,
            (true, _) => HeldAgainst::Anything,
        }
    }

    /// The least time for `size` bytes of a program of that kind.
    #[must_use]
    pub fn least(&self, of: HeldAgainst, size: Bytes) -> Duration {
        match (of, &self.in_switch) {
            (HeldAgainst::Programs, _) => self.program_time(size),
            (HeldAgainst::WholeGroup, Some(it)) => {
                self.time(size).max(super::picoseconds(it.time_per_byte, size))
            }
            (HeldAgainst::WholeGroup, None) | (HeldAgainst::Anything, _) => self.time(size),
        }
    }
}

/// The bound of whole-group programs; `None` where no switch serves all ranks, or there is no such
/// program for the collective.
pub(super) fn in_switch(
    network: &Network,
    group: &[NodeId],
    kind: CollectiveKind,
) -> Option<InSwitchBound> {
    use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let (copies, sums) = match kind {
        AllReduce => (true, true),
        AllGather | Broadcast => (true, false),
        ReduceScatter | Reduce => (false, true),
        _ => return None,
    };
    if group.len() < 2 || group.len() > MOST_RANKS {
        return None;
    }
    let able = network.node_ids().filter(|it| {
        let can = network.node(*it).in_network;
        (can.copies || !copies) && (can.reduces || !sums)
    });
    let able: Vec<NodeId> = able.filter(|it| serves_all(network, *it, group)).collect();
    if able.is_empty() {
        return None;
    }
    let up = from_switches(network, &able, Way::Up);
    let down = from_switches(network, &able, Way::Down);
    let bits = |near: &[bool], way: Way| -> Vec<u128> {
        group.iter().map(|gpu| bandwidth(network, *gpu, near, way)).collect()
    };
    let (up, down) = (bits(&up, Way::Up), bits(&down, Way::Down));
    let per_byte = |bytes: u128, bits: u128| Ratio::new(8 * bytes, bits);
    let least = |of: &[u128]| per_byte(1, of.iter().copied().min().unwrap_or(0));
    let time_per_byte = match kind {
        AllReduce => {
            let twice = per_byte(group.len() as u128 + 1, up.iter().sum())?;
            twice.max(least(&up)?).max(least(&down)?)
        }
        AllGather | Broadcast => least(&down)?,
        _ => least(&up)?,
    };
    Some(InSwitchBound { time_per_byte, switches: able.len() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Whether all of the group reach the switch, and it reaches them, without passing a GPU.
fn serves_all(network: &Network, switch: NodeId, group: &[NodeId]) -> bool {
    [Way::Up, Way::Down].into_iter().all(|way| {
        let near = from_switches(network, &[switch], way);
        group.iter().all(|it| near[it.index()])
    })
}

/// Which nodes have a way to some of `switches` that passes no GPU (or from them, with [`Way::Down`]).
fn from_switches(network: &Network, switches: &[NodeId], way: Way) -> Vec<bool> {
    let mut near = vec![false; network.nodes().len()];
    let mut stack = switches.to_vec();
    for switch in switches {
        near[switch.index()] = true;
    }
    while let Some(node) = stack.pop() {
        if network.node(node).kind == NodeKind::Gpu {
            continue;
        }
        let links = if way == Way::Up { network.incoming(node) } else { network.outgoing(node) };
        for link in links.iter().map(|it| network.link(*it)) {
            let next = if way == Way::Up { link.from } else { link.to };
            if !std::mem::replace(&mut near[next.index()], true) {
                stack.push(next);
            }
        }
    }
    near
}

/// Bits per second of the links of a GPU that lead towards the switches, or from them.
fn bandwidth(network: &Network, gpu: NodeId, near: &[bool], way: Way) -> u128 {
    let links = if way == Way::Up { network.outgoing(gpu) } else { network.incoming(gpu) };
    let links = links.iter().map(|it| network.link(*it));
    let of_use = links.filter(|it| {
        let other = if way == Way::Up { it.to } else { it.from };
        near[other.index()] && network.node(other).kind != NodeKind::Gpu
    });
    of_use.map(|it| u128::from(it.spec.bandwidth.bits_per_s())).sum()
}
