//! [`Shape`]: all that is known of a communicator without its network: ranks, nodes, and the kind of GPU.
//!
//! A tuner plugin is told no more than that. It is enough for what NCCL [offers](super::offer), with three
//! assumptions: ranks lie evenly on nodes, NICs are near their GPUs, and the searches find channels. For what
//! calls cost it is not; that takes a network and [`NcclModel`](super::NcclModel).

use super::constants::{COLLNET_ARITY, MAX_CHANNELS};
use super::kinds::{Cpu, PathKind, Pattern};
use super::model::nvls_channels;
use super::options::NcclOptions;
use super::tuning::{Communicator, GraphInfo};

/// The size of a communicator and the kind of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub ranks: usize,
    /// Servers or NVLink domains: NCCL's nNodes.
    pub nodes: usize,
    /// The compute capability: 90 is 9.0.
    pub sm: u32,
    /// Whether NVLink joins the GPUs of a node.
    pub nvlink: bool,
    /// Whether the NVLinks go to NVSwitches rather than from GPU to GPU.
    pub nvswitch: bool,
}

impl Shape {
    /// The shape that a model has found.
    #[must_use]
    pub fn of(comm: &Communicator) -> Self {
        Self {
            ranks: comm.ranks,
            nodes: comm.nodes,
            sm: comm.min_sm,
            nvlink: comm.ring.type_intra <= PathKind::NvLinkBridged,
            nvswitch: comm.nvswitch,
        }
    }

    /// A communicator of this shape, for asking what NCCL offers on it. Bandwidths are 0, so nothing can be priced
    /// with it; channels are the most that NCCL's searches can find.
    #[must_use]
    pub fn communicator(&self, options: &NcclOptions) -> Communicator {
        let nodes = self.nodes.max(1);
        let local = self.ranks.div_ceil(nodes);
        let several = local > 1;
        let intra = match (several, self.nvlink) {
            (false, _) => PathKind::Loc,
            (true, true) => PathKind::NvLink,
            (true, false) => PathKind::Phb,
        };
        let graph = |channels: usize| GraphInfo {
            channels,
            intra: 0.0,
            inter: 0.0,
            type_intra: intra,
            type_inter: if nodes > 1 { PathKind::Pxb } else { PathKind::Loc },
            same_channels: true,
            latency_inter: 0.0,
            pattern: Pattern::Ring,
        };
        let nvls = self.nvswitch && several && self.sm >= 90 && options.nvls != Some(false);
        let found = graph(MAX_CHANNELS / 2);
        let collnet =
            graph(if options.collnet && nodes > 1 { local.min(COLLNET_ARITY) } else { 0 });
        let limit = |it: Option<u32>| it.map(|it| (it as usize).clamp(1, MAX_CHANNELS));
        let mut comm = Communicator {
            ranks: self.ranks,
            nodes,
            max_local_ranks: local,
            min_sm: self.sm,
            max_sm: self.sm,
            cpu: options.cpu.unwrap_or(Cpu::INTEL),
            nvswitch: self.nvswitch,
            nvls,
            collnet_heads: collnet.channels,
            ring: found,
            tree: found,
            nvls_graph: graph(if nvls { local } else { 0 }),
            collnet_chain: collnet,
            collnet_direct: graph(if self.nvswitch { collnet.channels } else { 0 }),
            channels: limit(options.max_channels).unwrap_or(MAX_CHANNELS),
            nvls_channels: 0,
        };
        comm.nvls_channels = nvls_channels(&comm, options);
        comm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::build;
    use crate::{Algorithm, NcclModel, Offer, Protocol, TunedCollective};

    /// The shape of a communicator is enough to know what NCCL offers on it.
    #[test]
    fn a_shape_offers_what_the_whole_model_does() {
        let networks = [
            build("dgx-h100", &["count=1"]),
            build("dgx-h100", &["count=4"]),
            build("dgx-a100", &["count=2"]),
            build("dgx-b200", &["count=2"]),
            build("v100-x4", &["count=2"]),
        ];
        let every = [
            NcclOptions::default(),
            NcclOptions { nvls: Some(false), ..NcclOptions::default() },
            NcclOptions { pat: Some(true), ..NcclOptions::default() },
        ];
        for (network, options) in networks.iter().flat_map(|it| every.iter().map(move |o| (it, o)))
        {
            let model = NcclModel::new(network, options.clone()).unwrap();
            let comm = Shape::of(model.communicator()).communicator(options);
            let offer = Offer { comm: &comm, options };
            for collective in TunedCollective::ALL {
                for (algorithm, protocol) in
                    Algorithm::ALL.into_iter().flat_map(|it| Protocol::ALL.map(|p| (it, p)))
                {
                    assert_eq!(
                        offer.check(collective, algorithm, protocol),
                        model.offer().check(collective, algorithm, protocol),
                        "{}: {collective} {algorithm} {protocol}",
                        network.name()
                    );
                }
            }
            assert!(comm.channels >= model.communicator().channels);
            assert_eq!(comm.nvls_channels, model.communicator().nvls_channels);
        }
    }
}
