//! What a runtime's file loses against the program it was made from.
//!
//! A program says over which links each transfer goes and in which order a link carries transfers, and it
//! orders nothing that need not be ordered. A runtime's file has no routes and no order on links, and each
//! thread block runs its transfers one after the other. Both are simulated on the same network, so that the
//! loss is known before anything runs: the program with its routes and its order on links, the file over the
//! network's shortest paths with links shared fairly by the thread blocks that meet there.

use motet_collective::{Program, Verified, formats};
use motet_net::Network;
use motet_sim::{Discipline, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration};

use crate::args::program::{ExportArgs, Target};
use crate::commands::reroute;
use crate::failure::Failure;

/// A loss above this share of the program's time is reported as a warning.
const WORTH_SAYING: f64 = 0.02;

/// The times of a program and of its file.
pub(super) struct Loss {
    pub(super) program: Duration,
    pub(super) file: Duration,
    /// The program over its own routes, with links shared fairly instead of its order on links.
    shared: Duration,
    /// The same over the network's shortest paths, which is what a file gets.
    without_routes: Duration,
}

impl Loss {
    /// Simulates both at `size`. `text` is the file.
    pub(super) fn of(
        program: &Verified<Program>,
        text: &str,
        network: &Network,
        size: Bytes,
    ) -> Result<Self, Failure> {
        let (_, imported) = formats::read_any(text)?;
        let file = proved(imported.program, network)?;
        let whole = time(program, network, size, Discipline::ProgramOrder)?;
        let shared = |it: &Verified<Program>| time(it, network, size, Discipline::FairShare);
        let carried = shared(program)?;
        let has_routes = program.transfers().iter().any(|it| it.path.is_some());
        let without_routes = match has_routes {
            true => shared(&proved(reroute::without_routes(program), network)?)?,
            false => carried,
        };
        Ok(Self { program: whole, file: shared(&file)?, shared: carried, without_routes })
    }

    /// By how much more time the file takes: 0 is nothing.
    pub(super) fn share(&self) -> f64 {
        share(self.program, self.file)
    }

    pub(super) fn is_worth_saying(&self) -> bool {
        self.share() > WORTH_SAYING
    }

    /// What it comes from and what to do, one sentence for each reason that costs something.
    pub(super) fn reasons(&self, args: &ExportArgs) -> Vec<String> {
        let mut reasons = Vec::new();
        if share(self.program, self.shared) > WORTH_SAYING {
            reasons.push(format!(
                "the format has no order on links: where transfers share them the program takes \
                 {:.3} µs",
                self.shared.as_us_f64()
            ));
        }
        if share(self.shared, self.without_routes) > WORTH_SAYING {
            reasons.push(format!(
                "the format has no routes: over the network's own the program takes {:.3} µs",
                self.without_routes.as_us_f64()
            ));
        }
        let by_form = !reasons.is_empty();
        if share(self.without_routes, self.file) > WORTH_SAYING || !by_form {
            let more = args.instances.saturating_mul(2);
            let channels = match args.to {
                Target::Msccl => "`--msccl-channels 2` or ",
                Target::Mscclpp | Target::Motet => "",
            };
            reasons.push(format!(
                "threadblocks do one thing after the other where the program leaves the order \
                 open; try {channels}`--instances {more}`"
            ));
        }
        if by_form {
            reasons
                .push("`motet synth --for` chooses programs by what their files take".to_owned());
        }
        reasons
    }
}

fn share(less: Duration, more: Duration) -> f64 {
    if less.is_zero() { 0.0 } else { more.as_us_f64() / less.as_us_f64() - 1.0 }
}

fn proved(program: Program, network: &Network) -> Result<Verified<Program>, Failure> {
    Verified::new(program, Some(network)).map_err(|it| Failure::wrong(it.report.to_string()))
}

fn time(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
    discipline: Discipline,
) -> Result<Duration, Failure> {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough)
        .map_err(|it| Failure::wrong(it.to_string()))?;
    let prepared = Prepared::new(&routed);
    let options = SimOptions { discipline, ..SimOptions::default() };
    let outcome = Simulation::new(&prepared, size).options(options).run();
    Ok(outcome.map_err(|it| Failure::wrong(it.to_string()))?.time)
}
