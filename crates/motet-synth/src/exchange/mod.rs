//! AllToAll, AllToAllV, SendRecv, Gather and Scatter: data that goes from one rank to one other.
//!
//! There are four ways to route it, of which [`synthesize`] takes the one that is fastest for the task:
//!
//! - [`direct`]: every pair over its quickest path; for small sizes.
//! - [`flow`]: pairs spread over the whole network so that the busiest link transmits as little as possible
//!   (multi-commodity flow), then [`round`]ed to whole chunks; for large sizes.
//! - [`servers`]: data that leaves a server is first spread evenly over the server's ranks, and enters the
//!   other server over all of its ranks; without a search, for skewed AllToAllV among hundreds of ranks.
//! - [`quickest`]: a maximum flow over time, where all data goes to or comes from one rank and latencies
//!   are not small.
//!
//! Each makes a [`plan`], which consists of legs from rank to rank over the [`ways`] of the network.
//! [`timing`] puts the legs in order; [`queued`] tries an order with queues, which is better where latencies
//! differ; `quickest` has an order of its own, which [`given`] times. [`emit`] makes the program. Data that
//! is forwarded by ranks waits there in scratch.

mod demand;
mod direct;
mod emit;
mod flow;
mod given;
mod least;
mod plan;
mod queued;
mod quickest;
mod round;
mod servers;
#[cfg(test)]
mod tests;
mod timing;
mod ways;

use motet_collective::{CollectiveKind, Program};
use motet_net::{BuildError, NetworkBuilder};
use motet_units::{Bytes, Duration, LinkId};

use crate::fabric::Fabric;
use crate::limits::MAX_TRANSFERS;
use crate::task::{SynthError, Task};
use demand::Demands;
use flow::Horizon;
use plan::ExchangePlan;
use queued::Queued;
use quickest::Over;
use timing::{Cutting, MANY, Rule, SOME, Timing};
use ways::{Shortest, Ways};

/// How data is routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// The first of the others that is close to the lower bound, else the fastest.
    #[default]
    Auto,
    Direct,
    Flow,
    Servers,
    Quickest,
}

impl Routing {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Flow => "flow",
            Self::Servers => "servers",
            Self::Quickest => "quickest",
        }
    }
}

/// What may be chosen about an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub method: Routing,
    /// Most transfers of the program.
    pub most_transfers: u64,
    /// How much work the search for a flow may be, in visits of an arc of the [`ways`]; 10⁸ are about a second.
    pub effort: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { method: Routing::Auto, most_transfers: 1 << 20, effort: 100_000_000 }
    }
}

/// A program and how it came about.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub program: Program,
    /// How long its schedule says it takes.
    pub makespan: Duration,
    /// How it is routed; never [`Routing::Auto`].
    pub method: Routing,
}

/// A candidate within this factor of the quick lower bound ([`least`]) is good enough.
const GOOD: f64 = 1.01;

/// A candidate within this factor of the lower bound that the task brings along is good enough.
const BEST: f64 = 1.001;

/// Cutting legs more finely must shorten a program by this factor to be worth the additional transfers.
const WORTH_IT: f64 = 1.002;

/// Below this many jobs legs are cut more finely even if that has not helped so far: it costs next to nothing.
const FEW: usize = 2_048;

/// Once this many jobs have been scheduled, all tries added up, finer cuts are no longer tried.
const MOST_TRIED: usize = 1 << 19;

/// [`servers`] cuts legs into jobs so small that the busiest link carries at least about this many, so that
/// routes of several legs are pipelined.
const PIPELINED: u64 = 64;

/// If the longest route's latency is more than this share of a program's time, routes of lower latency are
/// looked for.
const FAR: f64 = 0.01;

/// The most numbers that [`flow`] may keep, one for each sender and arc: larger networks are left to the other
/// ways of routing.
const MOST_AMOUNTS: usize = 1 << 26;

/// A program for a task whose data goes between pairs.
pub fn synthesize(task: &Task<'_>, options: &Options) -> Result<Exchange, SynthError> {
    let fabric = Fabric::new(task)?;
    let whole = Demands::new(task, 1)?;
    let ways = Ways::new(&fabric);
    check_reach(task, &ways, &whole)?;
    let planner = Planner { task, fabric: &fabric, ways: &ways, options };
    match options.method {
        Routing::Direct => planner.finish(planner.direct()?),
        Routing::Flow => planner.finish(planner.flow()?),
        Routing::Servers => planner.finish(planner.servers()?),
        Routing::Quickest => {
            let known = planner.direct()?.timing.makespan;
            planner.finish(planner.quickest(known)?)
        }
        Routing::Auto => planner.finish(planner.fastest(&whole)?),
    }
}

/// A plan with an order, before a program is made of it.
struct Candidate {
    method: Routing,
    demands: Demands,
    chunks: u32,
    plan: ExchangePlan,
    cutting: Cutting,
    timing: Timing,
}

struct Planner<'a> {
    task: &'a Task<'a>,
    fabric: &'a Fabric,
    ways: &'a Ways,
    options: &'a Options,
}

impl Planner<'_> {
    fn fastest(&self, whole: &Demands) -> Result<Candidate, SynthError> {
        let chunk = whole.collective.chunk_bytes(self.task.size).get() as f64;
        let least = least::least_time(self.task.network, self.fabric, whole) * chunk;
        let proved = self.task.at_least.map_or(0.0, |it| it.as_ps() as f64) * BEST;
        let enough = proved.max(least * GOOD);
        let good = |it: &Candidate| it.timing.makespan.as_ps() as f64 <= enough;
        let mut best: Option<Candidate> = None;
        // Where amounts differ, spreading them over the servers' ranks is most likely to be good, and quickest to compute.
        let first = if self.task.goal.kind() == CollectiveKind::AllToAllV {
            [Routing::Servers, Routing::Direct]
        } else {
            [Routing::Direct, Routing::Servers]
        };
        for method in first.into_iter().chain([Routing::Flow]) {
            let found = match method {
                Routing::Servers => self.servers(),
                Routing::Flow => self.flow(),
                _ => self.direct(),
            };
            match found {
                Ok(found) if good(&found) => return Ok(found),
                Ok(found) => {
                    let is_faster = |it: &Candidate| found.timing.makespan < it.timing.makespan;
                    if best.as_ref().is_none_or(is_faster) {
                        best = Some(found);
                    }
                }
                Err(SynthError::NotForMethod { .. }) => {}
                Err(SynthError::OutOfTime { .. }) if best.is_some() => break,
                Err(other) => return Err(other),
            }
        }
        let best = best
            .ok_or_else(|| SynthError::not_for("exchange", "it would have too many transfers"))?;
        let known = best.timing.makespan;
        let found = self.quickest(known).ok().filter(|it| it.timing.makespan < known);
        Ok(found.unwrap_or(best))
    }

    fn direct(&self) -> Result<Candidate, SynthError> {
        let chunks = self.chunks();
        let demands = Demands::new(self.task, chunks)?;
        let chunk = demands.collective.chunk_bytes(self.task.size);
        let routes = direct::quickest(self.fabric, self.ways, &demands, chunk);
        let plan = ExchangePlan::of_routes(self.ways, &demands, &routes);
        self.in_order(Routing::Direct, demands, chunks, plan)
    }

    fn flow(&self) -> Result<Candidate, SynthError> {
        let chunks = self.chunks();
        let demands = Demands::new(self.task, chunks)?;
        if demands.senders().len().saturating_mul(self.ways.arcs()) > MOST_AMOUNTS {
            return Err(SynthError::not_for("flow", "the network is too large for its search"));
        }
        let least = least::least_time(self.task.network, self.fabric, &demands);
        let route = |horizon: Option<Horizon>| {
            let (effort, watch) = (self.options.effort, self.task.watch);
            let flow = flow::spread(self.ways, &demands, least, horizon, effort, watch);
            let routes = round::whole_chunks(self.ways, &demands, flow);
            let plan = ExchangePlan::of_routes(self.ways, &demands, &routes);
            self.in_order(Routing::Flow, demands.clone(), chunks, plan)
        };
        let best = route(None)?;
        // Where latency is a notable share of the time, routes should be short as well.
        match self.horizon(&best).map(|it| route(Some(it))) {
            Some(Ok(found)) if found.timing.makespan < best.timing.makespan => Ok(found),
            _ => Ok(best),
        }
    }

    /// The time of the program `known` and the latency of each arc, so that [`flow`] can weigh detours by their
    /// latency. `None` if latencies are too short to matter, or if there is one hub, which [`quickest`] serves
    /// better.
    fn horizon(&self, known: &Candidate) -> Option<Horizon> {
        let time = known.timing.makespan.as_ps() as f64;
        let longest = known.plan.longest(self.fabric).as_ps() as f64;
        let byte = known.demands.collective.chunk_bytes(self.task.size).get() as f64;
        let has_hub = quickest::Hub::of(&known.demands).is_some();
        if longest <= time * FAR || byte <= 0.0 || has_hub {
            return None;
        }
        let latency = |it: &LinkId| self.fabric.latency(*it).as_ps() as f64 / byte;
        let latency = self.ways.link.iter().map(latency).collect();
        Some(Horizon { time: time / byte, latency })
    }

    fn servers(&self) -> Result<Candidate, SynthError> {
        let chunks = self.chunks();
        let demands = Demands::new(self.task, chunks)?;
        let (server_of_node, _) = least::servers(self.task.network);
        let plan = servers::balanced(self.fabric, self.ways, &demands, &server_of_node)?;
        // So fine that no leg is a notable part of what any rank has to do.
        let chunk = demands.collective.chunk_bytes(self.task.size);
        let grain = (plan.busiest(self.fabric) / PIPELINED).max(1);
        let cutting = Cutting::new(&plan, u32::try_from(grain).unwrap_or(u32::MAX));
        let timing = self.timed(&plan, &cutting, chunk, Rule::Urgent, SOME);
        let timing = timing.ok_or(SynthError::OutOfTime { method: "exchange" })?;
        Ok(Candidate { method: Routing::Servers, demands, chunks, plan, cutting, timing })
    }

    /// A plan by a flow over time, for data that all goes to or comes from one rank. `known` is the time of the
    /// best program so far, which it has to beat.
    fn quickest(&self, known: Duration) -> Result<Candidate, SynthError> {
        let chunks = self.chunks();
        let demands = Demands::new(self.task, chunks)?;
        let Some(hub) = quickest::Hub::of(&demands) else {
            let why = "data goes neither to nor from one rank alone";
            return Err(SynthError::not_for("quickest", why));
        };
        let chunk = demands.collective.chunk_bytes(self.task.size);
        let most = self.options.most_transfers.min(MAX_TRANSFERS);
        let (fabric, ways, may_overtake) = (self.fabric, self.ways, self.task.may_overtake);
        let over = Over { fabric, ways, demands: &demands, chunk, hub, may_overtake };
        let found = over.best(known, most, self.task.watch);
        let (plan, timing) = found.ok_or_else(|| {
            SynthError::not_for(
                "quickest",
                "no order in time is faster, or there was no time to look",
            )
        })?;
        let cutting = Cutting::new(&plan, u32::MAX);
        Ok(Candidate { method: Routing::Quickest, demands, chunks, plan, cutting, timing })
    }

    /// Into how many chunks a part is cut: enough to split it over several routes and to pipeline it, but so
    /// few that rounding chunks up to whole bytes adds at most a thousandth.
    fn chunks(&self) -> u32 {
        let (goal, size) = (&self.task.goal, self.task.size.get());
        let ranks = goal.ranks();
        let (parts, wanted) = match goal.kind() {
            CollectiveKind::SendRecv => (1, 1024),
            CollectiveKind::Gather | CollectiveKind::Scatter => {
                (u64::from(ranks), (8192 / ranks).clamp(16, 256))
            }
            CollectiveKind::AllToAllV => {
                let counts = goal.counts().unwrap_or(&[]);
                let some = counts.iter().filter(|it| **it > 0).count().max(1) as u64;
                let sum: u64 = counts.iter().map(|it| u64::from(*it)).sum();
                let largest = goal.collective(1).map_or(1, |it| it.size_chunks());
                let most = (motet_collective::collective::MAX_CHUNKS / largest.max(1)).max(1);
                let wanted = (16 * some).div_ceil(sum.max(1)).clamp(1, u64::from(most.min(32)));
                (u64::from(largest.max(1)), wanted as u32)
            }
            _ => (u64::from(ranks), (2048 / ranks).clamp(8, 32)),
        };
        let mut chunks = 1u32 << wanted.max(1).ilog2();
        while chunks > 1 {
            let cut: u64 = parts * u64::from(chunks);
            let rounded = u128::from(size.div_ceil(cut)) * u128::from(cut);
            if rounded * 1000 <= u128::from(size) * 1001 {
                break;
            }
            chunks /= 2;
        }
        chunks
    }

    /// Schedules the legs of a plan by one rule; `None` if time is up.
    fn timed(
        &self,
        plan: &ExchangePlan,
        cutting: &Cutting,
        chunk: Bytes,
        rule: Rule,
        looked_at: usize,
    ) -> Option<Timing> {
        let watch = self.task.watch;
        watch.spend(self.work(plan, cutting.jobs() as u64));
        timing::timing(plan, cutting, self.fabric, chunk, rule, looked_at, watch)
    }

    /// The work of scheduling this many jobs: each is compared with others that wait for the same link.
    fn work(&self, plan: &ExchangePlan, jobs: u64) -> u64 {
        let legs = plan.legs.len() as u64;
        let waiting = jobs.max(legs) / self.fabric.rank_count().max(1) as u64;
        jobs.saturating_mul(waiting.clamp(1, MANY as u64) / 8 + 1)
    }

    /// Schedules a plan by every rule, with legs cut more and more finely while that helps, and with queues;
    /// keeps the fastest.
    fn in_order(
        &self,
        method: Routing,
        demands: Demands,
        chunks: u32,
        plan: ExchangePlan,
    ) -> Result<Candidate, SynthError> {
        let chunk = demands.collective.chunk_bytes(self.task.size);
        let most = self.options.most_transfers.min(MAX_TRANSFERS);
        let mut grain = plan.legs.iter().map(|it| it.chunks).max().unwrap_or(1).max(1);
        let mut best: Option<(Cutting, Timing)> = None;
        let mut rules = Rule::ALL.to_vec();
        let mut worse = 0;
        let mut tried_jobs = 0;
        while grain > 0 && worse < 2 && Cutting::count(&plan, grain) <= most {
            let affords = self.task.watch.affords(self.work(&plan, Cutting::count(&plan, grain)));
            if best.is_some() && (tried_jobs > MOST_TRIED || !affords) {
                break;
            }
            let before = best.as_ref().map(|(_, it)| it.makespan);
            let cutting = Cutting::new(&plan, grain);
            let mut tried: Vec<(Rule, Timing)> = Vec::new();
            for rule in &rules {
                tried_jobs += cutting.jobs();
                let timing = self.timed(&plan, &cutting, chunk, *rule, MANY);
                tried.extend(timing.map(|it| (*rule, it)));
            }
            if tried.is_empty() {
                break;
            }
            tried.sort_by_key(|(_, it)| it.makespan);
            // The rule that does worst is not tried again, unless it does as well as the others, or
            // trying costs next to nothing.
            let fastest = tried.first().map(|(_, it)| it.makespan);
            let worst = tried.last().filter(|(_, it)| Some(it.makespan) > fastest);
            if let Some((worst, _)) = worst.filter(|_| best.is_some() && cutting.jobs() >= FEW) {
                rules.retain(|it| it != worst);
            }
            if let Some((_, timing)) = tried.into_iter().next() {
                let saved = before.map_or(f64::INFINITY, |it| {
                    it.as_ps() as f64 / timing.makespan.as_ps().max(1) as f64
                });
                worse = if saved > WORTH_IT || cutting.jobs() < FEW { 0 } else { worse + 1 };
                if saved > 1.0 {
                    best = Some((cutting, timing));
                }
            }
            grain /= 2;
        }
        let Some((cutting, timing)) = best else {
            if self.task.watch.out_of_time() {
                return Err(SynthError::OutOfTime { method: "exchange" });
            }
            return Err(SynthError::not_for(method.name(), "it has too many transfers"));
        };
        let queued = Queued { task: self.task, fabric: self.fabric, plan: &plan, chunk };
        let (cutting, timing) = queued.best(timing.makespan, most).unwrap_or((cutting, timing));
        Ok(Candidate { method, demands, chunks, plan, cutting, timing })
    }

    fn finish(&self, mut it: Candidate) -> Result<Exchange, SynthError> {
        let common = it.cutting.common(&it.plan, it.chunks);
        if common > 1 {
            it.plan.coarser(common);
            it.demands = Demands::new(self.task, it.chunks / common)?;
        }
        let program = emit::emit(&it.demands, &it.plan, &it.cutting, &it.timing);
        Ok(Exchange { program, makespan: it.timing.makespan, method: it.method })
    }
}

/// Fails with the bound's proof if data cannot reach its receiver.
fn check_reach(task: &Task<'_>, ways: &Ways, demands: &Demands) -> Result<(), SynthError> {
    let mut shortest = Shortest::new(ways);
    for from in 0..demands.ranks() {
        if demands.from(from).is_empty() {
            continue;
        }
        shortest.search(ways, from, |_| 1.0);
        let missed = |dst: u32| shortest.distance(dst).is_infinite();
        if demands.from(from).iter().any(|it| missed(it.dst)) {
            return Err(impossible(task));
        }
    }
    Ok(())
}

/// The bound's error for the network with only the links that may be used.
fn impossible(task: &Task<'_>) -> SynthError {
    let bound = || -> Result<(), SynthError> {
        let mut builder = NetworkBuilder::new(task.network.name());
        let failed = |it: BuildError| SynthError::not_for("exchange", it.to_string());
        for node in task.network.nodes() {
            builder.add_node(node.clone()).map_err(failed)?;
        }
        for (id, link) in task.network.link_ids().zip(task.network.links()) {
            if task.usable(id) {
                builder.add_link(link.from, link.to, link.spec).map_err(failed)?;
            }
        }
        let network = builder.build().map_err(failed)?;
        motet_collective::bound::bound(&network, &task.goal.collective(1)?)?;
        Ok(())
    };
    let unknown = || SynthError::not_for("exchange", "some ranks cannot be reached");
    bound().err().unwrap_or_else(unknown)
}
