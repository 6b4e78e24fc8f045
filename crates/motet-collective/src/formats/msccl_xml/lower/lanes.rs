//! Which threadblock and channel each event goes to.
//!
//! Transfers that pass data on form a chain, which stays on one channel. At each rank and channel
//! a threadblock that receives from one peer also sends to the one it passes most on to, so that
//! both can be one step; every other peer and direction has a threadblock of its own. A local
//! transfer joins the threadblock it waits for, or one for local work. As few channels as the
//! runtime's limit on steps allows are used.

use std::collections::BTreeMap;
use std::iter::successors;

use motet_units::Rank;

use super::schedule;
use crate::formats::msccl_xml::Options;
use crate::formats::msccl_xml::limits::{
    MAX_BLOCKS, MAX_CHANNELS, MAX_ELEMENTS, MAX_PEERS_PER_CHANNEL,
};
use crate::formats::msccl_xml::steps::XmlSteps;
use crate::program::graph::NONE;
use crate::program::{Event, Lane, LaneKind, Program, TransferId};

/// Gives a program without lanes its lanes.
pub(super) fn assign(program: &Program, options: &Options) -> Program {
    let (program, order) = schedule::ordered(program);
    let program = &program;
    let chains = Chains::new(program, &order);
    let (bases, groups) = base_channels(program);
    let most = options.runtime.max_steps() as usize;
    let start = options.channels.max(1);
    let end = (MAX_CHANNELS / groups).max(start);
    let within = |it: &u32| *it <= end;
    let doubled = successors(Some(start), |it| it.checked_mul(2)).take_while(within);
    // Chains that repeat in twos and fours are dealt out evenly by such numbers, others by threes.
    let thirds = doubled.clone().map(|it| it.saturating_mul(3)).filter(within);
    let mut dealt = program.clone();
    for parallel in doubled.chain(thirds) {
        let packed = options.packed;
        let dealer =
            Dealer { program, order: &order, chains: &chains, bases: &bases, parallel, packed };
        dealt = dealer.deal();
        // A step is at most four events (a local copy, an arrival, a sending), so that many
        // tries need no closer look.
        if dealt.lanes().iter().any(|it| it.events.len() > 4 * most) {
            continue;
        }
        let plan = XmlSteps::new(&dealt.without_implied_waits());
        let fits = (0..dealt.lanes().len()).all(|it| plan.length(it) <= most)
            && plan.block_ids.iter().all(|it| *it < MAX_BLOCKS);
        // More channels make threadblocks shorter, but there is no less to do in all.
        if fits || too_many_elements(&dealt, &plan) {
            break;
        }
    }
    // Where nothing fits, the writer says which limit is broken.
    dealt
}

/// Whether a gpu has more to do than the parser holds elements, however it is dealt out.
fn too_many_elements(dealt: &Program, plan: &XmlSteps) -> bool {
    let mut elements = vec![0; dealt.collective().ranks() as usize];
    for (index, lane) in dealt.lanes().iter().enumerate() {
        elements[lane.rank.index()] += plan.length(index);
    }
    elements.iter().any(|it| *it > MAX_ELEMENTS)
}

/// Which transfers pass on what came with which.
struct Chains {
    /// The transfer each one continues, or [`NONE`].
    before: Vec<u32>,
    /// The number that tells chains apart that start alike.
    number: Vec<u32>,
}

impl Chains {
    fn new(program: &Program, order: &[Event]) -> Self {
        let count = program.transfers().len();
        let (mut before, mut number) = (vec![NONE; count], vec![0; count]);
        let mut started: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
        for event in order.iter().filter(|it| it.is_sent()) {
            let id = event.transfer();
            let transfer = program.transfer(id);
            let arrived = program.deps(*event).iter().filter(|it| !it.is_sent());
            let overlaps = |other: TransferId| {
                let dst = program.transfer(other).dst;
                (dst.rank, dst.buffer) == (transfer.src.rank, transfer.src.buffer)
                    && dst.offset < transfer.src.offset + transfer.count
                    && transfer.src.offset < dst.offset + program.transfer(other).count
            };
            let passed_on = arrived.map(|it| it.transfer()).find(|it| overlaps(*it));
            number[id.index()] = match passed_on {
                Some(other) => {
                    before[id.index()] = other.0;
                    number[other.index()]
                }
                None => {
                    let pair = (transfer.src.rank, transfer.dst.rank);
                    let next = started.entry(pair).or_insert(0);
                    *next += 1;
                    // Chains that start at different ranks meet later: spread those too.
                    (*next - 1).wrapping_add(pair.0.0)
                }
            };
        }
        Self { before, number }
    }
}

/// The first channel group of each connection, so that no rank has more peers on a channel than
/// the runtime allows, and how many groups that takes.
fn base_channels(program: &Program) -> (BTreeMap<(Rank, Rank), u32>, u32) {
    let mut bases = BTreeMap::new();
    // By (rank, whether it sends): how many peers each group has.
    let mut peers: BTreeMap<(Rank, bool), Vec<usize>> = BTreeMap::new();
    let mut groups = 1;
    let between = program.transfers().iter().filter(|it| !it.is_local());
    let mut pairs: Vec<(Rank, Rank)> = between.map(|it| (it.src.rank, it.dst.rank)).collect();
    // Connections between ranks equally far apart share no end: dealt out one distance after the
    // other, they fill the groups of all ranks evenly.
    let ranks = program.collective().ranks();
    pairs.sort_unstable_by_key(|(src, dst)| ((dst.0 + ranks - src.0) % ranks, *src));
    pairs.dedup();
    for pair in pairs {
        let ends = [(pair.0, true), (pair.1, false)];
        let full = |group: usize, end: &(Rank, bool)| {
            let count = peers.get(end).and_then(|it| it.get(group)).copied().unwrap_or(0);
            count >= MAX_PEERS_PER_CHANNEL
        };
        let mut group = 0;
        while ends.iter().any(|end| full(group, end)) {
            group += 1;
        }
        for end in ends {
            let counts = peers.entry(end).or_default();
            counts.resize(counts.len().max(group + 1), 0);
            counts[group] += 1;
        }
        bases.insert(pair, group as u32);
        groups = groups.max(group as u32 + 1);
    }
    (bases, groups)
}

/// What a threadblock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Role {
    rank: Rank,
    channel: u32,
    recv: Option<Rank>,
    send: Option<Rank>,
}

struct Dealer<'a> {
    program: &'a Program,
    order: &'a [Event],
    chains: &'a Chains,
    bases: &'a BTreeMap<(Rank, Rank), u32>,
    parallel: u32,
    /// Whether to do with as few threadblocks as peers allow.
    packed: bool,
}

/// The threadblock of each (rank, channel, peer, whether it sends).
type Roles = BTreeMap<(Rank, u32, Rank, bool), Role>;

impl Dealer<'_> {
    fn deal(&self) -> Program {
        let mut roles = self.roles();
        if self.packed {
            self.pack(&mut roles);
        }
        let mut lanes: BTreeMap<Role, Vec<Event>> = BTreeMap::new();
        // The role whose lane has each local transfer.
        let mut local: BTreeMap<TransferId, Role> = BTreeMap::new();
        for event in self.order {
            let id = event.transfer();
            let transfer = self.program.transfer(id);
            let role = if transfer.is_local() {
                let role = self.local_role(id, &roles, &local);
                *local.entry(id).or_insert(role)
            } else {
                self.role_of(*event, &roles)
            };
            lanes.entry(role).or_default().push(*event);
        }
        let mut builder = self.program.to_builder();
        builder.set_lanes(
            lanes
                .into_iter()
                .map(|(role, events)| Lane {
                    rank: role.rank,
                    kind: LaneKind::Block,
                    channel: role.channel,
                    events,
                })
                .collect(),
        );
        builder.build()
    }

    fn channel(&self, id: TransferId) -> u32 {
        let transfer = self.program.transfer(id);
        let pair = (transfer.src.rank, transfer.dst.rank);
        let base = self.bases.get(&pair).copied().unwrap_or(0);
        base * self.parallel + self.chains.number[id.index()] % self.parallel
    }

    /// Who sends to whom and receives from whom on each channel, and who passes on what.
    fn roles(&self) -> Roles {
        let mut passed: BTreeMap<(Rank, u32, Rank, Rank), usize> = BTreeMap::new();
        let mut largest: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
        let mut roles = BTreeMap::new();
        for index in 0..self.program.transfers().len() {
            let id = TransferId::from_index(index);
            let transfer = self.program.transfer(id);
            if transfer.is_local() {
                continue;
            }
            let (src, dst, channel) = (transfer.src.rank, transfer.dst.rank, self.channel(id));
            let most = largest.entry((src, dst)).or_insert(0);
            *most = transfer.count.max(*most);
            let alone = Role { rank: src, channel, recv: None, send: Some(dst) };
            roles.insert((src, channel, dst, true), alone);
            let alone = Role { rank: dst, channel, recv: Some(src), send: None };
            roles.insert((dst, channel, src, false), alone);
            let before = self.chains.before[index];
            if before != NONE && self.channel(TransferId(before)) == channel {
                let from = self.program.transfer(TransferId(before)).src.rank;
                if from != src {
                    *passed.entry((src, channel, from, dst)).or_insert(0) += 1;
                }
            }
        }
        let mut passed: Vec<_> = passed.into_iter().collect();
        passed.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        for ((rank, channel, recv, send), _) in passed {
            // A threadblock that may be held up in a long sending must not have to receive.
            let short = |pair| largest.get(&pair).is_some_and(|it| self.is_short(*it));
            let (to, from) = ((rank, channel, recv, false), (rank, channel, send, true));
            let alone = |it: &Role| it.recv.is_none() || it.send.is_none();
            let free = roles.get(&to).is_some_and(alone) && roles.get(&from).is_some_and(alone);
            if free && short((recv, rank)) && short((rank, send)) {
                let both = Role { rank, channel, recv: Some(recv), send: Some(send) };
                roles.insert(to, both);
                roles.insert(from, both);
            }
        }
        roles
    }

    /// Whether a sending of so many chunks always finds room.
    fn is_short(&self, chunks: u32) -> bool {
        chunks.saturating_mul(2) <= self.program.hints().protocol.fifo_depth() as u32
    }

    /// Gives threadblocks that only send to the ranks' threadblocks that only receive, from the same
    /// peer where there is one. A threadblock does either after the other, in the order that is known
    /// to come to an end.
    fn pack(&self, roles: &mut Roles) {
        let long = |pair: (Rank, Rank)| {
            let between =
                self.program.transfers().iter().filter(|it| (it.src.rank, it.dst.rank) == pair);
            between.map(|it| it.count).max().is_some_and(|it| !self.is_short(it))
        };
        let mut ends: BTreeMap<(Rank, u32), [Vec<Rank>; 2]> = BTreeMap::new();
        for ((rank, channel, peer, sends), role) in roles.iter() {
            let alone = role.recv.is_none() || role.send.is_none();
            let pair = if *sends { (*rank, *peer) } else { (*peer, *rank) };
            if alone && !long(pair) {
                ends.entry((*rank, *channel)).or_default()[usize::from(*sends)].push(*peer);
            }
        }
        for ((rank, channel), [mut receives, sends]) in ends {
            for send in sends {
                // Like peers first: what is left over is dealt out in order.
                let at = receives.iter().position(|it| *it == send);
                let Some(at) = at.or((!receives.is_empty()).then_some(0)) else { break };
                let recv = receives.remove(at);
                let both = Role { rank, channel, recv: Some(recv), send: Some(send) };
                roles.insert((rank, channel, recv, false), both);
                roles.insert((rank, channel, send, true), both);
            }
        }
    }

    fn role_of(&self, event: Event, roles: &Roles) -> Role {
        let transfer = self.program.transfer(event.transfer());
        let channel = self.channel(event.transfer());
        let (here, there) = match event.is_sent() {
            true => (transfer.src.rank, transfer.dst.rank),
            false => (transfer.dst.rank, transfer.src.rank),
        };
        let alone = Role { rank: here, channel, recv: None, send: None };
        roles.get(&(here, channel, there, event.is_sent())).copied().unwrap_or(alone)
    }

    /// Where a local transfer goes: to what it waits for, or to a lane for local work.
    fn local_role(
        &self,
        id: TransferId,
        roles: &Roles,
        local: &BTreeMap<TransferId, Role>,
    ) -> Role {
        let rank = self.program.transfer(id).src.rank;
        let arrived = self.program.deps(id.sent()).iter().rev().find(|it| !it.is_sent());
        let role = arrived.map(|it| match local.get(&it.transfer()) {
            Some(role) => *role,
            None => self.role_of(*it, roles),
        });
        let mut alone = Role { rank, channel: self.channel(id), recv: None, send: None };
        if self.packed {
            // Beside something else, rather than in a threadblock of its own.
            let own = roles.range((rank, 0, Rank(0), false)..).next();
            alone = own.map(|it| *it.1).filter(|it| it.rank == rank).unwrap_or(alone);
        }
        // A program may wait for what arrives elsewhere; that is reported, not followed.
        role.filter(|it| it.rank == rank).unwrap_or(alone)
    }
}
