//! What a network of GPUs costs and how much power it takes: packet-switched designs beside optical rails (Opus,
//! Fig. 7).
//!
//! [`bill`] counts the parts of a design without oversubscription, [`Prices`] says what a part costs. Fibres are not
//! counted, as in the paper. Counts are whole parts, so small networks pay for switches that are partly empty.
//!
//! A fibre needs a transceiver at each end that is a NIC or a packet switch. An optical switch passes light through and needs none, so
//! with optical rails each NIC port has the only transceiver. A packet switch's own power is counted apart from that of the
//! transceivers in it.

use std::fmt;

use motet_workload::Refusal;

use crate::scale::Wiring;

/// Whole dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dollars(pub u64);

/// Power, in whole milliwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watts {
    milliwatts: u64,
}

impl Watts {
    /// Rounded to the nearest milliwatt; negative numbers become 0.
    #[must_use]
    pub fn of(watts: f64) -> Self {
        Self { milliwatts: (watts * 1e3).round() as u64 }
    }

    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.milliwatts as f64 / 1e3
    }
}

/// The price and power of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub price: Dollars,
    pub power: Watts,
    /// The source of the figures.
    pub source: String,
}

/// A packet switch without its transceivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPart {
    pub ports: u32,
    pub part: Part,
}

/// An optical circuit switch, whose price is given per port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpticalPart {
    pub ports: u32,
    pub port_price: Dollars,
    /// The power of the whole switch.
    pub power: Watts,
    pub source: String,
}

/// Prices and powers of all parts, read by [`formats::prices_toml`](crate::formats::prices_toml).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    pub transceiver: Part,
    pub packet_switch: PacketPart,
    pub optical_switch: OpticalPart,
    pub nic: Part,
}

/// A network design for connecting the GPUs of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// A Clos network over all GPUs.
    FatTree,
    /// The same, but each leaf serves one rail.
    RailOptimized,
    /// A Clos network for each rail; between rails traffic goes through servers.
    RailOnly,
    /// One optical switch for each rail.
    Photonic,
}

impl Design {
    pub const ALL: [Self; 4] = [Self::FatTree, Self::RailOptimized, Self::RailOnly, Self::Photonic];
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FatTree => "fat tree",
            Self::RailOptimized => "rail-optimized",
            Self::RailOnly => "rail-only",
            Self::Photonic => "photonic rails",
        })
    }
}

/// How many parts of each kind a network needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// Tiers of packet switches.
    pub tiers: u32,
    pub nics: u64,
    pub transceivers: u64,
    pub packet_switches: u64,
    pub optical_switches: u64,
    /// Ports of optical switches that are in use.
    pub optical_ports: u64,
}

/// The size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub gpus: u64,
    /// GPUs per server, which is also the number of rails.
    pub domain: u32,
    pub wiring: Wiring,
}

/// The bill of materials of a design.
pub fn bill(design: Design, cluster: &Cluster, prices: &Prices) -> Result<Bill, Refusal> {
    let Cluster { gpus, domain, wiring } = *cluster;
    let rails = u64::from(domain.max(1));
    if gpus == 0 || !gpus.is_multiple_of(rails) {
        let below = gpus / rails * rails;
        let nearest =
            if below == 0 { rails.to_string() } else { format!("{below} or {}", below + rails) };
        return Err(Refusal {
            problem: format!("{gpus} GPUs are no whole number of servers with {rails} each"),
            nearest: format!("choose {nearest}"),
        });
    }
    let ports = u64::from(prices.packet_switch.ports);
    let servers = gpus / rails;
    let bill = match design {
        Design::FatTree => clos(gpus, ports, &[gpus])?,
        Design::RailOptimized => clos(gpus, ports, &vec![servers; domain as usize])?,
        Design::RailOnly => {
            let rail = clos(servers, ports, &[servers])?;
            Bill {
                transceivers: rail.transceivers * rails,
                packet_switches: rail.packet_switches * rails,
                ..rail
            }
        }
        Design::Photonic => {
            let most = wiring.gpus(prices.optical_switch.ports, domain);
            if gpus > most {
                let problem = format!(
                    "optical switches of {} ports reach {most} GPUs, not {gpus}",
                    prices.optical_switch.ports
                );
                let nearest = format!("choose {most} GPUs or fewer, or switches with more ports");
                return Err(Refusal { problem, nearest });
            }
            Bill {
                transceivers: gpus,
                optical_switches: rails * u64::from(wiring.switches()),
                optical_ports: gpus * u64::from(wiring.taken() * wiring.switches()),
                ..Bill::default()
            }
        }
    };
    Ok(Bill { nics: gpus, ..bill })
}

/// A Clos network without oversubscription over `hosts`; each leaf serves hosts of only one of the `parts` (rails).
fn clos(hosts: u64, ports: u64, parts: &[u64]) -> Result<Bill, Refusal> {
    let half = ports / 2;
    let leaves: u64 = parts.iter().map(|it| it.div_ceil(half)).sum();
    let (tiers, packet_switches) = if parts.len() == 1 && hosts <= ports {
        (1, 1)
    } else if leaves <= ports {
        // Two tiers: every leaf has as many uplinks as hosts, spread over all spines.
        (2, leaves + hosts.div_ceil(ports))
    } else if leaves <= ports * half {
        // Three tiers: pods with as many leaves as aggregation switches.
        (3, 2 * leaves + hosts.div_ceil(ports))
    } else {
        let most = ports * half * half;
        return Err(Refusal {
            problem: format!("three tiers of {ports}-port switches do not reach {hosts} ports"),
            nearest: format!("choose {most} or fewer, or switches with more ports"),
        });
    };
    let transceivers = 2 * u64::from(tiers) * hosts;
    Ok(Bill { tiers, transceivers, packet_switches, ..Bill::default() })
}

/// The total cost and power of a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub price: Dollars,
    pub power: Watts,
}

impl Bill {
    #[must_use]
    pub const fn total(&self, prices: &Prices, count_nics: bool) -> Total {
        let nics = if count_nics { self.nics } else { 0 };
        let (switch, optical) = (&prices.packet_switch.part, &prices.optical_switch);
        let price = self.transceivers * prices.transceiver.price.0
            + self.packet_switches * switch.price.0
            + self.optical_ports * optical.port_price.0
            + nics * prices.nic.price.0;
        let milliwatts = self.transceivers * prices.transceiver.power.milliwatts
            + self.packet_switches * switch.power.milliwatts
            + self.optical_switches * optical.power.milliwatts
            + nics * prices.nic.power.milliwatts;
        Total { price: Dollars(price), power: Watts { milliwatts } }
    }
}

/// How much less `new` is than `old`, as a share of `old`.
#[must_use]
pub fn saving(new: f64, old: f64) -> f64 {
    if old > 0.0 { 1.0 - new / old } else { 0.0 }
}

/// The price of an optical port at which photonic rails cost this share less than the packet network. All
/// other prices stay as they are, and NICs are not counted; negative if no price is low enough.
#[must_use]
pub fn optical_port_price(share: f64, photonic: &Bill, packet: &Bill, prices: &Prices) -> f64 {
    let free = Prices {
        optical_switch: OpticalPart { port_price: Dollars(0), ..prices.optical_switch.clone() },
        ..prices.clone()
    };
    let rest = photonic.total(&free, false).price.0 as f64;
    let packet = packet.total(prices, false).price.0 as f64;
    ((1.0 - share) * packet - rest) / photonic.optical_ports.max(1) as f64
}

/// The power of a packet switch at which photonic rails take this share less power than the packet network;
/// NICs are not counted.
#[must_use]
pub fn packet_switch_power(share: f64, photonic: &Bill, packet: &Bill, prices: &Prices) -> f64 {
    let mut free = prices.clone();
    free.packet_switch.part.power = Watts::default();
    let rest = packet.total(&free, false).power.as_f64();
    let photonic = photonic.total(prices, false).power.as_f64();
    (photonic / (1.0 - share) - rest) / packet.packet_switches.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::prices_toml;

    fn prices() -> Prices {
        prices_toml::read(prices_toml::DEFAULT).unwrap_or_else(|it| unreachable!("{it}"))
    }

    fn of(design: Design, gpus: u64) -> Bill {
        let cluster = Cluster { gpus, domain: 8, wiring: Wiring::default() };
        bill(design, &cluster, &prices()).unwrap_or_else(|it| unreachable!("{}", it.problem))
    }

    #[test]
    fn counts_of_full_networks() {
        // The known sizes of a Clos network of 64-port switches: 3n/k and 5n/k switches.
        let two = of(Design::FatTree, 2048);
        assert_eq!(
            (two.tiers, two.packet_switches, two.transceivers),
            (2, 3 * 2048 / 64, 4 * 2048)
        );
        let three = of(Design::FatTree, 65_536);
        assert_eq!((three.tiers, three.packet_switches), (3, 5 * 65_536 / 64));
        assert_eq!(three.transceivers, 6 * 65_536);
        assert_eq!(of(Design::FatTree, 64).packet_switches, 1);
        let rail = of(Design::RailOnly, 512);
        assert_eq!((rail.tiers, rail.packet_switches, rail.transceivers), (1, 8, 1024));
        assert_eq!(of(Design::RailOptimized, 2048), two);
        let photonic = of(Design::Photonic, 2304);
        assert_eq!((photonic.transceivers, photonic.optical_switches), (2304, 8));
        assert_eq!((photonic.optical_ports, photonic.packet_switches), (4608, 0));
    }

    /// The third tier comes above half the square of a switch's ports.
    #[test]
    fn tiers() {
        assert_eq!(of(Design::FatTree, 2056).tiers, 3);
        assert_eq!(of(Design::RailOnly, 2304).tiers, 2);
        let leaves_of_their_own = of(Design::RailOptimized, 72);
        assert_eq!((leaves_of_their_own.tiers, leaves_of_their_own.packet_switches), (2, 8 + 2));
    }

    #[test]
    fn what_is_too_large_or_odd_is_refused_with_the_nearest() {
        let bill = |design, gpus| {
            let cluster = Cluster { gpus, domain: 8, wiring: Wiring::default() };
            bill(design, &cluster, &prices()).map_err(|it| it.nearest)
        };
        assert_eq!(bill(Design::FatTree, 100), Err("choose 96 or 104".to_owned()));
        assert_eq!(bill(Design::FatTree, 0), Err("choose 8".to_owned()));
        let nearest = "choose 2304 GPUs or fewer, or switches with more ports".to_owned();
        assert_eq!(bill(Design::Photonic, 2312), Err(nearest));
        assert!(bill(Design::FatTree, 65_544).is_err());
    }

    /// The two solutions give the share they were asked for.
    #[test]
    fn prices_and_powers_at_which_a_share_is_saved() {
        let (photonic, packet) = (of(Design::Photonic, 2304), of(Design::FatTree, 2304));
        let mut prices = prices();
        let price = optical_port_price(0.705, &photonic, &packet, &prices);
        prices.optical_switch.port_price = Dollars(price.round() as u64);
        let power = packet_switch_power(0.9584, &photonic, &packet, &prices);
        prices.packet_switch.part.power = Watts::of(power);
        let (new, old) = (photonic.total(&prices, false), packet.total(&prices, false));
        assert!((saving(new.price.0 as f64, old.price.0 as f64) - 0.705).abs() < 1e-3);
        assert!((saving(new.power.as_f64(), old.power.as_f64()) - 0.9584).abs() < 1e-5);
    }
}
