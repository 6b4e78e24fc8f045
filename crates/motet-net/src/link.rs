//! [`Link`]: a directed connection with latency, bandwidth, class and tier.

use motet_units::{Bandwidth, Duration, LinkId, NodeId};

pub use crate::link_class::LinkClass;
use crate::tier::Tier;

/// What a link is like, apart from where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// α: the time from the moment a bit is sent until it arrives.
    pub latency: Duration,
    /// b: the rate of all lanes together, in one direction.
    pub bandwidth: Bandwidth,
    /// The technology.
    pub class: LinkClass,
    /// How many physical lanes stand behind it (12 NVLinks, say); at least 1.
    pub lanes: u32,
    /// The tier, where the file fixes it; otherwise it follows from class and location.
    pub tier: Option<Tier>,
}

impl LinkSpec {
    /// One lane whose tier follows from its class and its ends.
    #[must_use]
    pub const fn new(class: LinkClass, bandwidth: Bandwidth, latency: Duration) -> Self {
        Self { latency, bandwidth, class, lanes: 1, tier: None }
    }

    /// The same link, standing for so many lanes; its bandwidth stays.
    #[must_use]
    pub const fn with_lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes;
        self
    }
}

/// A directed link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that sends over it.
    pub from: NodeId,
    /// The node that receives over it.
    pub to: NodeId,
    /// What it is like.
    pub spec: LinkSpec,
    /// The link the other way, if the two were made as one duplex connection.
    pub reverse: Option<LinkId>,
}
