//! MSCCL++ JSON execution plans, read and written.
//!
//! A plan is one-sided: a threadblock copies from its own memory to another GPU's (`put`) or the
//! other way round, itself or through a proxy (a *port* channel), and order comes from signals,
//! semaphores and barriers alone. [`read()`] turns that into transfers and waits between them; what
//! orders what is told in `graph.rs`. [`lower()`] gives any program this shape, and [`write()`]
//! writes a program that has it.
//!
//! - Reading: `model` (the file), `tables`, `resolve`, `operations` and `switch` (what each operation does),
//!   `graph`, `counters`, `packets` and `pipeline` (what orders them), `waits` (the program),
//!   `ending` (what is left when a GPU ends).
//! - Writing: `stage`, `hazards` and `shape` (one-sided pieces), `lower` (their threadblocks),
//!   `agenda`, `ports` and `handshake` (who waits for whom), `packing` and `fuse` (what goes into
//!   one operation), `switch_write` (what goes through switches), `emit` and `lists` (operations and what
//!   they refer to), `group` (blocks that share a chunk), `style` (which of the ways to write a program
//!   says just what it says).

mod agenda;
mod collective;
mod counters;
mod counts;
mod emit;
mod ending;
mod fuse;
mod graph;
mod group;
mod handshake;
mod hazards;
mod lanes;
mod limits;
mod lists;
mod lower;
mod model;
mod operations;
mod outline;
mod packets;
mod packing;
mod pipeline;
mod ports;
mod read;
mod resolve;
mod servers;
mod shape;
mod stage;
mod steps;
mod style;
mod switch;
mod switch_write;
mod tables;
mod waits;
mod write;

pub use counts::check_counts;
pub use limits::whole_chunks;
pub use lower::lower;
pub use outline::{Outline, OutlineBlock, OutlineStep, Work, outline};
pub use read::read;
pub use write::write;

use motet_units::{Bytes, Rank};

/// How to write a program as an MSCCL++ execution plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How GPUs reach each other: through memory, or through a proxy.
    pub channel: Channel,
    /// CUDA threads in each threadblock.
    pub threads_per_block: u32,
    /// Parallel copies of the program, each on threadblocks of its own (see
    /// [`in_instances`](crate::program::in_instances)). 0 counts as 1.
    pub instances: u32,
    /// Which calls the plan is for, where the program serves both: a plan is for one form only, and
    /// out of place it has less to wait for.
    pub in_place: bool,
    /// Where the plan will run, which limits its threadblocks.
    pub gpu: Gpu,
    /// A size of call, in nccl-tests' sense, that the plan must be able to run.
    pub size: Option<Bytes>,
    /// Whether the plan's name is made its own by a checksum of what the plan does. The executor keeps what
    /// it has set up for a plan by name and buffers, so that two plans of one name in one process
    /// crash. `false` keeps the program's name.
    pub own_name: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            channel: Channel::Memory,
            threads_per_block: 1024,
            instances: 1,
            in_place: false,
            gpu: Gpu::default(),
            size: None,
            own_name: false,
        }
    }
}

/// What a GPU keeps running at once. Blocks of a plan wait for one another, so that all blocks of all
/// ranks on a GPU must be resident; where they are not, the call hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub multiprocessors: u32,
    /// Ranks that share the GPU.
    pub ranks: u32,
}

impl Default for Gpu {
    /// One rank on an H100 or H200.
    fn default() -> Self {
        Self { multiprocessors: 132, ranks: 1 }
    }
}

impl Gpu {
    /// How many blocks of so many threads one rank may have. The executor's kernel takes 64 registers a
    /// thread, so that 1024 threads fill a multiprocessor. Where ranks share a GPU, a tenth is left to
    /// what else the driver runs there.
    #[must_use]
    pub fn blocks(&self, threads: u32) -> u32 {
        let per_multiprocessor = limits::MAX_THREADS / threads.clamp(1, limits::MAX_THREADS);
        let usable = match self.ranks {
            0 | 1 => self.multiprocessors,
            _ => self.multiprocessors - self.multiprocessors.div_ceil(11),
        };
        usable.saturating_mul(per_multiprocessor) / self.ranks.max(1)
    }
}

/// How two GPUs reach each other in a plan: MSCCL++ has *memory channels*, over which threads read
/// and write the other GPU's memory themselves, and *port channels*, over which a proxy on the CPU
/// moves data for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Memory channels everywhere: all GPUs in one server or one NVLink domain.
    Memory,
    /// Port channels everywhere, which works between any two GPUs.
    Port,
    /// Memory channels among each so many consecutive ranks, which are a server; port channels
    /// between servers.
    Auto { gpus_per_server: u32 },
    /// Memory channels among ranks with the same number in this list, port channels between others
    /// and to ranks beyond the list.
    Servers(Vec<u32>),
}

impl Channel {
    /// Whether so many ranks all reach one another's memory.
    #[must_use]
    pub fn is_memory_only(&self, ranks: u32) -> bool {
        (1..ranks).all(|it| !self.by_port(Rank(0), Rank(it)))
    }

    /// How many consecutive ranks a server has, where so many ranks are in servers of one size and ports
    /// join these; `None` where they are not, or there is only one server.
    #[must_use]
    pub fn gpus_per_server(&self, ranks: u32) -> Option<u32> {
        let first = (1..ranks).find(|it| self.by_port(Rank(0), Rank(*it)))?;
        let pairs = (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b))).filter(|(a, b)| a < b);
        let mut alike =
            pairs.map(|(a, b)| self.by_port(Rank(a), Rank(b)) == (a / first != b / first));
        alike.all(|it| it).then_some(first)
    }

    fn by_port(&self, a: Rank, b: Rank) -> bool {
        match self {
            Self::Memory => false,
            Self::Port => true,
            Self::Auto { gpus_per_server } => {
                let per = (*gpus_per_server).max(1);
                a.0 / per != b.0 / per
            }
            Self::Servers(servers) => match (servers.get(a.index()), servers.get(b.index())) {
                (Some(a), Some(b)) => a != b,
                _ => true,
            },
        }
    }
}
