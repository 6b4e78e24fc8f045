//! `motet._motet`: what the Python package calls. Buffers are addresses; `package/motet/torch.py` makes them from tensors, and keeps these alive.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use motet_capi::{Call, CommError, Communicator, Handle, Input, Kind, Options, Output, Status, communicator};
use motet_exec::{Element, Reduction, Store, Tls, TlsFiles};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(_motet, MotetError, PyRuntimeError, "A call failed.");
create_exception!(_motet, LostError, MotetError, "A rank is gone; `survivors` goes on without it.");

fn failed(error: CommError) -> PyErr {
    match error.status {
        Status::Invalid => PyValueError::new_err(error.text),
        Status::Lost => LostError::new_err(error.text),
        _ => MotetError::new_err(error.text),
    }
}

/// Loads TLS's files in PEM: certificate, key and CA, all three or none.
fn tls(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    ca: Option<PathBuf>,
    name: Option<String>,
) -> PyResult<Option<Tls>> {
    TlsFiles { certificate, key, ca, name }.load().map_err(|it| failed(it.into()))
}

/// Where ranks meet; serves as long as it lives.
#[pyclass(name = "Store", frozen)]
struct PyStore(Store);

#[pymethods]
impl PyStore {
    /// With TLS if there are files for it, in PEM: all three or none.
    #[new]
    #[pyo3(signature = (listen, token, *, tls_certificate=None, tls_key=None, tls_ca=None, tls_name=None))]
    fn new(
        listen: &str,
        token: &str,
        tls_certificate: Option<PathBuf>,
        tls_key: Option<PathBuf>,
        tls_ca: Option<PathBuf>,
        tls_name: Option<String>,
    ) -> PyResult<Self> {
        let tls = tls(tls_certificate, tls_key, tls_ca, tls_name)?;
        communicator::serve(listen, token, tls).map(Self).map_err(failed)
    }

    /// Host and port.
    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }
}

/// A call that is under way.
#[pyclass(name = "Handle", frozen)]
struct PyHandle(Handle);

#[pymethods]
impl PyHandle {
    /// Waits for its end, or no longer than some seconds; raises what went wrong. Whether it has ended.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let Some(seconds) = seconds else {
            return py.detach(|| self.0.wait()).map(|()| true).map_err(failed);
        };
        let most = Duration::try_from_secs_f64(seconds);
        let most = most.map_err(|it| PyValueError::new_err(format!("{seconds} s: {it}")))?;
        py.detach(|| self.0.wait_for(most)).transpose().map(|it| it.is_some()).map_err(failed)
    }

    /// Whether it has ended, well or not.
    fn ended(&self) -> bool {
        self.0.test().is_some()
    }
}

/// Ranks that call collectives.
#[pyclass(name = "Communicator", frozen)]
struct PyCommunicator {
    /// Taken by `leave`.
    inner: Mutex<Option<std::sync::Arc<Communicator>>>,
}

impl PyCommunicator {
    fn inner(&self) -> PyResult<std::sync::Arc<Communicator>> {
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.clone().ok_or_else(|| MotetError::new_err("the group was left"))
    }
}

fn kind(name: &str, reduction: Option<&str>, root: u32) -> PyResult<Kind> {
    let wrong = |it: String| PyValueError::new_err(it);
    let how = || -> PyResult<Reduction> {
        reduction.unwrap_or("sum").parse().map_err(|it| wrong(format!("{it}")))
    };
    Ok(match name {
        "allreduce" => Kind::AllReduce(how()?),
        "reducescatter" => Kind::ReduceScatter(how()?),
        "reduce" => Kind::Reduce(how()?, root),
        "allgather" => Kind::AllGather,
        "alltoall" => Kind::AllToAll,
        "broadcast" => Kind::Broadcast(root),
        "gather" => Kind::Gather(root),
        "scatter" => Kind::Scatter(root),
        other => return Err(wrong(format!("there is no collective `{other}`"))),
    })
}

/// # Safety
/// As [`Input::new`] and [`Output::new`] ask.
#[allow(unsafe_code, reason = "addresses from Python")]
unsafe fn buffers(input: (usize, usize), output: (usize, usize)) -> (Input, Output) {
    // SAFETY: as the caller promises.
    let from = unsafe { Input::new(std::ptr::with_exposed_provenance(input.0), input.1) };
    // SAFETY: likewise.
    let to = unsafe { Output::new(std::ptr::with_exposed_provenance_mut(output.0), output.1) };
    (from, to)
}

#[pymethods]
impl PyCommunicator {
    /// Finds the other ranks and waits for them.
    #[new]
    #[pyo3(signature = (store, rank, ranks, *, token="", group="motet", store_apart=false, cluster=None, members=None,
        method="auto", seed=1, bind=None, streams=0, shared_memory=true, checksums=false, wait=60, silence=10, deadline=300,
        cache_bytes=4 << 30, tls_certificate=None, tls_key=None, tls_ca=None, tls_name=None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        store: String,
        rank: u32,
        ranks: u32,
        token: &str,
        group: &str,
        store_apart: bool,
        cluster: Option<String>,
        members: Option<Vec<u32>>,
        method: &str,
        seed: u64,
        bind: Option<&str>,
        streams: u32,
        shared_memory: bool,
        checksums: bool,
        wait: u64,
        silence: u64,
        deadline: u64,
        cache_bytes: u64,
        tls_certificate: Option<PathBuf>,
        tls_key: Option<PathBuf>,
        tls_ca: Option<PathBuf>,
        tls_name: Option<String>,
    ) -> PyResult<Self> {
        let wrong = |it: String| PyValueError::new_err(it);
        let options = Options {
            token: token.to_owned(),
            tls: tls(tls_certificate, tls_key, tls_ca, tls_name)?,
            group: group.to_owned(),
            store_apart,
            cluster,
            members: members.unwrap_or_default(),
            method: method.parse().map_err(|it| wrong(format!("{it}")))?,
            seed,
            bind: bind.map(str::parse).transpose().map_err(|it| wrong(format!("bind: {it}")))?,
            streams,
            shared_memory,
            checksums,
            wait_seconds: wait,
            silence_seconds: silence,
            deadline_seconds: deadline,
            cache_bytes,
            ..Options::new(store, rank, ranks)
        };
        let joined = py.detach(|| Communicator::join(options)).map_err(failed)?;
        Ok(Self { inner: Mutex::new(Some(std::sync::Arc::new(joined))) })
    }

    #[getter]
    fn rank(&self) -> PyResult<u32> {
        Ok(self.inner()?.rank())
    }

    #[getter]
    fn ranks(&self) -> PyResult<u32> {
        Ok(self.inner()?.ranks())
    }

    /// The number that each rank had when the group began.
    #[getter]
    fn first_ranks(&self) -> PyResult<Vec<u32>> {
        Ok(self.inner()?.first_ranks())
    }

    /// Starts a collective on buffers, each an address and a length in bytes, which must stay as they are until it has
    /// ended. `count` is the number of elements of a part.
    #[pyo3(signature = (name, element, count, input, output, reduction=None, root=0))]
    #[allow(clippy::too_many_arguments, reason = "a call has as many")]
    fn start(
        &self,
        name: &str,
        element: &str,
        count: usize,
        input: (usize, usize),
        output: (usize, usize),
        reduction: Option<&str>,
        root: u32,
    ) -> PyResult<PyHandle> {
        let element: Element =
            element.parse().map_err(|it| PyValueError::new_err(format!("{it}")))?;
        let call = Call::new(kind(name, reduction, root)?, element, count).map_err(failed)?;
        #[allow(unsafe_code, reason = "addresses from Python")]
        // SAFETY: the package keeps tensors alive and untouched until the call has ended.
        let (input, output) = unsafe { buffers(input, output) };
        self.inner()?.start(call, input, output).map(PyHandle).map_err(failed)
    }

    /// Starts sending bytes to a rank.
    fn send(&self, input: (usize, usize), to: u32, tag: u32) -> PyResult<PyHandle> {
        #[allow(unsafe_code, reason = "addresses from Python")]
        // SAFETY: as in `start`.
        let (input, _) = unsafe { buffers(input, (0, 0)) };
        self.inner()?.send(to, tag, input).map(PyHandle).map_err(failed)
    }

    /// Starts receiving bytes from a rank.
    fn receive(&self, output: (usize, usize), from: u32, tag: u32) -> PyResult<PyHandle> {
        #[allow(unsafe_code, reason = "addresses from Python")]
        // SAFETY: as in `start`.
        let (_, output) = unsafe { buffers((0, 0), output) };
        self.inner()?.receive(from, tag, output).map(PyHandle).map_err(failed)
    }

    /// Goes on with the ranks that are left.
    fn survivors(&self, py: Python<'_>, grace_ms: u64) -> PyResult<()> {
        let inner = self.inner()?;
        py.detach(|| inner.survivors(grace_ms)).map_err(failed)
    }

    /// Leaves the group; what is under way ends with an error.
    fn leave(&self, py: Python<'_>) {
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        py.detach(|| drop(inner));
    }
}

#[pymodule]
fn _motet(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStore>()?;
    module.add_class::<PyHandle>()?;
    module.add_class::<PyCommunicator>()?;
    module.add("MotetError", module.py().get_type::<MotetError>())?;
    module.add("LostError", module.py().get_type::<LostError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
