//! What NCCL's calls take on *your* machine, by terms that are fitted to measurements.
//!
//! NCCL's own constants are about machines that NVIDIA had; over plain sockets, or on a network that
//! nobody measured, they can be off by a factor of three. Here the same rings and trees are counted (how many
//! hops, messages and bytes), and what each of them costs is found from measured calls. Every
//! term has a meaning, and there are so few of them that they cannot learn points by heart:
//!
//! ```text
//! time = call + hops × latency + further messages × proxy + bytes ÷ bandwidth
//! ```
//!
//! - [`counts`]: what a call does, whatever the machine;
//! - [`terms`]: what that costs ([`NcclTerms`]), and the time of a call;
//! - [`mod@fit`]: terms from measured calls.
//!
//! NCCL still *chooses* by its belief: [`NcclModel::with_terms`](crate::NcclModel::with_terms) leaves its choices as
//! they are and changes what [`Priced`](crate::Priced) says that they take. docs/nccl-model.md has the terms and their errors.

pub mod counts;
pub mod fit;
pub mod terms;

pub use counts::Counts;
pub use fit::{Fitted, Sample, fit, weights};
pub use terms::NcclTerms;
