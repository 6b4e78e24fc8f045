//! The settings that the knobs hand may choose from before a collective: the program in force, or one of NCCL's own algorithms with
//! a number of channels.
//!
//! On ideal links an algorithm is its program (rings in rank order, NCCL's trees, PAT), and the channels divide each flow into parts
//! that routers may send over different paths. Protocols make no difference there, so all settings use Simple. Any
//! [`KnobsHand`](motet_control::hand::KnobsHand) can choose; `motet-agent` has policies.

use motet_nccl::Algorithm;
use motet_net::NetworkState;
use motet_synth::Method;
use motet_units::Duration;

use crate::built::{Bench, Built};
use crate::error::WanError;
use crate::programs::{base, by_method};
use crate::route_table::RouteTable;
use crate::scenario::{Asked, Scenario};

/// The numbers of channels that are offered.
const CHANNELS: [u32; 4] = [1, 2, 4, 8];

/// A setting for one of the scenario's collectives, and how long it takes on the nominal network over the routes that routers choose by
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `None` for the program in force.
    pub algorithm: Option<Algorithm>,
    pub channels: u32,
    pub nominal: Duration,
}

/// The settings of each of the scenario's collectives. The first of each is the program in force.
pub fn settings(scenario: &Scenario<'_>) -> Result<Vec<Vec<Setting>>, WanError> {
    let mut table = RouteTable::of(scenario);
    let of = |asked: &Asked| {
        let as_it_is = base(scenario, asked, &mut table)?;
        let channels = scenario.routes.split;
        let first = Setting { algorithm: None, channels, nominal: nominal(scenario, &as_it_is)? };
        let others = offered(scenario, asked, &mut table)?;
        Ok([first].into_iter().chain(others.into_iter().map(|it| it.0)).collect())
    };
    scenario.collectives.iter().map(of).collect()
}

/// All settings but the first, with their programs.
pub(crate) fn offered(
    scenario: &Scenario<'_>,
    asked: &Asked,
    table: &mut RouteTable<'_>,
) -> Result<Vec<(Setting, Built)>, WanError> {
    let kind = asked.goal.kind();
    let mut found = Vec::new();
    for (algorithm, name) in
        [(Algorithm::Ring, "ring"), (Algorithm::Tree, "nccl-tree"), (Algorithm::Pat, "nccl-pat")]
    {
        let Some(method) = name.parse().ok().filter(|it: &Method| it.does(kind)) else { continue };
        for channels in CHANNELS {
            let Some(built) = by_method(scenario, asked, table, method, channels)? else { break };
            let nominal = nominal(scenario, &built)?;
            found.push((Setting { algorithm: Some(algorithm), channels, nominal }, built));
        }
    }
    Ok(found)
}

fn nominal(scenario: &Scenario<'_>, built: &Built) -> Result<Duration, WanError> {
    let state = NetworkState::nominal(scenario.network);
    let time = built.time(built.standing(), &state, &mut Bench::default());
    time.map_err(|it| WanError::Stuck { index: 0, problem: it.to_string() })
}
