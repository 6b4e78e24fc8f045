//! [`Switching`]: the ports, switching delay and control policy of optical rails.

use motet_units::{Bandwidth, Bytes, Duration};

/// A NIC's ports, each a transceiver that sends and receives over one fibre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub count: u32,
    pub each: Bandwidth,
}

impl Ports {
    /// A NIC's bandwidth divided into `count` equal ports: 1×400, 2×200 or 4×100 Gbit/s for a ConnectX-7.
    #[must_use]
    pub const fn of(nic: Bandwidth, count: u32) -> Self {
        let parts = if count == 0 { 1 } else { count as u64 };
        Self { count, each: Bandwidth::from_bits_per_s(nic.bits_per_s() / parts) }
    }

    /// The bandwidth of so many ports together.
    #[must_use]
    pub const fn bandwidth(self, ports: u32) -> Bandwidth {
        self.each.saturating_mul(ports as u64)
    }
}

/// How long a change of circuits takes, from the request to the first data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The request to the controller and its command to the switch.
    pub command: Duration,
    /// The optics: moving mirrors, or what else makes the connection.
    pub optics: Duration,
    /// Until the transceivers have re-established the link. Papers leave it out; commodity optics take seconds.
    pub link_up: Duration,
}

impl Delay {
    #[must_use]
    pub const fn optics(time: Duration) -> Self {
        Self { command: Duration::ZERO, optics: time, link_up: Duration::ZERO }
    }

    #[must_use]
    pub fn total(&self) -> Duration {
        self.command + self.optics + self.link_up
    }
}

/// Which circuits are changed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// The circuits of one communication group; ports of other groups are not touched.
    Group,
    /// All circuits of a rail, which then serves one parallelism at a time, on all stages.
    Rail,
}

/// Optical rails that change circuits during a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switching {
    pub ports: u32,
    pub delay: Delay,
    /// Whether circuits for the next call are requested as soon as the call before it has ended, because the
    /// steps before have shown which call that is. Otherwise they are requested when the call wants to start.
    pub provisioned: bool,
    pub granularity: Granularity,
    /// AllReduces of up to this size go over the host's packet network instead of the rails.
    pub offload: Option<Bytes>,
}

impl Switching {
    /// Two ports, as in Opus' Table 3, changed per group, with everything on the rails.
    #[must_use]
    pub const fn new(delay: Delay, provisioned: bool) -> Self {
        Self { ports: 2, delay, provisioned, granularity: Granularity::Group, offload: None }
    }
}
