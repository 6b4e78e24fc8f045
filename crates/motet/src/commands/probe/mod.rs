//! `motet probe`: latency and bandwidth between hosts.

mod matrix;
pub(crate) mod run;
pub(crate) mod serve;

use motet_net::probe::Clock;
use motet_units::Instant;

use crate::args::discovery::SharedArgs;

/// Where the token is that no option gives.
const TOKEN_VARIABLE: &str = "MOTET_PROBE_TOKEN";

impl SharedArgs {
    /// The token that the user gave, if any.
    fn given_token(&self) -> Option<String> {
        let set = || std::env::var(TOKEN_VARIABLE).ok().filter(|it| !it.is_empty());
        self.token.clone().or_else(set)
    }
}

/// The machine's clock, from now on.
fn clock() -> impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let start = std::time::Instant::now();
    move || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000))
    }
}
