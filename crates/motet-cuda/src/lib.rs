//! The GPUs of this machine, and how fast data moves between them and the host, asked of CUDA's
//! driver.
//!
//! The driver (`libcuda.so.1`) is looked for when [`Cuda::load`] is called, so that building needs
//! nothing of CUDA and a machine without GPUs gets an error that says so. Only the driver API is
//! used: no runtime library, no kernel, no compiler.
//!
//! Where to start:
//! - [`Cuda`]: the driver once it is loaded, and its [`Gpu`]s;
//! - [`measure`] times copies with the GPU's own events; no clock of this machine is read;
//! - [`work`] lends a stream and memory to a library that has work of its own (NCCL);
//! - `owned.rs` holds what must be given back: contexts, memory, streams, events;
//! - `driver.rs` is the foreign interface: the functions we call, as NVIDIA documents them.
//!
//! `cargo run -p motet-cuda --example measure` prints what it finds.
//!
//! This is one of the few crates with `unsafe` code (ARCHITECTURE.md lists them all); it is kept small for that reason.

mod driver;
pub mod measure;
mod owned;
pub mod work;

pub use driver::reason as loader_reason;
use driver::{Attribute, Driver};
pub use measure::{Figure, Options, Place};
pub use work::{Graph, Memory, Queue};

/// Why the driver could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    #[error("{library} cannot be loaded, so GPUs cannot be measured here: {reason}")]
    NoDriver { library: &'static str, reason: String },
    #[error("the CUDA driver has no function `{name}`; it may be too old")]
    NoFunction { name: &'static str },
    #[error("CUDA's {function} failed: {code} ({name})")]
    Failed { function: &'static str, code: i32, name: String },
    #[error("CUDA's {function} gave an answer that makes no sense: {what}")]
    Nonsense { function: &'static str, what: String },
}

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// As CUDA numbers them; not the order of `nvidia-smi` unless `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub index: usize,
    pub name: String,
    /// As sysfs writes it: `0000:1b:00.0`.
    pub bus_id: String,
    /// Compute capability times ten: 90 for 9.0.
    pub sm: u32,
}

/// The driver, loaded and initialized.
#[derive(Debug)]
pub struct Cuda {
    driver: Driver,
    version: i32,
}

impl Cuda {
    /// Loads the driver; the error says why, where there is none.
    pub fn load() -> Result<Self, CudaError> {
        let driver = Driver::load()?;
        let version = driver.version()?;
        Ok(Self { driver, version })
    }

    /// The CUDA version that the driver supports, as (major, minor).
    #[must_use]
    pub const fn version(&self) -> (i32, i32) {
        (self.version / 1000, self.version % 1000 / 10)
    }

    /// All GPUs that this process may use (`CUDA_VISIBLE_DEVICES` limits them).
    pub fn gpus(&self) -> Result<Vec<Gpu>, CudaError> {
        (0..self.driver.device_count()?).map(|index| self.gpu(index)).collect()
    }

    fn gpu(&self, index: usize) -> Result<Gpu, CudaError> {
        let device = self.driver.device(index)?;
        let part = |which| {
            let value = self.driver.attribute(device, which)?;
            u32::try_from(value).map_err(|_| CudaError::Nonsense {
                function: "cuDeviceGetAttribute",
                what: format!("compute capability {value}"),
            })
        };
        let (major, minor) = (part(Attribute::Major)?, part(Attribute::Minor)?);
        Ok(Gpu {
            index,
            name: self.driver.name(device)?,
            bus_id: bus_id(&self.driver.bus_id(device)?),
            sm: major.saturating_mul(10).saturating_add(minor),
        })
    }
}

/// A bus id as sysfs writes it: four digits of domain where they are enough, small letters.
fn bus_id(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) => {
            let digits = domain.trim_start_matches('0');
            format!("{digits:0>4}:{rest}")
        }
        None => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_as_in_sysfs() {
        assert_eq!(bus_id("0000:1B:00.0"), "0000:1b:00.0");
        assert_eq!(bus_id("00000000:1B:00.0"), "0000:1b:00.0");
        assert_eq!(bus_id("00010001:00:00.0"), "10001:00:00.0");
        assert_eq!(bus_id("?"), "?");
    }

    /// With a driver its GPUs are listed; without one the error says what is missing.
    #[test]
    fn a_machine_without_a_driver_is_told_so() {
        match Cuda::load() {
            Ok(cuda) => assert!(cuda.gpus().is_ok()),
            Err(CudaError::NoDriver { library, reason }) => {
                assert_eq!(library, "libcuda.so.1");
                assert!(!reason.is_empty());
            }
            // A driver library without a device: a container without the GPU, say.
            Err(error) => assert!(matches!(error, CudaError::Failed { .. }), "{error}"),
        }
    }
}
