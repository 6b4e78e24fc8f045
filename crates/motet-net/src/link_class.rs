//! [`LinkClass`]: the technology of a link, from which its [`Tier`](crate::Tier) follows.

use std::fmt;
use std::str::FromStr;

use crate::unknown_name::UnknownName;

/// The technology of a link. The names are those of the cluster file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// Nobody said what it is.
    #[default]
    Other,
    /// Between dies of one package.
    Die,
    /// NVIDIA's NVLink, from GPU to GPU or from GPU to NVSwitch.
    NvLink,
    /// AMD's Infinity Fabric between GPUs.
    Xgmi,
    /// CPU to GPU inside a superchip.
    C2c,
    /// PCI Express: from a GPU or NIC to a PCIe switch or CPU.
    Pcie,
    /// Between CPU sockets (UPI, QPI, Infinity Fabric).
    Smp,
    InfiniBand,
    /// RDMA over converged Ethernet.
    Roce,
    Ethernet,
    /// A fibre to an optical switch, or a circuit through one.
    Optical,
    /// Between datacenters.
    Wan,
}

impl LinkClass {
    /// Every class, in the order of the enum.
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

    /// The name that the cluster file uses.
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
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownName::new("link class", text, Self::ALL.map(Self::name)))
    }
}
