//! [`Node`]: a device of the network, and where it stands.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use motet_units::Rank;

use crate::in_network::InNetwork;
pub use crate::unknown_name::UnknownName;

/// What a node is. The names are those of the cluster file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    Gpu,
    Nic,
    Cpu,
    PcieSwitch,
    NvSwitch,
    Leaf,
    Spine,
    /// An optical circuit switch.
    Ocs,
    /// A border router between a datacenter and the WAN, or a router of the WAN itself.
    Border,
}

impl NodeKind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Gpu,
        Self::Nic,
        Self::Cpu,
        Self::PcieSwitch,
        Self::NvSwitch,
        Self::Leaf,
        Self::Spine,
        Self::Ocs,
        Self::Border,
    ];

    /// The name that the cluster file uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Nic => "nic",
            Self::Cpu => "cpu",
            Self::PcieSwitch => "pcie-switch",
            Self::NvSwitch => "nvswitch",
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Ocs => "ocs",
            Self::Border => "border",
        }
    }

    /// GPUs store and forward; everything else passes data on as it arrives.
    #[must_use]
    pub const fn cuts_through(self) -> bool {
        !matches!(self, Self::Gpu)
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NodeKind {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownName::new("node kind", text, Self::ALL.map(Self::name)))
    }
}

/// Where a node stands, as far as it is known; empty means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The server that the device is part of.
    pub server: Option<String>,
    /// The rack that it stands in.
    pub rack: Option<String>,
    /// The datacenter or region.
    pub dc: Option<String>,
}

/// A device of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique within its network.
    pub name: String,
    /// What the device is.
    pub kind: NodeKind,
    /// Where it stands.
    pub location: Location,
    /// The rank of a GPU, where the file fixes it; otherwise ranks follow file order.
    pub rank: Option<Rank>,
    /// Whether the node by itself carries the same data once over common links and copies it behind
    /// them, whatever program runs.
    pub multicast: bool,
    /// Whether the node by itself adds up streams that go to one sum, whatever program runs.
    pub reduces: bool,
    /// What programs may ask of it (NVLS, SHARP).
    pub in_network: InNetwork,
    /// What a file says beyond the model: `busid`, `sm`, `vendor`, `latitude`…; docs/cluster-file.md
    /// lists the keys that Motet itself reads. They take no part in the signature.
    pub properties: BTreeMap<String, String>,
}

impl Node {
    /// A device of which nothing else is known.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: NodeKind) -> Self {
        Self {
            name: name.into(),
            kind,
            location: Location::default(),
            rank: None,
            multicast: false,
            reduces: false,
            in_network: InNetwork::NONE,
            properties: BTreeMap::new(),
        }
    }

    /// The same device as part of this server.
    #[must_use]
    pub fn in_server(mut self, server: impl Into<String>) -> Self {
        self.location.server = Some(server.into());
        self
    }

    /// The same device in this rack.
    #[must_use]
    pub fn in_rack(mut self, rack: impl Into<String>) -> Self {
        self.location.rack = Some(rack.into());
        self
    }

    /// The same device in this datacenter.
    #[must_use]
    pub fn in_dc(mut self, dc: impl Into<String>) -> Self {
        self.location.dc = Some(dc.into());
        self
    }

    /// The same device with one more property.
    #[must_use]
    pub fn with_property(mut self, key: &str, value: impl Into<String>) -> Self {
        self.properties.insert(key.to_owned(), value.into());
        self
    }
}
