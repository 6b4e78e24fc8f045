//! Textbook algorithms, and what NCCL itself would build. They are the baselines, and often the
//! best there is.
//!
//! [`methods`] lists them. Each works on any network: ranks without a direct link are connected by
//! the paths that `routes` finds. Only the methods for grids and for NCCL's own channels need a
//! network of a certain kind.
//!
//! Most find trees and leave slicing and scheduling to [`crate::lower`]:
//!
//! - [`ring`], [`double_tree`], [`pat`], [`direct`], [`hierarchical`], [`dimension`], [`nccl`].
//!
//! Those that combine many parts into one message are written step by step:
//!
//! - [`recursive`], [`exchanged`], [`bruck`], with `steps` and `gather`.
//!
//! Shared parts: `routes` (paths that balance the load), `levels` (servers, racks, datacenters),
//! `tour` (a short ring through all ranks), `plan` (trees into programs, and which are best).

mod bruck;
mod dimension;
mod direct;
mod double_tree;
mod exchanged;
mod gather;
mod hierarchical;
mod levels;
mod nccl;
mod pat;
mod plan;
mod recursive;
mod ring;
mod routes;
mod spread;
mod steps;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tour;

use motet_collective::CollectiveKind::{
    self, AllGather, AllReduce, AllToAll, AllToAllV, Broadcast, Gather, Reduce, ReduceScatter,
    Scatter, SendRecv,
};

use crate::recipe::Recipe;

const BY_TREES: &[CollectiveKind] = &[AllGather, ReduceScatter, AllReduce, Broadcast, Reduce];
const BY_PARTS: &[CollectiveKind] = &[AllGather, ReduceScatter, AllReduce];

static METHODS: [Recipe; 16] = [
    Recipe {
        name: "hierarchical",
        about: "between servers by rails and inside them at once; two or three levels",
        collectives: BY_TREES,
        scales: true,
        auto: true,
        make: hierarchical::make,
    },
    Recipe {
        name: "exchanged",
        about: "servers sum up inside, exchange their sums, and spread them",
        collectives: &[AllReduce],
        scales: false,
        auto: true,
        make: exchanged::make,
    },
    Recipe {
        name: "direct",
        about: "every rank straight to every other (allreduce: in one shot or two)",
        collectives: &[
            AllGather,
            ReduceScatter,
            AllReduce,
            AllToAll,
            AllToAllV,
            Broadcast,
            Gather,
            Scatter,
            SendRecv,
        ],
        scales: false,
        auto: true,
        make: direct::make,
    },
    Recipe {
        name: "dimension-wise",
        about: "meshes and tori: one dimension after the other, all of them at once",
        collectives: BY_PARTS,
        scales: true,
        auto: true,
        make: dimension::make,
    },
    Recipe {
        name: "ring",
        about: "one ring through all ranks, fast links first",
        collectives: BY_TREES,
        scales: false,
        auto: true,
        make: ring::one,
    },
    Recipe {
        name: "ring-bidirectional",
        about: "one ring, half of the data each way round",
        collectives: BY_TREES,
        scales: false,
        auto: true,
        make: ring::bidirectional,
    },
    Recipe {
        name: "rings",
        about: "several rings that share links and NICs evenly",
        collectives: BY_TREES,
        scales: false,
        auto: true,
        make: ring::several,
    },
    Recipe {
        name: "double-tree",
        about: "two binary trees, each rank a leaf of one and inner in the other, pipelined",
        collectives: &[AllReduce, Broadcast, Reduce],
        scales: false,
        auto: true,
        make: double_tree::make,
    },
    Recipe {
        name: "binomial",
        about: "one binomial tree out of the root",
        collectives: &[Broadcast, Reduce],
        scales: false,
        auto: true,
        make: pat::binomial,
    },
    Recipe {
        name: "pat",
        about: "parallel aggregated trees: binomial trees, far ranks first",
        collectives: BY_PARTS,
        scales: false,
        auto: true,
        make: pat::make,
    },
    Recipe {
        name: "recursive-doubling",
        about: "what a rank has doubles with every step (allreduce: whole sums are exchanged)",
        collectives: &[AllGather, AllReduce],
        scales: false,
        auto: true,
        make: recursive::doubling,
    },
    Recipe {
        name: "recursive-halving",
        about: "what a rank sums halves with every step (allreduce: halving, then doubling)",
        collectives: &[ReduceScatter, AllReduce],
        scales: false,
        auto: true,
        make: recursive::halving,
    },
    Recipe {
        name: "bruck",
        about: "steps of doubling distance, for any number of ranks",
        collectives: &[AllGather, ReduceScatter, AllReduce, AllToAll],
        scales: false,
        auto: true,
        make: bruck::make,
    },
    Recipe {
        name: "nccl-ring",
        about: "the rings that NCCL would build, on its channels",
        collectives: BY_TREES,
        scales: false,
        auto: false,
        make: nccl::ring,
    },
    Recipe {
        name: "nccl-tree",
        about: "the double binary trees that NCCL would build, on its channels",
        collectives: &[AllReduce],
        scales: false,
        auto: false,
        make: nccl::tree,
    },
    Recipe {
        name: "nccl-pat",
        about: "NCCL's parallel aggregated trees over ranks as it numbers them",
        collectives: &[AllGather, ReduceScatter],
        scales: false,
        auto: false,
        make: pat::as_numbered,
    },
];

/// Every method; those that are best most often come first.
#[must_use]
pub fn methods() -> &'static [Recipe] {
    &METHODS
}
