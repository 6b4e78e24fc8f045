//! What MSCCL++'s executor makes of a plan: puts, signals and waits instead of buffers.
//!
//! A block copies straight into the other GPU's memory and signals; the other waits for the signal.
//! Nothing is cut into slots and nothing waits for room. Blocks of one GPU order one another by
//! semaphores. All of it costs per operation, not per byte, and none of it is in NCCL's constants. So
//! these terms are measured ones:
//!
//! | term | value | from | how sure |
//! | --- | --- | --- | --- |
//! | launch | 4.0 µs | kernel and the handshake before it: AllGather of 16 KiB on two ranks took 6.3 µs, of which one hop | measured |
//! | hop within a server | 2.0 µs | put, signal and wait: the rest of the same | measured |
//! | hop between servers | 14 µs | a proxy posts it: NCCL's figure for a Simple step over the network | estimate |
//! | operation | 0.3 µs | threads of a block meet | estimate |
//! | semaphore | 2.4 µs | each further reduction in the chains of ReduceScatter on 4 and 8 ranks took 2.3 to 2.5 µs | measured |
//! | block | 38.7 GB/s on Hopper, NCCL's limit per channel elsewhere | 32 MiB by one block took 901 µs: 37 GB/s | measured on Hopper |
//! | packets | half of a wire, 0.9 µs a hop | flags beside the data; MSCCL++'s own AllGather of packets took 3.2 µs | measured for the whole |
//!
//! Measured on one H200 whose ranks share its memory (MSCCL++ 0.10, CUDA graphs): blocks, semaphores
//! and launches are real there, links are not. docs/nccl-model.md has the comparison with what plans
//! took.

use motet_units::{Bandwidth, Bytes};

use super::error::PriceError;
use super::layout::Laid;
use super::price::Price;
use super::terms::{Kernels, Terms, micros};
use crate::kinds::Protocol;

const LAUNCH_US: f64 = 4.0;
const OPERATION_US: f64 = 0.3;
const SEMAPHORE_US: f64 = 2.4;
/// Put, signal and wait: over NVLink, over PCIe, by a proxy over the network.
const HOP_US: [f64; 3] = [2.0, 2.0, 14.0];
/// The same with flags in the data; a proxy sends no packets of its own.
const PACKET_HOP_US: [f64; 3] = [0.9, 0.9, 14.0];

impl Kernels {
    /// What the parts of a plan of MSCCL++ are worth.
    #[must_use]
    pub fn mscclpp(&self, protocol: Protocol) -> Terms {
        let packets = protocol == Protocol::Ll;
        let gbps = self.constants.tree_max[self.communicator().generation()][0];
        Terms {
            launch: micros(LAUNCH_US),
            step: micros(OPERATION_US),
            flag: micros(SEMAPHORE_US),
            hop: if packets { PACKET_HOP_US } else { HOP_US }.map(micros),
            once: false,
            stretch: 1.0,
            wire: if packets { 0.5 } else { 1.0 },
            block: Bandwidth::from_bits_per_s((gbps * 8e9) as u64),
            gpu: None,
        }
    }
}

impl Laid {
    /// How long a collective of `size` bytes takes as a plan of MSCCL++.
    pub fn price_mscclpp(&self, size: Bytes) -> Result<Price, PriceError> {
        self.price_by(size, self.kernels.mscclpp(self.protocol), None)
    }

    /// A time that it is never below, without running anything.
    pub fn least_mscclpp(&self, size: Bytes) -> motet_units::Duration {
        self.least_by(size, &self.kernels.mscclpp(self.protocol))
    }
}
