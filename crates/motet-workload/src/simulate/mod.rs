//! One step of a job run in time: compute and communication on streams, over a fabric.
//!
//! [`Iteration::simulate`](crate::Iteration::simulate) is the whole of it: a DAG, a GPU and a [`Fabric`] in, a [`Run`] out.
//! Compute of a stage is one stream. Communications of a stage over one group are another: they start in
//! the order in which they become ready, one at a time, as calls on one communicator do. What a
//! communication takes alone, what of a rank's hardware it occupies meanwhile, and when it may begin is
//! the fabric's word; here that is only put together. Communications that want the same NIC or scale-up
//! link at the same time slow each other down.
//!
//! **Start reading** at [`fabric`], what a network must say of a communication; then `engine`, the loop.
//!
//! - [`fluid`]: who gets how much of what is wanted by several.
//! - [`run`]: what comes out; [`exposed`]: which waiting was for what.
//! - [`placement`]: which ranks share a scale-up domain, and which a rail.
//! - `perfetto`: a run as a picture.
//!
//! Fabrics that time collectives by running programs stand above this crate, in `motet-rails`, because
//! programs are made above it. What communication does to compute that runs beside it (it takes
//! multiprocessors and memory bandwidth) is not modelled.

mod engine;
pub mod exposed;
pub mod fabric;
pub mod fluid;
mod perfetto;
pub mod placement;
pub mod run;

pub use exposed::{Exposed, Reason};
pub use fabric::{Cost, Fabric, Ideal, Resource, Side, Use};
pub use placement::{Placement, Reach};
pub use run::{Run, Span};

pub use engine::Halted;
