//! The run-time half of a plan: what a job asks before every collective call.
//!
//! Small and embeddable: no IO, no clock, no threads of its own, and nothing on the lookup path
//! that blocks or allocates. The NCCL plugin is a thin shell over it, and simulations run the same
//! code.
//!
//! Where to start: [`Runtime`] decides the calls of one communicator, by a [`View`] of a [`Table`]; the example
//! [below](#for-embedders) goes through all of it.
//!
//! | where | what |
//! | --- | --- |
//! | [`table`] | what a plan's `table` file holds; reading, writing, checksum |
//! | [`view`] | a table on one network, ready for lookup |
//! | [`runtime`] | the state of one communicator: decides calls, records times, reports, notices changed networks |
//! | [`report`] | from the ranks' measurements to an amended table |
//! | [`agreement`] | how all ranks switch tables at the same operation |
//! | [`group`] | the leader of a communicator: measurements in, better tables out |
//! | [`wire`] | what ranks and leader send one another, as bytes |
//! | [`segment`] | a mapped file: what a tuning driver forces, and what ranks have measured |
//! | [`trace`] | the file of all calls that were profiled |
//! | [`folder`] | which files of a plan's folder are read, and their checksums |
//!
//! # The one rule
//!
//! Ranks that choose differently for the same collective hang. So a decision depends only on what
//! is the same on all ranks: the call, its number, and the table that the ranks agreed to use from
//! some number on. Local timings and a rank's view of the network never decide; they go into
//! reports, and come back as a table that all switch to.
//!
//! # For embedders
//!
//! Keep one [`Runtime`] per communicator. At start, read the plan; what cannot be read leaves the
//! job to the library's defaults, with a reason:
//!
//! ```
//! use std::sync::Arc;
//! use motet_runtime::{
//!     Algorithm, Bucket, Call, Candidate, Choice, Collective, Entry, Key, TableKnobs, Method, Protocol,
//!     Reason, Runtime, Seen, Setting, Signature, Table, View,
//! };
//! use motet_units::{Bytes, Duration, Rank};
//!
//! # fn candidate(algorithm: Algorithm, us: u64) -> Candidate {
//! #     Candidate {
//! #         setting: Setting {
//! #             method: Method::Nccl { algorithm: Some(algorithm) },
//! #             knobs: TableKnobs { protocol: Some(Protocol::Simple), channels: Some(8), ..TableKnobs::default() },
//! #         },
//! #         expected: Duration::from_us(us),
//! #     }
//! # }
//! # let key = Key {
//! #     signature: Signature(0xa1),
//! #     collective: Collective::AllReduce,
//! #     ranks: 16,
//! #     bucket: Bucket::of(Bytes::mib(1)),
//! # };
//! # let candidates = vec![candidate(Algorithm::Ring, 80), candidate(Algorithm::Tree, 90)];
//! # let text = Table::new(vec![Entry { key, candidates }])?.write();
//! let network = Signature(0xa1);
//! let runtime = match Table::read(&text) {
//!     Ok(table) => {
//!         let runtime = Runtime::default();
//!         runtime.install(Arc::new(View::new(table, network)));
//!         runtime
//!     }
//!     Err(error) => Runtime::new(Reason::Refused(error.kind)),
//! };
//!
//! // Before each collective, on the calling thread, which keeps what it has seen.
//! let mut seen = Seen::new(&runtime);
//! let call = Call { collective: Collective::AllReduce, bytes: Bytes::mib(1), ranks: 16 };
//! let operation = runtime.begin();
//! let decision = runtime.decide_with(&mut seen, operation, &call)?;
//! match decision.choice() {
//!     Choice::Setting(it) => assert_eq!(it.knobs.channels, Some(8)),
//!     Choice::LibraryDefault(reason) => println!("{reason}"),
//! }
//!
//! // After each, wherever completion is seen.
//! let ticket = decision.ticket().ok_or("decided by the library")?;
//! for _ in 0..3 {
//!     runtime.record(ticket, Duration::from_us(120));
//! }
//!
//! // Now and then, on the leader, with the reports of all ranks.
//! let table = Table::read(&text)?;
//! let reports = [runtime.report(Rank(0))];
//! let amendment = motet_runtime::agree(&table, &reports, motet_runtime::DEFAULT_MARGIN);
//! assert_eq!(amendment.switches(), 1);
//! let better = amendment.apply(&table)?;
//!
//! // To switch while operations run, all ranks prepare the new table, and the leader proposes it.
//! use motet_runtime::{Leader, Member, Target};
//! let runtime = Arc::new(runtime);
//! let mut member = Member::new(Rank(0), Arc::clone(&runtime), 64);
//! let mut leader = Leader::new(1, 1);
//! let checksum = better.checksum();
//! member.prepare(Arc::new(View::new(better, network)));
//! let at = runtime.position() + 1000;
//! let (_, proposal) = leader.propose(at, Target::Table { checksum, signature: network })?;
//! let (_, answer) = member.handle(proposal).ok_or("no answer")?;
//! let (_, verdict) = leader.handle(answer).ok_or("not all have accepted")?;
//! member.handle(verdict);
//!
//! let tree = runtime.decide_with(&mut seen, at, &call)?;
//! assert!(matches!(tree.choice(), Choice::Setting(it)
//!     if it.method == Method::Nccl { algorithm: Some(Algorithm::Tree) }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Carry the messages by whatever connects the ranks; they may be lost. When
//! [`decide_with`](Runtime::decide_with) says [`InDoubt`], send what [`Member::poll`] gives, and decide again
//! after the answer. An embedder that never proposes is never in doubt.

pub mod agreement;
pub mod checksum;
pub mod folder;
pub mod group;
pub mod key;
mod own_file;
pub mod reason;
pub mod report;
pub mod runtime;
pub mod segment;
pub mod table;
mod times;
pub mod trace;
pub mod view;
pub mod wire;

pub use agreement::{Leader, Member, Message, Refusal, RoundOpen, Target, To};
pub use checksum::Checksum;
pub use group::{Course, Fastest, Group, Pilot, Sight};
pub use key::{Algorithm, Bucket, Collective, Key, Protocol, Signature};
pub use own_file::own_file;
pub use reason::Reason;
pub use report::{Amendment, AmendmentError, Change, DEFAULT_MARGIN, Measured, Report, agree};
pub use runtime::{Choice, Decision, InDoubt, Operation, Retuning, Runtime, Seen, Ticket};
pub use segment::{Forced, RecentTimes, Segment, SegmentError, TimeKey};
pub use table::{Candidate, Entry, Method, Setting, Table, TableError, TableErrorKind, TableKnobs};
pub use trace::{Communicator, Source, Trace, TraceError, TraceWriter, TracedCall};
pub use view::{Call, View};
pub use wire::{Frame, Hello, WireError};
