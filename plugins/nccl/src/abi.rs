//! NCCL's types and numbers that both plugins use, as the headers of its releases have them
//! (`src/include/plugin` in NVIDIA/nccl). Written down anew: NCCL's packages have no plugin headers.

use std::ffi::{c_char, c_int, c_ulong};

use motet_runtime::Collective;

/// `ncclResult_t`; we return nothing else than [`SUCCESS`], but for calls that no rank may decide alone.
pub(crate) type Status = c_int;
pub(crate) const SUCCESS: Status = 0;
/// `ncclRemoteError`: "a call failed possibly due to a network error or a remote process exiting prematurely".
pub(crate) const REMOTE_ERROR: Status = 6;

/// `ncclDebugLogger_t`: level, subsystem, file, line, format, arguments.
pub(crate) type Logger =
    Option<unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...)>;

/// `ncclDebugLogLevel`.
pub(crate) const WARN: c_int = 2;
pub(crate) const INFO: c_int = 3;
/// `ncclDebugLogSubSys`.
pub(crate) const TUNING: c_ulong = 0x40;
pub(crate) const PROFILE: c_ulong = 0x4000;

/// `NCCL_ALGO_PROTO_IGNORE`: anything below 0 cannot be chosen.
pub(crate) const LEAST_COST: f32 = 0.0;

/// The collective of an `ncclFunc_t`; `None` for functions that no tuner is asked about.
pub(crate) const fn collective(function: c_int) -> Option<Collective> {
    match function {
        0 => Some(Collective::Broadcast),
        1 => Some(Collective::Reduce),
        2 => Some(Collective::AllGather),
        3 => Some(Collective::ReduceScatter),
        4 => Some(Collective::AllReduce),
        _ => None,
    }
}
