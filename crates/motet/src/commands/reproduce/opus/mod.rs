//! The analysis of Opus (Ding, Ouyang et al.) §3 and §4.2, ours beside what the paper says: `table3` is how far optical
//! switches reach, `fig7` what they save.

mod fig7;
mod table3;

pub(super) use fig7::fig7;
pub(super) use table3::table3;
