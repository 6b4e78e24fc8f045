//! NCCL's functions, as `nccl.h` declares them, which a job calls here first. Each tells [`calls`](crate::calls) of the call and passes it on.

#![allow(unsafe_code, reason = "a job calls these through C")]
#![allow(non_snake_case, reason = "the names are NCCL's")]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, reason = "as in `nccl.h`")]

use std::ffi::{c_int, c_void};

use motet_runtime::Collective;

use crate::abi::{Comm, Config, DataType, Status, Stream, UniqueId, blocks};
use crate::calls::{Called, call, group_end, group_start, is_outermost, pass};
use crate::real::real;
use crate::state::State;
use crate::worker::Handed;

/// A function whose call moves data. All have buffers first, then a number of elements and their type, then what differs, then
/// communicator and stream.
macro_rules! moves {
    ($name:ident = $text:literal, $collective:ident, ($($buffer:ident: $pointer:ty),*), ($($rest:ident),*), per_rank: $per_rank:literal) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            $($buffer: $pointer,)*
            count: usize,
            kind: DataType,
            $($rest: c_int,)*
            comm: Comm,
            stream: Stream,
        ) -> Status {
            let collective = Collective::$collective;
            // The only number that a message has besides is its other end.
            let rest: &[c_int] = &[$($rest),*];
            let peer = rest.first().copied().filter(|_| collective == Collective::SendRecv);
            let called = Called { collective, count, per_rank: $per_rank, kind, peer, comm, stream };
            call(called, || {
                real!(
                    $text,
                    fn($($pointer,)* usize, DataType, $(of!($rest),)* Comm, Stream),
                    ($($buffer,)* count, kind, $($rest,)* comm, stream)
                )
            })
        }
    };
}

/// The type of the arguments that differ: a reduction, a root or a peer, all numbers.
macro_rules! of {
    ($rest:ident) => {
        c_int
    };
}

type From = *const c_void;
type To = *mut c_void;

moves!(ncclAllReduce = c"ncclAllReduce", AllReduce, (from: From, to: To), (op), per_rank: false);
moves!(ncclReduce = c"ncclReduce", Reduce, (from: From, to: To), (op, root), per_rank: false);
moves!(ncclBroadcast = c"ncclBroadcast", Broadcast, (from: From, to: To), (root), per_rank: false);
moves!(ncclBcast = c"ncclBcast", Broadcast, (buffer: To), (root), per_rank: false);
moves!(ncclAllGather = c"ncclAllGather", AllGather, (from: From, to: To), (), per_rank: true);
moves!(ncclReduceScatter = c"ncclReduceScatter", ReduceScatter, (from: From, to: To), (op), per_rank: true);
moves!(ncclAlltoAll = c"ncclAlltoAll", AllToAll, (from: From, to: To), (), per_rank: true);
moves!(ncclGather = c"ncclGather", Gather, (from: From, to: To), (root), per_rank: true);
moves!(ncclScatter = c"ncclScatter", Scatter, (from: From, to: To), (root), per_rank: true);
moves!(ncclSend = c"ncclSend", SendRecv, (from: From), (peer), per_rank: false);
moves!(ncclRecv = c"ncclRecv", SendRecv, (to: To), (peer), per_rank: false);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGroupStart() -> Status {
    group_start(|| real!(c"ncclGroupStart", fn(), ()))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGroupEnd() -> Status {
    group_end(|| real!(c"ncclGroupEnd", fn(), ()))
}

/// Makes a communicator, and finds out about it if it is ready then: not inside a group, and not if the job wants to ask for it
/// later (a non-blocking configuration).
fn make(comm: *mut Comm, ready: bool, forward: impl FnOnce() -> Status) -> Status {
    let outermost = is_outermost();
    let status = pass(forward);
    if outermost && ready && status == crate::abi::SUCCESS && !comm.is_null() {
        // SAFETY: NCCL has just written the communicator there.
        let comm = unsafe { comm.read() };
        pass(|| {
            // What panics is left undone: calls of this communicator pass.
            let _ = std::panic::catch_unwind(|| State::made(comm));
            status
        });
    }
    status
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRank(
    comm: *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> Status {
    make(comm, true, || {
        real!(c"ncclCommInitRank", fn(*mut Comm, c_int, UniqueId, c_int), (comm, ranks, id, rank))
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: Config,
) -> Status {
    make(comm, blocks(config), || {
        real!(
            c"ncclCommInitRankConfig",
            fn(*mut Comm, c_int, UniqueId, c_int, Config),
            (comm, ranks, id, rank, config)
        )
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitRankScalable(
    comm: *mut Comm,
    ranks: c_int,
    rank: c_int,
    ids: c_int,
    id: *mut UniqueId,
    config: Config,
) -> Status {
    make(comm, blocks(config), || {
        real!(
            c"ncclCommInitRankScalable",
            fn(*mut Comm, c_int, c_int, c_int, *mut UniqueId, Config),
            (comm, ranks, rank, ids, id, config)
        )
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommSplit(
    parent: Comm,
    color: c_int,
    key: c_int,
    comm: *mut Comm,
    config: Config,
) -> Status {
    make(comm, blocks(config), || {
        real!(
            c"ncclCommSplit",
            fn(Comm, c_int, c_int, *mut Comm, Config),
            (parent, color, key, comm, config)
        )
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommDestroy(comm: Comm) -> Status {
    State::gone(comm);
    pass(|| real!(c"ncclCommDestroy", fn(Comm), (comm)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommAbort(comm: Comm) -> Status {
    State::gone(comm);
    pass(|| real!(c"ncclCommAbort", fn(Comm), (comm)))
}

/// A function of our own: the job has ended an iteration. Jobs need not call it; those that do find out sooner whether asking for circuits
/// ahead of time pays.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn motet_shim_iteration() {
    if let Some(state) = State::get() {
        state.shared.hand(Handed::Iteration);
    }
}
