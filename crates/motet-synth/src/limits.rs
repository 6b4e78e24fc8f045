//! Limits of any program that is worth making, whatever the method: what the verifier and the
//! simulator can judge in reasonable time and memory.

/// Most transfers that a program may have.
pub const MAX_TRANSFERS: u64 = 1 << 23;

/// The most chunks over all buffers of all ranks that the verifier judges.
pub(crate) const MAX_CELLS: u64 = 1 << 26;
