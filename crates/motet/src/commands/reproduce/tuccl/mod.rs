//! The evaluation of TuCCL (Li et al.) §IV, ours beside what the paper says.
//!
//! Every experiment makes plans for the clusters of §IV-A ([`setting`]), measures them, and prints a
//! [`Report`](super::report::Report): rows, the paper's figures beside ours ([`claims`](super::claims)), and what was assumed where the paper is silent. The files follow the figures:
//! `gains` 3 and 4 and what they leave out, `links` Table II and 5a, `cost` 5b, `ablation` 6 and 7, `training` 8 and 9.

mod ablation;
mod cost;
mod gains;
mod iteration;
mod links;
mod setting;
mod training;

pub(super) use ablation::{FIG_6, FIG_7, ablation};
pub(super) use cost::cost;
pub(super) use gains::{FIG_3, FIG_4, OTHERS, gains};
pub(super) use links::links;
pub(super) use training::training;
