//! `motet probe`: latency and bandwidth between hosts.

pub(crate) mod run;
pub(crate) mod serve;

use motet_net::probe::Clock;
use motet_units::Instant;

/// The machine's clock, from now on.
fn clock() -> impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let start = std::time::Instant::now();
    move || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000))
    }
}
