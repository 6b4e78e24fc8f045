//! The symbols that NCCL looks for, and the functions behind them. Layouts: `src/include/plugin/tuner/tuner_v2.h` to
//! `tuner_v6.h` in NVIDIA/nccl; every member is a pointer, and all functions return `ncclResult_t`.
//!
//! | | init | decides by | ends with |
//! | --- | --- | --- | --- |
//! | v2 | ranks, nodes, logger, context | algorithm and protocol numbers | destroy |
//! | v3 | as v2 | a table of costs | destroy |
//! | v4 | as v2 | as v3, with `regBuff` | destroy |
//! | v5 | context, id, ranks, nodes, logger, NVLink domains, constants | as v4 | finalize |
//! | v6 | as v5 | as v4, and the chunk | finalize |
//!
//! The table is declared `float**` and is one block of floats, row by row.

#![allow(unsafe_code, reason = "NCCL calls these through C")]

use std::ffi::{c_char, c_int, c_void};

use super::choose::{PROTOCOLS, is_known};
use super::notice::Notice;
use super::{Offer, Tuner};
use crate::abi::{Logger, Status};
use crate::border::{border, border_or_fail};
use crate::plan::Shape;

const ALGORITHMS: usize = 7;
const NAME: *const c_char = c"Motet".as_ptr();

/// `ncclNvlDomainInfo_v5_t`.
#[repr(C)]
struct Domains {
    count: c_int,
    least_ranks: c_int,
    most_ranks: c_int,
}

type Init = unsafe extern "C" fn(usize, usize, Logger, *mut *mut c_void) -> Status;
type InitWithId = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    usize,
    usize,
    Logger,
    *mut Domains,
    *mut c_void,
) -> Status;
type Decide2 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    c_int,
    c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> Status;
type Decide3 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    *mut f32,
    c_int,
    c_int,
    *mut c_int,
) -> Status;
type Decide4 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    usize,
    c_int,
    *mut f32,
    c_int,
    c_int,
    c_int,
    *mut c_int,
) -> Status;
type End = unsafe extern "C" fn(*mut c_void) -> Status;
type Chunk =
    unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, c_int, *mut usize) -> Status;

/// The struct of functions that NCCL expects behind a version's symbol.
#[repr(C)]
struct Plugin<I, D, C = ()> {
    name: *const c_char,
    init: I,
    decide: D,
    end: End,
    chunk: C,
}

// SAFETY: it is constant; the pointer is to a literal.
unsafe impl<I: Sync, D: Sync, C: Sync> Sync for Plugin<I, D, C> {}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL's name")]
static ncclTunerPlugin_v2: Plugin<Init, Decide2> =
    Plugin { name: NAME, init, decide: decide_v2, end, chunk: () };
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL's name")]
static ncclTunerPlugin_v3: Plugin<Init, Decide3> =
    Plugin { name: NAME, init, decide: decide_v3, end, chunk: () };
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL's name")]
static ncclTunerPlugin_v4: Plugin<Init, Decide4> =
    Plugin { name: NAME, init, decide: decide_v4, end, chunk: () };
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL's name")]
static ncclTunerPlugin_v5: Plugin<InitWithId, Decide4> =
    Plugin { name: NAME, init: init_with_id, decide: decide_v4, end, chunk: () };
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "NCCL's name")]
static ncclTunerPlugin_v6: Plugin<InitWithId, Decide4, Chunk> =
    Plugin { name: NAME, init: init_with_id, decide: decide_v4, end, chunk };

const _: () = assert!(size_of::<Plugin<Init, Decide2>>() == 32);
const _: () = assert!(size_of::<Plugin<InitWithId, Decide4, Chunk>>() == 40);
const _: () = assert!(size_of::<Domains>() == 12);

unsafe extern "C" fn init(
    ranks: usize,
    nodes: usize,
    logger: Logger,
    context: *mut *mut c_void,
) -> Status {
    border(|| {
        let shape = Shape { ranks: ranks as u64, nodes: nodes as u64, spread: None };
        // SAFETY: NCCL gives a place for the context, or nothing.
        unsafe { begin(&shape, None, logger, context) }
    })
}

unsafe extern "C" fn init_with_id(
    context: *mut *mut c_void,
    id: u64,
    ranks: usize,
    nodes: usize,
    logger: Logger,
    domains: *mut Domains,
    _constants: *mut c_void,
) -> Status {
    border(|| {
        // SAFETY: NCCL gives the domains of the communicator, or nothing.
        let domains = unsafe { domains.as_ref() };
        let known = domains.filter(|it| it.count > 0);
        let spread = known.map(|it| (it.least_ranks, it.most_ranks));
        let shape = Shape { ranks: ranks as u64, nodes: nodes as u64, spread };
        // SAFETY: NCCL gives a place for the context, or nothing.
        unsafe { begin(&shape, Some(id), logger, context) }
    })
}

/// # Safety
/// `context` must be null or a place for a pointer.
unsafe fn begin(shape: &Shape, id: Option<u64>, logger: Logger, context: *mut *mut c_void) {
    if context.is_null() {
        return;
    }
    // SAFETY: not null; the caller promises the rest. Null first, in case what follows panics.
    unsafe { context.write(std::ptr::null_mut()) };
    let tuner = Box::into_raw(Box::new(Tuner::new(shape, id, logger)));
    // SAFETY: as above.
    unsafe { context.write(tuner.cast()) };
}

unsafe extern "C" fn end(context: *mut c_void) -> Status {
    border(|| {
        if !context.is_null() {
            // SAFETY: NCCL ends what `begin` made, once, when no call is on its way.
            drop(unsafe { Box::from_raw(context.cast::<Tuner>()) });
        }
    })
}

/// # Safety
/// `context` must be null or what `begin` made, and not ended.
unsafe fn tuner<'a>(context: *mut c_void) -> Option<&'a Tuner> {
    // SAFETY: as the caller promises.
    unsafe { context.cast::<Tuner>().as_ref() }
}

unsafe extern "C" fn decide_v4(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    _operations: c_int,
    costs: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _registered: c_int,
    channels: *mut c_int,
) -> Status {
    border_or_fail(|| {
        // SAFETY: NCCL gives what `begin` made.
        let Some(tuner) = (unsafe { tuner(context) }) else { return true };
        // SAFETY: NCCL gives a place for the channels, or nothing.
        let Some(channels) = (unsafe { channels.as_mut() }) else { return true };
        if costs.is_null() {
            return true;
        }
        if !is_known(algorithms, protocols) {
            tuner.notices.say(Notice::OtherShape, &tuner.log);
            return true;
        }
        // Six or seven rows, see `is_known`.
        let length = algorithms as usize * PROTOCOLS;
        // SAFETY: not null, and NCCL's table has that many floats in one block.
        let costs = unsafe { std::slice::from_raw_parts_mut(costs, length) };
        let mut offer = Offer { costs, channels, hidden_in_network: false, are_nccls: true };
        tuner.decide(function, bytes as u64, &mut offer)
    })
}

unsafe extern "C" fn decide_v3(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    operations: c_int,
    costs: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    channels: *mut c_int,
) -> Status {
    // SAFETY: the same, without a flag that is not used.
    unsafe {
        decide_v4(context, function, bytes, operations, costs, algorithms, protocols, 0, channels)
    }
}

/// NCCL 2.21 takes what it is given, possible or not. So only what every NCCL can do is chosen: rings, and trees for
/// AllReduce, with LL or Simple.
unsafe extern "C" fn decide_v2(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    collnet: c_int,
    nvls: c_int,
    _operations: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    channels: *mut c_int,
) -> Status {
    const ALL_REDUCE: c_int = 4;
    border_or_fail(|| {
        // SAFETY: NCCL gives what `begin` made.
        let Some(tuner) = (unsafe { tuner(context) }) else { return true };
        // SAFETY: NCCL gives places for all three, or nothing.
        let algorithm = unsafe { algorithm.as_mut() };
        // SAFETY: as above.
        let protocol = unsafe { protocol.as_mut() };
        // SAFETY: as above.
        let channels = unsafe { channels.as_mut() };
        let (Some(algorithm), Some(protocol), Some(channels)) = (algorithm, protocol, channels)
        else {
            return true;
        };
        let mut costs = [-1.0; ALGORITHMS * PROTOCOLS];
        let (trees, rings) = (0, PROTOCOLS);
        for row in [trees, rings] {
            if row == rings || function == ALL_REDUCE {
                (costs[row], costs[row + 2]) = (1.0, 1.0);
            }
        }
        let hidden_in_network = collnet != 0 || nvls != 0;
        let mut offer = Offer { costs: &mut costs, channels, hidden_in_network, are_nccls: false };
        let decided = tuner.decide(function, bytes as u64, &mut offer);
        if let Some(entry) = costs.iter().position(|it| *it == 0.0) {
            // Below 21.
            *algorithm = (entry / PROTOCOLS) as c_int;
            *protocol = (entry % PROTOCOLS) as c_int;
        }
        decided
    })
}

unsafe extern "C" fn chunk(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    algorithm: c_int,
    protocol: c_int,
    _channels: c_int,
    chunk: *mut usize,
) -> Status {
    border(|| {
        // SAFETY: NCCL gives what `begin` made.
        let Some(tuner) = (unsafe { tuner(context) }) else { return };
        // SAFETY: NCCL gives a place that holds its own choice, or nothing.
        let Some(chunk) = (unsafe { chunk.as_mut() }) else { return };
        let wanted = tuner.chunk(function, bytes as u64, algorithm, protocol);
        if let Some(wanted) = wanted.and_then(|it| usize::try_from(it).ok()) {
            *chunk = wanted;
        }
    })
}
