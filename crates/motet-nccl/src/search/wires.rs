//! The account of bandwidth: a channel takes its speed from every wire of a path, and gives it back when the
//! search backtracks.

use super::super::kinds::{Cpu, CpuArch, PathKind};
use super::super::paths::NcclPath;
use super::super::topology::{Device, Wire};
use super::{Place, Search, Share, WHOLE};

impl<'a> Search<'a> {
    fn path(&self, from: Place, to: Place) -> Option<&'a NcclPath> {
        let paths = self.paths;
        match (from, to) {
            (Place::Gpu(a), Place::Gpu(b)) => Some(&paths.gpu_gpu[a][b]),
            (Place::Gpu(gpu), Place::Net(net)) => Some(&paths.gpu_net[gpu][net]),
            (Place::Net(net), Place::Gpu(gpu)) => Some(&paths.net_gpu[net][gpu]),
            (Place::Gpu(gpu), Place::Nvs) => paths.gpu_nvs.get(gpu),
            (Place::Nvs, Place::Gpu(gpu)) => paths.nvs_gpu.get(gpu),
            (Place::Net(_) | Place::Nvs, Place::Net(_) | Place::Nvs) => None,
        }
    }

    /// The speed of a step, which differs inside the node and out of it.
    fn speed(&self, from: Place, to: Place, share: Share) -> i64 {
        let out = matches!(from, Place::Net(_)) || matches!(to, Place::Net(_));
        let whole = if out { self.draft.inter_mbps } else { self.draft.intra_mbps };
        whole * share.0 / share.1
    }

    /// Whether the draft allows paths as far as this one.
    fn near_enough(&self, from: Place, to: Place, path: &NcclPath) -> bool {
        let out = matches!(from, Place::Net(_)) || matches!(to, Place::Net(_));
        let most = if out { self.draft.type_inter } else { self.draft.type_intra };
        let back = || self.path(to, from).is_none_or(|it| it.kind <= most);
        path.kind <= most && (!self.draft.pattern.is_tree() || back())
    }

    /// Takes the bandwidth of a step; `false` and nothing taken if there is not enough.
    pub(super) fn take(&mut self, from: Place, to: Place, share: Share) -> bool {
        let Some(path) = self.path(from, to).filter(|it| it.kind < PathKind::Dis) else {
            return false;
        };
        // Only steps at full or half speed are held to the kinds of path; NVLS and CollNet are not.
        if (share == WHOLE || share == Share(1, 2)) && !self.near_enough(from, to, path) {
            return false;
        }
        let speed = self.speed(from, to, share);
        for (done, edge) in path.edges.iter().enumerate() {
            let (there, back) = self.needs(from, path, *edge, speed);
            let reverse = self.system.edges[*edge].reverse;
            if self.free[*edge] < there || self.free[reverse] < back {
                self.release(from, path, done, speed);
                return false;
            }
            self.free[*edge] -= there;
            self.free[reverse] -= back;
        }
        self.draft.hops += i64::try_from(path.edges.len()).unwrap_or(0);
        true
    }

    pub(super) fn give_back(&mut self, from: Place, to: Place, share: Share) {
        if let Some(path) = self.path(from, to) {
            let speed = self.speed(from, to, share);
            self.release(from, path, path.edges.len(), speed);
            self.draft.hops -= i64::try_from(path.edges.len()).unwrap_or(0);
        }
    }

    fn release(&mut self, from: Place, path: &NcclPath, count: usize, speed: i64) {
        for edge in &path.edges[..count] {
            let (there, back) = self.needs(from, path, *edge, speed);
            self.free[*edge] += there;
            self.free[self.system.edges[*edge].reverse] += back;
        }
    }

    /// The bandwidth that a step takes from an edge and from its reverse.
    fn needs(&self, from: Place, path: &NcclPath, edge: usize, speed: i64) -> (i64, i64) {
        let edge = &self.system.edges[edge];
        let from_gpu = matches!(from, Place::Gpu(_));
        let cpu = self.system.cpu;
        // Intel's root complex splits what GPUs send each other into small packets.
        let split = cpu == Cpu::INTEL && path.kind == PathKind::Phb && from_gpu;
        let there = if split && edge.wire == Wire::Pci { speed * 6 / 5 } else { speed };
        let back = match self.system.devices[edge.to] {
            // Before Ampere, what comes from elsewhere costs a GPU some of the other direction.
            Device::Gpu(gpu) if self.system.gpus[gpu].sm < 80 && !from_gpu => there / 8,
            Device::Cpu if cpu.arch == CpuArch::Power && edge.wire == Wire::NvLink => there,
            _ => 0,
        };
        (there, back)
    }
}
