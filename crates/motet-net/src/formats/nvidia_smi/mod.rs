//! The matrix that `nvidia-smi topo -m` prints: how every GPU and NIC of a server reaches every
//! other, by the worst thing on the way.
//!
//! `matrix.rs` reads the text; here the server is inferred from it. The classes nest: `PIX` is one
//! PCIe switch, `PXB` several, `PHB` and `NODE` one NUMA node, `SYS` the sockets' interconnect.
//! So devices are grouped class by class, and each group with more than one member becomes a
//! switch or a CPU above its members.
//!
//! `NV#` is the number of NVLinks between two GPUs. On systems with NVSwitches it is the number
//! of links into the switch instead, the same for every pair; that case is told by a GPU having
//! more links in its row than any GPU has (18).

mod matrix;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use motet_graph::DisjointSets;
use motet_units::{Bandwidth, NodeId};

pub(crate) use matrix::looks_like;
use matrix::{Cell, Matrix};

use super::{NetworkFormat, ReadError, ReadNetwork, speeds, unique_name};
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};

/// NVLinks of a GPU, at most (Hopper and Blackwell have 18).
const MAX_NVLINKS: u32 = 18;
/// CPUs are joined pairwise, so their number is bounded.
const MAX_CPUS: usize = 64;

/// Reads the matrix as one server. The text does not say how fast anything is: `nvlink` is the
/// bandwidth of one NVLink and `pcie` of a PCIe link; where not given, both are guessed from the
/// number of NVLinks, which tells the GPU's generation.
pub fn read(
    text: &str,
    nvlink: Option<Bandwidth>,
    pcie: Option<Bandwidth>,
) -> Result<ReadNetwork, ReadError> {
    let matrix = Matrix::parse(text)?;
    let most = matrix.gpu_pairs().map(|(_, _, lanes)| lanes).max().unwrap_or(0);
    let total = matrix.lanes().into_iter().max().unwrap_or(0);
    let guess = Guess::of(most, total);
    let nvlink = nvlink.unwrap_or(guess.nvlink);
    let pcie = pcie.unwrap_or(guess.pcie);
    let mut server = Server { matrix: &matrix, builder: NetworkBuilder::new("server"), pcie };
    let devices = server.add_devices()?;
    server.add_tree(&devices)?;
    let switched = total > MAX_NVLINKS;
    if switched {
        server.add_nvswitch(&devices, nvlink)?;
    } else {
        server.add_nvlinks(&devices, nvlink)?;
    }
    let mut read = ReadNetwork::new(server.builder.build()?, NetworkFormat::NvidiaSmi);
    read.notes.push(format!("speeds are not in the file: PCIe at {pcie}, NVLink at {nvlink} each"));
    if switched {
        let note = format!("a GPU has at most {MAX_NVLINKS} NVLinks: they lead to an NVSwitch");
        read.notes.push(note);
    }
    Ok(read)
}

/// The NVLinks of the matrix, GPUs by their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NvLinks {
    /// (GPU, GPU, lanes). Lanes into the switch where there is one: the same in every pair.
    pub(crate) pairs: Vec<(usize, usize, u32)>,
    pub(crate) switched: bool,
}

/// Only the NVLinks, for whoever knows the rest of the server better.
pub(crate) fn nvlinks(text: &str) -> Result<NvLinks, ReadError> {
    let matrix = Matrix::parse(text)?;
    let total = matrix.lanes().into_iter().max().unwrap_or(0);
    let number = |device: usize| {
        let name = &matrix.devices[device].name;
        name.strip_prefix("GPU").and_then(|it| it.parse::<usize>().ok())
    };
    let pairs = matrix.gpu_pairs();
    let pairs = pairs.filter_map(|(a, b, lanes)| Some((number(a)?, number(b)?, lanes))).collect();
    Ok(NvLinks { pairs, switched: total > MAX_NVLINKS })
}

/// What the number of NVLinks says of the generation: 18 is Hopper or later with PCIe 5, 12 is
/// Ampere with PCIe 4, fewer or none counts as PCIe 3.
struct Guess {
    nvlink: Bandwidth,
    pcie: Bandwidth,
}

impl Guess {
    fn of(most: u32, total: u32) -> Self {
        let direct = if total > MAX_NVLINKS { most } else { total };
        let (sm, speed) = match direct {
            18.. => (90, "32 GT/s"),
            12.. => (80, "16 GT/s"),
            _ => (70, "8 GT/s"),
        };
        Self { nvlink: speeds::nvlink(Some(sm)), pcie: speeds::pcie(Some(speed), None) }
    }
}

struct Server<'a> {
    matrix: &'a Matrix,
    builder: NetworkBuilder,
    pcie: Bandwidth,
}

impl Server<'_> {
    fn add_devices(&mut self) -> Result<Vec<NodeId>, ReadError> {
        let mut ids = Vec::with_capacity(self.matrix.devices.len());
        for device in &self.matrix.devices {
            let kind = if device.gpu { NodeKind::Gpu } else { NodeKind::Nic };
            let name = if device.gpu { device.name.to_lowercase() } else { device.name.clone() };
            let mut node = Node::new(unique_name(&self.builder, &name), kind).in_server("s0");
            for (key, value) in [("affinity", &device.cpus), ("numa", &device.numa)] {
                if let Some(value) = value {
                    node.properties.insert(key.to_owned(), value.clone());
                }
            }
            ids.push(self.builder.add_node(node)?);
        }
        Ok(ids)
    }

    /// Switches and CPUs above the devices, from the narrowest groups up.
    fn add_tree(&mut self, devices: &[NodeId]) -> Result<(), ReadError> {
        let mut groups = DisjointSets::new(devices.len());
        // What stands for each group, by its root: at first the devices themselves.
        let mut tops: BTreeMap<usize, NodeId> = devices.iter().copied().enumerate().collect();
        for (level, class) in [Cell::Pix, Cell::Pxb].into_iter().enumerate() {
            for (a, b) in self.matrix.pairs_within(class) {
                groups.join(a, b);
            }
            let mut merged: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
            for (root, top) in &tops {
                merged.entry(groups.root(*root)).or_default().push(*top);
            }
            tops.clear();
            for (root, members) in merged {
                let top = if let [only] = members.as_slice() {
                    *only
                } else {
                    let name = format!("pcie{level}-{}", self.matrix.devices[root].name);
                    self.add_above(&name, NodeKind::PcieSwitch, &members)?
                };
                tops.insert(root, top);
            }
        }
        self.add_cpus(&mut groups, &tops)
    }

    fn add_cpus(
        &mut self,
        groups: &mut DisjointSets,
        tops: &BTreeMap<usize, NodeId>,
    ) -> Result<(), ReadError> {
        for (a, b) in self.matrix.pairs_within(Cell::Node) {
            groups.join(a, b);
        }
        for (a, b) in self.matrix.same_numa() {
            groups.join(a, b);
        }
        let mut nodes: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for (root, top) in tops {
            nodes.entry(groups.root(*root)).or_default().push(*top);
        }
        if nodes.len() > MAX_CPUS {
            return Err(ReadError::new(format!("there are more than {MAX_CPUS} NUMA nodes")));
        }
        let mut cpus: Vec<NodeId> = Vec::new();
        for (index, (root, members)) in nodes.iter().enumerate() {
            let same = |it: &usize| groups.root(*it) == *root;
            let members_numa = (0..self.matrix.devices.len()).filter(same);
            let numa = members_numa.filter_map(|it| self.matrix.devices[it].numa.clone()).next();
            let name = format!("cpu{}", numa.unwrap_or_else(|| index.to_string()));
            cpus.push(self.add_above(&name, NodeKind::Cpu, members)?);
        }
        let spec = LinkSpec::new(
            LinkClass::Smp,
            speeds::sockets(speeds::CpuModel::default()),
            speeds::SMP_LATENCY,
        );
        for (index, a) in cpus.iter().enumerate() {
            for b in &cpus[index + 1..] {
                self.builder.add_duplex(*a, *b, spec)?;
            }
        }
        Ok(())
    }

    /// A new node with a PCIe link to each member.
    fn add_above(
        &mut self,
        name: &str,
        kind: NodeKind,
        members: &[NodeId],
    ) -> Result<NodeId, ReadError> {
        let node = Node::new(unique_name(&self.builder, name), kind).in_server("s0");
        let id = self.builder.add_node(node)?;
        for member in members {
            let spec = LinkSpec::new(LinkClass::Pcie, self.pcie, speeds::PCIE_LATENCY);
            self.builder.add_duplex(*member, id, spec)?;
        }
        Ok(id)
    }

    fn add_nvlinks(&mut self, devices: &[NodeId], lane: Bandwidth) -> Result<(), ReadError> {
        let matrix = self.matrix;
        for (a, b, lanes) in matrix.gpu_pairs() {
            let width = lane.saturating_mul(u64::from(lanes));
            let spec = LinkSpec::new(LinkClass::NvLink, width, speeds::NVLINK_LATENCY);
            self.builder.add_duplex(devices[a], devices[b], spec.with_lanes(lanes))?;
        }
        Ok(())
    }

    fn add_nvswitch(&mut self, devices: &[NodeId], lane: Bandwidth) -> Result<(), ReadError> {
        let mut lanes = vec![0u32; devices.len()];
        for (a, b, count) in self.matrix.gpu_pairs() {
            lanes[a] = lanes[a].max(count);
            lanes[b] = lanes[b].max(count);
        }
        let node = Node::new("nvswitch", NodeKind::NvSwitch).in_server("s0");
        let switch = self.builder.add_node(node)?;
        for (device, lanes) in lanes.into_iter().enumerate().filter(|(_, it)| *it > 0) {
            let width = lane.saturating_mul(u64::from(lanes));
            let spec = LinkSpec::new(LinkClass::NvLink, width, speeds::NVSWITCH_LATENCY);
            self.builder.add_duplex(devices[device], switch, spec.with_lanes(lanes))?;
        }
        Ok(())
    }
}
