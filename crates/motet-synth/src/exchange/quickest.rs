//! Gather, Scatter and the like, between one rank (the *hub*) and all others, routed as a flow over time: the hub's links serve near
//! ranks while data of far ranks is in flight.
//!
//! Where latencies are as long as transmissions, as between datacenters, [`super::flow`] is at a loss: it
//! knows how much each link carries, but not when. Here the question is a flow over time. Time is
//! cut into slots and each node stands there once for each slot; a link leads from its start in one slot to its
//! end as many slots later as its latency is long, and data may wait anywhere. All data is the hub's, so
//! that one maximum flow (the time-expanded network of Ford and Fulkerson) says whether so many
//! slots are enough, and how; the least number is found by halving.
//!
//! **Slots are counted as the hub sees them.** What goes the shortest way from a node is at the hub after
//! the node's distance. A slot at a node is named after when its data would be at the hub: so
//! shortest ways take no time at all, only detours do, and few slots are enough, since only detours and
//! the moment when a rank can begin are rounded. And the order of slots is an order of
//! transfers that suits all links at once, which is what a program states.
//!
//! A hub that sends (Scatter) is a hub that receives (Gather) on the network turned round, with time
//! running backwards.
//!
//! [`grid`] is the network over time, [`parcels`] says which chunks the flow sends where.

mod grid;
mod parcels;

use motet_units::{Bytes, Duration, LinkId};

use super::demand::{Demands, Pair};
use super::given;
use super::plan::ExchangePlan;
use super::round::Route;
use super::timing::Timing;
use super::ways::Ways;
use crate::fabric::Fabric;
use crate::watch::Watch;
use grid::Grid;
use parcels::{Parcel, Parcels};

/// The rank that all data goes to, or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hub {
    rank: u32,
    sends: bool,
}

impl Hub {
    /// The hub of these demands, if they have one.
    pub(super) fn of(demands: &Demands) -> Option<Self> {
        let first = demands.pairs.first()?;
        let same = |of: fn(&Pair) -> u32| demands.pairs.iter().all(|it| of(it) == of(first));
        if same(|it| it.dst) {
            Some(Self { rank: first.dst, sends: false })
        } else {
            same(|it| it.src).then_some(Self { rank: first.src, sends: true })
        }
    }
}

/// Chunks on a route, and when they enter each link of it: the place among all crossings of links.
#[derive(Clone, Debug)]
struct TimedRoute {
    route: Route,
    when: Vec<u32>,
}

/// How finely time is cut: coarsely at first, to learn how long it takes, and more finely as long as that
/// helps.
const SLOTS: [u32; 4] = [32, 64, 128, 256];

/// How many slots more than are thought to be enough there are, one in so many: rounding may need them.
const SPARE: u32 = 8;

/// By how much finer slots must shorten a program to be worth their number.
const WORTH_IT: f64 = 1.002;

/// Units of work that it takes to find routes, for each arc of the network over time, and the most arcs:
/// each takes some hundred bytes.
const WORK_PER_ARC: u64 = 16;
const MOST_ARCS: u64 = 1 << 19;

/// What is to be routed over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) ways: &'a Ways,
    pub(super) demands: &'a Demands,
    pub(super) chunk: Bytes,
    pub(super) hub: Hub,
    /// Whether links may carry transfers in orders of their own.
    pub(super) may_overtake: bool,
}

impl Over<'_> {
    /// The fastest plan found, with its order, of at most so many transfers. `None` if it is not faster than
    /// a program that is `known` already, or the work is not afforded.
    pub(super) fn best(
        &self,
        known: Duration,
        most_transfers: u64,
        watch: Watch<'_>,
    ) -> Option<(ExchangePlan, Timing)> {
        let mut best: Option<(ExchangePlan, Timing)> = None;
        let mut fastest = known.as_ps() as f64;
        // How long the data itself takes, without what whole chunks and slots add.
        let mut time = fastest;
        let mut in_vain = 0;
        for slots in SLOTS {
            let most = slots + slots / SPARE;
            let work = WORK_PER_ARC.saturating_mul(Grid::size(self.fabric, most));
            let fits = Grid::size(self.fabric, most) <= MOST_ARCS && watch.affords(work);
            if !fits || in_vain > 1 {
                break;
            }
            watch.spend(work);
            let slot = (time / f64::from(slots)).max(1.0);
            let Some((routes, used)) = self.routes(slot, slots, most) else { break };
            time = time.min(slot * f64::from(used));
            let found = self.in_order(&routes);
            if found.0.legs.len() as u64 > most_transfers {
                break;
            }
            let made = found.1.makespan.as_ps() as f64;
            in_vain = if made * WORTH_IT > fastest { in_vain + 1 } else { 0 };
            if made < fastest {
                fastest = made;
                best = Some(found);
            }
        }
        best
    }

    /// Routes for every pair in as few slots of so many picoseconds as can be, and how many those are;
    /// `None` if `most` are not enough.
    fn routes(&self, slot: f64, guess: u32, most: u32) -> Option<(Vec<TimedRoute>, u32)> {
        let sends = self.hub.sends;
        let turned = sends.then(|| self.fabric.turned_round());
        let other = |it: &Pair| if sends { it.dst } else { it.src };
        let sources: Vec<_> = self.demands.pairs.iter().map(|it| (other(it), it.chunks)).collect();
        let fabric = turned.as_ref().unwrap_or(self.fabric);
        let mut grid = Grid::new(fabric, self.hub.rank, (slot, most), self.chunk, sources);
        let slots = grid.least_slots(guess)?;
        let parcels = Parcels::sent(&grid);
        let timed = |it: &Parcel| {
            let mut hops = parcels.hops(it);
            if sends {
                hops.reverse();
            }
            let arcs = arcs_of(self.ways, self.demands.pairs[it.pair as usize].src, &hops);
            let route = Route { pair: it.pair, base: it.base, chunks: it.chunks, arcs };
            let when = |at: u32| if sends { u32::MAX - at } else { at };
            TimedRoute { route, when: hops.iter().map(|it| when(it.1)).collect() }
        };
        let mut routes: Vec<TimedRoute> = parcels.arrived.iter().map(timed).collect();
        if sends {
            routes.reverse();
        }
        Some((routes, slots))
    }

    /// The plan of these routes in the order of the flow: each link by when it is crossed or, if links
    /// must carry transfers by their numbers, by when each route meets the hub.
    fn in_order(&self, timed: &[TimedRoute]) -> (ExchangePlan, Timing) {
        let routes: Vec<Route> = timed.iter().map(|it| it.route.clone()).collect();
        let plan = ExchangePlan::of_routes(self.ways, self.demands, &routes);
        let mut crossings: Vec<(u32, u32)> = Vec::new();
        let mut leg = 0;
        for it in timed {
            for (arc, when) in it.route.arcs.iter().zip(&it.when) {
                crossings.push((if self.may_overtake { *when } else { 0 }, leg));
                leg += u32::from((self.ways.head[*arc as usize] as usize) < self.ways.ranks);
            }
        }
        crossings.sort();
        let crossings: Vec<u32> = crossings.iter().map(|it| it.1).collect();
        let timing = given::in_this_order(&plan, self.fabric, self.chunk, &crossings);
        (plan, timing)
    }
}

/// The arcs of links that lead from a rank.
fn arcs_of(ways: &Ways, from: u32, hops: &[(LinkId, u32)]) -> Vec<u32> {
    let mut at = from as usize;
    let mut arcs = Vec::with_capacity(hops.len());
    for (link, _) in hops {
        let Some(arc) = ways.out_of(at).find(|it| ways.link[*it] == *link) else { break };
        arcs.push(arc as u32);
        at = ways.head[arc] as usize;
    }
    arcs
}
