//! What the driver lends and must get back: a GPU's primary context, memory on both sides, a
//! stream, events. Each is given back when it is dropped; an error then has nobody to go to.

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::ffi::c_void;
use std::rc::Rc;

use motet_units::Duration;

use super::CudaError;
use super::driver::{self, Address, Device, Driver};

/// Copies do not wait for the default stream.
const NON_BLOCKING: u32 = 1;

/// A GPU's primary context, which this process shares with every other user of the GPU in it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) driver: Driver,
    device: Device,
    raw: driver::Context,
}

impl Context {
    pub(super) fn retain(driver: Driver, device: Device) -> Result<Rc<Self>, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for the handle; the context is released in `drop`.
        let status = unsafe { (driver.functions.context_retain)(&raw mut raw, device) };
        driver.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Rc::new(Self { driver, device, raw }))
    }

    /// Makes it the one that calls of this thread work on.
    pub(super) fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained for as long as `self` lives.
        let status = unsafe { (self.driver.functions.context_set)(self.raw) };
        self.driver.check("cuCtxSetCurrent", status)
    }

    /// Whether copies to `peer` can go without the host; if so they will.
    pub(super) fn reach(&self, peer: &Self) -> Result<bool, CudaError> {
        if !self.driver.can_access(self.device, peer.device)? {
            return Ok(false);
        }
        self.make_current()?;
        self.driver.enable_peer(peer.raw)?;
        Ok(true)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: no context is current afterwards, so nothing can use this one by accident.
        let _ = unsafe { (self.driver.functions.context_set)(std::ptr::null_mut()) };
        // SAFETY: retained once in `retain`; everything made in it holds an `Rc` of it and is gone.
        let _ = unsafe { (self.driver.functions.context_release)(self.device) };
    }
}

/// Memory of a GPU.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    context: Rc<Context>,
    address: Address,
    bytes: usize,
}

impl DeviceMemory {
    pub(super) fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, CudaError> {
        context.make_current()?;
        let mut address = 0;
        // SAFETY: `address` is a valid place for the address; the memory is freed in `drop`.
        let status = unsafe { (context.driver.functions.alloc)(&raw mut address, bytes) };
        context.driver.check("cuMemAlloc", status)?;
        Ok(Self { context: Rc::clone(context), address, bytes })
    }

    pub(super) const fn address(&self) -> Address {
        self.address
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: allocated in `new` in this context and freed once; streams were waited for.
        let _ = unsafe { (self.context.driver.functions.free)(self.address) };
    }
}

/// Host memory that the GPU reads and writes directly (page-locked).
#[derive(Debug)]
pub(super) struct HostMemory {
    context: Rc<Context>,
    address: *mut c_void,
    bytes: usize,
}

impl HostMemory {
    pub(super) fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, CudaError> {
        context.make_current()?;
        let mut address = std::ptr::null_mut();
        // SAFETY: `address` is a valid place for the pointer; the memory is freed in `drop`.
        let status = unsafe { (context.driver.functions.alloc_host)(&raw mut address, bytes) };
        context.driver.check("cuMemAllocHost", status)?;
        Ok(Self { context: Rc::clone(context), address, bytes })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: allocated in `new` in this context and freed once; streams were waited for.
        let _ = unsafe { (self.context.driver.functions.free_host)(self.address) };
    }
}

/// A moment in a stream, which the GPU notes.
#[derive(Debug)]
struct Event {
    context: Rc<Context>,
    raw: driver::Event,
}

impl Event {
    fn new(context: &Rc<Context>) -> Result<Self, CudaError> {
        context.make_current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for the handle; flags zero ask for a timed event.
        let status = unsafe { (context.driver.functions.event_create)(&raw mut raw, 0) };
        context.driver.check("cuEventCreate", status)?;
        Ok(Self { context: Rc::clone(context), raw })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: created in `new` and destroyed once.
        let _ = unsafe { (self.context.driver.functions.event_destroy)(self.raw) };
    }
}

/// A queue of copies on one GPU, with two events to time it.
#[derive(Debug)]
pub(super) struct Stream {
    context: Rc<Context>,
    raw: driver::Stream,
    begin: Event,
    end: Event,
}

/// One copy: where from, where to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Copy<'a> {
    Down(&'a HostMemory, &'a DeviceMemory),
    Up(&'a DeviceMemory, &'a HostMemory),
    Across(&'a DeviceMemory, &'a DeviceMemory),
}

impl Stream {
    pub(super) fn new(context: &Rc<Context>) -> Result<Self, CudaError> {
        let (begin, end) = (Event::new(context)?, Event::new(context)?);
        let mut raw = std::ptr::null_mut();
        let create = context.driver.functions.stream_create;
        // SAFETY: `raw` is a valid place for the handle, and `Event::new` made the context current;
        // the stream is destroyed in `drop`.
        let status = unsafe { create(&raw mut raw, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", status)?;
        Ok(Self { context: Rc::clone(context), raw, begin, end })
    }

    /// How long the GPU takes to do a copy of `bytes` this many times, one after the other.
    pub(super) fn time(
        &self,
        copy: Copy<'_>,
        bytes: usize,
        times: u32,
    ) -> Result<Duration, CudaError> {
        self.timed(|| (0..times).try_for_each(|_| self.copy(copy, bytes)))
    }

    /// How long the GPU takes for what `work` puts into this stream. It is waited for also where `work` fails: what it
    /// works on must outlive it.
    pub(super) fn timed<E: From<CudaError>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Duration, E> {
        self.context.make_current()?;
        let queued = self.record(&self.begin).map_err(E::from).and_then(|()| work());
        let queued = queued.and_then(|()| Ok(self.record(&self.end)?));
        let waited = self.wait();
        queued?;
        waited?;
        Ok(self.elapsed()?)
    }

    /// Until everything in it is done.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as `self`.
        let status = unsafe { (self.context.driver.functions.stream_wait)(self.raw) };
        self.context.driver.check("cuStreamSynchronize", status)
    }

    /// Between the two events, which were recorded and have happened.
    fn elapsed(&self) -> Result<Duration, CudaError> {
        let mut milliseconds = 0f32;
        let elapsed = self.context.driver.functions.event_elapsed;
        // SAFETY: both events live as long as `self`; `milliseconds` is a valid place.
        let status = unsafe { elapsed(&raw mut milliseconds, self.begin.raw, self.end.raw) };
        self.context.driver.check("cuEventElapsedTime", status)?;
        // The driver counts in floating-point milliseconds, to about half a microsecond.
        let picoseconds = f64::from(milliseconds) * 1e9;
        if !(picoseconds.is_finite() && picoseconds > 0.0) {
            return Err(CudaError::Nonsense {
                function: "cuEventElapsedTime",
                what: format!("{milliseconds} ms"),
            });
        }
        Ok(Duration::from_ps(picoseconds as u64))
    }

    fn record(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: event and stream are of this context and live as long as `self`.
        let status = unsafe { (self.context.driver.functions.event_record)(event.raw, self.raw) };
        self.context.driver.check("cuEventRecord", status)
    }

    pub(super) const fn raw(&self) -> driver::Stream {
        self.raw
    }

    pub(super) const fn context(&self) -> &Rc<Context> {
        &self.context
    }

    fn copy(&self, copy: Copy<'_>, bytes: usize) -> Result<(), CudaError> {
        let functions = &self.context.driver.functions;
        let (function, status) = match copy {
            Copy::Down(from, to) => {
                let bytes = bytes.min(from.bytes).min(to.bytes);
                let call = functions.copy_to_device;
                // SAFETY: both sides have that many bytes and live until the stream is waited for.
                ("cuMemcpyHtoDAsync", unsafe { call(to.address, from.address, bytes, self.raw) })
            }
            Copy::Up(from, to) => {
                let bytes = bytes.min(from.bytes).min(to.bytes);
                let call = functions.copy_to_host;
                // SAFETY: both sides have that many bytes and live until the stream is waited for.
                ("cuMemcpyDtoHAsync", unsafe { call(to.address, from.address, bytes, self.raw) })
            }
            Copy::Across(from, to) => {
                let bytes = bytes.min(from.bytes).min(to.bytes);
                let (there, here) = (to.context.raw, from.context.raw);
                let call = functions.copy_to_peer;
                // SAFETY: both sides have that many bytes in the context that goes with them, and
                // live until the stream is waited for.
                let status =
                    unsafe { call(to.address, there, from.address, here, bytes, self.raw) };
                ("cuMemcpyPeerAsync", status)
            }
        };
        self.context.driver.check(function, status)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: created in `new` and destroyed once; whoever put work into it has waited for it.
        let _ = unsafe { (self.context.driver.functions.stream_destroy)(self.raw) };
    }
}
