//! The experiments of Xiong et al. §V, ours beside what the paper says.
//!
//! The paper gives its results as figures without numbers and as sentences; the sentences are what
//! ours are held against ([`claims`]). What it leaves open is assumed here ([`setting`]), said in
//! the output, and varied by `wan-sensitivity` ([`sensitivity`](mod@sensitivity)).

mod claims;
mod figure;
mod sensitivity;
mod setting;

use motet_wan::{Mode, Strength};

use crate::commands::wan::Outcome;

pub(super) use figure::{FIG_4A, FIG_4B, FIG_5A, FIG_5B, figure};
pub(super) use sensitivity::sensitivity;

/// The modes with the programs hand, of either strength.
const REMAP: [Mode; 2] = [Mode::Programs(Strength::Remap), Mode::Both(Strength::Remap)];
const SYNTH: [Mode; 2] = [Mode::Programs(Strength::Synth), Mode::Both(Strength::Synth)];

/// What a mode took in all, in seconds.
fn seconds(accounts: &[Outcome], mode: Mode) -> f64 {
    let found = accounts.iter().find(|it| it.0 == mode);
    found.map_or(f64::NAN, |it| it.1.completion().as_us_f64() / 1e6)
}

/// How much less than base, in percent.
fn gain(accounts: &[Outcome], mode: Mode) -> f64 {
    (1.0 - seconds(accounts, mode) / seconds(accounts, Mode::Base)) * 100.0
}
