//! The order in which NCCL's graph search tries its next step: GPUs by the bandwidth and length of the paths to them, network
//! interfaces by their distance.

use super::super::constants::MAX_CHANNELS;
use super::super::kinds::{PathKind, Pattern};
use super::super::topology::Wire;
use super::{Route, Search};

/// The sort key by which GPUs are tried, as `ncclGpuScore` in NCCL's `graph/search.cc`: fields are compared in this order, and smaller is
/// better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rating {
    /// On the way back to the network interface: negated bandwidth of the path to it, negated bandwidth of the GPU's PCIe slot,
    /// length of the path. All 0 when the route does not return to the network.
    net: (i64, i64, usize),
    /// Negated bandwidth and length of the path from the previous GPU.
    gpu: (i64, usize),
    distance: usize,
}

impl Search<'_> {
    /// The GPUs not used yet in this channel that can be reached from `gpu`, best first.
    pub(super) fn best_next(&mut self, gpu: usize, step: usize, route: Route) -> Vec<usize> {
        let count = self.system.gpus.len();
        let flag = 1u64 << self.finished();
        let start = self.current().and_then(|it| it.nets).map(|it| it.0);
        // On the way back to the network, GPUs near the interface are kept for the end.
        let toward_net = route.back_to_net.and(start);
        let mut rated: Vec<(Rating, usize)> = Vec::new();
        for distance in 1..count {
            let next = (gpu + distance) % count;
            let path = &self.paths.gpu_gpu[gpu][next];
            if path.edges.is_empty() || self.used[next] & flag != 0 {
                continue;
            }
            let net = toward_net.map_or((0, 0, 0), |net| {
                let path = &self.paths.net_gpu[net][next];
                (-(path.mbps / 1000), -self.slot(next), path.edges.len())
            });
            let gpu = (-(path.mbps / 1000), path.edges.len());
            rated.push((Rating { net, gpu, distance }, next));
        }
        rated.sort();
        let early = route.back_to_net.is_some_and(|it| it != step + 1);
        if early && rated.windows(2).all(|it| it[0].0.gpu == it[1].0.gpu) {
            rated.reverse();
        }
        let order: Vec<usize> = rated.into_iter().map(|it| it.1).collect();
        if self.system.nvs.is_some() { self.neighbours(gpu, &order) } else { order }
    }

    /// Behind an NVSwitch all GPUs are alike, and few peers are better than many: only the two
    /// neighbours by number are tried.
    fn neighbours(&self, gpu: usize, open: &[usize]) -> Vec<usize> {
        let count = self.system.gpus.len();
        let (before, after) = ((gpu + count - 1) % count, (gpu + 1) % count);
        // The last one named is tried first.
        let named = match self.draft.pattern {
            Pattern::Ring => vec![after, before],
            Pattern::SplitTree | Pattern::BalancedTree => vec![before, after],
            _ => vec![after],
        };
        let distinct = if before == after { 1 } else { named.len() };
        named[..distinct].iter().rev().copied().filter(|it| open.contains(it)).collect()
    }

    /// The PCIe slot of a GPU in GB/s.
    fn slot(&self, gpu: usize) -> i64 {
        let device = self.system.gpus[gpu].device;
        let edges = self.system.out[device].iter().map(|it| &self.system.edges[*it]);
        let slot = edges.filter(|it| it.wire == Wire::Pci).map(|it| {
            let back = self.system.edges[it.reverse].mbps;
            it.mbps.min(back) / 1000
        });
        slot.max().unwrap_or(-1)
    }

    /// Interfaces in the order to try them: each GPU's own first, then all that are near enough.
    /// For one GPU, or for the start of a channel.
    pub(super) fn select_nets(&self, gpu: Option<usize>) -> Vec<usize> {
        let gpus = match gpu {
            Some(gpu) => gpu..gpu + 1,
            None => 0..self.system.gpus.len(),
        };
        let mut listed = vec![false; self.system.nets.len()];
        let mut nets: Vec<usize> = Vec::new();
        let mut add = |net: usize| {
            if !std::mem::replace(&mut listed[net], true) {
                nets.push(net);
            }
        };
        let own = &self.paths.own_nets[gpus.clone()];
        if self.system.hosts > 1 {
            // Over several servers, one interface of each GPU before a second of any.
            for channel in 0..MAX_CHANNELS {
                own.iter().filter_map(|it| it.get(channel)).for_each(|it| add(*it));
            }
        } else {
            own.iter().flatten().for_each(|it| add(*it));
        }
        let mut kind = Some(PathKind::Loc);
        while let Some(at) = kind.filter(|it| *it <= self.draft.type_inter) {
            for gpu in gpus.clone() {
                for (net, path) in self.paths.gpu_net[gpu].iter().enumerate().take(MAX_CHANNELS) {
                    if path.kind == at {
                        add(net);
                    }
                }
            }
            kind = at.farther();
        }
        nets
    }
}
