//! [`Tier`]: the five-level distance between devices (§7 of DynamICCL's design-space analysis), of
//! links, rank pairs and whole communicators.
//!
//! | tier | what | from |
//! | --- | --- | --- |
//! | 0 | within a package | class `die` |
//! | 1 | NVLink domain | `nvlink`, `xgmi`, `c2c` |
//! | 2 | within a rack: PCIe, sockets, NIC to leaf | `pcie`, `smp`; network links inside one rack |
//! | 3 | across racks of one datacenter | network links between racks or up to a spine |
//! | 4 | across datacenters | `wan`, or ends in different datacenters |
//!
//! The tier of a pair of ranks is that of its best route: the least, over all routes, of the
//! worst link on it; [`tier_mix`](crate::tier_mix) counts the pairs of a communicator by it.

use std::fmt;

use crate::link_class::LinkClass;
use crate::node::{Node, NodeKind};

/// How far apart two devices are, from 0 (one package) to 4 (two datacenters).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(u8);

impl Tier {
    /// How many tiers there are.
    pub const COUNT: usize = 5;

    /// The tier of this number; `None` above 4.
    #[must_use]
    pub const fn new(tier: u8) -> Option<Self> {
        if tier < Self::COUNT as u8 { Some(Self(tier)) } else { None }
    }

    /// Its number, from 0 to 4.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Its number as an index into an array of [`Tier::COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All tiers, nearest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tier that a link's class and its ends' locations give it.
#[must_use]
pub(crate) fn of_link(class: LinkClass, from: &Node, to: &Node) -> Tier {
    let both = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => Some(a == b),
        _ => None,
    };
    let same_dc = both(&from.location.dc, &to.location.dc);
    if class == LinkClass::Wan || same_dc == Some(false) {
        return Tier(4);
    }
    match class {
        LinkClass::Die => Tier(0),
        LinkClass::NvLink | LinkClass::Xgmi | LinkClass::C2c => Tier(1),
        LinkClass::Pcie | LinkClass::Smp => Tier(2),
        _ => {
            let high =
                |it: &Node| matches!(it.kind, NodeKind::Spine | NodeKind::Ocs | NodeKind::Border);
            let same_rack = both(&from.location.rack, &to.location.rack);
            let same_server = both(&from.location.server, &to.location.server);
            if same_server == Some(true) {
                // An unnamed link inside a server is its GPU fabric, unless it leads to a NIC.
                let plain = |it: &Node| matches!(it.kind, NodeKind::Gpu | NodeKind::NvSwitch);
                return if plain(from) && plain(to) { Tier(1) } else { Tier(2) };
            }
            match same_rack {
                Some(true) => Tier(2),
                Some(false) => Tier(3),
                None if high(from) || high(to) => Tier(3),
                None => Tier(2),
            }
        }
    }
}
