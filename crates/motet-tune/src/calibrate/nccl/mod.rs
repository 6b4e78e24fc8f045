//! Measurements of NCCL: read from logs and tables, compared with the model, and fitted.
//!
//! - [`call`]: an [`NcclCall`] is one measured call with what is known of how NCCL ran it; [`Version`];
//! - [`store`]: the table of calls that Motet writes and reads; [`run_table`]: that of `benches/nccl`;
//! - [`log`]: NCCL's own debug log: its tuning tables, what it built, and what each call ran;
//! - [`mod@join`]: rows of nccl-tests with the algorithm that a log says they took;
//! - [`mod@compare`]: nccl-tests' rows beside the model; [`belief`]: a log's tables and graphs beside it;
//! - [`part`]: the network of a job on a part of a cluster;
//! - [`samples`]: calls counted, ready to be fitted; [`report`]: the fitted terms, and how far off they are.

pub mod belief;
pub mod call;
pub mod compare;
pub mod join;
pub mod log;
pub mod part;
pub mod report;
pub mod run_table;
pub mod samples;
pub mod store;

pub use belief::{Belief, believe};
pub use call::{NcclCall, Version};
pub use compare::{Compared, Comparison, compare};
pub use join::join;
pub use part::first_ranks;
pub use report::{NcclCalibration, NcclGroup, SizeClass, calibrate};
pub use samples::{NcclSamples, Unfit};
