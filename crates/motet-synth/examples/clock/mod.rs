//! Time on the clock and on the CPU, for the examples that measure.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// CPU time of all threads so far, in user and in kernel mode. Linux counts it to programs in
/// hundredths of a second on every usual machine.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before the last parenthesis may hold anything; user time is the twelfth field after.
    let times = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    times.map(|it| it.parse::<f64>().ok()).sum::<Option<f64>>().map(|ticks| ticks / 100.0)
}
