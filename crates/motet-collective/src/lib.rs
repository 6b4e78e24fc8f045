//! Collectives, and programs that do them: what must be true before and after, the DAG of
//! transfers that makes it so, the proof that it does, the least time it could take, and the file
//! formats that real runtimes execute.
//!
//! - [`collective`]: pre- and postconditions.
//! - [`program`]: transfers, events, lanes.
//! - [`verify`]: the verifier; [`verify::Verified`] is what later crates take.
//! - [`bound`]: the least time any program could take, and what sets it.
//! - [`diagnostic`]: what the verifier and the readers find.
//! - [`formats`]: Motet's own program file, MSCCL XML and MSCCL++ JSON.

pub mod bound;
pub mod collective;
pub mod diagnostic;
pub mod formats;
pub mod program;
pub mod verify;

pub use bound::{Bound, BoundError};
pub use collective::{Collective, CollectiveError, CollectiveKind, Expected};
pub use diagnostic::{Diagnostic, Finding, Report, Severity};
pub use program::{
    Action, Buffer, Event, Forms, MadeFor, Program, ProgramBuilder, Protocol, Slot, Transfer,
    TransferId, Turns,
};
pub use verify::Verified;
