//! [`Queue`]: a GPU's stream with memory and graphs, for libraries that put work of their own into it (NCCL).
//!
//! Everything is put into one stream and waited for before a function returns, except what a caller's closure puts
//! there; [`Queue::timed`] waits for that too.

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::ffi::c_void;

use motet_units::Duration;

use super::driver::Graph as RawGraph;
use super::owned::{Context, DeviceMemory, Stream};
use super::{Cuda, CudaError};

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads (a library's own) may do as they like meanwhile.
const THREAD_LOCAL: u32 = 1;

/// A stream of a GPU with memory and graphs. To be used by the thread that made it only.
#[derive(Debug)]
pub struct Queue {
    stream: Stream,
}

/// Memory of the queue's GPU.
#[derive(Debug)]
pub struct Memory {
    owned: DeviceMemory,
}

/// What was captured, ready to be launched again and again.
#[derive(Debug)]
pub struct Graph {
    /// Holds the context that the graph is of.
    context: std::rc::Rc<Context>,
    raw: RawGraph,
}

impl Cuda {
    /// A queue on a GPU, by its index among [`Cuda::gpus`]; its context becomes the thread's.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn queue(&self, index: usize) -> Result<Queue, CudaError> {
        let context = Context::retain(self.driver, self.driver.device(index)?)?;
        Ok(Queue { stream: Stream::new(&context)? })
    }
}

impl Queue {
    /// The `CUstream` (which is the same as a `cudaStream_t`), for a foreign library. Valid as long as the queue.
    #[must_use]
    pub const fn raw(&self) -> *mut c_void {
        self.stream.raw()
    }

    /// # Errors
    /// When there is not as much.
    pub fn allocate(&self, bytes: usize) -> Result<Memory, CudaError> {
        Ok(Memory { owned: DeviceMemory::new(self.stream.context(), bytes)? })
    }

    /// Copies to the GPU from `offset` on, no more than there is room for, and waits.
    ///
    /// # Errors
    /// When the driver refuses, or earlier work failed.
    pub fn write(&self, to: &Memory, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        let bytes = data.len().min(to.bytes().saturating_sub(offset));
        let call = self.driver().functions.copy_to_device;
        // SAFETY: both sides have that many bytes, and the stream is waited for before `data` can go.
        let status =
            unsafe { call(to.address() + offset as u64, data.as_ptr().cast(), bytes, self.raw()) };
        self.finished("cuMemcpyHtoDAsync", status)
    }

    /// Copies from the GPU from `offset` on, no more than there is, and waits.
    ///
    /// # Errors
    /// When the driver refuses, or earlier work failed.
    pub fn read(&self, from: &Memory, offset: usize, data: &mut [u8]) -> Result<(), CudaError> {
        let bytes = data.len().min(from.bytes().saturating_sub(offset));
        let call = self.driver().functions.copy_to_host;
        let address = from.address() + offset as u64;
        // SAFETY: both sides have that many bytes, and the stream is waited for before `data` can go.
        let status = unsafe { call(data.as_mut_ptr().cast(), address, bytes, self.raw()) };
        self.finished("cuMemcpyDtoHAsync", status)
    }

    /// Sets all bytes, and waits.
    ///
    /// # Errors
    /// When the driver refuses, or earlier work failed.
    pub fn fill(&self, memory: &Memory, byte: u8) -> Result<(), CudaError> {
        let call = self.driver().functions.fill;
        // SAFETY: the memory has that many bytes and lives until the stream is waited for.
        let status = unsafe { call(memory.address(), byte, memory.bytes(), self.raw()) };
        self.finished("cuMemsetD8Async", status)
    }

    /// Until everything is done.
    ///
    /// # Errors
    /// When something of it failed.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.stream.wait()
    }

    /// How long the GPU takes for what `work` puts into the queue; waits for it.
    ///
    /// # Errors
    /// When `work` fails, or something it has put there.
    pub fn timed<E: From<CudaError>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Duration, E> {
        self.stream.timed(work)
    }

    /// What `work` would put into the queue, without doing it.
    ///
    /// # Errors
    /// When `work` fails, or cannot be captured.
    pub fn capture<E: From<CudaError>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        let context = self.stream.context();
        context.make_current()?;
        let functions = &self.driver().functions;
        // SAFETY: the stream lives as long as `self`.
        let status = unsafe { (functions.capture_begin)(self.raw(), THREAD_LOCAL) };
        self.driver().check("cuStreamBeginCapture", status)?;
        let worked = work();
        let mut graph: RawGraph = std::ptr::null_mut();
        // SAFETY: as above; `graph` is a valid place for the handle. Ended also where `work` failed, or the stream
        // could not be used any more.
        let status = unsafe { (functions.capture_end)(self.raw(), &raw mut graph) };
        worked?;
        self.driver().check("cuStreamEndCapture", status)?;
        let mut raw: RawGraph = std::ptr::null_mut();
        // SAFETY: `graph` was captured above; `raw` is a valid place. The result is destroyed in `drop`.
        let status = unsafe { (functions.graph_instantiate)(&raw mut raw, graph, 0) };
        // SAFETY: captured above and not needed any more; what was instantiated does not refer to it.
        let _ = unsafe { (functions.graph_destroy)(graph) };
        self.driver().check("cuGraphInstantiate", status)?;
        Ok(Graph { context: std::rc::Rc::clone(context), raw })
    }

    /// Puts what was captured into the queue.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn launch(&self, graph: &Graph) -> Result<(), CudaError> {
        // SAFETY: both live; a graph is dropped only after the queue was waited for, as `timed` does.
        let status = unsafe { (self.driver().functions.graph_launch)(graph.raw, self.raw()) };
        self.driver().check("cuGraphLaunch", status)
    }

    fn driver(&self) -> &super::Driver {
        &self.stream.context().driver
    }

    /// Waits for what was just put into the queue, whatever came of that.
    fn finished(&self, function: &'static str, status: i32) -> Result<(), CudaError> {
        let waited = self.stream.wait();
        self.driver().check(function, status)?;
        waited
    }
}

impl Memory {
    /// On the GPU.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.owned.address()
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.owned.bytes()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: instantiated in `capture` and destroyed once.
        let _ = unsafe { (self.context.driver.functions.executable_destroy)(self.raw) };
    }
}
