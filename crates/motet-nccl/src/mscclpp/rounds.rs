//! [`Task`]: what the threads of a block do in one operation, and how long moving its data takes.
//!
//! Two limits hold a block back. Memory latency: in a *round* every thread has one access in flight, which
//! takes the same time whatever the number of threads. And throughput: a multiprocessor loads and stores only
//! so many bytes per microsecond. The two overlap in part, so that their times a and b are combined as
//! √(a² + b²), in which a much smaller one hardly counts.

use motet_collective::formats::mscclpp_json::Work;

use super::terms::PlanTerms;

/// What the threads of a block do in one operation (see [`Work`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    chunks: u32,
    passes: u32,
    reads: u32,
    writes: u32,
    reads_packets: bool,
    writes_packets: bool,
}

/// The conditions that an operation runs under.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Threads of a block.
    pub threads: u32,
    /// The share of the data that comes from memory rather than from the cache, 0 to 1.
    pub cold: f64,
    /// Blocks that share a multiprocessor.
    pub crowd: f64,
    /// Ranks that share the GPU.
    pub ranks: f64,
}

impl From<&Work> for Task {
    fn from(work: &Work) -> Self {
        let Work { chunks, passes, reads, writes, reads_packets, writes_packets, .. } = work;
        Self {
            chunks: *chunks,
            passes: *passes,
            reads: *reads,
            writes: *writes,
            reads_packets: *reads_packets,
            writes_packets: *writes_packets,
        }
    }
}

impl Task {
    /// How long moving the data takes, in µs, without the fixed cost of an operation ([`PlanTerms::operation`]).
    #[must_use]
    pub fn micros(&self, chunk_bytes: f64, under: &Conditions, terms: &PlanTerms) -> f64 {
        let bytes = chunk_bytes * f64::from(self.chunks);
        let items = bytes / self.grain();
        let rounds = (items / f64::from(under.threads.max(1))).ceil();
        let waiting = rounds * (self.round(terms) + under.cold * terms.cold_round);
        let moving = under.crowd * items * self.bytes_of_item() / terms.block_rate;
        f64::from(self.passes) * legs(waiting, moving)
    }

    const fn has_packets(&self) -> bool {
        self.reads_packets || self.writes_packets
    }

    /// Bytes of data in one item: what a thread moves at once.
    const fn grain(&self) -> f64 {
        if self.has_packets() { 8.0 } else { 16.0 }
    }

    /// Bytes that a thread loads and stores for one item: a packet is twice its data.
    fn bytes_of_item(&self) -> f64 {
        let (reads, writes) = (f64::from(self.reads), f64::from(self.writes));
        match (self.reads_packets, self.writes_packets) {
            (false, false) => 16.0 * (reads + writes),
            (false, true) => 8.0 * reads + 16.0 * writes,
            // Unpacking: a packet becomes plain data.
            (true, false) if self.reads == 1 => 16.0 + 8.0 * writes,
            // A sum: of summands and results one each is plain.
            (true, _) => 16.0 * (reads + writes - 1.0),
        }
    }

    /// How long a round takes: all threads wait for the accesses that they have in flight.
    fn round(&self, terms: &PlanTerms) -> f64 {
        let more_reads = f64::from(self.reads.saturating_sub(1));
        let more_writes = f64::from(self.writes.saturating_sub(1));
        match (self.reads_packets, self.writes_packets) {
            (false, true) => terms.packet_write,
            // In a sum packets are read one after the other, and sent on.
            (true, _) => {
                terms.packet_read + terms.packet_more * more_reads + terms.packet_on * more_writes
            }
            (false, false) if self.reads == 1 && self.writes == 1 => terms.copy_round,
            (false, false) => {
                terms.sum_round + terms.sum_read * more_reads + terms.sum_write * more_writes
            }
        }
    }
}

impl Conditions {
    /// How long a block waits until all GPUs see what it has written, in µs.
    #[must_use]
    pub fn fence(&self, terms: &PlanTerms) -> f64 {
        terms.fence
            + terms.fence_others * (1.0 - 1.0 / self.ranks)
            + terms.fence_block * (self.crowd - 1.0)
    }

    /// How long a proxy takes for a copy or a signal, in µs.
    #[must_use]
    pub fn proxy(&self, terms: &PlanTerms) -> f64 {
        terms.proxy + terms.proxy_sharer * (self.ranks - 1.0)
    }
}

/// The time of two activities that overlap in part: √(a² + b²), with their own times as the legs of a right
/// triangle.
pub(super) fn legs(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Conditions = Conditions { threads: 512, cold: 0.0, crowd: 1.0, ranks: 1.0 };

    fn copy() -> Task {
        Task {
            chunks: 1,
            passes: 1,
            reads: 1,
            writes: 1,
            reads_packets: false,
            writes_packets: false,
        }
    }

    #[test]
    fn nothing_takes_no_time_and_more_takes_longer() {
        let terms = PlanTerms::H200;
        assert!(copy().micros(0.0, &ALONE, &terms) == 0.0);
        let time = |bytes: f64, under: Conditions| copy().micros(bytes, &under, &terms);
        let plain = time(1e6, ALONE);
        assert!(plain > time(1e5, ALONE));
        assert!(time(1e6, Conditions { cold: 1.0, ..ALONE }) > plain);
        assert!(time(1e6, Conditions { crowd: 2.0, ..ALONE }) > plain);
        // More threads wait fewer rounds, but move no more bytes.
        assert!(time(1e6, Conditions { threads: 1024, ..ALONE }) < plain);
        let twice = Task { passes: 2, ..copy() };
        assert!((twice.micros(1e6, &ALONE, &terms) / plain - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_fence_takes_longer_where_others_write_too() {
        let terms = PlanTerms::H200;
        let alone = ALONE.fence(&terms);
        assert!((alone - terms.fence).abs() < 1e-12);
        let shared = Conditions { ranks: 8.0, ..ALONE };
        assert!((shared.fence(&terms) - alone - 0.875 * terms.fence_others).abs() < 1e-12);
        let crowded = Conditions { crowd: 2.0, ..ALONE };
        assert!((crowded.fence(&terms) - alone - terms.fence_block).abs() < 1e-12);
    }

    #[test]
    fn packets_are_twice_their_data() {
        let pack = Task { writes_packets: true, ..copy() };
        let unpack = Task { reads_packets: true, ..copy() };
        assert!((pack.bytes_of_item(), unpack.bytes_of_item()) == (24.0, 24.0));
        let sum = Task { reads: 8, ..unpack };
        assert!((sum.bytes_of_item(), copy().bytes_of_item()) == (128.0, 32.0));
    }
}
