//! [`Built`]: a verified program made ready to run under any routes.

use std::sync::Arc;

use motet_collective::{Program, Verified};
use motet_net::NetworkState;
use motet_sim::reroute::{Flow, Rates, Reroutable, Scratch, Way};
use motet_sim::{RouteError, Routed, SwitchForwarding, replay};
use motet_units::{Bytes, Duration};

use crate::ways::WayTable;

/// A program that the hands can choose and route.
#[derive(Clone, Debug)]
pub struct Built {
    /// What made it.
    pub name: String,
    pub program: Verified<Program>,
    pub size: Bytes,
    compiled: Reroutable,
    /// Per flow: what it may take. The routes hand chooses for flows that cross the WAN; others
    /// stay on the first as long as that is up.
    ways: Vec<Arc<[Way]>>,
    /// The flows that cross the WAN, the largest first.
    movable: Vec<usize>,
    /// All others.
    fixed: Vec<usize>,
    /// Whether the ways of some flow differ in latency.
    near_and_far: bool,
    /// Where flows go if nobody moves them.
    standing: Routes,
    /// Where the program itself would send them.
    own: Routes,
}

/// For each flow, which of its ways it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes(pub Vec<u32>);

/// Memory for runs, and what the present state means for the program that ran last.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    rates: Rates,
    scratch: Scratch,
}

impl Built {
    pub fn new(
        name: &str,
        program: Verified<Program>,
        size: Bytes,
        table: &mut WayTable<'_>,
        split: u32,
    ) -> Result<Self, RouteError> {
        let switches = SwitchForwarding::CutThrough;
        let routed = Routed::new(&program, table.network(), switches)?;
        let compiled = Reroutable::compile(&routed, size, switches, split);
        let (mut ways, mut movable, mut fixed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut standing, mut own): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (number, (flow, way)) in compiled.flows().iter().zip(compiled.ways()).enumerate() {
            let between = table.between(flow.from, flow.to);
            if !table.crosses_wan(flow.from, flow.to, way) || between.is_empty() {
                let others = between.iter().filter(|it| *it != way);
                ways.push([way].into_iter().chain(others).cloned().collect());
                fixed.push(number);
                standing.push(0);
                own.push(0);
                continue;
            }
            movable.push(number);
            let start = table.start(&between, flow.from, flow.to, number as u32 % split.max(1));
            standing.push(start);
            // The program's own way may be one that the table has not.
            match between.iter().position(|it| it == way) {
                Some(at) => {
                    own.push(at as u32);
                    ways.push(between);
                }
                None => {
                    own.push(between.len() as u32);
                    ways.push(between.iter().chain([way]).cloned().collect());
                }
            }
        }
        drop(routed);
        movable.sort_by_key(|it| std::cmp::Reverse(compiled.flows()[*it].bytes));
        let differ = |ways: &[Way]| ways.iter().any(|it| it.latency() != ways[0].latency());
        Ok(Self {
            name: name.to_owned(),
            program,
            size,
            near_and_far: movable.iter().any(|it| differ(&ways[*it])),
            compiled,
            ways,
            movable,
            fixed,
            standing: Routes(standing),
            own: Routes(own),
        })
    }

    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        self.compiled.flows()
    }

    /// The ways that a flow may take.
    #[must_use]
    pub fn ways(&self, flow: usize) -> &[Way] {
        &self.ways[flow]
    }

    /// The way that a flow takes.
    #[must_use]
    pub fn way(&self, routes: &Routes, flow: usize) -> &Way {
        &self.ways[flow][routes.0[flow] as usize]
    }

    /// The flows that the routes hand may move, the largest first.
    #[must_use]
    pub fn movable(&self) -> &[usize] {
        &self.movable
    }

    /// The flows that it may not.
    #[must_use]
    pub fn fixed(&self) -> &[usize] {
        &self.fixed
    }

    /// Whether latency tells the ways of some flow apart.
    #[must_use]
    pub const fn is_near_and_far(&self) -> bool {
        self.near_and_far
    }

    /// Where flows go if nobody moves them.
    #[must_use]
    pub const fn standing(&self) -> &Routes {
        &self.standing
    }

    /// Where the program itself would send them.
    #[must_use]
    pub const fn own(&self) -> &Routes {
        &self.own
    }

    /// How long the program takes.
    pub fn time(
        &self,
        routes: &Routes,
        state: &NetworkState,
        bench: &mut Bench,
    ) -> Result<Duration, replay::RunError> {
        self.see(state, bench);
        self.time_again(routes, bench)
    }

    /// Takes in the state that [`Self::time_again`] is to be asked about.
    pub fn see(&self, state: &NetworkState, bench: &mut Bench) {
        self.compiled.rates(state, &mut bench.rates);
    }

    /// How long the program takes in the state that this program saw last.
    pub fn time_again(
        &self,
        routes: &Routes,
        bench: &mut Bench,
    ) -> Result<Duration, replay::RunError> {
        let ways: Vec<&Way> =
            self.ways.iter().zip(&routes.0).map(|(ways, it)| &ways[*it as usize]).collect();
        self.compiled.run(&ways, &bench.rates, &mut bench.scratch)
    }
}
