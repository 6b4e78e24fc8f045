//! [`Scenario`]: what is simulated: a network, how its bandwidth varies, which collectives, and
//! what each hand may do at what cost.
//!
//! Scenario files are read by [`crate::formats`]; the reference for users is `docs/wan.md`.

use motet_net::Network;
use motet_synth::{Goal, Method};
use motet_units::{Bytes, Duration, Seed};

use crate::fault::Fault;
use crate::trigger::Hand;
use crate::variation::Variation;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    pub name: String,
    pub network: &'a Network,
    pub seed: Seed,
    /// How many collectives, one after the other.
    pub count: u32,
    /// The pause between the end of a collective and the start of the next (compute).
    pub gap: Duration,
    /// Run in turn, over and over; at least one.
    pub collectives: Vec<Asked>,
    pub variation: Variation,
    pub routes: RoutesHand,
    pub programs: ProgramsHand,
    pub faults: Vec<Fault>,
    pub testbed: Testbed,
}

/// Settings for live runs on a testbed only; the simulation ignores them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testbed {
    /// The queue before a WAN link, as the time the link takes to drain it when full.
    pub queue: Duration,
    /// The share of packets that WAN links lose.
    pub loss: f64,
    /// How long a sample of the variation lasts in a testbed that runs other commands, where collectives are not counted.
    pub period: Duration,
    pub routers: Routers,
    pub links: Links,
    pub congestion: Congestion,
}

/// How routes are set in a testbed's routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routers {
    /// The testbed itself, by netlink.
    #[default]
    Kernel,
    /// FRR, which must be installed.
    Frr,
}

/// How a testbed's WAN links get their rate, delay and loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// The testbed itself, the same way on every kernel.
    #[default]
    Own,
    /// The kernel, which must have tbf and netem.
    Kernel,
    /// The kernel where it can, the testbed elsewhere.
    Auto,
}

/// TCP's congestion control on a testbed's hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// The system's default.
    #[default]
    System,
    Bbr,
    Cubic,
    Reno,
}

impl Congestion {
    /// Its name in Linux; `None` for the system's default.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Bbr => Some("bbr"),
            Self::Cubic => Some("cubic"),
            Self::Reno => Some("reno"),
        }
    }
}

impl Default for Testbed {
    fn default() -> Self {
        Self {
            queue: Duration::from_ms(20),
            loss: 0.0,
            period: Duration::from_ms(2000),
            routers: Routers::default(),
            links: Links::default(),
            congestion: Congestion::default(),
        }
    }
}

/// One of the collectives of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub goal: Goal,
    /// The size in nccl-tests' sense.
    pub size: Bytes,
}

/// What the routes hand may do.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutesHand {
    pub hand: Hand,
    /// How many routes of a flow are considered, the shortest by latency.
    pub paths: usize,
    /// Into how many parts a flow is split, each of which may take a route of its own.
    pub split: u32,
    /// Whether all flows between two ranks must use one route, as where routers tell flows apart by addresses only, not by ports.
    pub by_pair: bool,
    /// The routes of flows until they are moved.
    pub start: StartRoutes,
}

/// The routes that a run starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartRoutes {
    /// Each flow on one of its shortest routes, by a hash of its ends, as routers do (ECMP).
    #[default]
    Hashed,
    /// Every flow on the first of its shortest routes.
    First,
}

/// What the programs hand may do.
#[derive(Clone, Debug)]
pub struct ProgramsHand {
    pub hand: Hand,
    /// The method that makes the first program; a ring in rank order if not given.
    pub base: Option<Method>,
}
