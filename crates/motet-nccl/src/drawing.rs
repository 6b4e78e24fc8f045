//! A network's servers as NCCL sees them: [`Drawing`] makes a [`System`] of one NCCL node of a network.
//!
//! NVLinks get NCCL's bandwidth per lane of the GPU's generation times their lanes, whatever rate the
//! network gives them, because NCCL counts lanes. PCIe and links between sockets keep their given rate.

use std::collections::BTreeMap;

use motet_net::formats::speeds;
use motet_net::{Link, Network, Node, NodeKind};
use motet_units::{Bandwidth, LinkId, NodeId};

use super::NcclError;
use super::constants::{UNKNOWN_NET_MBPS, nvlink_mbps};
use super::kinds::{Cpu, CpuArch, CpuVendor};
use super::options::NcclOptions;
use super::partition::{Part, inside};
use super::topology::{Device, Gpu, Interface, MAX_DEVICES, System, Wire};

/// Builds a [`System`].
pub(super) struct Drawing<'a> {
    pub(super) network: &'a Network,
    pub(super) part: &'a Part,
    pub(super) options: &'a NcclOptions,
    pub(super) system: System,
    /// The device of each member.
    pub(super) device_of: BTreeMap<NodeId, usize>,
    /// The number of each server name.
    hosts: BTreeMap<Option<&'a str>, usize>,
    /// The CPU of each server, the first of several.
    pub(super) cpu_of: BTreeMap<usize, usize>,
    /// NICs that the network joins to GPUs directly, without drawing PCIe, and the first such GPU.
    pub(super) hanging: BTreeMap<usize, usize>,
    /// Numbers for the ports of NICs, by chip and port.
    ports: BTreeMap<(String, String), usize>,
}

pub(super) fn mbps(rate: Bandwidth) -> i64 {
    i64::try_from(rate.bits_per_s() / 8_000_000).unwrap_or(i64::MAX)
}

/// The bandwidth that NCCL counts for a wire inside a server, in MB/s: NVLinks by their lanes. A link of one lane
/// is counted so only if it has the rate of one lane; otherwise the file did not say how many lanes it has.
pub(super) fn counted_mbps(wire: Wire, link: &Link, sm: u32) -> i64 {
    let single = || link.spec.bandwidth == speeds::nvlink(Some(sm));
    if wire == Wire::NvLink && (link.spec.lanes > 1 || single()) {
        nvlink_mbps(sm).saturating_mul(i64::from(link.spec.lanes))
    } else {
        mbps(link.spec.bandwidth)
    }
}

fn flag(node: &Node, key: &str) -> Option<bool> {
    Some(node.properties.get(key)?.as_str() != "0")
}

impl<'a> Drawing<'a> {
    pub(super) fn new(
        network: &'a Network,
        part: &'a Part,
        inter: bool,
        options: &'a NcclOptions,
    ) -> Self {
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
        Self {
            network,
            part,
            options,
            system,
            device_of: BTreeMap::new(),
            hosts: BTreeMap::new(),
            cpu_of: BTreeMap::new(),
            hanging: BTreeMap::new(),
            ports: BTreeMap::new(),
        }
    }

    fn host(&mut self, node: &'a Node) -> usize {
        let next = self.hosts.len();
        *self.hosts.entry(node.location.server.as_deref()).or_insert(next)
    }

    pub(super) fn add_devices(&mut self) {
        let network = self.network;
        for (index, gpu) in self.part.gpus.iter().enumerate() {
            let node = network.node(*gpu);
            let device = self.system.device(Device::Gpu(index));
            self.device_of.insert(*gpu, device);
            let host = self.host(node);
            let dev = self.system.gpus.iter().filter(|it| it.host == host).count();
            let direct = self.options.gpu_direct.or(flag(node, "gdr")).unwrap_or(true);
            let sm = sm(self.network, *gpu, self.options);
            self.system.gpus.push(Gpu { device, sm, host, dev, direct });
        }
        self.system.hosts = self.hosts.len().max(1);
        for id in &self.part.members {
            let node = network.node(*id);
            let device = match node.kind {
                NodeKind::NvSwitch => self.add_nvswitch(node),
                NodeKind::PcieSwitch => self.system.device(Device::Pci),
                NodeKind::Cpu => self.system.device(Device::Cpu),
                NodeKind::Nic => self.system.device(Device::Nic),
                _ => continue,
            };
            if node.kind == NodeKind::Cpu {
                let host = self.host(node);
                self.cpu_of.entry(host).or_insert(device);
            }
            self.device_of.insert(*id, device);
        }
        self.system.cpu = self.cpu();
    }

    /// Adds an NVSwitch; to NCCL all NVSwitches of a node are one device.
    fn add_nvswitch(&mut self, node: &Node) -> usize {
        // Not `node.reduces`, which says what programs may ask of the switch.
        self.system.nvls |= self.options.nvls.or(flag(node, "nvls")).unwrap_or(true);
        if let Some(switch) = self.system.nvs {
            return switch;
        }
        let switch = self.system.device(Device::Nvs);
        self.system.nvs = Some(switch);
        switch
    }

    /// The CPU: as the first CPU of the network that says so, else as the options say, else as is usual for such
    /// servers.
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
        let links = self.part.members.iter().flat_map(|it| self.network.outgoing(*it));
        let grace = links
            .into_iter()
            .any(|it| inside(self.network, self.network.link(*it)) == Some(Wire::C2c));
        if grace {
            Cpu { arch: CpuArch::Arm, vendor: CpuVendor::Other }
        } else if self.system.nvs.is_some() && (80..90).contains(&self.system.min_sm()) {
            Cpu::AMD
        } else {
            Cpu::INTEL
        }
    }

    /// Adds the wires between members. Parallel links are added up; a one-way link counts for both ways.
    pub(super) fn add_wires(&mut self) {
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
                let (a, b) = (*a, *b);
                if a == b || self.hangs(a, b) || self.hangs(b, a) {
                    continue;
                }
                let rate = counted_mbps(wire, link, self.lane_sm(a, b));
                let both = rates.entry((a.min(b), a.max(b), wire)).or_default();
                let side = &mut both[usize::from(a > b)];
                *side = side.saturating_add(rate);
            }
        }
        for ((a, b, wire), [there, back]) in rates {
            // NCCL knows duplex wires only.
            let fill = |it: i64, other: i64| if it == 0 { other } else { it };
            self.system.wire(a, b, wire, fill(there, back), fill(back, there));
        }
    }

    /// Whether the two devices are a NIC and a GPU that are joined directly; if so, remembers the first such GPU.
    fn hangs(&mut self, nic: usize, gpu: usize) -> bool {
        let (Device::Nic, Device::Gpu(gpu)) = (self.system.devices[nic], self.system.devices[gpu])
        else {
            return false;
        };
        let first = self.hanging.entry(nic).or_insert(gpu);
        *first = gpu.min(*first);
        true
    }

    /// The compute capability that sets the bandwidth of NVLink lanes between two devices: the lower of those of
    /// the GPUs among them.
    fn lane_sm(&self, a: usize, b: usize) -> u32 {
        let sm = |device: usize| match self.system.devices[device] {
            Device::Gpu(gpu) => Some(self.system.gpus[gpu].sm),
            _ => None,
        };
        sm(a).into_iter().chain(sm(b)).min().unwrap_or(80)
    }

    /// The bandwidth of all links of a device to the network outside, in MB/s out and in.
    pub(super) fn outside(&self, id: NodeId) -> (i64, i64) {
        let rate = |links: &[LinkId]| {
            let links = links.iter().map(|it| self.network.link(*it));
            let out = links.filter(|it| inside(self.network, it).is_none());
            out.fold(0i64, |sum, it| sum.saturating_add(mbps(it.spec.bandwidth)))
        };
        (rate(self.network.outgoing(id)), rate(self.network.incoming(id)))
    }

    /// Adds an interface to the network for every NIC, and for every GPU that has links to the network itself.
    pub(super) fn add_interfaces(&mut self) {
        for id in &self.part.members {
            if let (NodeKind::Nic, Some(nic)) =
                (self.network.node(*id).kind, self.device_of.get(id).copied())
            {
                let net = self.interface(*id);
                self.add_net(nic, net);
            }
        }
        self.add_ports();
    }

    fn interface(&mut self, id: NodeId) -> Interface {
        let node = self.network.node(id);
        let property = |key: &str| node.properties.get(key).map(String::as_str);
        let (out, back) = self.outside(id);
        let written = || Some(mbps(property("bandwidth")?.parse::<Bandwidth>().ok()?));
        let megabits = || property("speed")?.parse::<i64>().ok().map(|it| it / 8);
        let rate = Some(out.max(back)).filter(|it| *it > 0).or_else(written).or_else(megabits);
        let guid = property("guid").filter(|it| !matches!(*it, "0x0" | "0"));
        let chip = guid.unwrap_or(&node.name).to_owned();
        let said = property("latency").and_then(|it| it.parse::<f64>().ok());
        let latency = said.filter(|it| it.is_finite() && *it > 0.0 && *it < 1e9);
        Interface {
            device: 0,
            mbps: rate.filter(|it| *it > 0).unwrap_or(UNKNOWN_NET_MBPS),
            latency: latency.unwrap_or(self.options.net_latency.as_us_f64()),
            port: self.port(chip, property("port").unwrap_or("").to_owned()),
            direct: self.options.gpu_direct.or(flag(node, "gdr")).unwrap_or(true),
        }
    }

    /// The number of a port of a chip.
    pub(super) fn port(&mut self, chip: String, port: String) -> usize {
        let next = self.ports.len();
        *self.ports.entry((chip, port)).or_insert(next)
    }

    pub(super) fn add_net(&mut self, nic: usize, net: Interface) {
        let device = self.system.device(Device::Net(self.system.nets.len()));
        self.system.wire(nic, device, Wire::Net, net.mbps, net.mbps);
        self.system.nets.push(Interface { device, ..net });
    }

    pub(super) fn finish(self) -> Result<System, NcclError> {
        if self.system.nets.len() > MAX_DEVICES {
            let (gpus, most) = (self.system.nets.len(), MAX_DEVICES);
            return Err(NcclError::TooManyGpus { gpus, most });
        }
        if self.system.inter && self.system.nets.is_empty() {
            let name = self.part.gpus.first().map_or("", |it| self.network.node(*it).name.as_str());
            return Err(NcclError::NoInterface { gpu: name.to_owned() });
        }
        Ok(self.system)
    }
}

/// The compute capability of a GPU: as its property says, else as the options say, else guessed from the
/// number and rate of its NVLinks.
pub(super) fn sm(network: &Network, gpu: NodeId, options: &NcclOptions) -> u32 {
    let said = network.node(gpu).properties.get("sm").and_then(|it| it.parse().ok());
    if let Some(sm) = said.or(options.sm) {
        return sm;
    }
    let links = network.outgoing(gpu).iter().map(|it| network.link(*it));
    let (mut lanes, mut rate) = (0u32, 0i64);
    for link in links.filter(|it| inside(network, it) == Some(Wire::NvLink)) {
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
