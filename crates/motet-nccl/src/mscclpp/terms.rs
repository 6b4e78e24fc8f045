//! [`PlanTerms`]: what the parts of a plan cost.

use super::rounds::legs;
use crate::descent;

/// The terms of the model, by which a plan's operations are priced. Times are in microseconds.
///
/// Threads move 16 bytes at a time, or packets of 8 bytes of data and their flags. A *round* is what all
/// threads of a block do at once: 16 bytes each, or 8 in packets (see `rounds`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanTerms {
    /// The fixed cost of a call: launching the kernel, loading the plan, ending.
    pub launch: f64,
    /// Added to a call for each further rank that shares the GPU, because their kernels start one after the other.
    pub sharer: f64,
    /// Added to a call with blocks of 1024 threads; for fewer threads in proportion.
    pub threads: f64,
    /// Added to a call for each thread block that runs on the GPU.
    pub block: f64,
    /// The fixed cost of an operation that moves data.
    pub operation: f64,
    /// The fence before a signal, which waits until all GPUs see what the block has written. Relaxed signals, which
    /// say nothing about data, have none.
    pub fence: f64,
    /// Added to a fence on a GPU that ranks share, times the share of its ranks that are others: their writes are in
    /// flight as well.
    pub fence_others: f64,
    /// Added to a fence for each further block on the multiprocessor.
    pub fence_block: f64,
    /// From a signal to the end of the wait for it.
    pub signal: f64,
    /// Added to an operation for each counter that it raises or waits for.
    pub counter: f64,
    /// As `signal`, but between blocks of one GPU (a semaphore); also the cost of a barrier among them.
    pub semaphore: f64,
    /// A round of copying.
    pub copy_round: f64,
    /// The part of a round of a sum that does not depend on how many ranges it reads and writes.
    pub sum_round: f64,
    /// Added to a round of a sum for each range that it reads beyond the first.
    pub sum_read: f64,
    /// Added to a round of a sum for each range that it writes beyond the first.
    pub sum_write: f64,
    /// A round of writing packets to one place.
    pub packet_write: f64,
    /// A round of reading packets from one place.
    pub packet_read: f64,
    /// Added to a round of a sum of packets for each further place that it reads from.
    pub packet_more: f64,
    /// Added to a round of a sum of packets for each place that it sends the sum on to. A thread waits for all
    /// summands before it sends, and sends before it turns to the next sum, so that less overlaps than in plain
    /// writing.
    pub packet_on: f64,
    /// Added to a round if its data comes from memory and not from the cache.
    pub cold_round: f64,
    /// The rate at which a multiprocessor loads and stores, in bytes per microsecond.
    pub block_rate: f64,
    /// The rate of a GPU's memory while all data fits its cache, in bytes per microsecond.
    pub cached: f64,
    /// The rate of a GPU's memory where data does not fit its cache, in bytes per microsecond.
    pub memory: f64,
    /// From a post until the proxy begins with it.
    pub post: f64,
    /// What a proxy takes for each copy and each signal; it does one after the other.
    pub proxy: f64,
    /// Added to `proxy` for each further rank on the GPU, because the proxies share its queues.
    pub proxy_sharer: f64,
    /// The rate at which a proxy moves data, in bytes per microsecond, where no link is slower.
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

    /// The rate at which a block of so many threads copies, in GB/s.
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

    /// Terms from values in the order of [`list`](Self::list).
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

    /// The same terms, rounded to `digits` significant digits; more than three or four are noise.
    #[must_use]
    pub fn rounded(&self, digits: usize) -> Self {
        Self::from_values(&self.values().map(|it| descent::rounded(it, digits)))
    }

    /// The values in the order of [`list`](Self::list).
    #[must_use]
    pub fn values(&self) -> [f64; TERMS] {
        self.list().map(|it| it.2)
    }
}
