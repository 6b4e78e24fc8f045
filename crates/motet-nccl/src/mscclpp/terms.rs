//! [`PlanTerms`]: what the parts of a plan are worth.

use super::rounds::legs;
use crate::descent;

/// The terms of the model, by which a plan's operations are priced. Times are in microseconds.
///
/// Threads move 16 bytes at a time, or packets of 8 bytes of data and their flags. A *round* is what all
/// threads of a block do at once: 16 bytes each, or 8 in packets (see `rounds`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanTerms {
    /// A call: launching the kernel, loading the plan, ending.
    pub launch: f64,
    /// For each further rank that shares the GPU, whose kernels start one after the other.
    pub sharer: f64,
    /// For 1024 threads of a block; fewer start faster.
    pub threads: f64,
    /// For each block that runs on the GPU.
    pub block: f64,
    /// An operation that moves data, whatever it moves.
    pub operation: f64,
    /// What a signal waits for before it is sent: until all GPUs see what the block has written. Relaxed
    /// signals, which say nothing about data, do not.
    pub fence: f64,
    /// What that takes longer on a GPU that ranks share: so much times the share of its ranks that are
    /// others, whose writes are under way as well,
    pub fence_others: f64,
    /// and so much for each further block on the multiprocessor.
    pub fence_block: f64,
    /// From a signal to the end of the wait for it.
    pub signal: f64,
    /// For each counter that an operation raises or waits for.
    pub counter: f64,
    /// The same as a signal between blocks of one GPU (a semaphore).
    pub semaphore: f64,
    /// A round of copying.
    pub copy_round: f64,
    /// A round of a sum: what does not depend on the number of summands,
    pub sum_round: f64,
    /// for each range that is read
    pub sum_read: f64,
    /// and for each that is written beyond the first.
    pub sum_write: f64,
    /// A round of writing packets to one place.
    pub packet_write: f64,
    /// A round of reading packets from one place,
    pub packet_read: f64,
    /// and from each further one, in a sum.
    pub packet_more: f64,
    /// A round of sending a sum on in packets to one place. A thread waits for all summands before it
    /// sends, and sends before it turns to the next sum, so that less overlaps than in plain writing.
    pub packet_on: f64,
    /// What a round takes longer if its data comes from memory and not from the cache.
    pub cold_round: f64,
    /// What a multiprocessor loads and stores, in bytes per microsecond.
    pub block_rate: f64,
    /// What a GPU's memory reads and writes, in bytes per microsecond, while all data fits its cache
    pub cached: f64,
    /// and while it does not.
    pub memory: f64,
    /// From a post until the proxy begins with it,
    pub post: f64,
    /// what it takes for each copy and each signal, one after the other,
    pub proxy: f64,
    /// longer by so much for each further rank on the GPU, whose proxies share its queues,
    pub proxy_sharer: f64,
    /// and what it moves, in bytes per microsecond, where no link is slower.
    pub post_rate: f64,
}

/// How many terms there are.
pub const TERMS: usize = 27;

/// The cache of an H100 or H200, in bytes.
pub(super) const CACHE: f64 = 50e6;

impl PlanTerms {
    /// Fitted to one H200 whose ranks share its memory, with MSCCL++ 0.10 (`benches/mscclpp/results`): `ours.csv`
    /// there, and for the terms of ports `ports.csv` (docs/mscclpp-model.md).
    pub const H200: Self = Self {
        launch: 1.421,
        sharer: 0.2729,
        threads: 0.2894,
        block: 0.003464,
        operation: 0.4185,
        fence: 0.001,
        fence_others: 2.907,
        fence_block: 1.042,
        signal: 0.9277,
        counter: 0.08399,
        semaphore: 1.57,
        copy_round: 0.1698,
        sum_round: 0.2154,
        sum_read: 0.09638,
        sum_write: 0.07287,
        packet_write: 0.09677,
        packet_read: 0.1925,
        packet_more: 0.3019,
        packet_on: 0.1649,
        cold_round: 0.272,
        block_rate: 1.177e5,
        cached: 6.054e6,
        memory: 3.730e6,
        post: 5.345,
        proxy: 5.151,
        proxy_sharer: 0.5917,
        post_rate: 5.821e5,
    };

    /// What a block of so many threads copies, in GB/s.
    #[must_use]
    pub fn block_gbytes_per_s(&self, threads: u32) -> f64 {
        let bytes = 16.0 * f64::from(threads);
        bytes / legs(self.copy_round, 2.0 * bytes / self.block_rate) / 1e3
    }

    /// Names, units and values, in a fixed order.
    #[must_use]
    pub fn list(&self) -> [(&'static str, &'static str, f64); TERMS] {
        let us = "µs";
        [
            ("launch", us, self.launch),
            ("sharer", us, self.sharer),
            ("threads", us, self.threads),
            ("block", us, self.block),
            ("operation", us, self.operation),
            ("fence", us, self.fence),
            ("fence_others", us, self.fence_others),
            ("fence_block", us, self.fence_block),
            ("signal", us, self.signal),
            ("counter", us, self.counter),
            ("semaphore", us, self.semaphore),
            ("copy_round", us, self.copy_round),
            ("sum_round", us, self.sum_round),
            ("sum_read", us, self.sum_read),
            ("sum_write", us, self.sum_write),
            ("packet_write", us, self.packet_write),
            ("packet_read", us, self.packet_read),
            ("packet_more", us, self.packet_more),
            ("packet_on", us, self.packet_on),
            ("cold_round", us, self.cold_round),
            ("block_rate", "B/µs", self.block_rate),
            ("cached", "B/µs", self.cached),
            ("memory", "B/µs", self.memory),
            ("post", us, self.post),
            ("proxy", us, self.proxy),
            ("proxy_sharer", us, self.proxy_sharer),
            ("post_rate", "B/µs", self.post_rate),
        ]
    }

    /// From values in the order of [`list`](Self::list).
    #[must_use]
    pub const fn from_values(it: &[f64; TERMS]) -> Self {
        let [
            launch,
            sharer,
            threads,
            block,
            operation,
            fence,
            fence_others,
            fence_block,
            signal,
            counter,
            semaphore,
            copy_round,
            sum_round,
            sum_read,
            sum_write,
            packet_write,
            packet_read,
            packet_more,
            packet_on,
            cold_round,
            block_rate,
            cached,
            memory,
            post,
            proxy,
            proxy_sharer,
            post_rate,
        ] = *it;
        Self {
            launch,
            sharer,
            threads,
            block,
            operation,
            fence,
            fence_others,
            fence_block,
            signal,
            counter,
            semaphore,
            copy_round,
            sum_round,
            sum_read,
            sum_write,
            packet_write,
            packet_read,
            packet_more,
            packet_on,
            cold_round,
            block_rate,
            cached,
            memory,
            post,
            proxy,
            proxy_sharer,
            post_rate,
        }
    }

    /// The same terms to so many digits: more than three or four say nothing.
    #[must_use]
    pub fn rounded(&self, digits: usize) -> Self {
        Self::from_values(&self.values().map(|it| descent::rounded(it, digits)))
    }

    /// The values in that order.
    #[must_use]
    pub fn values(&self) -> [f64; TERMS] {
        self.list().map(|it| it.2)
    }
}
