//! How long MSCCL++'s executor takes for a plan, by a model that is fitted to measurements.
//!
//! A plan is run by thread blocks that write into one another's memory. NCCL's constants say hardly
//! anything about what that costs: the operations that a block does one after the other, the signals it
//! waits for, how many bytes its threads have in flight, and the memory that all blocks share. So the
//! model has terms of its own ([`PlanTerms`]), each with a meaning, and [`fit`](fit::fit) finds them from
//! measured calls. [`PlanCost`] prices a plan with them:
//!
//! ```text
//! time = launch + the longest chain of operations, signals and waits + what sharing memory and links adds
//! ```
//!
//! - [`terms`]: the terms, and what they are on an H200;
//! - [`chain`]: the longest chain, operation by operation as the executor runs them;
//! - [`rounds`]: how long the data of one operation takes;
//! - [`cost`]: both together, on a network;
//! - [`mod@fit`]: terms from measurements.
//!
//! docs/mscclpp-model.md says how the terms were measured and how far they are off.

pub mod chain;
pub mod cost;
pub mod fit;
pub mod rounds;
pub mod terms;

pub use cost::{PlanCost, PlanParts, Sharing};
pub use fit::{Fitted, Judged, Sample, fit, judge, weights};
pub use terms::PlanTerms;
