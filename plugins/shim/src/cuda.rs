//! The functions of CUDA's driver that a shim needs, with the types of NVIDIA's driver API reference.
//!
//! `motet-cuda` has a larger set with contexts, events and memory of its own; inside a job nothing may be made that the job does not
//! know of, so this is all that is called.

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

use crate::abi::Stream;

type Result = c_int;
/// An address in GPU memory, or one by which a GPU reaches the host's.
pub(crate) type Address = u64;

const SUCCESS: Result = 0;
/// Memory that all contexts may use, and that GPUs can reach.
const PORTABLE_AND_MAPPED: c_uint = 1 | 2;
/// `CU_STREAM_WAIT_VALUE_GEQ`: the stream goes on as soon as the word is at least the given value.
const WAIT_AT_LEAST: c_uint = 0;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// See the [module](self). The library is never unloaded, so they stay valid.
        pub(crate) struct Cuda {
            $($field: unsafe extern "C" fn($($argument),*) -> Result,)*
        }

        impl Cuda {
            fn of(library: &Library) -> Option<Self> {
                Some(Self { $($field: {
                    // SAFETY: the type is that of the function in NVIDIA's reference of the driver API, and the
                    // symbol with its suffix names that revision.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> Result>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    };
                    *found.ok()?
                },)* })
            }
        }
    };
}

functions! {
    context = "cuCtxGetCurrent": fn(*mut *mut c_void);
    alloc_host = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    device_address = "cuMemHostGetDevicePointer_v2": fn(*mut Address, *mut c_void, c_uint);
    write = "cuStreamWriteValue32_v2": fn(Stream, Address, u32, c_uint);
    wait = "cuStreamWaitValue32_v2": fn(Stream, Address, u32, c_uint);
    capturing = "cuStreamIsCapturing": fn(Stream, *mut c_int);
    alloc = "cuMemAlloc_v2": fn(*mut Address, usize);
    free = "cuMemFree_v2": fn(Address);
    to_device = "cuMemcpyHtoD_v2": fn(Address, *const c_void, usize);
    to_host = "cuMemcpyDtoH_v2": fn(*mut c_void, Address, usize);
    synchronize = "cuStreamSynchronize": fn(Stream);
}

impl Cuda {
    /// The driver that the job uses, if there is one.
    pub(crate) fn load() -> Option<Self> {
        // SAFETY: a job that calls NCCL has loaded this library, or is about to.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        let cuda = Self::of(&library)?;
        // It stays for the life of the process.
        std::mem::forget(library);
        Some(cuda)
    }

    /// Whether this thread has a context, so that it can use the GPU.
    pub(crate) fn has_context(&self) -> bool {
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` is a valid place for the handle.
        let found = unsafe { (self.context)(&raw mut context) };
        found == SUCCESS && !context.is_null()
    }

    /// Memory of the host that GPUs can write to, zeroed, with the address that they have for it. It is never given back.
    pub(crate) fn shared(&self, bytes: usize) -> Option<(*mut c_void, Address)> {
        let mut host = std::ptr::null_mut();
        // SAFETY: `host` is a valid place for the address.
        let made = unsafe { (self.alloc_host)(&raw mut host, bytes, PORTABLE_AND_MAPPED) };
        if made != SUCCESS || host.is_null() {
            return None;
        }
        // SAFETY: the driver has just given us so many bytes.
        unsafe { host.write_bytes(0, bytes) };
        let mut device = 0;
        // SAFETY: `host` is mapped memory of the driver's, and `device` a valid place for the address.
        let found = unsafe { (self.device_address)(&raw mut device, host, 0) };
        (found == SUCCESS).then_some((host, device))
    }

    /// Has the stream set a word, once all work before it is done and visible.
    pub(crate) fn write(&self, stream: Stream, at: Address) -> bool {
        // SAFETY: the stream is the one that the job has just given NCCL, and the word is in `shared` memory.
        unsafe { (self.write)(stream, at, 1, 0) == SUCCESS }
    }

    /// Has the stream wait until the host has set a word, before any work behind it.
    pub(crate) fn wait(&self, stream: Stream, at: Address) -> bool {
        // SAFETY: as for `write`.
        unsafe { (self.wait)(stream, at, 1, WAIT_AT_LEAST) == SUCCESS }
    }

    /// Whether calls on this stream are captured in a CUDA graph, which runs later and again. Assumed if the driver does not say.
    pub(crate) fn is_capturing(&self, stream: Stream) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream is the job's, and `status` a valid place for the answer.
        let known = unsafe { (self.capturing)(stream, &raw mut status) };
        known != SUCCESS || status != NOT_CAPTURING
    }

    /// Runs `work` on a piece of GPU memory with these numbers in it, and gives what is there afterwards.
    pub(crate) fn with_numbers(
        &self,
        numbers: &[u32],
        work: impl FnOnce(Address) -> bool,
    ) -> Option<Vec<u32>> {
        let bytes = size_of_val(numbers);
        let mut at = 0;
        // SAFETY: `at` is a valid place for the address.
        if unsafe { (self.alloc)(&raw mut at, bytes) } != SUCCESS {
            return None;
        }
        let mut read = numbers.to_vec();
        // SAFETY: both places have so many bytes.
        let sent = unsafe { (self.to_device)(at, numbers.as_ptr().cast(), bytes) };
        let done = sent == SUCCESS && work(at);
        // SAFETY: the null stream is that of the thread's context.
        let ended = unsafe { (self.synchronize)(std::ptr::null_mut()) };
        // SAFETY: both places have so many bytes.
        let got = unsafe { (self.to_host)(read.as_mut_ptr().cast(), at, bytes) };
        // SAFETY: `at` was allocated above, and nothing uses it any more.
        unsafe { (self.free)(at) };
        (done && ended == SUCCESS && got == SUCCESS).then_some(read)
    }
}
