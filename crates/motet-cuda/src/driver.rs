//! The functions of `libcuda.so.1` that we call, with the types that NVIDIA's driver API reference
//! gives them, and a safe call for each that needs no memory of ours to stay alive.
//!
//! Where a function was revised, the symbol has a suffix (`cuMemAlloc_v2`): the name without it is
//! the first revision with 32-bit sizes. What owns memory, streams and events is in
//! [`owned`](super::owned).

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;

use libloading::Library;

use super::CudaError;

const LIBRARY: &str = "libcuda.so.1";
/// Longer than any name or bus id.
const TEXT: usize = 256;

pub(super) type Device = c_int;
pub(super) type Context = *mut c_void;
pub(super) type Stream = *mut c_void;
pub(super) type Event = *mut c_void;
/// A graph, or one that is ready to be launched.
pub(super) type Graph = *mut c_void;
/// An address in GPU memory.
pub(super) type Address = u64;
pub(super) type Status = c_int;

const SUCCESS: Status = 0;
const PEER_ACCESS_ALREADY_ENABLED: Status = 704;

/// `CUdevice_attribute`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute {
    Major = 75,
    Minor = 76,
}

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The driver's functions. The library is never unloaded, so they stay valid.
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, CudaError> {
                Ok(Self { $($field: {
                    // SAFETY: the type is that of the function in NVIDIA's reference of the
                    // driver API, and the symbol with its suffix names that revision.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> Status>(
                            concat!($symbol, "\0").as_bytes(),
                        )
                    };
                    *found.map_err(|_| CudaError::NoFunction { name: $symbol })?
                },)* })
            }
        }
    };
}

functions! {
    init = "cuInit": fn(c_uint);
    driver_version = "cuDriverGetVersion": fn(*mut c_int);
    error_name = "cuGetErrorName": fn(Status, *mut *const c_char);
    device_count = "cuDeviceGetCount": fn(*mut c_int);
    device_get = "cuDeviceGet": fn(*mut Device, c_int);
    device_name = "cuDeviceGetName": fn(*mut c_char, c_int, Device);
    device_bus_id = "cuDeviceGetPCIBusId": fn(*mut c_char, c_int, Device);
    device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, Device);
    can_access_peer = "cuDeviceCanAccessPeer": fn(*mut c_int, Device, Device);
    context_retain = "cuDevicePrimaryCtxRetain": fn(*mut Context, Device);
    context_release = "cuDevicePrimaryCtxRelease_v2": fn(Device);
    context_set = "cuCtxSetCurrent": fn(Context);
    enable_peer = "cuCtxEnablePeerAccess": fn(Context, c_uint);
    alloc = "cuMemAlloc_v2": fn(*mut Address, usize);
    free = "cuMemFree_v2": fn(Address);
    alloc_host = "cuMemAllocHost_v2": fn(*mut *mut c_void, usize);
    free_host = "cuMemFreeHost": fn(*mut c_void);
    copy_to_device = "cuMemcpyHtoDAsync_v2": fn(Address, *const c_void, usize, Stream);
    copy_to_host = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, Address, usize, Stream);
    copy_to_peer = "cuMemcpyPeerAsync": fn(Address, Context, Address, Context, usize, Stream);
    stream_create = "cuStreamCreate": fn(*mut Stream, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(Stream);
    stream_wait = "cuStreamSynchronize": fn(Stream);
    event_create = "cuEventCreate": fn(*mut Event, c_uint);
    event_destroy = "cuEventDestroy_v2": fn(Event);
    event_record = "cuEventRecord": fn(Event, Stream);
    event_elapsed = "cuEventElapsedTime": fn(*mut f32, Event, Event);
    fill = "cuMemsetD8Async": fn(Address, u8, usize, Stream);
    capture_begin = "cuStreamBeginCapture_v2": fn(Stream, c_uint);
    capture_end = "cuStreamEndCapture": fn(Stream, *mut Graph);
    graph_instantiate = "cuGraphInstantiateWithFlags": fn(*mut Graph, Graph, u64);
    graph_destroy = "cuGraphDestroy": fn(Graph);
    graph_launch = "cuGraphLaunch": fn(Graph, Stream);
    executable_destroy = "cuGraphExecDestroy": fn(Graph);
}

#[derive(Clone, Copy)]
pub(super) struct Driver {
    pub(super) functions: Functions,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Driver {
    pub(super) fn load() -> Result<Self, CudaError> {
        // SAFETY: loading runs the library's initializers. It is NVIDIA's driver, found as every
        // CUDA program finds it; whoever can put another library there controls the process anyway.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library
            .map_err(|error| CudaError::NoDriver { library: LIBRARY, reason: reason(&error) })?;
        let functions = Functions::of(&library)?;
        // The driver starts threads of its own: once loaded it stays for the life of the process.
        std::mem::forget(library);
        let driver = Self { functions };
        // SAFETY: takes a number only; zero is the one flag word that the reference allows.
        driver.check("cuInit", unsafe { (functions.init)(0) })?;
        Ok(driver)
    }

    /// `Ok` for success, the error's name otherwise.
    pub(super) fn check(&self, function: &'static str, status: Status) -> Result<(), CudaError> {
        if status == SUCCESS {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: `name` is a valid place for the pointer that the driver writes.
        let known = unsafe { (self.functions.error_name)(status, &raw mut name) };
        let name = if known == SUCCESS && !name.is_null() {
            // SAFETY: the driver gives a zero-terminated text of static lifetime.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown error".to_owned()
        };
        Err(CudaError::Failed { function, code: status, name })
    }

    pub(super) fn version(&self) -> Result<i32, CudaError> {
        let mut version = 0;
        // SAFETY: `version` is a valid place for the number that the driver writes.
        let status = unsafe { (self.functions.driver_version)(&raw mut version) };
        self.check("cuDriverGetVersion", status)?;
        Ok(version)
    }

    pub(super) fn device_count(&self) -> Result<usize, CudaError> {
        let mut count = 0;
        // SAFETY: `count` is a valid place for the number that the driver writes.
        let status = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", status)?;
        usize::try_from(count).map_err(|_| CudaError::Nonsense {
            function: "cuDeviceGetCount",
            what: format!("{count} devices"),
        })
    }

    pub(super) fn device(&self, index: usize) -> Result<Device, CudaError> {
        let ordinal = c_int::try_from(index).map_err(|_| CudaError::Nonsense {
            function: "cuDeviceGet",
            what: format!("device {index}"),
        })?;
        let mut device = 0;
        // SAFETY: `device` is a valid place for the handle that the driver writes.
        let status = unsafe { (self.functions.device_get)(&raw mut device, ordinal) };
        self.check("cuDeviceGet", status)?;
        Ok(device)
    }

    pub(super) fn name(&self, device: Device) -> Result<String, CudaError> {
        self.text("cuDeviceGetName", self.functions.device_name, device)
    }

    pub(super) fn bus_id(&self, device: Device) -> Result<String, CudaError> {
        self.text("cuDeviceGetPCIBusId", self.functions.device_bus_id, device)
    }

    /// What a function writes into a buffer.
    fn text(
        &self,
        function: &'static str,
        call: unsafe extern "C" fn(*mut c_char, c_int, Device) -> Status,
        device: Device,
    ) -> Result<String, CudaError> {
        let mut buffer = [0u8; TEXT];
        // SAFETY: the driver writes at most as many bytes as we say, one less than the buffer has.
        let status =
            unsafe { call(buffer.as_mut_ptr().cast::<c_char>(), TEXT as c_int - 1, device) };
        self.check(function, status)?;
        // The last byte was never written, so there is an end.
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    pub(super) fn attribute(&self, device: Device, which: Attribute) -> Result<i32, CudaError> {
        let mut value = 0;
        // SAFETY: `value` is a valid place for the number that the driver writes.
        let status =
            unsafe { (self.functions.device_attribute)(&raw mut value, which as c_int, device) };
        self.check("cuDeviceGetAttribute", status)?;
        Ok(value)
    }

    /// Whether `from` can reach `to`'s memory without the host.
    pub(super) fn can_access(&self, from: Device, to: Device) -> Result<bool, CudaError> {
        let mut can = 0;
        // SAFETY: `can` is a valid place for the number that the driver writes.
        let status = unsafe { (self.functions.can_access_peer)(&raw mut can, from, to) };
        self.check("cuDeviceCanAccessPeer", status)?;
        Ok(can != 0)
    }

    /// Lets the current context reach `peer`'s memory. That it may already is no error: another
    /// library in the process may have asked first.
    pub(super) fn enable_peer(&self, peer: Context) -> Result<(), CudaError> {
        // SAFETY: the caller's context is current and `peer` is retained by its owner.
        match unsafe { (self.functions.enable_peer)(peer, 0) } {
            PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            status => self.check("cuCtxEnablePeerAccess", status),
        }
    }
}

/// What the loader says: the last of a chain of errors, the others being about us.
#[must_use]
pub fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
