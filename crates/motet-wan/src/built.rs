//! [`Built`]: a verified program compiled once so that it can be timed under any choice of routes,
//! together with the routes that each of its flows may take.

use std::collections::BTreeMap;
use std::sync::Arc;

use motet_collective::{Program, Verified};
use motet_net::NetworkState;
use motet_sim::replay::{self, FlowMemory, FlowReplay, FlowRoute, FlowTimes, RankFlow};
use motet_sim::{RouteError, Routed, SwitchForwarding};
use motet_units::{Bytes, Duration};

use crate::route_table::RouteTable;

/// A program that the programs hand can choose and the routes hand can route.
#[derive(Clone, Debug)]
pub struct Built {
    /// The method that made it.
    pub name: String,
    pub program: Verified<Program>,
    pub size: Bytes,
    compiled: FlowReplay,
    /// Per flow: the routes it may take. The routes hand chooses for flows that cross the WAN;
    /// others stay on the first as long as that is up.
    routes: Vec<Arc<[FlowRoute]>>,
    /// The flows that cross the WAN, largest first.
    movable: Vec<usize>,
    /// Per flow: the flow whose route it shares; itself, unless all flows between two ranks must use one route.
    leaders: Vec<usize>,
    /// The flows that cannot be moved.
    fixed: Vec<usize>,
    /// Whether some movable flow has routes of different latencies.
    near_and_far: bool,
    /// The routes that routers choose by themselves: for each flow a shortest one, by a hash (ECMP).
    standing: RouteChoice,
    /// The routes that the program was made for.
    own: RouteChoice,
}

/// For each flow of a program, which of its routes it takes: a number into
/// [`Built::routes_of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChoice(pub Vec<u32>);

/// Working memory for timing programs: buffers that are reused, and the transmission times in the network state that was
/// last passed to [`Built::see`].
#[derive(Debug, Default)]
pub struct Bench {
    times: FlowTimes,
    memory: FlowMemory,
}

impl Built {
    /// Compiles a program and finds the routes of its flows. Each flow is split into `split` parts
    /// with a route each.
    pub fn new(
        name: &str,
        program: Verified<Program>,
        size: Bytes,
        table: &mut RouteTable<'_>,
        split: u32,
    ) -> Result<Self, RouteError> {
        let switches = SwitchForwarding::CutThrough;
        let routed = Routed::new(&program, table.network(), switches)?;
        let compiled = FlowReplay::compile(&routed, size, switches, split);
        let (mut routes, mut movable, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut standing, mut own): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (number, (flow, route)) in compiled.flows().iter().zip(compiled.routes()).enumerate() {
            let between = table.between(flow.from, flow.to);
            if !table.crosses_wan(flow.from, flow.to, route) || between.is_empty() {
                let others = between.iter().filter(|it| *it != route);
                routes.push([route].into_iter().chain(others).cloned().collect());
                fixed.push(number);
                standing.push(0);
                own.push(0);
                continue;
            }
            movable.push(number);
            let start = table.start(&between, flow.from, flow.to, number as u32 % split.max(1));
            standing.push(start);
            // The program's own route may be one that the table does not have.
            match between.iter().position(|it| it == route) {
                None if table.is_by_pair() => {
                    own.push(start);
                    routes.push(between);
                }
                Some(at) => {
                    own.push(at as u32);
                    routes.push(between);
                }
                None => {
                    own.push(between.len() as u32);
                    routes.push(between.iter().chain([route]).cloned().collect());
                }
            }
        }
        drop(routed);
        movable.sort_by_key(|it| std::cmp::Reverse(compiled.flows()[*it].bytes));
        let leaders = leaders(compiled.flows(), &movable, table.is_by_pair());
        let own: Vec<u32> = leaders.iter().map(|it| own[*it]).collect();
        let differ = |it: &[FlowRoute]| it.windows(2).any(|it| it[0].latency() != it[1].latency());
        Ok(Self {
            name: name.to_owned(),
            program,
            size,
            near_and_far: movable.iter().any(|it| differ(&routes[*it])),
            compiled,
            routes,
            movable,
            leaders,
            fixed,
            standing: RouteChoice(standing),
            own: RouteChoice(own),
        })
    }

    #[must_use]
    pub fn flows(&self) -> &[RankFlow] {
        self.compiled.flows()
    }

    /// The routes that a flow may take.
    #[must_use]
    pub fn routes_of(&self, flow: usize) -> &[FlowRoute] {
        &self.routes[flow]
    }

    /// The route that a flow takes.
    #[must_use]
    pub fn route(&self, choice: &RouteChoice, flow: usize) -> &FlowRoute {
        &self.routes[flow][choice.0[flow] as usize]
    }

    /// The flows that the routes hand may move, the largest first.
    #[must_use]
    pub fn movable(&self) -> &[usize] {
        &self.movable
    }

    /// The flow whose route a flow shares. It is between the same ranks, and usually the flow itself.
    #[must_use]
    pub fn leader(&self, flow: usize) -> usize {
        self.leaders[flow]
    }

    /// The flows that stay within a datacenter, or have only one route.
    #[must_use]
    pub fn fixed(&self) -> &[usize] {
        &self.fixed
    }

    /// Whether some movable flow has routes of different latencies.
    #[must_use]
    pub const fn is_near_and_far(&self) -> bool {
        self.near_and_far
    }

    /// The routes that routers choose by themselves, used until the routes hand moves a flow.
    #[must_use]
    pub const fn standing(&self) -> &RouteChoice {
        &self.standing
    }

    /// The routes that the program was made for.
    #[must_use]
    pub const fn own(&self) -> &RouteChoice {
        &self.own
    }

    /// How long the program takes.
    pub fn time(
        &self,
        routes: &RouteChoice,
        state: &NetworkState,
        bench: &mut Bench,
    ) -> Result<Duration, replay::RunError> {
        self.see(state, bench);
        self.time_again(routes, bench)
    }

    /// Computes the transmission times in `state`, for [`Self::time_again`].
    pub fn see(&self, state: &NetworkState, bench: &mut Bench) {
        self.compiled.see(state, &mut bench.times);
    }

    /// How long the program takes in the state last passed to [`Self::see`].
    pub fn time_again(
        &self,
        routes: &RouteChoice,
        bench: &mut Bench,
    ) -> Result<Duration, replay::RunError> {
        let taken: Vec<&FlowRoute> =
            self.routes.iter().zip(&routes.0).map(|(of, it)| &of[*it as usize]).collect();
        self.compiled.run(&taken, &bench.times, &mut bench.memory)
    }
}

/// For each flow, the flow whose route it uses: the largest one between the same ranks if all of them must share one route,
/// otherwise itself.
fn leaders(flows: &[RankFlow], movable: &[usize], by_pair: bool) -> Vec<usize> {
    let mut leaders: Vec<usize> = (0..flows.len()).collect();
    if by_pair {
        let mut first = BTreeMap::new();
        for flow in movable {
            let pair = (flows[*flow].from, flows[*flow].to);
            leaders[*flow] = *first.entry(pair).or_insert(*flow);
        }
    }
    leaders
}
