//! How far optical rails reach: GPUs by switch technology (Opus, Table 3).
//!
//! A rail connects the GPUs with the same place in every scale-up domain by one optical switch. Every domain
//! takes some of the switch's ports ([`Wiring::taken`]), so these limit how many domains there can be. The
//! larger a domain, the more GPUs a switch reaches.

use motet_units::Duration;

/// A kind of optical circuit switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpticalSwitch {
    pub technology: &'static str,
    pub maker: &'static str,
    /// Time to change from one set of circuits to another, counting the optics alone.
    pub reconfiguration: Duration,
    pub ports: u32,
}

/// The switches of Opus' Table 3, with its figures.
pub const KNOWN: [OpticalSwitch; 7] = [
    known("PLZT", "EpiPhotonics", Duration::from_ns(10), 16),
    known("SiP", "Lightmatter", Duration::from_us(7), 32),
    known("RotorNet", "InFocus", Duration::from_us(10), 128),
    known("3D MEMS", "Calient", Duration::from_ms(15), 320),
    known("Piezo", "Polatis", Duration::from_ms(25), 576),
    known("Liquid crystal", "Coherent", Duration::from_ms(100), 512),
    known("Robotic", "Telescent", Duration::from_ms(120_000), 1008),
];

const fn known(
    technology: &'static str,
    maker: &'static str,
    reconfiguration: Duration,
    ports: u32,
) -> OpticalSwitch {
    OpticalSwitch { technology, maker, reconfiguration, ports }
}

/// How NICs are connected to a rail's optical switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// Ports of a GPU's NIC; two are what a ring needs.
    pub ports: u32,
    /// One fibre carries both directions (bidirectional transceivers), and takes one port of the switch instead of
    /// two.
    pub bidirectional: bool,
    /// Each port of the NIC goes to a switch of its own. Each switch then reaches more domains, by a factor
    /// of `ports`, but connects only ports of the same number: rings alternate between the switches and must
    /// be of even length.
    pub planes: bool,
}

impl Default for Wiring {
    /// Opus': two ports, bidirectional transceivers, one switch per rail.
    fn default() -> Self {
        Self { ports: 2, bidirectional: true, planes: false }
    }
}

impl Wiring {
    /// Ports that one GPU takes of one optical switch.
    #[must_use]
    pub const fn taken(&self) -> u32 {
        let ports = if self.planes { 1 } else { self.ports };
        ports * if self.bidirectional { 1 } else { 2 }
    }

    /// Optical switches of a rail.
    #[must_use]
    pub const fn switches(&self) -> u32 {
        if self.planes { self.ports } else { 1 }
    }

    /// How many GPUs a switch with so many ports can connect, with `domain` GPUs per scale-up domain.
    #[must_use]
    pub fn gpus(&self, switch_ports: u32, domain: u32) -> u64 {
        u64::from(switch_ports / self.taken().max(1)) * u64::from(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opus' Table 3, all of it.
    #[test]
    fn table_3() {
        let published = [
            (576, 64),
            (1152, 128),
            (4608, 512),
            (11_520, 1280),
            (20_736, 2304),
            (18_432, 2048),
            (36_288, 4032),
        ];
        let wiring = Wiring::default();
        for (switch, (gb200, h200)) in KNOWN.iter().zip(published) {
            assert_eq!(wiring.gpus(switch.ports, 72), gb200, "{}", switch.technology);
            assert_eq!(wiring.gpus(switch.ports, 8), h200, "{}", switch.technology);
        }
    }

    #[test]
    fn fibres_and_planes() {
        let wiring = Wiring::default();
        assert_eq!(Wiring { bidirectional: false, ..wiring }.gpus(576, 8), 1152);
        assert_eq!(Wiring { planes: true, ..wiring }.gpus(576, 8), 4608);
        assert_eq!(Wiring { ports: 4, ..wiring }.gpus(576, 8), 1152);
        assert_eq!(Wiring { ports: 1, ..wiring }.gpus(1, 8), 8);
        assert_eq!(wiring.gpus(1, 8), 0);
    }
}
