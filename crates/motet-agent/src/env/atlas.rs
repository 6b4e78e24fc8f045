//! [`Atlas`]: the networks and communicators that scenarios use, each built and priced once; [`Split`]: which of them are for
//! training, and which a policy sees for the first time when it is judged.
//!
//! The splits have no network in common, because their numbers of servers and GPUs, rates and latencies
//! differ; a test checks that. Held-out and fresh scenarios also use templates of `motet-net`, and each split
//! has sockets with another number of ranks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use motet_nccl::{Loopback, NcclOptions, NcclTerms, NcclVersion};
use motet_net::Tier;
use motet_net::builders::{Params, find};
use motet_units::{Bandwidth, Duration};

use super::place::{Place, PlaceError};
use super::site::Site;
use crate::state::TopologyClass;
use crate::words::category;

category! {
    /// Whether scenarios are for training or for judging.
    Split {
        Training = "training",
        /// For judging; never trained on.
        HeldOut = "held-out",
        /// For judging, and fixed before any policy was run on it.
        Fresh = "fresh",
    }
}

/// Cost terms of NCCL over sockets on one machine, as fitted by `motet calibrate` with the command in docs/nccl-model.md: per call,
/// per hop inside and between servers, proxy, blocks, rates. The agent's live tests run on such a machine.
pub const SOCKETS: [f64; 15] =
    [0.2215, 14.0, 0.2819, 1.0, 2.5, 5.7, 19.03, 8.5, 29.52, 0.8639, 36.0, 36.7, 36.0, 20.0, 2.769];

/// Which network a place is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    Site(Site),
    /// A template of `motet-net` and how many servers of it, as its parameter says it.
    Template(&'static str, &'static str),
    /// So many processes of one machine over sockets, by fitted terms.
    Sockets(u32),
}

impl Spot {
    /// Its unique name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Site(it) => {
                let inside = if it.nvlink.is_some() { "nvlink" } else { "pcie" };
                let tier = if it.servers == 1 { 1 } else { it.tier.get() };
                let gbits = it.nic.bits_per_s() / 1_000_000_000;
                format!("tier{tier}-{}x{}-{inside}-{}x{gbits}G", it.servers, it.gpus, it.nics)
            }
            Self::Template(name, count) => format!("{name}-{count}"),
            Self::Sockets(ranks) => format!("sockets-{ranks}"),
        }
    }

    fn place(&self) -> Result<Place, PlaceError> {
        let (network, class, options, terms) = match self {
            Self::Site(site) => {
                (site.network()?, TopologyClass::FatTree, NcclOptions::default(), None)
            }
            Self::Template(name, count) => {
                let none = |problem: String| PlaceError::Template { name, problem };
                let params = Params::from_words([count]).map_err(|it| none(it.to_string()))?;
                let template = find(name).map_err(|it| none(it.to_string()))?;
                let network = template.build(&params).map_err(|it| none(it.to_string()))?;
                (network, TopologyClass::FatTree, NcclOptions::default(), None)
            }
            Self::Sockets(ranks) => {
                let network = Loopback { ranks: *ranks, ..Loopback::default() }.network()?;
                // The NCCL version of the machine that was measured.
                let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
                let terms = Some(NcclTerms::from_values(&SOCKETS));
                (network, TopologyClass::Mixed, options, terms)
            }
        };
        Place::new(self.name(), network, class, options, terms)
    }
}

/// A cluster at a tier: number of servers, GPUs per server, compute capability, GB/s of NVLink (0: none), NICs per server, Gbit/s
/// of each NIC, Gbit/s of the uplink, µs of latency of the tier's links.
type Row = (u8, u32, u32, u32, u64, u32, u64, u64, u64);

const TRAINING: [Row; 11] = [
    (1, 1, 4, 80, 300, 1, 100, 100, 1),
    (1, 1, 8, 90, 450, 1, 100, 100, 1),
    (2, 2, 4, 80, 300, 2, 100, 100, 1),
    (2, 4, 2, 70, 0, 1, 100, 100, 2),
    (2, 4, 1, 80, 0, 1, 25, 25, 5),
    (2, 2, 8, 90, 450, 4, 200, 200, 1),
    (3, 4, 2, 80, 300, 1, 100, 50, 10),
    (3, 8, 1, 80, 0, 1, 50, 25, 20),
    (4, 2, 2, 80, 300, 1, 50, 10, 1000),
    (4, 4, 1, 80, 0, 1, 25, 5, 2000),
    (4, 2, 4, 90, 450, 2, 100, 25, 500),
];

const HELD_OUT: [Row; 8] = [
    (1, 1, 6, 90, 360, 1, 40, 40, 1),
    (2, 3, 4, 80, 240, 2, 40, 40, 3),
    (2, 6, 1, 90, 0, 1, 56, 56, 4),
    (3, 3, 2, 80, 0, 1, 40, 20, 15),
    (3, 6, 2, 90, 360, 1, 80, 40, 8),
    (3, 12, 1, 80, 0, 1, 40, 20, 12),
    (4, 3, 2, 80, 240, 1, 40, 8, 1500),
    (4, 6, 1, 80, 0, 1, 40, 4, 700),
];

const FRESH: [Row; 7] = [
    (1, 1, 2, 90, 420, 1, 10, 10, 1),
    (2, 5, 2, 80, 200, 1, 10, 10, 6),
    (2, 10, 1, 80, 0, 1, 30, 30, 3),
    (3, 5, 1, 90, 0, 1, 30, 15, 25),
    (3, 7, 2, 80, 200, 1, 30, 15, 6),
    (4, 5, 1, 80, 0, 1, 10, 3, 3000),
    (4, 2, 2, 90, 420, 1, 30, 6, 300),
];

const FAR: Tier = match Tier::new(4) {
    Some(tier) => tier,
    // There are five tiers.
    None => unreachable!(),
};

fn site(row: &Row) -> Spot {
    let (tier, servers, gpus, sm, nvlink, nics, nic, uplink, latency) = *row;
    Spot::Site(Site {
        tier: Tier::new(tier).unwrap_or(FAR),
        servers,
        gpus,
        sm,
        nvlink: (nvlink > 0).then(|| Bandwidth::gb_per_s(nvlink)),
        nics,
        nic: Bandwidth::gbit_per_s(nic),
        uplink: Bandwidth::gbit_per_s(uplink),
        latency: Duration::from_us(latency),
    })
}

/// The spots of a split whose worst tier is this.
#[must_use]
pub fn spots(split: Split, tier: u8) -> Vec<Spot> {
    let (rows, templates): (&[Row], &[(u8, Spot)]) = match split {
        Split::Training => (&TRAINING, &[]),
        Split::HeldOut => (
            &HELD_OUT,
            &[
                (1, Spot::Template("dgx-a100", "count=1")),
                (2, Spot::Template("v100-x4", "count=3")),
                (2, Spot::Template("dgx-h100", "count=2")),
            ],
        ),
        Split::Fresh => (&FRESH, &[(1, Spot::Template("dgx-h100", "count=1"))]),
    };
    let named = templates.iter().filter(|it| it.0 == tier).map(|it| it.1);
    rows.iter().filter(|it| it.0 == tier).map(site).chain(named).collect()
}

/// Processes of one machine over sockets; each split has another number of them.
#[must_use]
pub const fn sockets(split: Split) -> Spot {
    Spot::Sockets(match split {
        Split::Training => 4,
        Split::HeldOut => 8,
        Split::Fresh => 6,
    })
}

/// A cache of places, shared by all scenarios.
#[derive(Debug, Default)]
pub struct Atlas {
    places: Mutex<BTreeMap<(Spot, bool), Arc<Place>>>,
}

impl Atlas {
    /// The place of a spot. With `in_network` its switches reduce by themselves.
    pub fn place(&self, spot: Spot, in_network: bool) -> Result<Arc<Place>, PlaceError> {
        let key = (spot, in_network);
        let known =
            self.places.lock().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone);
        if let Some(place) = known {
            return Ok(place);
        }
        let mut place = spot.place()?;
        place.topology.in_network = in_network;
        let place = Arc::new(place);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have made it meanwhile; all must share one.
        Ok(Arc::clone(places.entry(key).or_insert(place)))
    }
}
