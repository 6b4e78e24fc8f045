//! From NCCL's events to the time of each collective. The functions that NCCL calls are in `exports.rs`.
//!
//! That a collective's own event stops says only that it was enqueued. How long it took is in the events of its
//! kernel's channels: from the first that starts to the last that stops, by the GPU's clock. They come on another
//! thread, after the collective's stop, and sometimes not all of them.
//!
//! **Handles are numbers, not addresses** ([`handle`]): NCCL is known to use events that have ended. A number is
//! looked up, and one that is not in use any more is ignored. For the same reason contexts are never freed, only used
//! again ([`context`]).
//!
//! **Memory is bounded**: a context follows 256 collectives at a time ([`slot`]); a new one takes the place of the
//! oldest, which is then counted as lost. What is finished goes through a queue to the [`worker`](crate::worker).
//!
//! **Sampling** ([`sampling`]): what profiling costs is in NCCL, so NCCL must be told not to profile. It reads its
//! mask of events before each group; we switch it between groups.

mod context;
mod event;
mod exports;
mod handle;
pub(crate) mod sampling;
mod slot;

pub(crate) use context::{Context, all_in_use, by_index, lost};
pub(crate) use slot::Finished;
