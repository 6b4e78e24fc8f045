//! What `motet wan` writes as tables: what every collective took, what changed when, and which
//! link was the bottleneck how often.

use motet_net::{LinkClass, Network};
use motet_units::LinkId;
use motet_wan::Mode;
use motet_wan::account::What;

use super::{Outcome, Ran};
use crate::table::{Table, Values};

impl Ran<'_> {
    /// What every collective took in every mode, in microseconds.
    pub(super) fn times(&self) -> Table {
        let count = i64::from(self.scenario.count);
        let mut table = Table::new().with("collective", Values::Whole((0..count).collect()));
        for (mode, account) in self.accounts {
            let times = account.times.iter().map(|it| it.as_us_f64()).collect();
            table = table.with(mode.name(), Values::Number(times, 6));
        }
        table
    }

    /// Bandwidth, routes and programs as they changed.
    pub(super) fn timeline(&self) -> Table {
        let (mut modes, mut numbers, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let (mut whats, mut details) = (Vec::new(), Vec::new());
        for (mode, account) in self.accounts {
            for event in &account.events {
                let (what, detail) = match &event.what {
                    What::Routes { flows } => ("routes", format!("{flows} flows")),
                    What::Program { name } => ("program", name.clone()),
                    What::Bandwidth { wan } => {
                        ("wan bandwidth", format!("{:.3} GB/s", wan.as_gb_per_s_f64()))
                    }
                    What::Stalled { until } => ("stalled", format!("until {until}")),
                };
                modes.push(mode.name().to_owned());
                numbers.push(i64::from(event.index));
                times.push(event.at.as_us_f64());
                whats.push(what.to_owned());
                details.push(detail);
            }
        }
        Table::new()
            .with("mode", Values::Words(modes))
            .with("collective", Values::Whole(numbers))
            .with("time_us", Values::Number(times, 3))
            .with("what", Values::Words(whats))
            .with("detail", Values::Words(details))
    }
}

/// The names of a link's ends.
pub(super) fn ends(network: &Network, link: LinkId) -> (String, String) {
    let name = |id| network.node(id).name.clone();
    (name(network.link(link).from), name(network.link(link).to))
}

/// How often each link was the bottleneck, in each mode; links of the WAN all, others if they ever
/// were.
pub(crate) fn bottleneck_table(network: &Network, accounts: &[Outcome]) -> Table {
    let wan = |link: LinkId| network.link(link).spec.class == LinkClass::Wan;
    let ever = |link: LinkId| accounts.iter().any(|it| it.1.bottleneck[link.index()] > 0);
    let links: Vec<LinkId> = network.link_ids().filter(|it| wan(*it) || ever(*it)).collect();
    let names =
        |of: &dyn Fn(LinkId) -> String| Values::Words(links.iter().map(|it| of(*it)).collect());
    let numbers = |of: &dyn Fn(LinkId) -> f64, digits| {
        Values::Number(links.iter().map(|it| of(*it)).collect(), digits)
    };
    let mut table = Table::new()
        .with("from", names(&|it| ends(network, it).0))
        .with("to", names(&|it| ends(network, it).1))
        .with("class", names(&|it| network.link(it).spec.class.to_string()));
    // Each under two names, as in JSON: the one with `_gbps` is GB/s too.
    let capacity = |it: LinkId| network.link(it).spec.bandwidth.as_gb_per_s_f64();
    for name in ["capacity_gbytes_per_s", "capacity_gbps"] {
        table = table.with(name, numbers(&capacity, 3));
    }
    if let Some((_, account)) = accounts.iter().find(|it| it.0 == Mode::Base) {
        let mean = |link| account.mean_available(link).as_gb_per_s_f64();
        for name in ["mean_available_gbytes_per_s", "mean_available_gbps"] {
            table = table.with(name, numbers(&mean, 3));
        }
    }
    for (mode, account) in accounts {
        let all = account.times.len().max(1) as f64;
        let share = |link: LinkId| f64::from(account.bottleneck[link.index()]) / all;
        table = table.with(mode.name(), numbers(&share, 6));
    }
    table
}
