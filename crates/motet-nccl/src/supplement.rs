//! Adds to a [`System`](super::topology::System) what a network leaves out of its servers and NCCL would find
//! there: PCIe switches, CPUs, NICs.
//!
//! A flat template has GPUs with network ports and nothing else. The rest is added as usual servers have
//! it, and as our templates have it in full detail: two GPUs and their NICs below a PCIe switch, the
//! switches divided among two CPUs (one CPU in servers of up to three GPUs), PCIe slots as wide as those of the
//! GPU's generation. So flat and full templates of one server look the same to NCCL.

use super::constants::PCI_MBPS;
use super::drawing::Drawing;
use super::topology::{Device, Interface, Wire};

impl Drawing<'_> {
    /// Adds CPUs to servers without, and PCIe switches above GPUs without.
    pub(super) fn supplement(&mut self) {
        for host in 0..self.system.hosts {
            let gpus: Vec<usize> = (0..self.system.gpus.len())
                .filter(|it| self.system.gpus[*it].host == host)
                .collect();
            let cpus = match self.cpu_of.get(&host) {
                Some(cpu) => vec![*cpu],
                None => self.add_cpus(host, gpus.len()),
            };
            let bare: Vec<usize> =
                gpus.iter().copied().filter(|it| self.above(*it).is_none()).collect();
            for (index, pair) in bare.chunks(2).enumerate() {
                let switches = bare.len().div_ceil(2);
                let slot = pair.iter().map(|it| slot_mbps(self.system.gpus[*it].sm)).max();
                let slot = slot.unwrap_or(PCI_MBPS);
                let switch = self.system.device(Device::Pci);
                for gpu in pair {
                    let gpu = self.system.gpus[*gpu].device;
                    self.system.wire(gpu, switch, Wire::Pci, slot, slot);
                }
                let cpu = cpus[index * cpus.len() / switches];
                self.system.wire(switch, cpu, Wire::Pci, slot, slot);
            }
        }
        self.attach_switches();
        self.attach_nics();
    }

    /// The PCIe switch or CPU that a GPU is attached to, if there is one.
    fn above(&self, gpu: usize) -> Option<usize> {
        let device = self.system.gpus[gpu].device;
        let wanted = |it: Device| matches!(it, Device::Pci | Device::Cpu);
        let over = |wire| self.system.neighbour(device, wire, wanted);
        over(Wire::Pci).or_else(|| over(Wire::C2c))
    }

    fn add_cpus(&mut self, host: usize, gpus: usize) -> Vec<usize> {
        let count = if gpus > 3 { 2 } else { 1 };
        let cpus: Vec<usize> = (0..count).map(|_| self.system.device(Device::Cpu)).collect();
        self.cpu_of.insert(host, cpus[0]);
        if let [a, b] = cpus[..] {
            let rate = match self.system.min_sm() {
                _ if self.system.cpu.is_amd() => 16_000,
                90.. => 22_000,
                _ => 10_000,
            };
            self.system.wire(a, b, Wire::Sys, rate, rate);
        }
        cpus
    }

    /// Attaches PCIe switches without anything above them to the CPU of the first server.
    fn attach_switches(&mut self) {
        let Some(cpu) = self.cpu_of.values().next().copied() else { return };
        let slot = slot_mbps(self.system.min_sm());
        for device in 0..self.system.devices.len() {
            let upward = |it: Device| matches!(it, Device::Pci | Device::Cpu);
            let is_switch = self.system.devices[device] == Device::Pci;
            if is_switch && self.system.neighbour(device, Wire::Pci, upward).is_none() {
                self.system.wire(device, cpu, Wire::Pci, slot, slot);
            }
        }
    }

    /// Attaches NICs without PCIe: those joined to a GPU directly to what is above that GPU, all others to the
    /// first CPU.
    fn attach_nics(&mut self) {
        let first = self.cpu_of.values().next().copied();
        for nic in 0..self.system.devices.len() {
            if self.system.devices[nic] != Device::Nic
                || self.system.neighbour(nic, Wire::Pci, |_| true).is_some()
            {
                continue;
            }
            let gpu = self.hanging.get(&nic).copied();
            let slot = slot_mbps(gpu.map_or(self.system.min_sm(), |it| self.system.gpus[it].sm));
            if let Some(above) = gpu.and_then(|it| self.above(it)).or(first) {
                self.system.wire(nic, above, Wire::Pci, slot, slot);
            }
        }
    }

    /// Adds NICs for GPUs that the network joins to the fabric directly.
    pub(super) fn add_ports(&mut self) {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (index, gpu) in self.part.gpus.iter().enumerate() {
            match self.outside(*gpu) {
                (0, 0) => {}
                (rate, 0) => senders.push((index, rate)),
                (0, rate) => receivers.push((index, rate)),
                (out, _) => self.add_port(index, out),
            }
        }
        // One GPU sends for a NIC and another receives for it; it stands near the sender.
        for ((sender, out), _) in senders.into_iter().zip(receivers) {
            self.add_port(sender, out);
        }
    }

    fn add_port(&mut self, gpu: usize, rate: i64) {
        let Some(above) = self.above(gpu) else { return };
        let nic = self.system.device(Device::Nic);
        let slot = slot_mbps(self.system.gpus[gpu].sm);
        self.system.wire(nic, above, Wire::Pci, slot, slot);
        let port = self.port(format!("port of gpu {gpu}"), String::new());
        let direct = self.options.gpu_direct.unwrap_or(true);
        let latency = self.options.net_latency.as_us_f64();
        self.add_net(nic, Interface { device: 0, mbps: rate, latency, port, direct });
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
