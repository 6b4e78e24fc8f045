//! [`Schedule`]: how links change by the clock while a testbed is up and nobody counts collectives.
//!
//! A trace and faults have times of their own. A variation that changes rates every few collectives counts periods here
//! instead: the `n`-th period stands for collective `n`.

use motet_net::NetworkState;
use motet_units::{Bandwidth, Duration, Instant, LinkId};
use motet_wan::Scenario;
use motet_wan::fault;
use motet_wan::variation::{Course, Variation};

/// See the [module](self).
#[derive(Debug)]
pub struct Schedule<'a> {
    scenario: &'a Scenario<'a>,
    course: Course<'a>,
    period: Duration,
    state: NetworkState,
    next: Option<Instant>,
}

impl<'a> Schedule<'a> {
    #[must_use]
    pub fn new(scenario: &'a Scenario<'a>) -> Self {
        let course = Course::new(scenario.network, &scenario.variation, scenario.seed);
        let period = scenario.testbed.period;
        let state = NetworkState::nominal(scenario.network);
        Self { scenario, course, period, state, next: Some(Instant::START) }
    }

    /// When something changes next.
    #[must_use]
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The rates at `now` of all links whose rate has changed since this was last asked; call it in order.
    pub fn changes(&mut self, now: Instant) -> Vec<(LinkId, Bandwidth)> {
        if self.next.is_none_or(|it| it > now) {
            return Vec::new();
        }
        let periods = now.as_ps() / self.period.as_ps().max(1);
        let (state, _) = self.course.state(u32::try_from(periods).unwrap_or(u32::MAX), now);
        let mut state = state.clone();
        fault::apply(&self.scenario.faults, now, &mut state);
        let links = self.scenario.network.link_ids();
        let changed = links.map(|it| (it, state.bandwidth(it)));
        let changed = changed.filter(|it| it.1 != self.state.bandwidth(it.0)).collect();
        self.state = state;
        let periodic = match self.scenario.variation {
            Variation::None | Variation::Trace(_) => None,
            _ => Some(Instant::from_ps(
                self.period.as_ps().max(1).saturating_mul(periods.saturating_add(1)),
            )),
        };
        let others = [self.course.next_change(), fault::next_change(&self.scenario.faults, now)];
        self.next = others.into_iter().chain([periodic]).flatten().min();
        changed
    }
}
