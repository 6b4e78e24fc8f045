//! Simulates one step of a job: compute and communication on streams, over a fabric.
//!
//! [`Iteration::simulate`](crate::Iteration::simulate) takes a DAG, a GPU and a [`Fabric`], and gives a
//! [`Run`]. Compute of a stage is one stream. Communications of a stage over one group are another: they
//! start in the order in which they become ready, one at a time, as calls on one communicator do. The fabric
//! decides how long a communication takes alone, which hardware of a rank it occupies meanwhile, and when it
//! may begin; the simulation only combines them. Communications that need the same NIC or scale-up link at
//! the same time slow each other down.
//!
//! **Start reading** at [`fabric`], the interface that a network must implement; then `engine`, the event loop.
//!
//! - [`fluid`]: sharing of resources among concurrent communications.
//! - [`run`]: the result; [`exposed`]: the causes of idle time.
//! - [`placement`]: which ranks share a scale-up domain, and which a rail.
//! - `perfetto`: a run as a picture.
//!
//! Fabrics that time collectives by running programs are in `motet-rails`, because this crate may not use the
//! crates that make programs. How communication slows compute that runs beside it (it takes multiprocessors
//! and memory bandwidth) is not modelled.

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
