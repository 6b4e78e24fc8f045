//! Gather, Scatter and the like, between one rank (the *hub*) and all others, routed as a flow over time: the
//! hub's links serve near ranks while data of far ranks is in flight.
//!
//! Where latencies are as long as transmission times, as between datacenters, [`super::flow`] is at a loss:
//! it knows how much each link carries, but not when. A flow over time knows both. Time is cut into slots,
//! and every node appears once for each slot; a link leads from its start in one slot to its end as many
//! slots later as its latency is long, and data may wait anywhere. All data goes to the hub, so one maximum
//! flow (on the time-expanded network of Ford and Fulkerson) says whether a number of slots is enough, and
//! how; the least such number is found by bisection.
//!
//! **Slots are counted as the hub sees them.** Data that takes the path of least latency from a node arrives
//! at the hub after the node's *distance*. A slot at a node is named after the time at which data that leaves
//! then would arrive. So the links of such a path lead from each slot to the same slot (or to the next, where a
//! rank forwards), and only detours to much later ones; few slots are enough, since only detours and each
//! rank's earliest start are rounded. And to order transfers by slot suits all links at once, which a program
//! needs that numbers its transfers.
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

/// A route whose chunks enter links in a known order.
#[derive(Clone, Debug)]
struct TimedRoute {
    route: Route,
    /// For each link of the route: the place of this crossing among all crossings of all links.
    when: Vec<u32>,
}

/// Into how many slots time is cut: few at first, to learn how long the program takes, and more as long as that
/// helps.
const SLOTS: [u32; 4] = [32, 64, 128, 256];

/// One slot in this many is added to those thought to be enough, because rounding may need them.
const SPARE: u32 = 8;

/// More slots must shorten a program by this factor, or they count as tried in vain.
const WORTH_IT: f64 = 1.002;

/// The work of finding routes, for each arc of the time-expanded network.
const WORK_PER_ARC: u64 = 16;
/// The most arcs of a time-expanded network; each takes some hundred bytes.
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
    /// The fastest plan found, with its order, of at most `most_transfers` transfers. `None` if none is faster
    /// than `known`, or the watch allows no attempt.
    pub(super) fn best(
        &self,
        known: Duration,
        most_transfers: u64,
        watch: Watch<'_>,
    ) -> Option<(ExchangePlan, Timing)> {
        let mut best: Option<(ExchangePlan, Timing)> = None;
        let mut fastest = known.as_ps() as f64;
        // How long the flow takes, without what whole chunks add when its routes are timed.
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

    /// Routes for every pair in as few slots of `slot` picoseconds as possible (likely about `guess`), and that
    /// number of slots; `None` if `most` are not enough.
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

    /// The plan of these routes, in the order of the flow: every link carries legs in the order in which they
    /// enter it, or, if links must carry transfers by their numbers, in the order in which routes meet the hub.
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

/// The arcs of a path of links that starts at rank `from`.
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
