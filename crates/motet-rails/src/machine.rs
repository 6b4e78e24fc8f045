//! [`Machine`]: how the GPUs of a job are connected, in the few figures that planning rails needs.

use motet_units::{Bandwidth, Duration};
use motet_workload::Placement;

/// The connection of one GPU to a network, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wire {
    pub bandwidth: Bandwidth,
    /// End-to-end latency from one GPU to another.
    pub latency: Duration,
}

/// The connections of each GPU: scale-up links, one NIC on its rail, and a share of its host's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// GPUs per scale-up domain, which is also the number of rails.
    pub domain: u32,
    pub scale_up: Wire,
    pub rail: Wire,
    pub host: Wire,
}

/// Latencies are those of Motet's own templates of servers (`motet net gen --list`): between GPUs over
/// NVSwitch, and over a NIC, a leaf and a NIC. The host's network goes through the kernel.
const SCALE_UP: Duration = Duration::from_ns(700);
const RAIL: Duration = Duration::from_ns(2600);
const HOST: Duration = Duration::from_us(20);

/// Machines by name: GPUs per domain, GB/s of scale-up, Gbit/s of a NIC, Gbit/s of a GPU's share of the
/// host's NIC.
///
/// `perlmutter` is what Opus measured on: four A100, each with NVLink 3.0 (12 links of 25 GB/s) and a
/// Slingshot 11 NIC of 200 Gbit/s. There the same NICs serve as the host's; a packet network beside optical rails
/// would have to be added, at a modest 25 Gbit/s per GPU. The DGX have two 200 Gbit/s (A100) or 400 Gbit/s ports for
/// storage and management, shared by eight GPUs; NVIDIA's data sheets.
const KNOWN: [(&str, u32, u64, u64, u64); 5] = [
    ("perlmutter", 4, 300, 200, 25),
    ("dgx-a100", 8, 300, 200, 50),
    ("dgx-h100", 8, 450, 400, 100),
    ("dgx-h200", 8, 450, 400, 100),
    ("gb200-nvl72", 72, 900, 400, 100),
];

impl Machine {
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (_, domain, scale_up, rail, host) = KNOWN.into_iter().find(|it| it.0 == name)?;
        Some(Self {
            domain,
            scale_up: Wire { bandwidth: Bandwidth::gb_per_s(scale_up), latency: SCALE_UP },
            rail: Wire { bandwidth: Bandwidth::gbit_per_s(rail), latency: RAIL },
            host: Wire { bandwidth: Bandwidth::gbit_per_s(host), latency: HOST },
        })
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.into_iter().map(|it| it.0)
    }

    #[must_use]
    pub const fn placement(&self) -> Placement {
        Placement { domain: self.domain }
    }
}
