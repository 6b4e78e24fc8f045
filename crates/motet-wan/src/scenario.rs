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

/// What a testbed needs to know beside: nothing of it is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testbed {
    /// How much waits before a WAN link, as the time in which the link carries that much.
    pub queue: Duration,
    /// The share of packets that WAN links lose.
    pub loss: f64,
    /// How long a sample of the variation lasts where nobody counts collectives.
    pub period: Duration,
    pub routers: Routers,
    pub links: Links,
    pub congestion: Congestion,
}

/// Who sets the routes in a testbed's routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routers {
    /// The testbed itself, by netlink.
    #[default]
    Kernel,
    /// FRR, which must be installed.
    Frr,
}

/// Who shapes a testbed's WAN links.
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
    /// Whatever the system gives new connections.
    #[default]
    System,
    Bbr,
    Cubic,
    Reno,
}

impl Congestion {
    /// What Linux calls it, unless it is left to the system.
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
    /// In nccl-tests' sense.
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
    /// Whether all that a rank sends another takes one route together, as where routers know packets by their addresses only.
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
