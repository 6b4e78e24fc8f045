//! [`System`]: one NCCL node as NCCL sees it: devices, duplex wires with NCCL's bandwidths, GPUs
//! and network interfaces in order.
//!
//! NCCL reads this from the machine; [`drawing`](super::drawing) makes one of a network, and
//! [`supplement`](super::supplement) adds what a network does not say. Bandwidths are integers in
//! MB/s, so that the search adds and subtracts them exactly. Next: [`paths`](super::paths).

use motet_net::Network;

use super::NcclError;
use super::drawing::Drawing;
use super::kinds::Cpu;
use super::options::NcclOptions;
use super::partition::Part;

/// The most GPUs, or NICs, of a node: more than any NVLink domain has.
pub(super) const MAX_DEVICES: usize = 288;

/// The kind of a device; GPUs and networks with their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Gpu(usize),
    /// The network beyond a NIC.
    Net(usize),
    Nic,
    Nvs,
    Pci,
    Cpu,
}

/// The kind of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wire {
    NvLink,
    C2c,
    Pci,
    Sys,
    Net,
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) wire: Wire,
    pub(super) mbps: i64,
    pub(super) reverse: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) device: usize,
    pub(super) sm: u32,
    /// Its server, within an NVLink domain of several.
    pub(super) host: usize,
    /// Its number in that server.
    pub(super) dev: usize,
    pub(super) direct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) device: usize,
    pub(super) mbps: i64,
    /// Microseconds.
    pub(super) latency: f64,
    /// Interfaces of one chip and port share its bandwidth.
    pub(super) port: usize,
    pub(super) direct: bool,
}

/// One NCCL node. Two equal ones have the same graphs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct System {
    pub(super) devices: Vec<Device>,
    pub(super) edges: Vec<Edge>,
    /// Edges out of each device.
    pub(super) out: Vec<Vec<usize>>,
    pub(super) gpus: Vec<Gpu>,
    pub(super) nets: Vec<Interface>,
    pub(super) cpus: Vec<usize>,
    pub(super) nvs: Option<usize>,
    pub(super) cpu: Cpu,
    pub(super) hosts: usize,
    pub(super) nvls: bool,
    /// Whether the communicator reaches beyond this node.
    pub(super) inter: bool,
}

impl System {
    pub(super) fn min_sm(&self) -> u32 {
        self.gpus.iter().map(|it| it.sm).min().unwrap_or(0)
    }

    pub(super) fn max_sm(&self) -> u32 {
        self.gpus.iter().map(|it| it.sm).max().unwrap_or(0)
    }

    pub(super) fn of(
        network: &Network,
        part: &Part,
        inter: bool,
        options: &NcclOptions,
    ) -> Result<Self, NcclError> {
        if part.gpus.len() > MAX_DEVICES || part.members.len() > 16 * MAX_DEVICES {
            return Err(NcclError::TooManyGpus { gpus: part.gpus.len(), most: MAX_DEVICES });
        }
        let mut drawing = Drawing::new(network, part, inter, options);
        drawing.add_devices();
        drawing.add_wires();
        drawing.supplement();
        drawing.add_interfaces();
        drawing.finish()
    }

    pub(super) fn device(&mut self, device: Device) -> usize {
        self.devices.push(device);
        self.out.push(Vec::new());
        if device == Device::Cpu {
            self.cpus.push(self.devices.len() - 1);
        }
        self.devices.len() - 1
    }

    pub(super) fn wire(&mut self, a: usize, b: usize, wire: Wire, there: i64, back: i64) {
        let first = self.edges.len();
        self.edges.push(Edge { from: a, to: b, wire, mbps: there, reverse: first + 1 });
        self.edges.push(Edge { from: b, to: a, wire, mbps: back, reverse: first });
        self.out[a].push(first);
        self.out[b].push(first + 1);
    }

    /// The first wanted device that a wire of this kind leads to.
    pub(super) fn neighbour(
        &self,
        device: usize,
        wire: Wire,
        wanted: impl Fn(Device) -> bool,
    ) -> Option<usize> {
        let edges = self.out[device].iter().map(|it| &self.edges[*it]);
        edges.filter(|it| it.wire == wire).map(|it| it.to).find(|it| wanted(self.devices[*it]))
    }
}
