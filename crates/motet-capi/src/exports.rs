//! The functions of `include/motet.h`. No panic crosses the border; what went wrong is kept per thread for `motet_last_error`.

#![allow(unsafe_code, reason = "pointers from C, as `motet.h` says what they are")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use motet_exec::{Element, Input, Output, Reduction, Store, Tls, TlsFiles};

use crate::call::{Call, Kind};
use crate::communicator::{Communicator, serve};
use crate::completion::Handle;
use crate::error::{CommError, Status};
use crate::options::Options;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Does `work`, and turns its error, or a panic, into a status; the text is kept for `motet_last_error`.
fn border(work: impl FnOnce() -> Result<(), CommError>) -> Status {
    // After a panic the communicator may be of no use, but no memory of ours is broken.
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(error)) => error,
        Err(_) => CommError::fault("a panic in Motet; please report it"),
    };
    let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    // While a thread ends, its storage for the text may be gone.
    let _ = LAST.try_with(|it| it.replace(text));
    error.status
}

/// A communicator, as C holds it.
#[derive(Debug)]
pub struct Comm(Communicator);

/// A call that is under way, as C holds it.
#[derive(Debug)]
pub struct Request {
    handle: Handle,
    /// The buffers of a barrier, which must live until it has ended.
    _scratch: Option<Box<[u8]>>,
}

/// `motet_options` of `motet.h`.
#[derive(Debug)]
#[repr(C)]
pub struct COptions {
    struct_size: usize,
    store: *const c_char,
    store_apart: i32,
    rank: u32,
    ranks: u32,
    token: *const c_char,
    group: *const c_char,
    cluster: *const c_char,
    members: *const u32,
    method: *const c_char,
    seed: u64,
    streams: u32,
    no_shared_memory: i32,
    checksums: i32,
    wait_seconds: u32,
    silence_seconds: u32,
    deadline_seconds: u32,
    cache_bytes: u64,
    tls_certificate: *const c_char,
    tls_key: *const c_char,
    tls_ca: *const c_char,
    tls_name: *const c_char,
}

/// The size of `motet_options` before it had TLS, which is the smallest that is accepted.
const FIRST_SIZE: usize = std::mem::offset_of!(COptions, tls_certificate);

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// Loads TLS's files: those that are given, and for the rest those that the environment names.
fn tls(files: TlsFiles) -> Result<Option<Tls>, CommError> {
    Ok(files.or(environment).load()?)
}

/// A text from C; none if it is a null pointer.
///
/// # Safety
/// `text` is null, or a string that ends with a zero.
unsafe fn text(name: &str, text: *const c_char) -> Result<Option<String>, CommError> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    let text = text.map_err(|_| CommError::invalid(format!("{name} is not UTF-8")))?;
    Ok(Some(text.to_owned()))
}

/// # Safety
/// `pointer` is null, or what a function of ours has given and none has freed.
unsafe fn known<'a, T>(name: &str, pointer: *const T) -> Result<&'a T, CommError> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }
        .ok_or_else(|| CommError::invalid(format!("{name} is a null pointer")))
}

/// # Safety
/// `to` is null or writable.
unsafe fn put<T>(name: &str, to: *mut T, value: T) -> Result<(), CommError> {
    if to.is_null() {
        return Err(CommError::invalid(format!("{name} is a null pointer")));
    }
    // SAFETY: writable, as the caller promises; what was there is C's, and not dropped.
    unsafe { to.write(value) };
    Ok(())
}

fn element(number: i32) -> Result<Element, CommError> {
    let found = usize::try_from(number).ok().and_then(|it| Element::ALL.get(it).copied());
    found.ok_or_else(|| CommError::invalid(format!("there is no type {number}")))
}

fn reduction(number: i32) -> Result<Reduction, CommError> {
    let found = usize::try_from(number).ok().and_then(|it| Reduction::ALL.get(it).copied());
    found.ok_or_else(|| CommError::invalid(format!("there is no reduction {number}")))
}

/// The options of a `motet_options` from C.
///
/// # Safety
/// As `motet.h` asks of its fields, and of their number.
unsafe fn options(given: *const COptions) -> Result<Options, CommError> {
    if given.is_null() {
        return Err(CommError::invalid("the options are a null pointer"));
    }
    // SAFETY: every version begins with its size.
    let size = unsafe { given.cast::<usize>().read() };
    if size < FIRST_SIZE || size > size_of::<COptions>() {
        return Err(CommError::invalid(
            "the options are of another version of motet.h, or motet_options_init was not called",
        ));
    }
    let mut whole = std::mem::MaybeUninit::<COptions>::zeroed();
    // SAFETY: so many bytes are there, as `struct_size` says, and there is room for them; fields that an older version
    // has not are zero, which is a value of every field.
    unsafe { std::ptr::copy_nonoverlapping(given.cast::<u8>(), whole.as_mut_ptr().cast(), size) };
    // SAFETY: zeros, and over them what C has written.
    let given = unsafe { whole.assume_init() };
    // SAFETY: strings, as `motet.h` asks.
    let of = |name: &str, it| unsafe { text(name, it) };
    let store = of("store", given.store)?;
    let store = store.ok_or_else(|| CommError::invalid("where is the store?"))?;
    let defaults = Options::new(store, given.rank, given.ranks);
    let or = |it: u32, default: u64| if it == 0 { default } else { u64::from(it) };
    let method = match of("method", given.method)? {
        Some(name) => name.parse().map_err(|it| CommError::invalid(format!("{it}")))?,
        None => defaults.method,
    };
    let members = if given.members.is_null() {
        Vec::new()
    } else {
        // SAFETY: `ranks` numbers, as `motet.h` asks.
        unsafe { std::slice::from_raw_parts(given.members, given.ranks as usize) }.to_vec()
    };
    let file = |name: &str, it| of(name, it).map(|it| it.map(std::path::PathBuf::from));
    let tls = tls(TlsFiles {
        certificate: file("tls_certificate", given.tls_certificate)?,
        key: file("tls_key", given.tls_key)?,
        ca: file("tls_ca", given.tls_ca)?,
        name: of("tls_name", given.tls_name)?,
    })?;
    Ok(Options {
        tls,
        store_apart: given.store_apart != 0,
        token: of("token", given.token)?
            .or_else(|| environment("MOTET_EXEC_TOKEN"))
            .unwrap_or_default(),
        group: of("group", given.group)?.unwrap_or(defaults.group),
        cluster: of("cluster", given.cluster)?.or_else(|| environment("MOTET_CLUSTER")),
        members,
        method,
        seed: if given.seed == 0 { defaults.seed } else { given.seed },
        streams: given.streams,
        shared_memory: given.no_shared_memory == 0,
        checksums: given.checksums != 0,
        wait_seconds: or(given.wait_seconds, defaults.wait_seconds),
        silence_seconds: or(given.silence_seconds, defaults.silence_seconds),
        deadline_seconds: or(given.deadline_seconds, defaults.deadline_seconds),
        cache_bytes: if given.cache_bytes == 0 { defaults.cache_bytes } else { given.cache_bytes },
        ..Options::new(defaults.store, given.rank, given.ranks)
    })
}

/// Gives C a request for the call, or waits for the call's end where C wants none.
///
/// # Safety
/// `request` is null or writable.
unsafe fn give(
    handle: Handle,
    scratch: Option<Box<[u8]>>,
    request: *mut *mut Request,
) -> Result<(), CommError> {
    if request.is_null() {
        let ended = handle.wait();
        drop(scratch);
        return ended;
    }
    let made = Box::into_raw(Box::new(Request { handle, _scratch: scratch }));
    // SAFETY: writable, as the caller promises.
    unsafe { put("request", request, made) }
}

/// Starts a collective for C.
///
/// # Safety
/// `comm` is null or of `motet_init`; buffers are as `motet.h` says, or null; `request` is null or writable.
unsafe fn collective(
    comm: *const Comm,
    kind: Result<Kind, CommError>,
    (input, output): (*const c_void, *mut c_void),
    (count, kind_of_element): (usize, i32),
    request: *mut *mut Request,
) -> Status {
    border(|| {
        // SAFETY: as this function's caller promises.
        let comm = &unsafe { known("the communicator", comm) }?.0;
        let call = Call::new(kind?, element(kind_of_element)?, count)?;
        let (gives, mut gets) = call.bytes(comm.rank(), comm.ranks());
        if gives > 0 && call.kind == Kind::Broadcast(comm.rank()) && input == output.cast_const() {
            gets = 0;
        }
        // SAFETY: as this function's caller promises, by `motet.h`.
        let input = unsafe { Input::new(input.cast(), gives) };
        // SAFETY: likewise.
        let output = unsafe { Output::new(output.cast(), gets) };
        let handle = comm.start(call, input, output)?;
        // SAFETY: as this function's caller promises.
        unsafe { give(handle, None, request) }
    })
}

/// Gives C a store, and the address at which it serves.
///
/// # Safety
/// `address` is null, or so many bytes are writable there; `store` is null or writable.
unsafe fn give_store(
    served: Store,
    (address, address_size): (*mut c_char, usize),
    store: *mut *mut Store,
) -> Result<(), CommError> {
    let said = CString::new(served.address().to_string()).unwrap_or_default();
    let said = said.as_bytes_with_nul();
    if !address.is_null() {
        if said.len() > address_size {
            return Err(CommError::invalid(format!("an address takes {} bytes", said.len())));
        }
        // SAFETY: so many bytes are writable, by `motet.h`.
        unsafe { std::ptr::copy_nonoverlapping(said.as_ptr().cast(), address, said.len()) };
    }
    // SAFETY: by `motet.h`.
    unsafe { put("store", store, Box::into_raw(Box::new(served))) }
}

#[unsafe(no_mangle)]
pub extern "C" fn motet_last_error() -> *const c_char {
    LAST.try_with(|it| it.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn motet_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_options_init(options: *mut COptions) {
    if options.is_null() {
        return;
    }
    // SAFETY: as this function's caller promises; no version of `motet_options` is shorter.
    unsafe { motet_options_init_sized(options, FIRST_SIZE) };
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_options_init_sized(options: *mut COptions, size: usize) {
    if options.is_null() || size < size_of::<usize>() {
        return;
    }
    // SAFETY: so many bytes are writable, by `motet.h`.
    unsafe { options.cast::<u8>().write_bytes(0, size) };
    // SAFETY: it is the first field.
    unsafe { options.cast::<usize>().write(size) };
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_init(given: *const COptions, comm: *mut *mut Comm) -> Status {
    border(|| {
        if comm.is_null() {
            return Err(CommError::invalid("comm is a null pointer"));
        }
        // SAFETY: by `motet.h`.
        let joined = Communicator::join(unsafe { options(given) }?)?;
        // SAFETY: by `motet.h`.
        unsafe { put("comm", comm, Box::into_raw(Box::new(Comm(joined)))) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_destroy(comm: *mut Comm) -> Status {
    border(|| {
        if !comm.is_null() {
            // SAFETY: of `motet_init`, and freed once, by `motet.h`.
            drop(unsafe { Box::from_raw(comm) });
        }
        Ok(())
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_rank(comm: *const Comm, rank: *mut u32) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let value = unsafe { known("comm", comm) }?.0.rank();
        // SAFETY: by `motet.h`.
        unsafe { put("rank", rank, value) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_ranks(comm: *const Comm, ranks: *mut u32) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let value = unsafe { known("comm", comm) }?.0.ranks();
        // SAFETY: by `motet.h`.
        unsafe { put("ranks", ranks, value) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_first_rank(comm: *const Comm, rank: u32, first: *mut u32) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let all = unsafe { known("comm", comm) }?.0.first_ranks();
        let found = all.get(rank as usize).copied();
        let found = found.ok_or_else(|| CommError::invalid(format!("there is no rank {rank}")))?;
        // SAFETY: by `motet.h`.
        unsafe { put("first", first, found) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_survivors(comm: *const Comm, grace_ms: u64) -> Status {
    // SAFETY: by `motet.h`.
    border(|| unsafe { known("comm", comm) }?.0.survivors(grace_ms))
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_store_serve(
    listen: *const c_char,
    token: *const c_char,
    address: *mut c_char,
    address_size: usize,
    store: *mut *mut Store,
) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let listen = unsafe { text("listen", listen) }?;
        let listen = listen.ok_or_else(|| CommError::invalid("where to listen?"))?;
        // SAFETY: by `motet.h`.
        let token = unsafe { text("token", token) }?.unwrap_or_default();
        if store.is_null() {
            return Err(CommError::invalid("store is a null pointer"));
        }
        let served = serve(&listen, &token, tls(TlsFiles::default())?)?;
        // SAFETY: by `motet.h`.
        unsafe { give_store(served, (address, address_size), store) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_store_serve_options(
    given: *const COptions,
    address: *mut c_char,
    address_size: usize,
    store: *mut *mut Store,
) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let options = unsafe { options(given) }?;
        if store.is_null() {
            return Err(CommError::invalid("store is a null pointer"));
        }
        let served = serve(&options.store, &options.token, options.tls)?;
        // SAFETY: by `motet.h`.
        unsafe { give_store(served, (address, address_size), store) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_store_destroy(store: *mut Store) -> Status {
    border(|| {
        if !store.is_null() {
            // SAFETY: of `motet_store_serve`, and freed once, by `motet.h`.
            drop(unsafe { Box::from_raw(store) });
        }
        Ok(())
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_allreduce(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    how: i32,
    request: *mut *mut Request,
) -> Status {
    let what = reduction(how).map(Kind::AllReduce);
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_reducescatter(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    how: i32,
    request: *mut *mut Request,
) -> Status {
    let what = reduction(how).map(Kind::ReduceScatter);
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_allgather(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    request: *mut *mut Request,
) -> Status {
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, Ok(Kind::AllGather), (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_alltoall(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    request: *mut *mut Request,
) -> Status {
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, Ok(Kind::AllToAll), (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_broadcast(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    root: u32,
    request: *mut *mut Request,
) -> Status {
    let what = Ok(Kind::Broadcast(root));
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_reduce(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    how: i32,
    root: u32,
    request: *mut *mut Request,
) -> Status {
    let what = reduction(how).map(|it| Kind::Reduce(it, root));
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_gather(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    root: u32,
    request: *mut *mut Request,
) -> Status {
    let what = Ok(Kind::Gather(root));
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_scatter(
    comm: *const Comm,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    kind: i32,
    root: u32,
    request: *mut *mut Request,
) -> Status {
    let what = Ok(Kind::Scatter(root));
    // SAFETY: by `motet.h`.
    unsafe { collective(comm, what, (input, output), (count, kind), request) }
}

fn bytes(count: usize, kind: i32) -> Result<usize, CommError> {
    let bytes = count.checked_mul(element(kind)?.bytes());
    bytes.ok_or_else(|| CommError::invalid("more elements than can be addressed"))
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_send(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    kind: i32,
    to: u32,
    tag: u32,
    request: *mut *mut Request,
) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let comm = &unsafe { known("the communicator", comm) }?.0;
        // SAFETY: by `motet.h`.
        let input = unsafe { Input::new(input.cast(), bytes(count, kind)?) };
        let handle = comm.send(to, tag, input)?;
        // SAFETY: by `motet.h`.
        unsafe { give(handle, None, request) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_receive(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    kind: i32,
    from: u32,
    tag: u32,
    request: *mut *mut Request,
) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let comm = &unsafe { known("the communicator", comm) }?.0;
        // SAFETY: by `motet.h`.
        let output = unsafe { Output::new(output.cast(), bytes(count, kind)?) };
        let handle = comm.receive(from, tag, output)?;
        // SAFETY: by `motet.h`.
        unsafe { give(handle, None, request) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_barrier(comm: *const Comm, request: *mut *mut Request) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let comm = &unsafe { known("the communicator", comm) }?.0;
        // An AllGather of one byte, which ends at no rank before all have called.
        let mut scratch = vec![0_u8; comm.ranks() as usize + 1].into_boxed_slice();
        let (from, to) = scratch.split_at_mut(1);
        // SAFETY: the scratch is the request's, and lives until it was waited for.
        let input = unsafe { Input::new(from.as_ptr(), 1) };
        // SAFETY: likewise.
        let output = unsafe { Output::new(to.as_mut_ptr(), to.len()) };
        let call = Call::new(Kind::AllGather, Element::U8, 1)?;
        let handle = comm.start(call, input, output)?;
        // SAFETY: by `motet.h`.
        unsafe { give(handle, Some(scratch), request) }
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_wait(request: *mut Request) -> Status {
    border(|| {
        if request.is_null() {
            return Err(CommError::invalid("request is a null pointer"));
        }
        // SAFETY: of a call, and freed once, by `motet.h`.
        let request = unsafe { Box::from_raw(request) };
        request.handle.wait()
    })
}

/// # Safety
/// See `motet.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn motet_test(request: *const Request, ended: *mut i32) -> Status {
    border(|| {
        // SAFETY: by `motet.h`.
        let done = unsafe { known("request", request) }?.handle.test().is_some();
        // SAFETY: by `motet.h`.
        unsafe { put("ended", ended, i32::from(done)) }
    })
}
