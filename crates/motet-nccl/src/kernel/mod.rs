//! How long a program takes when a runtime's kernels run it, laid out on thread blocks, by NCCL's own
//! constants.
//!
//! NCCL's cost model adds two things: the latency of the longest chain of steps, and the time that
//! the data take over what is slowest. For its own rings and trees both are closed forms
//! ([`tuning`](crate::tuning)). Here the same two are worked out for *any* program whose events stand
//! in lanes, so that NCCL's algorithms and ours are priced by one model:
//!
//! ```text
//! time = launch + latency of the longest chain + time of the data
//! ```
//!
//! - [`terms`]: NCCL's constants for the launch, a step, a hop, a thread block, a link;
//! - [`layout`]: a program as steps of thread blocks ([`Laid`]), compiled once;
//! - `latency`: the longest chain of steps, as if there were no data;
//! - `data`: the steps simulated with their transmission times, as if there were no latency: thread
//!   blocks, links, FIFOs;
//! - `slicing`: how chunks are cut into what a FIFO slot holds.
//!
//! The two parts overlap in truth. Adding them, as NCCL does, makes every time an upper estimate of what
//! these terms allow; both sides of a comparison are treated alike.
//! Plans of MSCCL++ have no FIFOs between thread blocks, and are priced by [`mscclpp`](crate::mscclpp).
//! docs/nccl-model.md says of each term where it comes from and how sure we are.

pub mod data;
pub mod error;
mod fuse;
mod latency;
pub mod layout;
mod price;
mod slicing;
pub mod terms;

pub use error::PriceError;
pub use layout::{Laid, Shape};
pub use price::Price;
pub use terms::{Call, FifoShape, Kernels, Terms};
