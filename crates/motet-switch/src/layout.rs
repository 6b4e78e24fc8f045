//! [`Layout`]: the mapping between the controller's port numbers and the device's own ports.
//!
//! To the controller a switch has ports 0, 1, 2 …, any two of which can be joined by a circuit that carries light both ways. Devices
//! know *cross-connections* from an input to an output, and number their ports from 1. Two wirings are in use:
//!
//! - *bidirectional*: one fibre carries both directions (bidirectional transceivers or circulators), and a circuit is one
//!   cross-connection, whichever of its ends the device calls the input. That is the wiring of Opus' Table 3.
//! - *duplex*: every one of our ports is a pair of fibres, one into an input and one out of an output of the
//!   device, and a circuit is two cross-connections; one of them alone is not a circuit.

use motet_control::{Circuit, SwitchId};
use serde::{Deserialize, Serialize};

/// A cross-connection of the device's own ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cross {
    pub input: u32,
    pub output: u32,
}

impl std::fmt::Display for Cross {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}→{}", self.input, self.output)
    }
}

/// How each of our ports is wired to the device; the [module](self) defines the two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wiring {
    #[default]
    Bidirectional,
    Duplex,
}

/// Which ports of the device our ports are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub wiring: Wiring,
    /// How many ports we have.
    pub ports: u32,
    /// The device's port that is our port 0, or its input.
    pub first: u32,
    /// With duplex wiring, the device's output that is our port 0.
    pub first_output: u32,
}

impl Layout {
    /// Ports 1, 2, 3 … of the device, any of which can be joined.
    #[must_use]
    pub const fn bidirectional(ports: u32) -> Self {
        Self { wiring: Wiring::Bidirectional, ports, first: 1, first_output: 1 }
    }

    /// Inputs from 1 on, and outputs numbered after the last input, as matrix switches count.
    #[must_use]
    pub const fn duplex(ports: u32) -> Self {
        Self { wiring: Wiring::Duplex, ports, first: 1, first_output: 1 + ports }
    }

    /// The device's input of one of our ports.
    #[must_use]
    pub const fn input(&self, number: u32) -> u32 {
        self.first.saturating_add(number)
    }

    /// The device's output of one of our ports.
    #[must_use]
    pub const fn output(&self, number: u32) -> u32 {
        match self.wiring {
            Wiring::Bidirectional => self.first.saturating_add(number),
            Wiring::Duplex => self.first_output.saturating_add(number),
        }
    }

    /// Which of our ports an input of the device is.
    #[must_use]
    pub fn of_input(&self, device: u32) -> Option<u32> {
        device.checked_sub(self.first).filter(|it| *it < self.ports)
    }

    /// Which of our ports an output of the device is.
    #[must_use]
    pub fn of_output(&self, device: u32) -> Option<u32> {
        device.checked_sub(self.output(0)).filter(|it| *it < self.ports)
    }

    /// The cross-connections that a circuit is made of.
    pub fn crosses(&self, circuit: &Circuit) -> impl Iterator<Item = Cross> + use<> {
        let [a, b] = circuit.numbers();
        let there = Cross { input: self.input(a), output: self.output(b) };
        let back = Cross { input: self.input(b), output: self.output(a) };
        [Some(there), (self.wiring == Wiring::Duplex).then_some(back)].into_iter().flatten()
    }

    /// The circuit that a cross-connection makes, alone or with its reverse. `None` if one of its ends is not
    /// ours, or both are the same port.
    #[must_use]
    pub fn circuit(&self, switch: SwitchId, cross: Cross) -> Option<Circuit> {
        Circuit::new(switch, self.of_input(cross.input)?, self.of_output(cross.output)?)
    }

    /// A unique form of a cross-connection: with bidirectional wiring, both directions between two ports are
    /// the same.
    #[must_use]
    pub fn canonical(&self, cross: Cross) -> Cross {
        match self.wiring {
            Wiring::Bidirectional => Cross {
                input: cross.input.min(cross.output),
                output: cross.input.max(cross.output),
            },
            Wiring::Duplex => cross,
        }
    }
}
