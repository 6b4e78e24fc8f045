//! [`Paths`]: the paths between GPUs, network interfaces and the NVSwitch of a node, as NCCL
//! settles them before it searches.
//!
//! The nearest kind of path wins, then the widest, then the shortest. Data passes through a GPU
//! only from NVLink to NVLink and only once. Two corrections follow: a GPU far from a NIC sends
//! through a GPU near the NIC where NVLink joins the two (PXN), and where a NIC cannot access GPU
//! memory, all its traffic goes through the GPU's CPU. Next: [`search`](super::search).

use super::kinds::PathKind;
use super::options::NcclOptions;
use super::topology::{Device, System, Wire};

/// A path from one device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NcclPath {
    pub(super) edges: Vec<usize>,
    pub(super) mbps: i64,
    pub(super) kind: PathKind,
}

impl NcclPath {
    fn none() -> Self {
        Self { edges: Vec::new(), mbps: 0, kind: PathKind::Dis }
    }

    /// This path followed by the other.
    fn then(&self, other: &Self, kind: PathKind) -> Self {
        let edges = self.edges.iter().chain(&other.edges).copied().collect();
        Self { edges, mbps: self.mbps.min(other.mbps), kind }
    }

    fn better_than(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.kind, -it.mbps, it.edges.len());
        key(self) < key(other)
    }
}

/// All paths of a node, by the numbers of its GPUs and interfaces.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) gpu_gpu: Vec<Vec<NcclPath>>,
    pub(super) gpu_net: Vec<Vec<NcclPath>>,
    pub(super) net_gpu: Vec<Vec<NcclPath>>,
    /// To and from the NVSwitch, where there is one.
    pub(super) gpu_nvs: Vec<NcclPath>,
    pub(super) nvs_gpu: Vec<NcclPath>,
    /// By interface: the GPU that uses it for the earliest channel.
    pub(super) local_gpu: Vec<Option<usize>>,
    /// By GPU: the interfaces that it uses for one channel after another, until the first one comes again.
    pub(super) own_nets: Vec<Vec<usize>>,
}

impl Paths {
    pub(super) fn new(system: &System, options: &NcclOptions) -> Self {
        let gpus: Vec<usize> = system.gpus.iter().map(|it| it.device).collect();
        let nets: Vec<usize> = system.nets.iter().map(|it| it.device).collect();
        // `toward` gives the ways from everywhere to one device: turn the table round.
        let table = |to: &[usize], from: &[usize]| -> Vec<Vec<NcclPath>> {
            let mut rows = vec![Vec::with_capacity(to.len()); from.len()];
            for base in to {
                let all = toward(system, *base);
                for (row, device) in rows.iter_mut().zip(from) {
                    row.push(all[*device].clone());
                }
            }
            rows
        };
        let nvs: Vec<usize> = system.nvs.into_iter().collect();
        let mut paths = Self {
            gpu_gpu: table(&gpus, &gpus),
            gpu_net: table(&nets, &gpus),
            net_gpu: table(&gpus, &nets),
            gpu_nvs: table(&nvs, &gpus).into_iter().flatten().collect(),
            nvs_gpu: table(&gpus, &nvs).into_iter().flatten().collect(),
            local_gpu: Vec::new(),
            own_nets: Vec::new(),
        };
        let turns = Turns {
            gpu_cpu: table(&system.cpus, &gpus),
            net_cpu: table(&system.cpus, &nets),
            cpu_gpu: table(&gpus, &system.cpus),
            cpu_net: table(&nets, &system.cpus),
        };
        paths.prefer_c2c(system, &turns);
        for net in 0..nets.len() {
            let local = paths.first_user(system, net);
            for gpu in 0..gpus.len() {
                if !options.no_pxn {
                    paths.relay(system, gpu, net, local);
                }
                paths.turn_at_cpu(system, gpu, net, &turns);
            }
        }
        paths.local_gpu = (0..nets.len()).map(|it| paths.first_user(system, it)).collect();
        paths.own_nets = (0..gpus.len()).map(|it| paths.nets_in_turn(system, it)).collect();
        paths
    }

    /// A NIC below the CPU of a superchip counts as nearer than one below any other CPU.
    fn prefer_c2c(&mut self, system: &System, turns: &Turns) {
        for gpu in 0..system.gpus.len() {
            let Some(cpu) = nearest(&turns.gpu_cpu[gpu]) else { continue };
            for net in local(&self.gpu_net[gpu]) {
                let kind = merge(turns.gpu_cpu[gpu][cpu].kind, turns.net_cpu[net][cpu].kind);
                if kind == PathKind::P2c {
                    for path in [&mut self.gpu_net[gpu][net], &mut self.net_gpu[net][gpu]] {
                        path.kind = path.kind.min(PathKind::P2c);
                    }
                }
            }
        }
    }

    /// PXN: sends to an interface through `local`, the GPU next to it, where that is wider or nearer.
    fn relay(&mut self, system: &System, gpu: usize, net: usize, local: Option<usize>) {
        let Some(peer) = local.filter(|it| *it != gpu) else { return };
        let (near, own) = (&self.gpu_net[peer][net], &self.gpu_net[gpu][net]);
        let helps = near.mbps > own.mbps || own.kind > PathKind::Pxn;
        if near.kind <= PathKind::P2c
            && self.reads_directly(system, peer, net)
            && self.gpu_gpu[peer][gpu].kind <= PathKind::NvLink
            && system.gpus[peer].host == system.gpus[gpu].host
            && helps
        {
            self.gpu_net[gpu][net] = self.gpu_gpu[gpu][peer].then(near, PathKind::Pxn);
        }
    }

    /// Whether the interface may read the memory of this GPU. Before Ampere that hurts other PCIe
    /// traffic, so NCCL does it only where NVLink carries the rest.
    fn reads_directly(&self, system: &System, gpu: usize, net: usize) -> bool {
        let modern = system.gpus[gpu].sm >= 80;
        let nvlink = || self.gpu_gpu[gpu].iter().any(|it| it.kind == PathKind::NvLink);
        let others = system.gpus.len() > 1;
        direct(system, gpu, net)
            && self.gpu_net[gpu][net].kind <= PathKind::P2c
            && (modern || !others || nvlink())
    }

    /// Without GPUDirect, traffic between GPU and interface goes through the CPU nearest to the GPU.
    fn turn_at_cpu(&mut self, system: &System, gpu: usize, net: usize, turns: &Turns) {
        let kind = self.gpu_net[gpu][net].kind;
        let reaches = direct(system, gpu, net) && (kind <= PathKind::P2c || kind == PathKind::Pxn);
        if kind >= PathKind::Phb || reaches {
            return;
        }
        let Some(cpu) = nearest(&turns.gpu_cpu[gpu]) else { return };
        let around = |a: &NcclPath, b: &NcclPath| a.then(b, merge(a.kind, b.kind));
        self.net_gpu[net][gpu] = around(&turns.net_cpu[net][cpu], &turns.cpu_gpu[cpu][gpu]);
        self.gpu_net[gpu][net] = around(&turns.gpu_cpu[gpu][cpu], &turns.cpu_net[cpu][net]);
    }

    /// The interface that a GPU uses for a channel: one of the nearest, shared out among the GPUs
    /// that are equally near.
    pub(super) fn local_net(&self, system: &System, gpu: usize, channel: usize) -> Option<usize> {
        let nets = local(&self.gpu_net[gpu]);
        let sharing = local(&self.net_gpu[*nets.first()?]).len().max(1);
        let mut net = system.gpus[gpu].dev % sharing;
        if nets.len().is_power_of_two() {
            net = mirror(net, nets.len());
        }
        net += channel % nets.len().div_ceil(sharing);
        nets.get(net % nets.len()).copied()
    }

    /// The interfaces that a GPU uses for one channel after another, until the first one comes again.
    fn nets_in_turn(&self, system: &System, gpu: usize) -> Vec<usize> {
        let mut nets = Vec::new();
        for channel in 0..super::constants::MAX_CHANNELS {
            match self.local_net(system, gpu, channel) {
                Some(net) if nets.first() != Some(&net) => nets.push(net),
                _ => break,
            }
        }
        nets
    }

    /// The GPU that uses the interface for the earliest channel.
    fn first_user(&self, system: &System, net: usize) -> Option<usize> {
        let gpus = local(&self.net_gpu[net]);
        let used: Vec<Vec<usize>> = gpus.iter().map(|it| self.nets_in_turn(system, *it)).collect();
        let most = used.iter().map(Vec::len).max().unwrap_or(0);
        (0..most).find_map(|channel| {
            let uses = |it: &&Vec<usize>| !it.is_empty() && it[channel % it.len()] == net;
            Some(gpus[used.iter().position(|it| uses(&it))?])
        })
    }
}

/// The paths to and from CPUs, for traffic that has to go through one.
struct Turns {
    gpu_cpu: Vec<Vec<NcclPath>>,
    net_cpu: Vec<Vec<NcclPath>>,
    cpu_gpu: Vec<Vec<NcclPath>>,
    cpu_net: Vec<Vec<NcclPath>>,
}

fn direct(system: &System, gpu: usize, net: usize) -> bool {
    system.gpus[gpu].direct && system.nets[net].direct
}

/// The indices of the widest paths, and among these of the nearest kind.
pub(super) fn local(paths: &[NcclPath]) -> Vec<usize> {
    let key = |it: &NcclPath| (-it.mbps, it.kind);
    let best = paths.iter().filter(|it| it.kind < PathKind::Dis).map(key).min();
    let Some(best) = best else { return Vec::new() };
    let is_best = |it: &NcclPath| it.kind < PathKind::Dis && key(it) == best;
    (0..paths.len()).filter(|it| is_best(&paths[*it])).collect()
}

/// The index of the [`local`] path with the fewest hops, the first of several.
fn nearest(paths: &[NcclPath]) -> Option<usize> {
    local(paths).into_iter().min_by_key(|it| paths[*it].edges.len())
}

fn merge(a: PathKind, b: PathKind) -> PathKind {
    match (a.max(b), a.min(b)) {
        (PathKind::Phb, PathKind::C2c) => PathKind::P2c,
        (max, _) => max,
    }
}

/// The low bits of `value` in the opposite order, as many as `power` (a power of two) has.
fn mirror(value: usize, power: usize) -> usize {
    let bits = power.trailing_zeros();
    (0..bits).filter(|it| value >> it & 1 == 1).map(|it| 1 << (bits - 1 - it)).sum()
}

/// The path from every device to `base`, by breadth-first search from `base`.
fn toward(system: &System, base: usize) -> Vec<NcclPath> {
    let mut paths = vec![NcclPath::none(); system.devices.len()];
    paths[base] =
        NcclPath { edges: Vec::new(), mbps: super::constants::LOCAL_MBPS, kind: PathKind::Loc };
    let mut frontier = vec![base];
    // A way has at most as many hops as there are devices.
    for _ in 0..system.devices.len() {
        let mut next = Vec::new();
        for device in frontier {
            for edge in &system.out[device] {
                let Some(path) = extend(system, base, device, *edge, &paths[device]) else {
                    continue;
                };
                let to = system.edges[*edge].to;
                if path.better_than(&paths[to]) {
                    paths[to] = path;
                    if !next.contains(&to) {
                        next.push(to);
                    }
                }
            }
        }
        frontier = next;
        if frontier.is_empty() {
            break;
        }
    }
    paths
}

/// The path from the far end of `edge` to `base` through `device`, if data may go that way.
fn extend(
    system: &System,
    base: usize,
    device: usize,
    edge: usize,
    path: &NcclPath,
) -> Option<NcclPath> {
    let edge = &system.edges[edge];
    let back = &system.edges[edge.reverse];
    let (here, there) = (system.devices[device], system.devices[edge.to]);
    let through_gpu = device != base && matches!(here, Device::Gpu(_));
    let to_gpu = edge.wire == Wire::NvLink && matches!(there, Device::Gpu(_));
    if through_gpu && !(to_gpu && path.edges.len() <= 1) {
        return None;
    }
    let through_cpu = matches!(here, Device::Cpu) || matches!(there, Device::Cpu);
    let kind = match edge.wire {
        Wire::NvLink if through_gpu && path.kind == PathKind::NvLink => PathKind::NvLinkBridged,
        Wire::NvLink => PathKind::NvLink,
        Wire::C2c => PathKind::C2c,
        Wire::Pci if through_cpu => PathKind::Phb,
        Wire::Pci if here == Device::Pci && there == Device::Pci => PathKind::Pxb,
        Wire::Pci => PathKind::Pix,
        Wire::Sys => PathKind::Sys,
        Wire::Net => PathKind::Loc,
    };
    let edges = std::iter::once(edge.reverse).chain(path.edges.iter().copied()).collect();
    Some(NcclPath { edges, mbps: path.mbps.min(back.mbps), kind: kind.max(path.kind) })
}

#[cfg(test)]
mod tests {
    use super::super::partition::parts;
    use super::super::testing::build;
    use super::*;

    fn paths(kind: &str, words: &[&str]) -> (System, Paths) {
        let network = build(kind, words);
        let parts = parts(&network);
        let options = NcclOptions::default();
        let system = System::of(&network, &parts[0], parts.len() > 1, &options).unwrap();
        let paths = Paths::new(&system, &options);
        (system, paths)
    }

    #[test]
    fn of_a_full_dgx_a100() {
        let (system, paths) = paths("dgx-a100", &["count=2", "detail=full"]);
        assert_eq!(system.cpu, super::super::kinds::Cpu::AMD);
        let path = &paths.gpu_gpu[0][7];
        assert_eq!((path.kind, path.mbps, path.edges.len()), (PathKind::NvLink, 240_000, 2));
        let path = &paths.gpu_net[0][0];
        assert_eq!((path.kind, path.mbps), (PathKind::Pix, 24_000));
        // GPU 1 shares the switch of NIC 0; GPU 7 goes through the GPU at it.
        assert_eq!(paths.gpu_net[1][0].kind, PathKind::Pix);
        assert_eq!(paths.gpu_net[7][0].kind, PathKind::Pxn);
        assert_eq!(paths.net_gpu[0][7].kind, PathKind::Sys);
        assert_eq!(paths.local_gpu[..4], [Some(0), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn of_flat_boxes() {
        let (system, paths) = paths("dgx-h100", &["count=2"]);
        assert_eq!((system.nets.len(), system.min_sm()), (8, 90));
        assert_eq!(paths.gpu_gpu[0][1].mbps, 370_800);
        assert_eq!((paths.gpu_net[3][3].kind, paths.gpu_net[3][3].mbps), (PathKind::Pix, 48_000));
        assert_eq!(paths.local_gpu, (0..8).map(Some).collect::<Vec<_>>());
    }

    /// The same picture whichever way a template draws the box.
    #[test]
    fn flat_and_full_are_one_to_nccl() {
        let kinds = |detail: &str| {
            let (_, paths) = paths("dgx-h100", &["count=2", detail]);
            let all = paths.gpu_net.iter().chain(&paths.net_gpu).chain(&paths.gpu_gpu).flatten();
            all.map(|it| (it.kind, it.mbps)).collect::<Vec<_>>()
        };
        assert_eq!(kinds("detail=flat"), kinds("detail=full"));
        assert_eq!(kinds("detail=nics"), kinds("detail=full"));
    }

    #[test]
    fn a_cube_mesh_bridges_over_nvlink() {
        let (_, paths) = paths("dgx-1", &[]);
        assert_eq!(paths.gpu_gpu[0][1].kind, PathKind::NvLink);
        assert_eq!(paths.gpu_gpu[0][5].kind, PathKind::NvLinkBridged);
        assert_eq!(paths.gpu_gpu[0][5].edges.len(), 2);
    }

    #[test]
    fn without_gpu_direct_all_turns_at_the_cpu() {
        let network = build("dgx-a100", &["count=2", "detail=full"]);
        let options = NcclOptions { gpu_direct: Some(false), ..NcclOptions::default() };
        let system = System::of(&network, &parts(&network)[0], true, &options).unwrap();
        let paths = Paths::new(&system, &options);
        assert_eq!(paths.gpu_net[0][0].kind, PathKind::Phb);
        assert_eq!(paths.net_gpu[0][0].kind, PathKind::Phb);
    }

    #[test]
    fn mirrored_bits() {
        assert_eq!((0..8).map(|it| mirror(it, 8)).collect::<Vec<_>>(), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(mirror(0, 1), 0);
    }
}
