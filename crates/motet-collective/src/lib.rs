//! Collective operations (AllReduce, AllGather, …) and the programs that carry them out.
//!
//! A *collective* says what every rank holds before and must hold after. A *program* says how to get
//! there: which chunk of which buffer goes from which rank to which, copied or added up, and what
//! has to wait for what (MSCCL calls that an algorithm). This crate has both, the *verifier* that
//! proves a program right in whatever order its transfers happen, the *bound* that says how fast any
//! program could be on a given network, and readers and writers of the program files that real
//! runtimes execute. It simulates nothing and makes no programs: `motet-sim` and `motet-synth` do,
//! on top of it.
//!
//! Where to start reading:
//! 1. [`collective`] has the table of what each collective means;
//! 2. [`program`] explains transfers, events and lanes, and [`ProgramBuilder`] makes a program;
//! 3. [`verify`] defines what being right is; [`Verified`] is the only form of a program that the
//!    crates above accept;
//! 4. [`in_switch`] is about programs that have switches copy and reduce;
//! 5. [`bound`] has the limits, with their formulas and what they assume;
//! 6. [`formats`] has Motet's own program file, MSCCL XML and MSCCL++ JSON plans;
//! 7. [`diagnostic`] is how the verifier, the readers and the writers say what is wrong.

pub mod bound;
pub mod collective;
pub mod diagnostic;
pub mod formats;
pub mod in_switch;
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
