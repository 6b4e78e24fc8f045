//! [`NcclOptions`]: properties of a machine that NCCL would read and a network does not give, and
//! those of NCCL's environment variables that change the model. Each default is NCCL's.

use motet_units::{Bytes, Duration};

use super::constants::NcclVersion;
use super::kinds::{Algorithm, Cpu, Protocol};

/// Whether a ring may enter and leave a server by different NICs (`NCCL_CROSS_NIC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CrossNic {
    Never,
    Always,
    /// Where it is faster, two rings at a time.
    #[default]
    Auto,
}

/// The FIFO between two GPUs, per protocol (`NCCL_LL_BUFFSIZE`, `NCCL_LL128_BUFFSIZE`,
/// `NCCL_BUFFSIZE`). Eight steps share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffers {
    pub ll: Bytes,
    pub ll128: Bytes,
    pub simple: Bytes,
}

impl Default for Buffers {
    fn default() -> Self {
        // 8 lines × 512 threads × 8 steps × 16 bytes; 120 words × 640 threads × 8 steps × 8 bytes.
        Self { ll: Bytes::new(524_288), ll128: Bytes::new(4_915_200), simple: Bytes::mib(4) }
    }
}

impl Buffers {
    #[must_use]
    pub const fn of(&self, protocol: Protocol) -> Bytes {
        match protocol {
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
            Protocol::Simple => self.simple,
        }
    }
}

/// Assumptions about the machine, and the settings that the user forces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclOptions {
    pub version: NcclVersion,
    /// The compute capability of GPUs that do not say theirs (property `sm`). `None`: guessed
    /// from the number of NVLinks: 18 Hopper (Blackwell at 40 GB/s a lane), 12 Ampere, 6 Volta,
    /// 4 Pascal; 80 where there are none.
    pub sm: Option<u32>,
    /// The CPU of servers that do not say theirs (properties `arch`, `vendor`). `None`: AMD in
    /// Ampere servers with NVSwitches (as in the DGX A100), ARM where a C2C link leads to it,
    /// Intel otherwise.
    pub cpu: Option<Cpu>,
    /// The latency that NCCL's network plugin reports; those of InfiniBand and sockets report 0.
    pub net_latency: Duration,
    /// `NCCL_NET_OVERHEAD`: what posting a message costs the CPU. `None`: 2 µs on AMD, else 1.
    pub net_overhead: Option<Duration>,
    /// Whether NICs access GPU memory directly (GPUDirect RDMA). `None`: as the network says (property
    /// `gdr`), and where it does not, yes.
    pub gpu_direct: Option<bool>,
    pub cross_nic: CrossNic,
    /// `NCCL_PXN_DISABLE`.
    pub no_pxn: bool,
    /// `NCCL_NVLS_ENABLE`. `None`: as the network says (property `nvls` of an NVSwitch), and where
    /// it does not, yes: NCCL uses NVLS wherever it can, from Hopper on. What the network says of
    /// its switches' own abilities is for programs and does not count here.
    pub nvls: Option<bool>,
    /// Whether a network that reduces (SHARP) is used; NCCL needs `NCCL_COLLNET_ENABLE` for it.
    pub collnet: bool,
    /// `NCCL_PAT_ENABLE`. `None`: with one GPU per server.
    pub pat: Option<bool>,
    /// `NCCL_MIN_NCHANNELS`, `NCCL_MAX_NCHANNELS`, `NCCL_NVLS_NCHANNELS`.
    pub min_channels: Option<u32>,
    pub max_channels: Option<u32>,
    pub nvls_channels: Option<u32>,
    /// `NCCL_NTHREADS` (multiples of 32 from 64 to 512), `NCCL_LL128_NTHREADS` (160 to 640).
    pub threads: Option<u32>,
    pub ll128_threads: Option<u32>,
    pub buffers: Buffers,
    /// `NCCL_NVLS_CHUNKSIZE`. `None`: 128 KiB.
    pub nvls_chunk: Option<Bytes>,
    /// `NCCL_ALGO`, `NCCL_PROTO`: only these. Naming LL128 lifts the conditions on it.
    pub algorithms: Option<Vec<Algorithm>>,
    pub protocols: Option<Vec<Protocol>>,
}

impl NcclOptions {
    pub(super) fn allows(&self, algorithm: Algorithm) -> bool {
        self.algorithms.as_ref().is_none_or(|it| it.contains(&algorithm))
    }

    /// Whether `NCCL_PROTO` allows the protocol; `None` if it is not set.
    pub(super) fn forces(&self, protocol: Protocol) -> Option<bool> {
        self.protocols.as_ref().map(|it| it.contains(&protocol))
    }
}
