//! Multicast and reduction in the network: which transfers of a program travel which links
//! together. The program itself says nothing of it; it follows from the capabilities of nodes.
//!
//! **Multicast** ([`Node::multicast`](motet_net::Node)). Transfers that copy the same source slot
//! and count to other ranks, and whose sendings wait for exactly the same events, read the same
//! data at the same time. Two of them travel a link together if both paths begin alike up to and
//! over that link and on to a multicast node: the link lies in a common prefix, and at the end of
//! it or of a later link of the common prefix stands a multicast node.
//!
//! **Reduction** ([`Node::reduces`](motet_net::Node)). Consecutive transfers (in program order) that reduce
//! into the same destination slot and count are a *run* on two conditions. First, each one's arrival waits
//! for nothing that the arrival of the first does not wait for, apart from arrivals of the run itself (a
//! right program must order reductions into one place, so it chains their arrivals) and its own sending.
//! Second, all transfers of the run have crossed their links before any transfer crosses a link that waits
//! for the sending or arrival of one of them (otherwise a transfer could wait for one that it delays);
//! *before* refers to the order of all crossings that is defined below. Two transfers of a run travel a link
//! together if their paths end alike from before that link: the link lies in a common suffix, and at its
//! start or at the start of an earlier link of the common suffix stands a node that reduces. Data goes on from
//! such a node when all that it is reduced with has come: the heads where the node cuts through, the tails
//! where it stores and forwards.
//!
//! What travels together crosses a link once, with the bytes of one transfer. In program order, and
//! in the turns of a link, a multicast has the place of the first transfer that it carries over the
//! link, a reduced stream that of the last.
//!
//! **Why there is no deadlock.** As long as every transfer travels alone, all crossings can happen in some
//! order that keeps the program's waits, its lanes and the order of every link: the verifier proves that.
//! Of these orders take the one in which always the crossing that is first in program order, of those that
//! can come next, comes next ([`Dry`]). In it give a multicast the place of its first transfer, link by link,
//! and a reduced stream the place of its last. The result again keeps all waits and orders:
//! - On each link it is the order of the link, by the rule above. Along a route it still goes forward,
//!   since the first (the last) of several crossings of one link comes before the first (the last) of
//!   the crossings that follow them.
//! - A multicast sends some transfers earlier than alone. They can be sent then, because all transfers of a
//!   multicast wait for the same events.
//! - A reduction delays the sendings and arrivals of its run. Transfers that wait for these, directly or
//!   through arrivals, cross their first link after all of the run, by the second condition on runs.
//!
//! So a program that is right comes to its end under every discipline: first come, first served and
//! fair sharing only wait for less.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::{Action, Event, Slot, TransferId};
use motet_net::{Network, Node};

use crate::event::Dry;
use crate::route::{Hop, Routed};

/// One crossing of a link by transfers that travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedLeg {
    pub(crate) hop: Hop,
    /// The transfers that cross the link together, in program order.
    pub(crate) carries: Vec<TransferId>,
    /// The number of this hop in the route of the first of them.
    pub(crate) number: u32,
    /// The place in program order, as an index into the order of sendings: that of the first transfer for a
    /// multicast, of the last for a reduction.
    pub(crate) place: u32,
    /// Orders the legs of a group that have the same place: smaller upstream.
    pub(crate) level: u32,
}

/// Transfers of which at least two share at least one link, and all their crossings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// Every crossing, those of one transfer alone included.
    pub(crate) legs: Vec<SharedLeg>,
    /// For each member, the index into `legs` of each of its hops.
    pub(crate) members: Vec<(TransferId, Vec<u32>)>,
}

/// Whether transfers can share crossings on a network at all: it has a node that multicasts or reduces.
pub(crate) fn is_possible(network: &Network) -> bool {
    network.nodes().iter().any(|it| it.multicast || it.reduces)
}

/// The groups of a program in which at least two transfers share at least one link. `order` is the order of
/// sendings, `apart` a dry run of the program in which every transfer travels alone.
pub(crate) fn find(routed: &Routed<'_>, order: &[TransferId], apart: &Dry<'_>) -> Vec<Group> {
    let nodes = routed.network().nodes();
    let mut groups = Vec::new();
    if nodes.iter().any(|it| it.multicast) {
        let candidates = candidates(routed, order, Action::Copy, |it| it.src, capable_end);
        for run in candidates.values().flat_map(|it| same_sendings(routed, it)) {
            groups.extend(group(routed, &run, false));
        }
    }
    if nodes.iter().any(|it| it.reduces) {
        let (last, first_waiting) = (apart.last_crossings(), apart.first_waiting());
        let candidates = candidates(routed, order, Action::Reduce, |it| it.dst, capable_start);
        for run in candidates.values().flat_map(|it| same_arrivals(routed, it)) {
            if crosses_before_awaited(&run, &last, &first_waiting) {
                groups.extend(group(routed, &run, true));
            }
        }
    }
    groups
}

/// A transfer and its index in the order of sendings.
type Placed = (TransferId, u32);

fn capable_end(routed: &Routed<'_>, hop: &Hop) -> bool {
    let node: &Node = routed.network().node(routed.network().link(hop.link).to);
    node.multicast
}

fn capable_start(routed: &Routed<'_>, hop: &Hop) -> bool {
    let node: &Node = routed.network().node(routed.network().link(hop.link).from);
    node.reduces
}

/// Transfers of one action whose route meets a capable node, by slot and chunk count; each list is in program
/// order.
fn candidates(
    routed: &Routed<'_>,
    order: &[TransferId],
    action: Action,
    slot: impl Fn(&motet_collective::Transfer) -> Slot,
    capable: impl Fn(&Routed<'_>, &Hop) -> bool,
) -> BTreeMap<(Slot, u32), Vec<Placed>> {
    let mut found: BTreeMap<(Slot, u32), Vec<Placed>> = BTreeMap::new();
    for (place, id) in order.iter().enumerate() {
        let transfer = routed.program().transfer(*id);
        if transfer.action == action
            && routed.hops(id.index()).iter().any(|hop| capable(routed, hop))
        {
            let key = (slot(transfer), transfer.count);
            found.entry(key).or_default().push((*id, place as u32));
        }
    }
    found
}

fn sorted_preds(routed: &Routed<'_>, event: Event) -> Vec<u32> {
    let mut preds = routed.graph().preds(event.index()).to_vec();
    preds.sort_unstable();
    preds.dedup();
    preds
}

/// Splits candidates into lists whose sendings wait for exactly the same events.
fn same_sendings(routed: &Routed<'_>, candidates: &[Placed]) -> Vec<Vec<Placed>> {
    let mut by_waits: BTreeMap<Vec<u32>, Vec<Placed>> = BTreeMap::new();
    for it in candidates {
        by_waits.entry(sorted_preds(routed, it.0.sent())).or_default().push(*it);
    }
    by_waits.into_values().collect()
}

/// Splits candidates into runs of consecutive ones whose arrivals wait for nothing but arrivals of the run
/// and what the arrival of its first transfer waits for.
fn same_arrivals(routed: &Routed<'_>, candidates: &[Placed]) -> Vec<Vec<Placed>> {
    let mut runs: Vec<Vec<Placed>> = Vec::new();
    let mut arrivals: BTreeSet<u32> = BTreeSet::new();
    let mut waits: Vec<u32> = Vec::new();
    for it in candidates {
        let arrived = it.0.arrived().index() as u32;
        let mut own = sorted_preds(routed, it.0.arrived());
        own.retain(|event| *event as usize != it.0.sent().index());
        let known = |event: &u32| arrivals.contains(event) || waits.binary_search(event).is_ok();
        match runs.last_mut() {
            Some(run) if own.iter().all(known) => run.push(*it),
            _ => {
                arrivals.clear();
                waits = own;
                runs.push(vec![*it]);
            }
        }
        arrivals.insert(arrived);
    }
    runs
}

/// Whether all of a run have crossed their links before anything crosses one that waits for them.
fn crosses_before_awaited(run: &[Placed], last: &[u32], first_waiting: &[u32]) -> bool {
    let end = run.iter().map(|(id, _)| last[id.index()]).max().unwrap_or(0);
    let waiting = |event: Event| first_waiting[event.index()];
    run.iter().all(|(id, _)| waiting(id.sent()).min(waiting(id.arrived())) > end)
}

/// The legs of a run; `None` if no link is shared after all. Routes are read from the side on which they are
/// alike: from the source for a multicast, from the destination for a reduction.
fn group(routed: &Routed<'_>, run: &[Placed], reduction: bool) -> Option<Group> {
    if run.len() < 2 {
        return None;
    }
    let ways: Vec<Vec<Hop>> = run
        .iter()
        .map(|(id, _)| {
            let hops = routed.hops(id.index()).iter().copied();
            if reduction { hops.rev().collect() } else { hops.collect() }
        })
        .collect();
    let capable = |hop: &Hop| match reduction {
        true => capable_start(routed, hop),
        false => capable_end(routed, hop),
    };
    let classes = classes(&ways, capable);
    let mut group = Group::default();
    let mut known: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (member, (id, place)) in run.iter().enumerate() {
        let way = &ways[member];
        let mut legs = Vec::with_capacity(way.len());
        for (depth, class) in classes[member].iter().enumerate() {
            let leg = *known.entry(*class).or_insert_with(|| {
                let number = if reduction { way.len() - 1 - depth } else { depth } as u32;
                let level = if reduction { u32::MAX - depth as u32 } else { depth as u32 };
                let (hop, carries) = (way[depth], Vec::new());
                group.legs.push(SharedLeg { hop, carries, number, place: *place, level });
                group.legs.len() as u32 - 1
            });
            let shared = &mut group.legs[leg as usize];
            shared.carries.push(*id);
            // Members come in program order: the first one's place stays for a multicast.
            if reduction {
                shared.place = *place;
            }
            legs.push(leg);
        }
        if reduction {
            legs.reverse();
        }
        group.members.push((*id, legs));
    }
    group.legs.iter().any(|it| it.carries.len() > 1).then_some(group)
}

/// For each route and hop, a key of the crossing that the hop belongs to. The routes form a tree grown from
/// their common end. Two routes travel a hop together if it is the same node of that tree and the next capable
/// node of the tree from there on is the same for both.
fn classes(ways: &[Vec<Hop>], capable: impl Fn(&Hop) -> bool) -> Vec<Vec<(u32, u32)>> {
    const ROOT: u32 = u32::MAX;
    let mut tree: BTreeMap<(u32, motet_units::LinkId), u32> = BTreeMap::new();
    let nodes: Vec<Vec<u32>> = ways
        .iter()
        .map(|way| {
            let mut at = ROOT;
            let step = |hop: &Hop| {
                let next = tree.len() as u32;
                at = *tree.entry((at, hop.link)).or_insert(next);
                at
            };
            way.iter().map(step).collect()
        })
        .collect();
    let mut classes = Vec::with_capacity(ways.len());
    for (member, (way, nodes)) in ways.iter().zip(&nodes).enumerate() {
        // Nothing capable ahead: this one alone. Tree nodes are far fewer than 2³¹.
        let mut anchor = ROOT - 1 - member as u32;
        let mut own: Vec<(u32, u32)> = Vec::with_capacity(way.len());
        for (hop, node) in way.iter().zip(nodes).rev() {
            if capable(hop) {
                anchor = *node;
            }
            own.push((*node, anchor));
        }
        own.reverse();
        classes.push(own);
    }
    classes
}
