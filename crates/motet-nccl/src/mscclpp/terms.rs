//! [`PlanTerms`]: what the parts of a plan are worth.

/// The terms of the model, by which a plan's operations are priced. Times are in microseconds.
///
/// Threads move 16 bytes at a time, or packets of 8 bytes of data and their flags. A *round* is what all
/// threads of a block do at once: 16 bytes each, or 8 in packets. Blocks wait for memory, not for
/// bandwidth, so that a round takes the same time whatever the number of threads.
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
    /// From a signal to the end of the wait for it.
    pub signal: f64,
    /// For each counter that an operation raises or waits for.
    pub counter: f64,
    /// The same as a signal between blocks of one GPU (a semaphore).
    pub semaphore: f64,
    /// From the writing of a packet until it is seen.
    pub packet: f64,
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
    /// What a GPU's memory reads and writes, in bytes per microsecond, while all data fits its cache
    pub cached: f64,
    /// and while it does not.
    pub memory: f64,
    /// A post to a proxy, until the data begins to move.
    pub post: f64,
}

/// How many terms there are.
pub const TERMS: usize = 19;

/// What of a GPU's cache holds data of a call: beyond this, part of it comes from memory. An H200 has
/// 50 MB, of which each half of the chip sees one half directly.
pub(super) const CACHE: f64 = 30e6;

impl PlanTerms {
    /// Fitted to one H200 whose ranks share its memory, with MSCCL++ 0.10 (`benches/mscclpp/results`).
    pub const H200: Self = Self {
        launch: 1.66,
        sharer: 0.262,
        threads: 0.26,
        block: 0.00335,
        operation: 0.163,
        signal: 1.42,
        counter: 0.11,
        semaphore: 1.57,
        packet: 0.086,
        copy_round: 0.293,
        sum_round: 0.254,
        sum_read: 0.112,
        sum_write: 0.102,
        packet_write: 0.0998,
        packet_read: 0.323,
        packet_more: 0.267,
        cached: 6.74e6,
        memory: 3.64e6,
        post: 8.0,
    };

    /// What a block of so many threads copies, in GB/s.
    #[must_use]
    pub fn block_gbytes_per_s(&self, threads: u32) -> f64 {
        16.0 * f64::from(threads) / self.copy_round / 1e3
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
            ("signal", us, self.signal),
            ("counter", us, self.counter),
            ("semaphore", us, self.semaphore),
            ("packet", us, self.packet),
            ("copy_round", us, self.copy_round),
            ("sum_round", us, self.sum_round),
            ("sum_read", us, self.sum_read),
            ("sum_write", us, self.sum_write),
            ("packet_write", us, self.packet_write),
            ("packet_read", us, self.packet_read),
            ("packet_more", us, self.packet_more),
            ("cached", "B/µs", self.cached),
            ("memory", "B/µs", self.memory),
            ("post", us, self.post),
        ]
    }

    /// From values in the order of [`list`](Self::list).
    #[must_use]
    pub const fn from_values(it: &[f64; TERMS]) -> Self {
        let [launch, sharer, threads, block, operation, signal, counter, semaphore, packet, ..] =
            *it;
        let [
            ..,
            copy_round,
            sum_round,
            sum_read,
            sum_write,
            packet_write,
            packet_read,
            packet_more,
            cached,
            memory,
            post,
        ] = *it;
        Self {
            launch,
            sharer,
            threads,
            block,
            operation,
            signal,
            counter,
            semaphore,
            packet,
            copy_round,
            sum_round,
            sum_read,
            sum_write,
            packet_write,
            packet_read,
            packet_more,
            cached,
            memory,
            post,
        }
    }

    /// The same terms to so many digits: more than three or four say nothing.
    #[must_use]
    pub fn rounded(&self, digits: usize) -> Self {
        let round = |it: f64| {
            let text = format!("{it:.*e}", digits.saturating_sub(1));
            text.parse().unwrap_or(it)
        };
        Self::from_values(&self.values().map(round))
    }

    /// The values in that order.
    #[must_use]
    pub fn values(&self) -> [f64; TERMS] {
        self.list().map(|it| it.2)
    }
}
