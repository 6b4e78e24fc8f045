//! NCCL's types and numbers, as `nccl.h` has them: those that the calls which we pass on need.

use std::ffi::{c_char, c_int, c_void};

/// `ncclComm_t`.
pub(crate) type Comm = *mut c_void;
/// `cudaStream_t`, which is the driver's `CUstream` too.
pub(crate) type Stream = *mut c_void;
/// `ncclResult_t`.
pub(crate) type Status = c_int;
/// `ncclDataType_t`.
pub(crate) type DataType = c_int;
/// `ncclConfig_t`, of which only [`blocks`] reads something.
pub(crate) type Config = *mut c_void;

pub(crate) const SUCCESS: Status = 0;
/// `ncclInvalidUsage`: the library behind us has no such function.
pub(crate) const INVALID_USAGE: Status = 5;
/// `ncclUint32`.
pub(crate) const UINT32: DataType = 3;

/// `ncclUniqueId`, which C passes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(crate) [c_char; 128]);

/// The beginning of `ncclConfig_t`, which has been the same since NCCL 2.14.
#[repr(C)]
struct ConfigHead {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

const CONFIG_MAGIC: u32 = 0xcafe_beef;

/// Whether a communicator that is made with this configuration is ready when the call returns.
#[allow(unsafe_code, reason = "the configuration is the caller's")]
pub(crate) fn blocks(config: Config) -> bool {
    if config.is_null() {
        return true;
    }
    // SAFETY: NCCL itself reads these fields of every configuration that a caller gives it.
    let head = unsafe { config.cast::<ConfigHead>().read_unaligned() };
    // `blocking` is NCCL_CONFIG_UNDEF_INT (INT_MIN) where the caller left it alone, and then 1.
    head.magic == CONFIG_MAGIC && head.size >= size_of::<ConfigHead>() && head.blocking != 0
}

/// Bytes of an element; 0 for a type that we do not know, whose calls then count as empty.
pub(crate) const fn element(kind: DataType) -> u64 {
    match kind {
        // int8, uint8, and the two floats of eight bits.
        0 | 1 | 10 | 11 => 1,
        // half, bfloat16
        6 | 9 => 2,
        // int32, uint32, float
        2 | 3 | 7 => 4,
        // int64, uint64, double
        4 | 5 | 8 => 8,
        _ => 0,
    }
}
