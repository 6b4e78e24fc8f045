//! The routes hand: which route each WAN flow takes, given the present bandwidth of every link.
//!
//! It places flows greedily so that the busiest link is busy for as short as possible: the largest
//! flow first, each on the route whose busiest link stays least busy; then every flow is moved once
//! more with all others in place. Where routes differ in latency it does the same again with the
//! latency counted in. Then the simulator times at most five choices and takes the fastest: those
//! two placements, the routes that the program was made for, the routes that routers give by
//! themselves, and the routes in force. So moving routes is hardly ever worse than leaving them
//! alone.
//!
//! Placing works with seconds in floating point, since it only ranks candidates; the time that
//! decides is the simulator's, in picoseconds.

use motet_net::NetworkState;
use motet_sim::replay::FlowRoute;
use motet_units::{Duration, LinkId};

use crate::built::{Bench, Built, RouteChoice};

/// Transmission time of each link under the present routes, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    busy: Vec<f64>,
    /// Seconds per byte.
    per_byte: Vec<f64>,
}

/// If all routes have the same latency, a choice whose busiest link is busy this many times longer
/// than in the best placement is not simulated.
const BUSIER: f64 = 1.1;

/// What a placement minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Load,
    LoadAndLatency,
}

/// A choice of routes, and how long the program takes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRoutes {
    pub routes: RouteChoice,
    pub time: Duration,
}

impl Loads {
    /// Computes the load of the links under `routes`.
    pub fn of(&mut self, built: &Built, routes: &RouteChoice, state: &NetworkState) {
        self.see(state);
        self.lay(built, routes);
    }

    /// The busiest link and its transmission time in seconds.
    #[must_use]
    pub fn busiest(&self) -> Option<(LinkId, f64)> {
        let most = self.busy.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((LinkId::from_index(most.0), *most.1))
    }

    fn see(&mut self, state: &NetworkState) {
        let links = (0..state.link_count()).map(LinkId::from_index);
        self.per_byte.clear();
        self.per_byte.extend(links.map(|it| 8.0 / state.bandwidth(it).bits_per_s() as f64));
    }

    fn clear(&mut self) {
        self.busy.clear();
        self.busy.resize(self.per_byte.len(), 0.0);
    }

    fn lay(&mut self, built: &Built, routes: &RouteChoice) {
        self.clear();
        for flow in 0..built.flows().len() {
            self.add(built, flow, routes.0[flow], 1.0);
        }
    }

    fn add(&mut self, built: &Built, flow: usize, route: u32, sign: f64) {
        let bytes = built.flows()[flow].bytes.get() as f64 * sign;
        for link in built.routes_of(flow)[route as usize].links() {
            let added = bytes * self.per_byte[link.index()];
            // A link that is down is infinitely busy; taking a flow off it must not leave ∞ − ∞.
            if added.is_finite() {
                self.busy[link.index()] += added;
            }
        }
    }

    /// How long the busiest link of the route would be busy with the flow on it.
    fn cost(&self, built: &Built, flow: usize, route: usize, aim: Aim) -> f64 {
        let bytes = built.flows()[flow].bytes.get() as f64;
        let route = &built.routes_of(flow)[route];
        let busiest = route
            .links()
            .map(|it| self.busy[it.index()] + bytes * self.per_byte[it.index()])
            .fold(0.0, f64::max);
        match aim {
            Aim::Load => busiest,
            Aim::LoadAndLatency => busiest + route.latency().as_us_f64() * 1e-6,
        }
    }

    /// Places all flows for the state seen last. The first of equals wins, so that the result is
    /// unique.
    fn place(&mut self, built: &Built, aim: Aim) -> RouteChoice {
        self.clear();
        let mut routes = built.own().clone();
        for flow in built.fixed() {
            self.add(built, *flow, routes.0[*flow], 1.0);
        }
        for round in 0..2 {
            for flow in built.movable() {
                if round > 0 {
                    self.add(built, *flow, routes.0[*flow], -1.0);
                }
                let leader = built.leader(*flow);
                if leader != *flow {
                    // Leaders are larger and have been placed.
                    routes.0[*flow] = routes.0[leader];
                    self.add(built, *flow, routes.0[*flow], 1.0);
                    continue;
                }
                let costs =
                    (0..built.routes_of(*flow).len()).map(|it| self.cost(built, *flow, it, aim));
                let best = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
                routes.0[*flow] = best.map_or(0, |it| it.0 as u32);
                self.add(built, *flow, routes.0[*flow], 1.0);
            }
        }
        routes
    }

    /// The fastest of the choices above for the state. `current` are the routes in force, if any, which
    /// win over others that are as fast. `None` if the program cannot run under any.
    pub fn best(
        &mut self,
        built: &Built,
        current: Option<&RouteChoice>,
        state: &NetworkState,
        bench: &mut Bench,
    ) -> Option<TimedRoutes> {
        self.see(state);
        built.see(state, bench);
        let placed = self.place(built, Aim::Load);
        let busiest = self.busiest().map_or(0.0, |it| it.1);
        let mut trial = Trial { loads: self, built, state, bench, best: None, most: f64::INFINITY };
        trial.consider(placed, false);
        if built.is_near_and_far() {
            let near = trial.loads.place(built, Aim::LoadAndLatency);
            trial.consider(near, false);
        } else {
            trial.most = BUSIER * busiest;
        }
        for routes in [built.own(), built.standing()] {
            trial.consider(routes.clone(), false);
        }
        if let Some(current) = current {
            trial.consider(current.clone(), true);
        }
        trial.best
    }
}

/// The best of several choices that are simulated one after the other.
struct Trial<'a> {
    loads: &'a mut Loads,
    built: &'a Built,
    state: &'a NetworkState,
    bench: &'a mut Bench,
    best: Option<TimedRoutes>,
    /// The longest transmission time of the busiest link that is still worth a simulation, in
    /// seconds.
    most: f64,
}

impl Trial<'_> {
    /// Takes `routes` if they are better than the best so far, or if `preferred` as good.
    fn consider(&mut self, routes: RouteChoice, preferred: bool) {
        let routes = if self.loads.per_byte.iter().all(|it| it.is_finite()) {
            routes
        } else {
            around_failures(self.built, &routes, self.state)
        };
        if let Some(best) = &self.best {
            if best.routes == routes {
                return;
            }
            // A program takes at least as long as its busiest link, so a choice that cannot win need not be simulated.
            self.loads.lay(self.built, &routes);
            let least = self.loads.busiest().map_or(0.0, |it| it.1);
            if least > self.most || least > best.time.as_us_f64() * 1e-6 * (1.0 + 1e-9) {
                return;
            }
        }
        let Ok(time) = self.built.time_again(&routes, self.bench) else { return };
        let better = |it: &TimedRoutes| if preferred { time <= it.time } else { time < it.time };
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(TimedRoutes { routes, time });
        }
    }
}

/// The same choice with every flow whose route is down moved to its first route that is up: what routers do by
/// themselves when a link fails.
#[must_use]
pub fn around_failures(built: &Built, routes: &RouteChoice, state: &NetworkState) -> RouteChoice {
    let up = |route: &FlowRoute| route.links().all(|it| !state.bandwidth(it).is_zero());
    let mut routes = routes.clone();
    for flow in 0..built.flows().len() {
        if !up(built.route(&routes, flow))
            && let Some(other) = built.routes_of(flow).iter().position(up)
        {
            routes.0[flow] = other as u32;
        }
    }
    routes
}
