//! [`Circuit`]: a connection of two ports of one optical switch, and the circuits that make a ring.

use serde::{Deserialize, Serialize};

/// An optical switch.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SwitchId(pub u32);

impl std::fmt::Display for SwitchId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "switch {}", self.0)
    }
}

/// A port of an optical switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    pub switch: SwitchId,
    pub number: u32,
}

impl Port {
    #[must_use]
    pub const fn new(switch: u32, number: u32) -> Self {
        Self { switch: SwitchId(switch), number }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "port {} of {}", self.number, self.switch)
    }
}

/// A connection between two ports of one switch, for light in both directions. The ports are kept in ascending order, so that
/// equal circuits compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Circuit {
    pub switch: SwitchId,
    ports: [u32; 2],
}

impl Circuit {
    /// The circuit between ports `a` and `b`; `None` if they are the same port.
    #[must_use]
    pub fn new(switch: SwitchId, a: u32, b: u32) -> Option<Self> {
        (a != b).then(|| Self { switch, ports: [a.min(b), a.max(b)] })
    }

    /// The numbers of both ports, the lower one first.
    #[must_use]
    pub const fn numbers(&self) -> [u32; 2] {
        self.ports
    }

    #[must_use]
    pub fn ends(&self) -> [Port; 2] {
        self.ports.map(|number| Port { switch: self.switch, number })
    }
}

impl std::fmt::Display for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}–{} of {}", self.ports[0], self.ports[1], self.switch)
    }
}

/// The circuits of a ring over stations (hosts or GPUs) that are plugged into one switch; `stations` has the port numbers of each.
/// Two stations are joined by as many parallel circuits as the one with fewer ports allows; of three or more, each uses half of its
/// ports toward the station before it and half toward the one after. `None` if a station has too few ports for that.
#[must_use]
pub fn ring(switch: SwitchId, stations: &[&[u32]]) -> Option<Vec<Circuit>> {
    let fewest = stations.iter().map(|it| it.len()).min().unwrap_or(0);
    match stations {
        [] | [_] => Some(Vec::new()),
        [a, b] => {
            let pairs = a.iter().zip(*b);
            (fewest > 0).then_some(())?;
            pairs.map(|(x, y)| Circuit::new(switch, *x, *y)).collect()
        }
        _ => {
            let width = fewest / 2;
            (width > 0).then_some(())?;
            let mut all = Vec::new();
            for (at, ports) in stations.iter().enumerate() {
                let next = stations[(at + 1) % stations.len()];
                // Each station's lower ports face the station before it, its upper ports the one after.
                let pairs = ports.iter().skip(width).zip(next).take(width);
                for (x, y) in pairs {
                    all.push(Circuit::new(switch, *x, *y)?);
                }
            }
            Some(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_ring_takes_every_port_once() {
        let stations: [&[u32]; 4] = [&[0, 1], &[2, 3], &[4, 5], &[6, 7]];
        let all = ring(SwitchId(0), &stations).unwrap();
        let ports: BTreeSet<u32> = all.iter().flat_map(Circuit::numbers).collect();
        assert_eq!((all.len(), ports.len()), (4, 8));
    }

    #[test]
    fn two_stations_are_joined_by_all_their_ports() {
        let all = ring(SwitchId(0), &[&[0, 1], &[2, 3]]).unwrap();
        assert_eq!(all.iter().map(Circuit::numbers).collect::<Vec<_>>(), [[0, 2], [1, 3]]);
    }

    #[test]
    fn a_ring_of_three_needs_two_ports_each() {
        assert_eq!(ring(SwitchId(0), &[&[0], &[1], &[2]]), None);
        assert_eq!(Circuit::new(SwitchId(0), 3, 3), None);
    }
}
