//! [`Link`]: a directed connection with latency, bandwidth, class and tier.

use std::fmt;
use std::str::FromStr;

use motet_units::{Bandwidth, Duration, LinkId, NodeId};

use crate::node::UnknownName;
use crate::tier::Tier;

/// The technology of a link. The names are those of the cluster file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// Not said.
    #[default]
    Other,
    /// Between dies of one package.
    Die,
    NvLink,
    /// AMD's Infinity Fabric between GPUs.
    Xgmi,
    /// CPU to GPU inside a superchip.
    C2c,
    Pcie,
    /// Between CPU sockets (UPI, QPI, Infinity Fabric).
    Smp,
    InfiniBand,
    Roce,
    Ethernet,
    /// A fibre to an optical switch, or a circuit through one.
    Optical,
    Wan,
}

impl LinkClass {
    pub const ALL: [Self; 12] = [
        Self::Other,
        Self::Die,
        Self::NvLink,
        Self::Xgmi,
        Self::C2c,
        Self::Pcie,
        Self::Smp,
        Self::InfiniBand,
        Self::Roce,
        Self::Ethernet,
        Self::Optical,
        Self::Wan,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Die => "die",
            Self::NvLink => "nvlink",
            Self::Xgmi => "xgmi",
            Self::C2c => "c2c",
            Self::Pcie => "pcie",
            Self::Smp => "smp",
            Self::InfiniBand => "ib",
            Self::Roce => "roce",
            Self::Ethernet => "ethernet",
            Self::Optical => "optical",
            Self::Wan => "wan",
        }
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LinkClass {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|it| it.name() == text).ok_or_else(|| UnknownName {
            what: "link class",
            name: text.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// What a link is like, apart from where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// α: the time before the first bit arrives.
    pub latency: Duration,
    /// b: the rate of all lanes together.
    pub bandwidth: Bandwidth,
    pub class: LinkClass,
    /// How many physical lanes stand behind it (12 NVLinks, say); at least 1.
    pub lanes: u32,
    /// The tier, where the file fixes it; otherwise it follows from class and location.
    pub tier: Option<Tier>,
}

impl LinkSpec {
    #[must_use]
    pub const fn new(class: LinkClass, bandwidth: Bandwidth, latency: Duration) -> Self {
        Self { latency, bandwidth, class, lanes: 1, tier: None }
    }

    #[must_use]
    pub const fn with_lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes;
        self
    }
}

/// A directed link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub from: NodeId,
    pub to: NodeId,
    pub spec: LinkSpec,
    /// The link the other way, if the two were made as one duplex connection.
    pub reverse: Option<LinkId>,
}
