//! The symbols that NCCL looks for, and the functions behind them: name, init, startEvent, stopEvent,
//! recordEventState, finalize. NCCL ignores what all but `init` return.
//!
//! | | init | kernels |
//! | --- | --- | --- |
//! | v1, v2 | context, mask | no events: calls are counted, not timed |
//! | v3 | as v1 | events without times: the host's clock when NCCL notices |
//! | v4 | context, mask, name, id, nodes, ranks, rank, logger | events with the GPU's clock |
//! | v5, v6, v7 | context, id, mask, name, nodes, ranks, rank, logger | as v4 |

#![allow(unsafe_code, reason = "NCCL calls these through C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use motet_runtime::Communicator;

use super::context::{self, Context};
use super::event::{self, Channel4, Collective5, Group5, Head, Send5};
use super::handle::{self, Handle, Kind};
use super::sampling;
use super::slot::{Enqueued, When};
use crate::abi::{self, Logger, Status};
use crate::border::border;
use crate::log::Log;
use crate::{agent, registry, worker};

const NAME: *const c_char = c"Motet".as_ptr();
/// `ncclProfilerKernelChStop`.
const CHANNEL_STOP: c_int = 22;

type Init1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> Status;
type Init4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Logger,
) -> Status;
type Init5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Logger,
) -> Status;

/// The struct of functions that NCCL expects behind a version's symbol.
#[repr(C)]
struct Plugin<I> {
    name: *const c_char,
    init: I,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> Status,
    stop: unsafe extern "C" fn(*mut c_void) -> Status,
    record: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> Status,
    end: unsafe extern "C" fn(*mut c_void) -> Status,
}

// SAFETY: it is constant; the pointer is to a literal.
unsafe impl<I: Sync> Sync for Plugin<I> {}

const fn plugin<I: Copy, const VERSION: u8>(init: I) -> Plugin<I> {
    Plugin {
        name: NAME,
        init,
        start: start::<VERSION>,
        stop: stop::<VERSION>,
        record: record::<VERSION>,
        end,
    }
}

macro_rules! exported {
    ($($symbol:ident: $type:ty = $init:expr, $version:literal;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals, reason = "NCCL's name")]
        static $symbol: Plugin<$type> = plugin::<$type, $version>($init);
    )*};
}

exported! {
    ncclProfiler_v1: Init1 = init1::<1>, 1;
    ncclProfiler_v2: Init1 = init1::<2>, 2;
    ncclProfiler_v3: Init1 = init1::<3>, 3;
    ncclProfiler_v4: Init4 = init4, 4;
    ncclProfiler_v5: Init5 = init5, 5;
    ncclProfiler_v6: Init5 = init5, 6;
    ncclProfiler_v7: Init5 = init5, 7;
}

const _: () = assert!(size_of::<Plugin<Init5>>() == 48);

/// What is wrong with `MOTET_PROFILE_EVERY` is said once, however many communicators there are.
static WARNED: AtomicBool = AtomicBool::new(false);

/// How many communicators are profiled. It is locked while one begins or ends.
static PROFILED: Mutex<usize> = Mutex::new(0);

unsafe extern "C" fn init1<const VERSION: u8>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> Status {
    // NCCL tells nothing about the communicator.
    let about = Communicator { id: 0, rank: 0, ranks: 0, nodes: 0, name: String::new() };
    // SAFETY: NCCL gives places for both, or nothing.
    border(|| unsafe { begin::<VERSION>(context, mask, about, None) })
}

unsafe extern "C" fn init4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    id: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: Logger,
) -> Status {
    border(|| {
        // SAFETY: NCCL gives a text that ends with a zero, or nothing.
        let about = unsafe { communicator(name, id, [nodes, ranks, rank]) };
        // SAFETY: NCCL gives places for both, or nothing.
        unsafe { begin::<4>(context, mask, about, logger) }
    })
}

unsafe extern "C" fn init5(
    context: *mut *mut c_void,
    id: u64,
    mask: *mut c_int,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: Logger,
) -> Status {
    border(|| {
        // SAFETY: NCCL gives a text that ends with a zero, or nothing.
        let about = unsafe { communicator(name, id, [nodes, ranks, rank]) };
        // SAFETY: NCCL gives places for both, or nothing.
        unsafe { begin::<5>(context, mask, about, logger) }
    })
}

/// # Safety
/// `name` must be null or end with a zero.
unsafe fn communicator(name: *const c_char, id: u64, numbers: [c_int; 3]) -> Communicator {
    let name = if name.is_null() {
        String::new()
    } else {
        // SAFETY: not null; the caller promises the rest.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    let [nodes, ranks, rank] = numbers.map(|it| u32::try_from(it).unwrap_or(0));
    Communicator { id, rank, ranks, nodes, name }
}

/// # Safety
/// Both pointers must be null or places for what they point to.
unsafe fn begin<const VERSION: u8>(
    context: *mut *mut c_void,
    mask: *mut c_int,
    about: Communicator,
    logger: Logger,
) {
    let log = Log::new(logger, abi::PROFILE);
    // SAFETY: as the caller promises.
    let Some(context) = (unsafe { context.as_mut() }) else { return };
    // SAFETY: as the caller promises.
    let Some(mask) = (unsafe { mask.as_mut() }) else { return };
    *context = std::ptr::null_mut();
    if !registry::is_owner() {
        return;
    }
    // Without kernels' events there is nothing that captures could bring out of step.
    let tells = !(3..=4).contains(&VERSION);
    let said = std::env::var("MOTET_PROFILE_EVERY").ok().filter(|it| !it.is_empty());
    let wish = sampling::every(said.as_deref(), tells);
    if let Some(warning) = &wish.warning
        && !WARNED.swap(true, Relaxed)
    {
        log.warn(warning);
    }
    let mut profiled = PROFILED.lock().unwrap_or_else(PoisonError::into_inner);
    if *profiled == 0 {
        // NCCL's mask is one for all communicators: the first sets it.
        *mask = 0;
        if wish.every == 0 {
            if wish.warning.is_none() {
                log.info("MOTET_PROFILE_EVERY is 0; nothing is profiled");
            }
            return;
        }
        // Before v4 NCCL does not say which rank it is.
        if !worker::begin((about.ranks > 0).then_some(about.rank), log) {
            log.info(
                "nothing is profiled; set MOTET_TRACE, MOTET_METRICS or MOTET_CONTROL to a file, or MOTET_AGENT",
            );
            return;
        }
    }
    if VERSION > 3 {
        agent::join(&about, log);
    }
    let Some(new) = context::begin(about) else { return };
    *context = new.pack();
    *profiled += 1;
    if *profiled == 1 {
        sampling::begin(mask, wish.every, group_event(VERSION));
    }
}

/// The event that this version has for groups of calls.
const fn group_event(version: u8) -> c_int {
    if version <= 4 { sampling::GROUP } else { sampling::GROUP_API }
}

/// Whether captured calls must all be profiled once one is: NCCL 2.28 to 2.30. Before, it does not tell of captures;
/// later, it counts them right, and one that is profiled by chance may stay the only one.
const fn miscounts(version: u8) -> bool {
    5 <= version && version <= 6
}

unsafe extern "C" fn end(context: *mut c_void) -> Status {
    border(|| {
        let Some(context) = Context::unpack(context).filter(|_| registry::is_owner()) else {
            return;
        };
        context.end();
        if let Some((communicator, rank)) = context.who() {
            agent::leave(communicator, rank);
        }
        let mut profiled = PROFILED.lock().unwrap_or_else(PoisonError::into_inner);
        *profiled = profiled.saturating_sub(1);
        if *profiled == 0 {
            agent::end();
            worker::end();
        } else {
            worker::flush();
        }
        context.release();
    })
}

unsafe extern "C" fn start<const VERSION: u8>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *mut c_void,
) -> Status {
    border(|| {
        // SAFETY: NCCL gives a place for the handle.
        let Some(place) = (unsafe { handle.as_mut() }) else { return };
        // Null tells NCCL not to come back with it.
        *place = std::ptr::null_mut();
        // SAFETY: every descriptor begins so.
        let Some(head) = (unsafe { descriptor.cast::<Head>().as_ref() }) else { return };
        let Some(context) = Context::unpack(context) else { return };
        let kind = event::kind(head, VERSION <= 4) as c_int;
        if kind == group_event(VERSION) {
            // SAFETY: the descriptor is of a group of calls, which is told about captures since v5.
            let captured = VERSION >= 5 && unsafe { (*descriptor.cast::<Group5>()).captured } != 0;
            sampling::group(captured);
            if VERSION <= 4 {
                *place = handle::of_group();
            }
        } else if miscounts(VERSION) && kind == sampling::COLLECTIVE_API {
            // SAFETY: the descriptor is of a collective as the application calls it.
            if unsafe { (*descriptor.cast::<Collective5>()).captured } != 0 {
                sampling::captured_profiled();
            }
        } else if miscounts(VERSION) && kind == sampling::SEND_API {
            // SAFETY: the descriptor is of a send or receive as the application calls it.
            if unsafe { (*descriptor.cast::<Send5>()).captured } != 0 {
                sampling::captured_profiled();
            }
        } else if kind == sampling::COLLECTIVE {
            // SAFETY: the descriptor is of a collective, in this version.
            let enqueued = unsafe { collective::<VERSION>(descriptor, context.ranks()) };
            if let Some(enqueued) = enqueued {
                let enqueued = Enqueued { position: context.position(), ..enqueued };
                *place = context.enqueue(&enqueued).pack();
            }
        } else if kind == sampling::CHANNEL
            && let Some(parent) = Handle::unpack(head.parent)
        {
            let when = if VERSION >= 4 {
                // SAFETY: the descriptor is of a channel, which has a time since v4.
                let it = unsafe { &*descriptor.cast::<Channel4>() };
                gpu(it.start_ns)
            } else {
                Some(now())
            };
            let channel = context::by_index(parent.context)
                .and_then(|context| context.channel_started(parent, when));
            *place = channel.map_or(std::ptr::null_mut(), Handle::pack);
        }
    })
}

/// # Safety
/// `descriptor` must be of a collective in this version.
unsafe fn collective<const VERSION: u8>(descriptor: *mut c_void, ranks: u32) -> Option<Enqueued> {
    // Unknown before v4: then AllGather and ReduceScatter count one rank's part.
    let ranks = ranks.max(1);
    let it = descriptor;
    match VERSION {
        // SAFETY: as the caller promises.
        1 => event::collective1(unsafe { it.cast::<event::Collective1>().as_ref() }?, ranks),
        // SAFETY: as the caller promises, and NCCL's texts end with a zero; here and below.
        2 => unsafe { event::collective2(it.cast(), ranks) },
        // SAFETY: as above.
        3 => unsafe { event::collective3(it.cast(), ranks) },
        // SAFETY: as above.
        _ => unsafe { event::collective4(it.cast(), ranks) },
    }
}

unsafe extern "C" fn stop<const VERSION: u8>(handle: *mut c_void) -> Status {
    border(|| {
        let Some(handle) = Handle::unpack(handle) else { return };
        let Some(context) = context::by_index(handle.context) else { return };
        let slot = context.slot(handle);
        let done = match handle.kind {
            Kind::Collective if VERSION <= 2 => slot.take_untimed(handle.reuse),
            Kind::Collective => slot.enqueued(handle.reuse),
            Kind::Channel => {
                if VERSION == 3 {
                    slot.stop_at(handle.reuse, now());
                }
                slot.stopped(handle.reuse)
            }
        };
        context.finish(done);
    })
}

unsafe extern "C" fn record<const VERSION: u8>(
    handle: *mut c_void,
    state: c_int,
    arguments: *mut c_void,
) -> Status {
    border(|| {
        if VERSION < 4 || state != CHANNEL_STOP {
            return;
        }
        let Some(handle) = Handle::unpack(handle).filter(|it| it.kind == Kind::Channel) else {
            return;
        };
        // SAFETY: with this state comes the time, the first of the union's members.
        let Some(stop) = (unsafe { arguments.cast::<u64>().as_ref() }) else { return };
        let Some(context) = context::by_index(handle.context) else { return };
        if let Some(when) = gpu(*stop) {
            context.slot(handle).stop_at(handle.reuse, when);
        }
    })
}

/// A time of the GPU's clock; NCCL says 0 where it has none.
fn gpu(ns: u64) -> Option<When> {
    (ns != 0).then_some(When { ns, by_host: false })
}

#[allow(clippy::disallowed_methods, reason = "NCCL before 2.27 gives no time with its events")]
fn now() -> When {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    // Some hundred years of nanoseconds.
    When { ns: since.as_nanos() as u64 + 1, by_host: true }
}
