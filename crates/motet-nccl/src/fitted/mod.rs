//! What NCCL's calls take on *your* machine, by terms that are fitted to measurements.
//!
//! NCCL's own constants describe machines that NVIDIA had; over plain sockets, or on a network that
//! nobody measured, they can be off by a factor of three. Here the hops, messages and bytes of the same rings
//! and trees are counted, and what each of them costs is found from measured calls. Every term has a meaning,
//! and there are too few of them to overfit:
//!
//! ```text
//! time = call + hops × latency + further messages × proxy + bytes ÷ bandwidth
//! ```
//!
//! - [`counts`]: what a call does, whatever the machine;
//! - [`terms`]: what that costs ([`NcclTerms`]), and the time of a call;
//! - [`mod@fit`]: terms from measured calls.
//!
//! NCCL still *chooses* by its own model: [`NcclModel::with_terms`](crate::NcclModel::with_terms) leaves its choices
//! as they are and changes only the times that [`Priced`](crate::Priced) gives them. docs/nccl-model.md has the terms
//! and their errors.

pub mod counts;
pub mod fit;
pub mod terms;

pub use counts::Counts;
pub use fit::{Fitted, Sample, fit, weights};
pub use terms::NcclTerms;
