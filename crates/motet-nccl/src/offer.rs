//! Which algorithms and protocols NCCL offers for a collective on a communicator, and why not the others
//! ([`NotOffered`]).
//!
//! NCCL asks in three places, kept apart here because its tables show the difference: whether it fills the entry
//! of its tables at all ([`Offer::is_tabled`]), whether it leaves it enabled ([`Offer::is_enabled`]), and whether the
//! communicator supports the algorithm when a call comes ([`Offer::is_supported`]). A call can use what passes
//! all three. [`tuning`](super::tuning) and [`model`](super::model) price that; action spaces mask the rest.

use super::constants::{COLLNET_ARITY, NVLS_ARITY};
use super::kinds::{Algorithm, Protocol, TunedCollective};
use super::options::NcclOptions;
use super::tuning::Communicator;

/// Why NCCL does not offer an algorithm with a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotOffered {
    #[error("NCCL has no kernel of this algorithm for the collective")]
    Collective,
    #[error("the algorithm runs with Simple only")]
    SimpleOnly,
    #[error("a communicator of one rank copies, by Ring and Simple")]
    OneRank,
    #[error("PAT needs one rank on each node, or NCCL_PAT_ENABLE=1, and compute capability 6.0")]
    NoPat,
    #[error("no switch of NVLink on this communicator copies and adds up (NVLS)")]
    NoNvls,
    #[error("NVLSTree joins nodes, and there is one only")]
    OneNode,
    #[error("no network adds up here (CollNet, NCCL_COLLNET_ENABLE=1)")]
    NoCollNet,
    #[error("CollNetDirect needs GPUs that are joined by NVSwitches")]
    NoNvSwitch,
    #[error("a node has more than the {most} ranks that the algorithm takes")]
    LocalRanks { most: usize },
    #[error("not every rank of a node has a NIC of its own at the head of a channel")]
    Heads,
    #[error("128-byte stores do not arrive whole on these paths between these GPUs (LL128)")]
    Ll128,
    #[error("excluded by NCCL_ALGO or NCCL_PROTO")]
    Excluded,
}

/// What NCCL offers on a communicator under its options.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    pub comm: &'a Communicator,
    pub options: &'a NcclOptions,
}

impl Offer<'_> {
    /// Whether a call can use this; if not, the first reason against it.
    pub fn check(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Result<(), NotOffered> {
        if self.comm.ranks <= 1 {
            let only = (algorithm, protocol) == (Algorithm::Ring, Protocol::Simple);
            return only.then_some(()).ok_or(NotOffered::OneRank);
        }
        self.is_supported(collective, algorithm)?;
        self.is_tabled(collective, algorithm, protocol)?;
        self.is_enabled(collective, algorithm, protocol)?;
        // Tabled with bandwidth 0.
        let plain = !algorithm.is_collnet() || protocol == Protocol::Simple;
        plain.then_some(()).ok_or(NotOffered::SimpleOnly)
    }

    /// Whether NCCL computes this entry of its tables at all.
    pub(super) fn is_tabled(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Result<(), NotOffered> {
        let suits = match collective {
            TunedCollective::Broadcast | TunedCollective::Reduce => algorithm == Algorithm::Ring,
            TunedCollective::AllGather | TunedCollective::ReduceScatter => matches!(
                algorithm,
                Algorithm::Ring | Algorithm::Nvls | Algorithm::CollNetDirect | Algorithm::Pat
            ),
            TunedCollective::AllReduce => algorithm != Algorithm::Pat,
        };
        let simple = protocol == Protocol::Simple;
        match algorithm {
            _ if !suits => Err(NotOffered::Collective),
            Algorithm::Pat if !self.has_pat() => Err(NotOffered::NoPat),
            Algorithm::Nvls | Algorithm::NvlsTree if self.comm.nvls_graph.channels < 2 => {
                Err(NotOffered::NoNvls)
            }
            Algorithm::Pat | Algorithm::Nvls | Algorithm::NvlsTree if !simple => {
                Err(NotOffered::SimpleOnly)
            }
            _ => Ok(()),
        }
    }

    fn has_pat(&self) -> bool {
        let usual = self.comm.nodes == self.comm.ranks;
        self.comm.min_sm >= 60 && self.options.pat.unwrap_or(usual)
    }

    /// Whether the user, the hardware and NCCL's own caution allow it.
    pub(super) fn is_enabled(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Result<(), NotOffered> {
        let Self { comm, options } = *self;
        if !options.allows(algorithm) {
            return Err(NotOffered::Excluded);
        }
        match algorithm {
            Algorithm::NvlsTree if comm.nodes <= 1 => return Err(NotOffered::OneNode),
            Algorithm::Nvls if comm.nodes > 1 && !options.collnet => {
                return Err(NotOffered::NoCollNet);
            }
            Algorithm::CollNetDirect | Algorithm::CollNetChain if !options.collnet => {
                return Err(NotOffered::NoCollNet);
            }
            Algorithm::CollNetDirect if !comm.nvswitch => return Err(NotOffered::NoNvSwitch),
            _ => {}
        }
        let by_heads = collective.is_half()
            && matches!(algorithm, Algorithm::Nvls | Algorithm::CollNetDirect)
            && comm.nodes > 1;
        if by_heads && comm.max_local_ranks > comm.collnet_heads {
            return Err(NotOffered::Heads);
        }
        match options.forces(protocol) {
            Some(true) => Ok(()),
            Some(false) => Err(NotOffered::Excluded),
            None if protocol == Protocol::Ll128 && !comm.trusts_ll128(algorithm) => {
                Err(NotOffered::Ll128)
            }
            None => Ok(()),
        }
    }

    /// Whether the communicator supports the algorithm when a call comes.
    pub(super) fn is_supported(
        &self,
        collective: TunedCollective,
        algorithm: Algorithm,
    ) -> Result<(), NotOffered> {
        let comm = self.comm;
        let collnet = self.options.collnet && comm.collnet_chain.channels > 0;
        match algorithm {
            Algorithm::CollNetDirect | Algorithm::CollNetChain => {
                if !collnet {
                    return Err(NotOffered::NoCollNet);
                }
                let fits = comm.max_local_ranks <= COLLNET_ARITY;
                fits.then_some(()).ok_or(NotOffered::LocalRanks { most: COLLNET_ARITY })
            }
            Algorithm::Nvls | Algorithm::NvlsTree => {
                if !comm.nvls {
                    return Err(NotOffered::NoNvls);
                }
                let fits =
                    collective == TunedCollective::AllReduce || comm.max_local_ranks <= NVLS_ARITY;
                if !fits {
                    return Err(NotOffered::LocalRanks { most: NVLS_ARITY });
                }
                let alone = algorithm == Algorithm::NvlsTree || comm.nodes == 1 || collnet;
                alone.then_some(()).ok_or(NotOffered::NoCollNet)
            }
            Algorithm::Tree | Algorithm::Ring | Algorithm::Pat => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use motet_units::Bytes;

    use super::*;
    use crate::testing::build;
    use crate::{NcclModel, Shape};

    /// What is offered is what has a cost in the table that NCCL hands to tuner plugins.
    #[test]
    fn offers_are_what_has_a_cost() {
        let networks = [
            build("dgx-h100", &["count=1"]),
            build("dgx-h100", &["count=4"]),
            build("dgx-a100", &["count=2"]),
            build("dgx-b200", &["count=2"]),
        ];
        let every = [
            NcclOptions::default(),
            NcclOptions { collnet: true, ..NcclOptions::default() },
            NcclOptions { nvls: Some(false), pat: Some(true), ..NcclOptions::default() },
            NcclOptions { algorithms: Some(vec![Algorithm::Tree]), ..NcclOptions::default() },
            NcclOptions { protocols: Some(vec![Protocol::Ll128]), ..NcclOptions::default() },
        ];
        let (mut offered, mut refused) = (0, 0);
        for (network, options) in networks.iter().flat_map(|it| every.iter().map(move |o| (it, o)))
        {
            let model = NcclModel::new(network, options.clone()).unwrap();
            let offer = Offer { comm: model.communicator(), options };
            for collective in TunedCollective::ALL {
                let costs = model.costs(collective, Bytes::mib(1), 1);
                for algorithm in Algorithm::ALL {
                    for protocol in Protocol::ALL {
                        let check = offer.check(collective, algorithm, protocol);
                        let costs = costs.get(algorithm, protocol);
                        assert_eq!(
                            check.is_ok(),
                            costs.is_some(),
                            "{}: {options:?}: {collective} {algorithm} {protocol}: {check:?}",
                            network.name()
                        );
                        if check.is_ok() { offered += 1 } else { refused += 1 }
                    }
                }
            }
        }
        assert!(offered > 100 && refused > 100, "{offered} offered, {refused} refused");
    }

    fn refusal(
        shape: &Shape,
        options: &NcclOptions,
        asked: (TunedCollective, Algorithm, Protocol),
    ) -> Option<NotOffered> {
        let comm = shape.communicator(options);
        Offer { comm: &comm, options }.check(asked.0, asked.1, asked.2).err()
    }

    /// Each condition has a case that it alone decides.
    #[test]
    fn reasons() {
        use Algorithm::{CollNetChain, CollNetDirect, Nvls, NvlsTree, Pat, Ring, Tree};
        use Protocol::{Ll, Ll128, Simple};
        use TunedCollective::{AllGather, AllReduce, Broadcast};
        let one = Shape { ranks: 8, nodes: 1, sm: 90, nvlink: true, nvswitch: true };
        let four = Shape { ranks: 32, nodes: 4, ..one };
        let wide = Shape { ranks: 64, nodes: 4, ..one };
        let plain = NcclOptions::default();
        let collnet = NcclOptions { collnet: true, ..NcclOptions::default() };
        let only = |it| NcclOptions { algorithms: Some(vec![it]), ..NcclOptions::default() };
        let over = |it| NcclOptions { protocols: Some(vec![it]), ..NcclOptions::default() };
        let none = |shape: &Shape, options: &NcclOptions, asked| {
            assert_eq!(refusal(shape, options, asked), None, "{asked:?}");
        };
        let why = |shape: &Shape, options: &NcclOptions, asked, reason| {
            assert_eq!(refusal(shape, options, asked), Some(reason), "{asked:?}");
        };
        why(&one, &plain, (Broadcast, Tree, Simple), NotOffered::Collective);
        why(&one, &plain, (AllReduce, Nvls, Ll), NotOffered::SimpleOnly);
        why(&four, &collnet, (AllReduce, CollNetChain, Ll), NotOffered::SimpleOnly);
        none(&four, &collnet, (AllReduce, CollNetChain, Simple));
        why(&Shape { ranks: 1, ..one }, &plain, (AllReduce, Ring, Ll), NotOffered::OneRank);
        none(&Shape { ranks: 1, ..one }, &plain, (AllReduce, Ring, Simple));
        why(&four, &plain, (AllGather, Pat, Simple), NotOffered::NoPat);
        none(&Shape { nodes: 32, ..four }, &plain, (AllGather, Pat, Simple));
        why(&Shape { sm: 80, ..one }, &plain, (AllReduce, Nvls, Simple), NotOffered::NoNvls);
        why(&one, &plain, (AllReduce, NvlsTree, Simple), NotOffered::OneNode);
        none(&four, &plain, (AllReduce, NvlsTree, Simple));
        why(&four, &plain, (AllReduce, CollNetDirect, Simple), NotOffered::NoCollNet);
        let no_switch = Shape { nvswitch: false, ..four };
        why(&no_switch, &collnet, (AllReduce, CollNetDirect, Simple), NotOffered::NoNvSwitch);
        none(&four, &collnet, (AllReduce, CollNetDirect, Simple));
        let most = COLLNET_ARITY;
        let local = NotOffered::LocalRanks { most };
        why(&wide, &collnet, (AllReduce, CollNetChain, Simple), local);
        let rack = Shape { ranks: 72, ..one };
        let local = NotOffered::LocalRanks { most: NVLS_ARITY };
        why(&rack, &plain, (AllGather, Nvls, Simple), local);
        none(&rack, &plain, (AllReduce, Nvls, Simple));
        why(&wide, &collnet, (AllGather, Nvls, Simple), NotOffered::Heads);
        none(&four, &collnet, (AllGather, Nvls, Simple));
        let pcie = Shape { nvlink: false, nvswitch: false, ..one };
        why(&pcie, &plain, (AllReduce, Ring, Ll128), NotOffered::Ll128);
        none(&pcie, &over(Ll128), (AllReduce, Ring, Ll128));
        why(&one, &over(Ll), (AllReduce, Ring, Simple), NotOffered::Excluded);
        why(&one, &only(Tree), (AllReduce, Ring, Simple), NotOffered::Excluded);
    }
}
