//! NCCL itself: the functions of `libnccl.so.2` that we call, with the types that its header `nccl.h` gives them, and a
//! communicator of it.
//!
//! The library is looked for when [`Nccl::load`] is called, so that building needs nothing of NCCL. The functions are
//! in every NCCL since 2.13.

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;

use libloading::Library;
use motet_cuda::{Memory, Queue};
use motet_runtime::Collective;

use crate::LiveError;
use crate::call::{ELEMENT, Span};

/// `ncclFloat32`, `ncclSum`.
const FLOAT: c_int = 7;
const SUM: c_int = 0;
const SUCCESS: c_int = 0;
const ROOT: c_int = 0;

type Comm = *mut c_void;
type Stream = *mut c_void;
type Status = c_int;

/// The identity of a communicator, by which its ranks find each other (`ncclUniqueId`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Identity(pub [u8; 128]);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// NCCL's functions. The library is never unloaded, so they stay valid.
        #[derive(Clone, Copy)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, LiveError> {
                Ok(Self { $($field: {
                    // SAFETY: the type is that of the function in NCCL's header.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    };
                    *found.map_err(|_| LiveError::NoFunction { name: $symbol })?
                },)* })
            }
        }
    };
}

functions! {
    version = "ncclGetVersion": fn(*mut c_int) -> Status;
    error_text = "ncclGetErrorString": fn(Status) -> *const c_char;
    last_error = "ncclGetLastError": fn(Comm) -> *const c_char;
    identity = "ncclGetUniqueId": fn(*mut Identity) -> Status;
    begin = "ncclCommInitRank": fn(*mut Comm, c_int, Identity, c_int) -> Status;
    end = "ncclCommDestroy": fn(Comm) -> Status;
    all_reduce = "ncclAllReduce":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    all_gather = "ncclAllGather":
        fn(*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> Status;
    reduce_scatter = "ncclReduceScatter":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    broadcast = "ncclBroadcast":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    reduce = "ncclReduce":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, Stream) -> Status;
    group_begin = "ncclGroupStart": fn() -> Status;
    group_end = "ncclGroupEnd": fn() -> Status;
    send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    receive = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
}

/// NCCL, loaded.
#[derive(Clone, Copy)]
pub struct Nccl {
    functions: Functions,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").finish_non_exhaustive()
    }
}

impl Nccl {
    /// Loads `name`: a path, or a name that the loader looks for.
    ///
    /// # Errors
    /// When there is no such library, or it is not NCCL.
    pub fn load(name: &str) -> Result<Self, LiveError> {
        // SAFETY: loading runs the library's initializers. It is the NCCL that the user has named, as a job would
        // load it.
        let library = unsafe { Library::new(name) };
        let library = library.map_err(|error| LiveError::NoLibrary {
            name: name.to_owned(),
            reason: motet_cuda::loader_reason(&error),
        })?;
        let functions = Functions::of(&library)?;
        // NCCL starts threads of its own: once loaded it stays for the life of the process.
        std::mem::forget(library);
        Ok(Self { functions })
    }

    /// NCCL's version, as it counts: 22809 is 2.28.9.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn version(&self) -> Result<i32, LiveError> {
        let mut version = 0;
        // SAFETY: `version` is a valid place for the number that NCCL writes.
        let status = unsafe { (self.functions.version)(&raw mut version) };
        self.check("ncclGetVersion", status)?;
        Ok(version)
    }

    /// A new identity; one rank asks for it, and tells the others.
    ///
    /// # Errors
    /// When NCCL fails: no network interface, for instance.
    pub fn identity(&self) -> Result<Identity, LiveError> {
        let mut identity = Identity([0; 128]);
        // SAFETY: `identity` is as large as NCCL's and is written whole.
        let status = unsafe { (self.functions.identity)(&raw mut identity) };
        self.check("ncclGetUniqueId", status)?;
        Ok(identity)
    }

    /// Makes a rank's communicator; returns when all ranks have called this. The GPU is the one whose context is current.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn begin(
        &self,
        rank: u32,
        ranks: u32,
        identity: Identity,
    ) -> Result<Communicator, LiveError> {
        let number = |it: u32| c_int::try_from(it).unwrap_or(c_int::MAX);
        let mut raw = std::ptr::null_mut();
        let begin = self.functions.begin;
        // SAFETY: `raw` is a valid place for the handle; the identity goes by value.
        let status = unsafe { begin(&raw mut raw, number(ranks), identity, number(rank)) };
        self.check("ncclCommInitRank", status)?;
        Ok(Communicator { nccl: *self, raw, ranks })
    }

    fn check(&self, function: &'static str, status: Status) -> Result<(), LiveError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: takes a number and gives a text that stays.
        let text = unsafe { (self.functions.error_text)(status) };
        // SAFETY: null asks for the last error of the thread; the text stays until the next.
        let more = unsafe { (self.functions.last_error)(std::ptr::null_mut()) };
        let mut problem = read(text);
        let more = read(more);
        if !more.is_empty() {
            problem = format!("{problem}: {more}");
        }
        Err(LiveError::Nccl { function, problem })
    }
}

fn read(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: NCCL gives zero-terminated texts, and nothing changes them meanwhile.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().trim().to_owned()
}

/// A rank's end of a communicator.
#[derive(Debug)]
pub struct Communicator {
    nccl: Nccl,
    raw: Comm,
    ranks: u32,
}

impl Communicator {
    /// Puts a collective into a queue: sums of 32-bit floats, root 0. `span` says where in `source` and `target` the
    /// data is.
    ///
    /// # Errors
    /// When the data does not fit there, or NCCL refuses.
    pub fn enqueue(
        &self,
        collective: Collective,
        (source, target): (&Memory, &Memory),
        span: &Span,
        queue: &Queue,
    ) -> Result<(), LiveError> {
        if span.from_end() > source.bytes() || span.to_end() > target.bytes() {
            return Err(LiveError::NoRoom);
        }
        let functions = &self.nccl.functions;
        let (from, to) = (source.address() + span.from as u64, target.address() + span.to as u64);
        let (count, comm, stream) = (span.count, self.raw, queue.raw());
        if collective == Collective::AllToAll {
            return self.all_to_all(from, to, count, stream);
        }
        let (from, to) = (from as *const c_void, to as *mut c_void);
        let (name, status) = match collective {
            Collective::AllReduce => ("ncclAllReduce", {
                // SAFETY: the memory is as large as was checked above, and freeing it waits for the GPU; stream and
                // communicator are alive, and destroying a stream lets its work finish.
                unsafe { (functions.all_reduce)(from, to, count, FLOAT, SUM, comm, stream) }
            }),
            Collective::AllGather => ("ncclAllGather", {
                // SAFETY: as for AllReduce.
                unsafe { (functions.all_gather)(from, to, count, FLOAT, comm, stream) }
            }),
            Collective::ReduceScatter => ("ncclReduceScatter", {
                // SAFETY: as for AllReduce.
                unsafe { (functions.reduce_scatter)(from, to, count, FLOAT, SUM, comm, stream) }
            }),
            Collective::Broadcast => ("ncclBroadcast", {
                // SAFETY: as for AllReduce.
                unsafe { (functions.broadcast)(from, to, count, FLOAT, ROOT, comm, stream) }
            }),
            Collective::Reduce => ("ncclReduce", {
                // SAFETY: as for AllReduce.
                unsafe { (functions.reduce)(from, to, count, FLOAT, SUM, ROOT, comm, stream) }
            }),
            other => return Err(LiveError::NotRun(other)),
        };
        self.nccl.check(name, status)
    }

    /// A send and a receive for each rank, in one group.
    fn all_to_all(
        &self,
        from: u64,
        to: u64,
        count: usize,
        stream: Stream,
    ) -> Result<(), LiveError> {
        let functions = &self.nccl.functions;
        // SAFETY: takes nothing.
        self.nccl.check("ncclGroupStart", unsafe { (functions.group_begin)() })?;
        let mut queued = Ok(());
        for peer in 0..self.ranks {
            let at = u64::from(peer) * count as u64 * ELEMENT as u64;
            let peer = c_int::try_from(peer).unwrap_or(c_int::MAX);
            let (from, to) = ((from + at) as *const c_void, (to + at) as *mut c_void);
            // SAFETY: as in `enqueue`, which has checked that there is as much for every rank.
            let sent = unsafe { (functions.send)(from, count, FLOAT, peer, self.raw, stream) };
            // SAFETY: as above.
            let got = unsafe { (functions.receive)(to, count, FLOAT, peer, self.raw, stream) };
            queued =
                queued.and(self.nccl.check("ncclSend", sent)).and(self.nccl.check("ncclRecv", got));
        }
        // SAFETY: takes nothing; ended also where something was refused.
        let ended = unsafe { (functions.group_end)() };
        queued.and(self.nccl.check("ncclGroupEnd", ended))
    }

    /// Destroys the communicator, which all ranks must do.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn end(self) -> Result<(), LiveError> {
        // SAFETY: made in `begin` and destroyed once, as this takes `self`.
        let status = unsafe { (self.nccl.functions.end)(self.raw) };
        self.nccl.check("ncclCommDestroy", status)
    }
}
