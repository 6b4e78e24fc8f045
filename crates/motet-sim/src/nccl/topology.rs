//! [`System`]: one NCCL node as NCCL sees it: devices, duplex wires with NCCL's bandwidths, GPUs
//! and network interfaces in order.
//!
//! NCCL reads this from the machine. Where a network says less (a flat template has neither CPUs
//! nor NICs), the rest is drawn as the boxes on sale have it: a CPU per server, a PCIe switch for
//! each GPU with its port. Bandwidths are integers in MB/s, so that the search adds and
//! subtracts them exactly. Next: [`paths`](super::paths).

use std::collections::BTreeMap;

use motet_net::{Network, Node, NodeKind};
use motet_units::{Bandwidth, NodeId};

use super::NcclError;
use super::constants::{PCI_MBPS, UNKNOWN_NET_MBPS, nvlink_mbps};
use super::kinds::{Cpu, CpuArch, CpuVendor};
use super::options::NcclOptions;
use super::partition::{Part, inside};

/// More GPUs or NICs than any NVLink domain has.
const MAX_DEVICES: usize = 288;

/// What a device is.
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

/// What an edge is.
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
pub(super) struct Net {
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
    pub(super) nets: Vec<Net>,
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
        drawing.add_ports();
        drawing.attach_rest();
        drawing.finish()
    }
}

/// A system in the making.
struct Drawing<'a> {
    network: &'a Network,
    part: &'a Part,
    options: &'a NcclOptions,
    system: System,
    /// The device of each member.
    device_of: BTreeMap<NodeId, usize>,
    /// The number of each server name.
    hosts: BTreeMap<Option<&'a str>, usize>,
    /// The number of each chip and port of a NIC.
    ports: BTreeMap<(String, String), usize>,
}

fn mbps(rate: Bandwidth) -> i64 {
    i64::try_from(rate.bits_per_s() / 8_000_000).unwrap_or(i64::MAX)
}

fn flag(node: &Node, key: &str) -> Option<bool> {
    Some(node.properties.get(key)?.as_str() != "0")
}

impl<'a> Drawing<'a> {
    fn new(network: &'a Network, part: &'a Part, inter: bool, options: &'a NcclOptions) -> Self {
        let system = System {
            devices: Vec::new(),
            edges: Vec::new(),
            out: Vec::new(),
            gpus: Vec::new(),
            nets: Vec::new(),
            cpus: Vec::new(),
            nvs: None,
            cpu: Cpu::INTEL,
            hosts: 1,
            nvls: false,
            inter,
        };
        let (device_of, hosts, ports) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { network, part, options, system, device_of, hosts, ports }
    }

    fn device(&mut self, device: Device) -> usize {
        self.system.devices.push(device);
        self.system.out.push(Vec::new());
        self.system.devices.len() - 1
    }

    fn wire(&mut self, a: usize, b: usize, wire: Wire, there: i64, back: i64) {
        let first = self.system.edges.len();
        self.system.edges.push(Edge { from: a, to: b, wire, mbps: there, reverse: first + 1 });
        self.system.edges.push(Edge { from: b, to: a, wire, mbps: back, reverse: first });
        self.system.out[a].push(first);
        self.system.out[b].push(first + 1);
    }

    fn host(&mut self, node: &'a Node) -> usize {
        let next = self.hosts.len();
        *self.hosts.entry(node.location.server.as_deref()).or_insert(next)
    }

    fn add_devices(&mut self) {
        let network = self.network;
        for (index, gpu) in self.part.gpus.iter().enumerate() {
            let node = network.node(*gpu);
            let device = self.device(Device::Gpu(index));
            self.device_of.insert(*gpu, device);
            let host = self.host(node);
            let dev = self.system.gpus.iter().filter(|it| it.host == host).count();
            let direct = self.options.gpu_direct.or(flag(node, "gdr")).unwrap_or(true);
            let sm = self.sm(*gpu);
            self.system.gpus.push(Gpu { device, sm, host, dev, direct });
        }
        for id in &self.part.members {
            let node = network.node(*id);
            let device = match node.kind {
                NodeKind::NvSwitch => {
                    let reduces = node.multicast && node.reduces;
                    self.system.nvls |= self.options.nvls.unwrap_or(reduces);
                    match self.system.nvs {
                        Some(switch) => switch,
                        None => self.device(Device::Nvs),
                    }
                }
                NodeKind::PcieSwitch => self.device(Device::Pci),
                NodeKind::Cpu => self.device(Device::Cpu),
                NodeKind::Nic => self.device(Device::Nic),
                _ => continue,
            };
            match self.system.devices[device] {
                Device::Nvs => self.system.nvs = Some(device),
                Device::Cpu => self.system.cpus.push(device),
                _ => {}
            }
            self.device_of.insert(*id, device);
        }
        self.system.hosts = self.hosts.len().max(1);
    }

    /// The compute capability of a GPU: what it says, what the options say, or what its NVLinks
    /// look like.
    fn sm(&self, gpu: NodeId) -> u32 {
        let said = self.network.node(gpu).properties.get("sm").and_then(|it| it.parse().ok());
        if let Some(sm) = said.or(self.options.sm) {
            return sm;
        }
        let links = self.network.outgoing(gpu).iter().map(|it| self.network.link(*it));
        let (mut lanes, mut rate) = (0u32, 0i64);
        for link in links.filter(|it| inside(self.network, it) == Some(Wire::NvLink)) {
            lanes = lanes.saturating_add(link.spec.lanes);
            rate = rate.saturating_add(mbps(link.spec.bandwidth));
        }
        match lanes {
            18.. if rate / i64::from(lanes) >= 40_000 => 100,
            18.. => 90,
            5..=9 => 70,
            4 => 60,
            _ => 80,
        }
    }

    /// Wires between members, both directions and parallel links added up.
    fn add_wires(&mut self) {
        let mut rates: BTreeMap<(usize, usize, Wire), [i64; 2]> = BTreeMap::new();
        let network = self.network;
        for id in &self.part.members {
            for link in network.outgoing(*id).iter().map(|it| network.link(*it)) {
                let Some(wire) = inside(network, link) else { continue };
                let (Some(a), Some(b)) =
                    (self.device_of.get(&link.from), self.device_of.get(&link.to))
                else {
                    continue;
                };
                if a == b {
                    continue;
                }
                let lane = nvlink_mbps(self.lane_sm(*a, *b));
                let rate = if wire == Wire::NvLink && link.spec.lanes > 1 {
                    lane.saturating_mul(i64::from(link.spec.lanes))
                } else {
                    mbps(link.spec.bandwidth)
                };
                let both = rates.entry((*a.min(b), *a.max(b), wire)).or_default();
                let side = &mut both[usize::from(a > b)];
                *side = side.saturating_add(rate);
            }
        }
        for ((a, b, wire), [there, back]) in rates {
            // NCCL knows duplex wires only.
            let fill = |it: i64, other: i64| if it == 0 { other } else { it };
            self.wire(a, b, wire, fill(there, back), fill(back, there));
        }
    }

    /// The generation that sets the speed of NVLinks between two devices.
    fn lane_sm(&self, a: usize, b: usize) -> u32 {
        let sm = |device: usize| match self.system.devices[device] {
            Device::Gpu(gpu) => Some(self.system.gpus[gpu].sm),
            _ => None,
        };
        sm(a).into_iter().chain(sm(b)).min().unwrap_or(80)
    }

    /// Links that lead out of the node, as MB/s out and in.
    fn outside(&self, id: NodeId) -> (i64, i64) {
        let rate = |links: &[motet_units::LinkId]| {
            let links = links.iter().map(|it| self.network.link(*it));
            let out = links.filter(|it| inside(self.network, it).is_none());
            out.fold(0i64, |sum, it| sum.saturating_add(mbps(it.spec.bandwidth)))
        };
        (rate(self.network.outgoing(id)), rate(self.network.incoming(id)))
    }

    /// Network interfaces: NIC nodes, and GPUs that are ports themselves.
    fn add_ports(&mut self) {
        for id in &self.part.members {
            if let (NodeKind::Nic, Some(nic)) =
                (self.network.node(*id).kind, self.device_of.get(id).copied())
            {
                self.add_nic(*id, nic);
            }
        }
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (index, gpu) in self.part.gpus.iter().enumerate() {
            match self.outside(*gpu) {
                (0, 0) => {}
                (rate, 0) => senders.push((index, rate)),
                (0, rate) => receivers.push((index, rate)),
                (out, _) => self.add_port(&[index], out),
            }
        }
        // One GPU sends for a NIC and another receives: both stand at its PCIe switch.
        for ((a, out), (b, _)) in senders.into_iter().zip(receivers) {
            self.add_port(&[a, b], out);
        }
    }

    fn add_nic(&mut self, id: NodeId, nic: usize) {
        let node = self.network.node(id);
        let property = |key: &str| node.properties.get(key).map(String::as_str);
        let (out, back) = self.outside(id);
        let written = || Some(mbps(property("bandwidth")?.parse::<Bandwidth>().ok()?));
        let megabits = || property("speed")?.parse::<i64>().ok().map(|it| it / 8);
        let rate = Some(out.max(back)).filter(|it| *it > 0).or_else(written).or_else(megabits);
        let guid = property("guid").filter(|it| !matches!(*it, "0x0" | "0"));
        let key = (guid.unwrap_or(&node.name).to_owned(), property("port").unwrap_or("").to_owned());
        let next = self.ports.len();
        let port = *self.ports.entry(key).or_insert(next);
        let direct = self.options.gpu_direct.or(flag(node, "gdr")).unwrap_or(true);
        let said = property("latency").and_then(|it| it.parse::<f64>().ok());
        let latency = said.filter(|it| it.is_finite() && *it > 0.0 && *it < 1e9);
        let latency = latency.unwrap_or(self.options.net_latency.as_us_f64());
        self.add_net(nic, Net {
            device: 0,
            mbps: rate.filter(|it| *it > 0).unwrap_or(UNKNOWN_NET_MBPS),
            latency,
            port,
            direct,
        });
    }

    fn add_net(&mut self, nic: usize, net: Net) {
        let device = self.device(Device::Net(self.system.nets.len()));
        self.wire(nic, device, Wire::Net, net.mbps, net.mbps);
        self.system.nets.push(Net { device, ..net });
    }

    /// A NIC that the network does not draw, at a PCIe switch of its own with its GPUs.
    fn add_port(&mut self, gpus: &[usize], rate: i64) {
        let (switch, nic) = (self.device(Device::Pci), self.device(Device::Nic));
        let slot = gpus.iter().map(|it| slot_mbps(self.system.gpus[*it].sm)).max();
        let slot = slot.unwrap_or(PCI_MBPS);
        for gpu in gpus {
            let gpu = self.system.gpus[*gpu].device;
            self.wire(gpu, switch, Wire::Pci, slot, slot);
        }
        let wide = slot.max(rate);
        self.wire(nic, switch, Wire::Pci, wide, wide);
        let port = self.ports.len();
        self.ports.insert((format!("port {port}"), String::new()), port);
        let direct = self.options.gpu_direct.unwrap_or(true);
        let latency = self.options.net_latency.as_us_f64();
        self.add_net(nic, Net { device: 0, mbps: rate, latency, port, direct });
    }

    /// Joins what still hangs in the air to a CPU of its server.
    fn attach_rest(&mut self) {
        let mut cpu_of: BTreeMap<usize, usize> = BTreeMap::new();
        for id in &self.part.members {
            let node = self.network.node(*id);
            if let (NodeKind::Cpu, Some(device)) = (node.kind, self.device_of.get(id).copied()) {
                let host = self.host(node);
                cpu_of.entry(host).or_insert(device);
            }
        }
        for host in 0..self.system.hosts {
            cpu_of.entry(host).or_insert_with(|| {
                self.system.devices.push(Device::Cpu);
                self.system.out.push(Vec::new());
                let device = self.system.devices.len() - 1;
                self.system.cpus.push(device);
                device
            });
        }
        let slot = slot_mbps(self.system.min_sm());
        for gpu in self.system.gpus.clone() {
            let Some(cpu) = cpu_of.get(&gpu.host).copied() else { continue };
            let above = self.reaches_cpu(gpu.device);
            if let Some(loose) = above {
                self.wire(loose, cpu, Wire::Pci, slot, slot);
            }
        }
        let first = cpu_of.get(&0).copied();
        for nic in 0..self.system.devices.len() {
            if let (Device::Nic, Some(cpu)) = (self.system.devices[nic], first)
                && let Some(loose) = self.reaches_cpu(nic)
            {
                self.wire(loose, cpu, Wire::Pci, slot, slot);
            }
        }
    }

    /// `None` if PCIe or C2C lead from here to a CPU; otherwise where to attach one: the PCIe
    /// switch above, or the device itself.
    fn reaches_cpu(&self, from: usize) -> Option<usize> {
        let mut seen = vec![false; self.system.devices.len()];
        let mut waiting = vec![from];
        let mut last = from;
        while let Some(device) = waiting.pop() {
            last = device;
            for edge in self.system.out[device].iter().map(|it| &self.system.edges[*it]) {
                if !matches!(edge.wire, Wire::Pci | Wire::C2c) {
                    continue;
                }
                match self.system.devices[edge.to] {
                    Device::Cpu => return None,
                    Device::Pci if !std::mem::replace(&mut seen[edge.to], true) => {
                        waiting.push(edge.to);
                    }
                    _ => {}
                }
            }
        }
        Some(last)
    }

    fn finish(mut self) -> Result<System, NcclError> {
        if self.system.nets.len() > MAX_DEVICES {
            let (gpus, most) = (self.system.nets.len(), MAX_DEVICES);
            return Err(NcclError::TooManyGpus { gpus, most });
        }
        if self.system.inter && self.system.nets.is_empty() {
            let name = self.part.gpus.first().map_or("", |it| self.network.node(*it).name.as_str());
            return Err(NcclError::NoInterface { gpu: name.to_owned() });
        }
        self.system.cpu = self.cpu();
        Ok(self.system)
    }

    /// The CPU: what the first one of the file says, what the options say, or what is usual.
    fn cpu(&self) -> Cpu {
        let nodes = self.part.members.iter().map(|it| self.network.node(*it));
        let said = nodes.filter(|it| it.kind == NodeKind::Cpu).find_map(|node| {
            let arch = match node.properties.get("arch")?.as_str() {
                "ppc64" | "ppc64le" => CpuArch::Power,
                "arm64" | "aarch64" => CpuArch::Arm,
                _ => CpuArch::X86,
            };
            let vendor = match node.properties.get("vendor").map(String::as_str) {
                Some("GenuineIntel") => CpuVendor::Intel,
                Some("AuthenticAMD") => CpuVendor::Amd,
                _ => CpuVendor::Other,
            };
            Some(Cpu { arch, vendor })
        });
        if let Some(cpu) = said.or(self.options.cpu) {
            return cpu;
        }
        let grace = self.system.edges.iter().any(|it| it.wire == Wire::C2c);
        if grace {
            Cpu { arch: CpuArch::Arm, vendor: CpuVendor::Other }
        } else if self.system.nvs.is_some() && (80..90).contains(&self.system.min_sm()) {
            Cpu::AMD
        } else {
            Cpu::INTEL
        }
    }
}

/// The PCIe slot that GPUs of a generation came with: generation 3, 4 or 5.
fn slot_mbps(sm: u32) -> i64 {
    match sm {
        90.. => 4 * PCI_MBPS,
        80..=89 => 2 * PCI_MBPS,
        _ => PCI_MBPS,
    }
}
