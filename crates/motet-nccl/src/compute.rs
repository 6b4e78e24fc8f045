//! From a node to its graphs: which speeds, kinds of path and patterns are tried, in which order,
//! until a result is good enough. Then channels are doubled where one is faster than a single thread
//! block can carry, and the speed is raised as far as it goes.
//!
//! Source: `ncclTopoCompute` of `src/graph/search.cc` at v2.28.9-1 and v2.30.7-1, whose order of
//! trials decides between equally fast graphs. [`search`](super::search) does one trial.

use super::constants::{COLLNET_ARITY, LOCAL_MBPS, NVLS_ARITY, NcclVersion};
use super::graph::{Channel, Graph, Graphs};
use super::kinds::{PathKind, Pattern};
use super::options::{CrossNic, NcclOptions};
use super::paths::{NcclPath, Paths};
use super::search::{Limits, Outcome, Search};
use super::topology::{System, Wire};

/// Search steps allowed for one trial in which all channels are alike, for one in which they may differ, and for
/// all trials together.
const STEPS_ALIKE: i64 = 1 << 8;
const STEPS_APART: i64 = 1 << 14;
const STEPS_IN_ALL: i64 = 1 << 19;

/// The graphs of a node, ring first: the others get as many channels.
pub(super) fn graphs(system: &System, options: &NcclOptions) -> Graphs {
    let paths = Paths::new(system, options);
    let most = super::constants::MAX_CHANNELS;
    let find = |pattern, min_channels, max_channels, collnet| {
        let limits = Limits { min_channels, max_channels, collnet };
        Trials::new(system, &paths, options, pattern, limits).run()
    };
    let ring = find(Pattern::Ring, 1, most / 2, false);
    let count = ring.channels.len();
    let tree = find(Pattern::BalancedTree, count, count, false);
    let several = system.gpus.len() > 1;
    let nvls = (system.nvls && several && system.nvs.is_some() && system.min_sm() >= 90)
        .then(|| find(Pattern::Nvls, 1, most, false));
    let collnet = options.collnet && system.inter;
    let chain = collnet.then(|| find(Pattern::Tree, count, count, true));
    let direct = collnet.then(|| find(Pattern::CollNetDirect, 1, most, true));
    let some = |it: Option<Graph>| it.filter(|it| !it.channels.is_empty());
    Graphs {
        ring,
        tree,
        nvls: some(nvls),
        collnet_chain: some(chain),
        collnet_direct: some(direct),
    }
}

/// The trials for one pattern: searches under conditions that are relaxed step by step.
struct Trials<'a> {
    system: &'a System,
    paths: &'a Paths,
    cross_nic: CrossNic,
    limits: Limits,
    speeds: &'static [i64],
    /// The index in `speeds` of the speed being tried.
    speed: usize,
    /// The bandwidth of the widest path, and of the GPU that has most (see [`widths`]).
    max_mbps: i64,
    total_mbps: i64,
    /// The nearest and the farthest kind of path, inside the node and to interfaces (see [`kinds`]).
    nearest: (PathKind, PathKind),
    farthest: (PathKind, PathKind),
    best: Graph,
    /// The conditions of the next trial: its speeds, kinds of path and pattern.
    draft: Graph,
    steps_left: i64,
}

impl<'a> Trials<'a> {
    fn new(
        system: &'a System,
        paths: &'a Paths,
        options: &NcclOptions,
        pattern: Pattern,
        limits: Limits,
    ) -> Self {
        let sm = system.min_sm();
        let (max_mbps, total_mbps) = widths(system, paths);
        let crossing =
            matches!(pattern, Pattern::Ring | Pattern::BalancedTree | Pattern::SplitTree)
                && system.nets.len() > 1;
        let cross_nic = if crossing { options.cross_nic } else { CrossNic::Never };
        let single = system.gpus.len() == 1;
        let pattern = if single && pattern != Pattern::Ring { Pattern::Tree } else { pattern };
        let (nearest, farthest) = kinds(system, paths, options.version);
        let mut graph = Graph::empty(pattern);
        graph.cross_nic = u8::from(cross_nic == CrossNic::Always);
        (graph.type_intra, graph.type_inter) = nearest;
        graph.same_channels = pattern != Pattern::Nvls;
        Self {
            system,
            paths,
            cross_nic,
            limits: narrowed(limits, system, paths, pattern),
            speeds: options.version.constants().speeds.of(sm, system.inter),
            speed: 0,
            max_mbps,
            total_mbps,
            nearest,
            farthest,
            best: graph.clone(),
            draft: graph,
            steps_left: STEPS_IN_ALL,
        }
    }

    fn set_speed(&mut self) {
        let speed = self.speeds[self.speed];
        (self.draft.intra_mbps, self.draft.inter_mbps) = (speed, speed);
    }

    /// Lowers the speed until `fits` or there is no lower one.
    fn lower_until(&mut self, fits: impl Fn(&Self, i64) -> bool) {
        while self.speed + 1 < self.speeds.len() && !fits(self, self.speeds[self.speed]) {
            self.speed += 1;
        }
        self.set_speed();
    }

    fn run(mut self) -> Graph {
        let least = i64::try_from(self.limits.min_channels).unwrap_or(i64::MAX);
        let total = self.open_total();
        self.lower_until(|it, speed| speed <= it.max_mbps && speed.saturating_mul(least) <= total);
        loop {
            let (outcome, left) = self.trial();
            if outcome == Outcome::Perfect || self.is_enough() {
                break;
            }
            if !self.relax(left) {
                break;
            }
        }
        self.double_channels();
        self.raise_speed();
        if self.best.channels.is_empty()
            && !self.limits.collnet
            && self.best.pattern != Pattern::Nvls
        {
            self.fall_back();
        }
        self.best
    }

    /// The total bandwidth that a speed may need. Patterns that do not close use n − 1 connections among n GPUs
    /// where a ring uses n, so for them NCCL counts n ÷ (n − 1) times as much.
    fn open_total(&self) -> i64 {
        let gpus = i64::try_from(self.system.gpus.len()).unwrap_or(1);
        if gpus > 1 && self.best.pattern != Pattern::Ring {
            self.total_mbps * gpus / (gpus - 1)
        } else {
            self.total_mbps
        }
    }

    fn trial(&mut self) -> (Outcome, i64) {
        let steps = if self.draft.same_channels { STEPS_ALIKE } else { STEPS_APART };
        self.steps_left -= steps;
        let on = (self.system, self.paths);
        let best = self.best.clone();
        let (best, outcome, left) = Search::run(on, self.limits, self.draft.clone(), best, steps);
        self.best = best;
        (outcome, left)
    }

    fn is_enough(&self) -> bool {
        let channels = i64::try_from(self.best.channels.len()).unwrap_or(i64::MAX);
        channels.saturating_mul(self.best.inter_mbps) >= self.total_mbps
    }

    /// Relaxes the next condition in NCCL's order: channels that differ, a simpler tree, farther paths, other
    /// NICs, a lower speed. `false` if all has been tried.
    fn relax(&mut self, left: i64) -> bool {
        let (system, found) = (self.system, !self.best.channels.is_empty());
        let through_amd = system.cpu.is_amd() && self.draft.type_intra == PathKind::Sys;
        if self.draft.same_channels && !through_amd {
            self.draft.same_channels = false;
            return true;
        }
        self.draft.same_channels = self.best.pattern != Pattern::Nvls;
        self.steps_left += left;
        if self.steps_left < 0 && found {
            return false;
        }
        if system.min_sm() >= 90 && self.draft.pattern == Pattern::BalancedTree {
            self.draft.pattern = Pattern::Tree;
            return true;
        }
        // A simpler tree may have become the best.
        self.draft.pattern = self.best.pattern;
        let most = if system.inter { self.draft.type_inter } else { self.farthest.0 };
        let nearer = self.draft.type_intra < self.best.type_intra;
        if self.draft.type_intra < most
            && (!found || nearer)
            && let Some(next) = self.draft.type_intra.farther()
        {
            self.draft.type_intra = next;
            return true;
        }
        self.draft.type_intra = self.nearest.0;
        let nearer =
            self.draft.type_inter < self.best.type_inter || self.draft.type_inter < PathKind::Pxn;
        if system.inter
            && self.draft.type_inter < self.farthest.1
            && (!found || nearer)
            && let Some(next) = self.draft.type_inter.farther()
        {
            self.draft.type_inter = next;
            return true;
        }
        self.draft.type_inter = self.nearest.1;
        self.relax_further(found)
    }

    fn relax_further(&mut self, found: bool) -> bool {
        let pairs = matches!(self.best.pattern, Pattern::Ring | Pattern::BalancedTree);
        if self.cross_nic == CrossNic::Auto && self.draft.cross_nic == 0 && pairs {
            self.draft.cross_nic = 2;
            return true;
        }
        self.draft.cross_nic = u8::from(self.cross_nic == CrossNic::Always);
        // Lower the speed, unless what we have is twice as fast already.
        let Some(next) = self.speeds.get(self.speed + 1) else { return false };
        if found && *next * 100 <= self.best.inter_mbps * 49 {
            return false;
        }
        self.speed += 1;
        self.set_speed();
        true
    }

    /// One channel is one thread block; above 25 GB/s two are faster.
    fn double_channels(&mut self) {
        let (count, most) = (self.best.channels.len(), self.limits.max_channels);
        let hopper = self.system.min_sm() > 80;
        let enough = hopper && self.best.intra_mbps < 50_000 && count > 4;
        if count == 0
            || self.best.pattern == Pattern::Nvls
            || self.best.intra_mbps < 25_000
            || enough
        {
            return;
        }
        let doubled = (2 * count).min(most);
        let more: Vec<Channel> = self.best.channels[..doubled - count].to_vec();
        self.best.channels.extend(more);
        let times = i64::try_from(doubled.div_ceil(count)).unwrap_or(1);
        self.best.intra_mbps /= times;
        self.best.inter_mbps /= times;
    }

    /// With the channels found, tries the next higher speeds: rings as a whole, trees inside the
    /// node, NVLS outside of it.
    fn raise_speed(&mut self) {
        self.draft = self.best.clone();
        self.speed = 0;
        let most = self.best.inter_mbps;
        self.lower_until(|_, speed| speed <= most);
        self.limits.min_channels = self.best.channels.len();
        while self.speed > 0 {
            let next = self.speeds[self.speed - 1];
            let (draft, best) = (&mut self.draft, &self.best);
            if best.pattern == Pattern::Ring {
                (draft.intra_mbps, draft.inter_mbps) = (next, next);
            } else if best.pattern == Pattern::Nvls
                && draft.inter_mbps == best.inter_mbps
                && draft.inter_mbps < 2 * draft.intra_mbps
            {
                self.limits.max_channels = best.channels.len();
                draft.inter_mbps = next;
            } else if draft.intra_mbps == best.intra_mbps && draft.intra_mbps < 2 * draft.inter_mbps
            {
                draft.intra_mbps = next;
            } else {
                return;
            }
            self.speed -= 1;
            if self.trial().0 == Outcome::TimedOut {
                return;
            }
        }
    }

    /// NCCL's last resort where no graph was found at any speed: one channel through the GPUs by number, at
    /// 0.1 GB/s.
    fn fall_back(&mut self) {
        let gpus = self.system.gpus.len();
        let net = |gpu: usize| self.paths.local_net(self.system, gpu, 0);
        let nets = if self.system.inter { net(0).zip(net(gpus - 1)) } else { None };
        self.best.channels = vec![Channel { gpus: (0..gpus).collect(), nets }];
        (self.best.intra_mbps, self.best.inter_mbps) = (100, 100);
        (self.best.type_intra, self.best.type_inter) = (PathKind::Sys, PathKind::Sys);
    }
}

/// The bandwidth of the widest path (to interfaces if there are other nodes, between GPUs otherwise), and of the
/// GPU that has most: all its NVLinks, or its PCIe slot if that is more.
fn widths(system: &System, paths: &Paths) -> (i64, i64) {
    if !system.inter && system.gpus.len() == 1 {
        return (LOCAL_MBPS, LOCAL_MBPS);
    }
    let rows = if system.inter { &paths.gpu_net } else { &paths.gpu_gpu };
    let wide = rows.iter().flatten().filter(|it| !it.edges.is_empty()).map(|it| it.mbps).max();
    let total = system.gpus.iter().map(|gpu| {
        let edges = || system.out[gpu.device].iter().map(|it| &system.edges[*it]);
        let nvlink: i64 = edges().filter(|it| it.wire == Wire::NvLink).map(|it| it.mbps).sum();
        let pci = edges().filter(|it| it.wire == Wire::Pci).map(|it| it.mbps).next_back();
        nvlink.max(pci.unwrap_or(0))
    });
    (wide.unwrap_or(0), total.max().unwrap_or(0))
}

/// The nearest and the farthest kind of path, each between GPUs and from GPUs to interfaces. Trials go from the
/// nearest to the farthest.
fn kinds(
    system: &System,
    paths: &Paths,
    version: NcclVersion,
) -> ((PathKind, PathKind), (PathKind, PathKind)) {
    let range = |rows: &[Vec<NcclPath>], own: bool| {
        let others = rows.iter().enumerate().flat_map(|(row, it)| {
            it.iter().enumerate().filter(move |(at, _)| own || *at != row).map(|it| it.1.kind)
        });
        let near = others.clone().min().unwrap_or(PathKind::Sys).min(PathKind::Sys);
        (near, others.max().unwrap_or(PathKind::Loc))
    };
    let (mut near, mut far) = ((PathKind::Loc, PathKind::Pix), (PathKind::Sys, PathKind::Sys));
    if system.gpus.len() > 1 {
        (near.0, far.0) = range(&paths.gpu_gpu, false);
    }
    if system.inter {
        (near.1, far.1) = range(&paths.gpu_net, true);
        far.0 = far.1;
    }
    // Since 2.30: Ampere's balanced trees sometimes come back the long way.
    if version >= NcclVersion::V2_30 && system.min_sm() < 90 {
        far.1 = PathKind::Sys;
    }
    (near, far)
}

/// The limits of a search, narrowed to what the pattern allows.
fn narrowed(limits: Limits, system: &System, paths: &Paths, pattern: Pattern) -> Limits {
    let gpus = system.gpus.len();
    let Limits { mut min_channels, mut max_channels, collnet } = limits;
    match pattern {
        Pattern::Nvls => {
            max_channels = gpus.min(NVLS_ARITY);
            if !system.inter {
                // All GPUs pull alike.
                min_channels = max_channels;
            }
        }
        Pattern::CollNetDirect => max_channels = gpus.min(COLLNET_ARITY),
        // Two islands of NVLink: trees will be better, and need two channels.
        Pattern::Ring if is_split(paths) && min_channels == 1 => min_channels = 2,
        _ => {}
    }
    Limits { min_channels, max_channels, collnet }
}

/// Whether NVLink joins the GPUs into exactly two islands.
fn is_split(paths: &Paths) -> bool {
    let gpus = paths.gpu_gpu.len();
    let mut island: Vec<usize> = (0..gpus).collect();
    for gpu in 0..gpus {
        for peer in gpu + 1..gpus {
            if paths.gpu_gpu[gpu][peer].kind == PathKind::NvLink {
                island[peer] = island[gpu];
            }
        }
    }
    let size = |it: usize| island.iter().filter(|other| **other == it).count();
    (0..gpus).filter(|it| size(*it) > 1).count() == 2
}
