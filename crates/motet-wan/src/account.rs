//! [`Account`]: the totals of one run: how long the collectives took, what changing routes and programs cost, and which links
//! were the bottleneck.

use std::sync::Arc;

use motet_units::{Bandwidth, Duration, LinkId};

use crate::built::{Built, RouteChoice};

/// Limit of entries in the timeline, to bound memory; further changes are only counted.
const MOST_EVENTS: usize = 200_000;

/// The record of a run in one mode.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// How long each collective took, from its start to its end.
    pub times: Vec<Duration>,
    /// The sum of `times`.
    pub collectives: Duration,
    /// Time in which no collective ran because a move (a change of routes or program) was being put in force.
    pub pauses: Duration,
    /// Time in which no collective could run because the network was cut.
    pub stalls: Duration,
    /// Time between collectives that the scenario asks for (compute).
    pub gaps: Duration,
    /// How often the routes hand put other routes in force.
    pub route_moves: u64,
    /// How many flows took another route in all of those moves.
    pub flows_moved: u64,
    /// How often the programs hand put another program in force.
    pub program_moves: u64,
    /// Moves of routes that undid the previous move (route flaps).
    pub route_flaps: u64,
    /// Moves of programs that undid the previous move.
    pub program_flaps: u64,
    /// With a knobs hand: how often a collective ran with another setting than the previous one of the same kind.
    pub knob_moves: u64,
    /// With a knobs hand: for each of the scenario's collectives, how often each setting was used.
    pub settings: Vec<Vec<u64>>,
    /// How many collectives each link was the bottleneck of: the link with the longest transmission
    /// time.
    pub bottleneck: Vec<u32>,
    /// Available bandwidth of each link, in bit/s, summed over the collectives.
    pub available: Vec<f64>,
    /// The timeline, in order.
    pub events: Vec<Happening>,
    /// How many changes were not kept in `events`, which is limited.
    pub unnoted: u64,
    /// What was in force at the end, for each of the scenario's collectives.
    pub last: Vec<Last>,
}

/// The program of one of the scenario's collectives, and the routes of its flows.
#[derive(Clone, Debug)]
pub struct Last {
    pub built: Arc<Built>,
    pub routes: RouteChoice,
}

/// One entry of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// The number of the collective that ran next after the change.
    pub index: u32,
    /// Time since the start of the run.
    pub at: Duration,
    pub what: What,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// This many flows took another route.
    Routes {
        flows: u32,
    },
    Program {
        name: String,
    },
    /// The total bandwidth of all WAN links changed to this; recorded in the base mode only, since
    /// it is the same in all.
    Bandwidth {
        wan: Bandwidth,
    },
    /// Nothing could run until the network recovered.
    Stalled {
        until: Duration,
    },
}

impl Account {
    #[must_use]
    pub fn new(links: usize, count: u32) -> Self {
        Self {
            times: Vec::with_capacity(count as usize),
            bottleneck: vec![0; links],
            available: vec![0.0; links],
            ..Self::default()
        }
    }

    /// The duration of the whole run, idle times included.
    #[must_use]
    pub fn total(&self) -> Duration {
        let parts = [self.collectives, self.pauses, self.stalls, self.gaps];
        Duration::from_ps(parts.iter().map(|it| it.as_ps()).fold(0, u64::saturating_add))
    }

    /// The total as Xiong et al. count it: the collectives and the pauses for moves, without stalls and gaps.
    #[must_use]
    pub fn completion(&self) -> Duration {
        Duration::from_ps(self.collectives.as_ps().saturating_add(self.pauses.as_ps()))
    }

    pub(crate) fn note(&mut self, index: u32, at: Duration, what: What) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(Happening { index, at, what });
        } else {
            self.unnoted += 1;
        }
    }

    /// Moves of either hand per hour of the run.
    #[must_use]
    pub fn moves_per_hour(&self) -> f64 {
        let hours = self.total().as_us_f64() / 3.6e9;
        if hours > 0.0 { (self.route_moves + self.program_moves) as f64 / hours } else { 0.0 }
    }

    /// Flaps of both hands together.
    #[must_use]
    pub const fn flaps(&self) -> u64 {
        self.route_flaps + self.program_flaps
    }

    /// The available bandwidth of a link, averaged over the collectives.
    #[must_use]
    pub fn mean_available(&self, link: LinkId) -> Bandwidth {
        let mean = self.available[link.index()] / self.times.len().max(1) as f64;
        Bandwidth::from_bits_per_s(mean.round() as u64)
    }

    /// Mean time of the collectives with these numbers.
    #[must_use]
    pub fn mean_of(&self, numbers: &[u32]) -> Duration {
        let times = numbers.iter().filter_map(|it| self.times.get(*it as usize));
        let sum: u128 = times.map(|it| u128::from(it.as_ps())).sum();
        Duration::from_ps((sum / numbers.len().max(1) as u128) as u64)
    }

    /// The time within which `share` of the collectives finished.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = (share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64).round() as usize;
        sorted.get(at).copied().unwrap_or(Duration::ZERO)
    }

    /// Links by how often they were the bottleneck, most often first.
    #[must_use]
    pub fn bottlenecks(&self) -> Vec<(LinkId, u32)> {
        let counted = self.bottleneck.iter().enumerate().filter(|it| *it.1 > 0);
        let mut list: Vec<(LinkId, u32)> =
            counted.map(|(link, count)| (LinkId::from_index(link), *count)).collect();
        list.sort_by_key(|it| (std::cmp::Reverse(it.1), it.0));
        list
    }
}
