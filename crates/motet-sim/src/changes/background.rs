//! Background traffic, which leaves links less bandwidth.
//!
//! Three kinds, as sources of changes or as a state:
//!
//! - constant: [`constant`] subtracts it from a state once;
//! - resampled at intervals: [`Resampled`] draws every link's available bandwidth from its range,
//!   as in Xiong et al. §V-A;
//! - from a trace: [`from_traffic`] turns measured traffic into changes.

use motet_net::state::{LinkChange, RangeError, RangeTable, TraceError};
use motet_net::{Link, Network, NetworkState, StateEvent, StateTrace};
use motet_units::{Bandwidth, Duration, Instant, LinkId, Stream};

/// The state in which every link has its nominal bandwidth less what `traffic` uses.
#[must_use]
pub fn constant(
    network: &Network,
    mut traffic: impl FnMut(LinkId, &Link) -> Bandwidth,
) -> NetworkState {
    let mut state = NetworkState::nominal(network);
    for link in network.link_ids() {
        state.set_background(network, link, traffic(link, network.link(link)));
    }
    state
}

/// From this time on, background traffic uses `rate` of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub at: Instant,
    pub link: LinkId,
    pub rate: Bandwidth,
}

/// The changes of state that measured traffic causes: each link keeps its nominal bandwidth less
/// the traffic, never below zero.
pub fn from_traffic(
    network: &Network,
    traffic: impl IntoIterator<Item = Traffic>,
) -> Result<StateTrace, TraceError> {
    let left = |it: &Traffic| {
        let nominal =
            network.links().get(it.link.index()).map_or(0, |link| link.spec.bandwidth.bits_per_s());
        Bandwidth::from_bits_per_s(nominal.saturating_sub(it.rate.bits_per_s()))
    };
    let events = traffic.into_iter().map(|it| StateEvent {
        at: it.at,
        link: it.link,
        change: LinkChange::Bandwidth(left(&it)),
    });
    StateTrace::new(network, events.collect())
}

/// Draws every link's available bandwidth at time 0 and again at each interval, without end: an
/// iterator of changes, of which a run takes what it needs.
///
/// Every draw covers all links, in link order and with one random number each, so that the n-th
/// draw of a link does not depend on how far ahead a run looked.
#[derive(Clone, Debug)]
pub struct Resampled<'a> {
    table: &'a RangeTable,
    stream: Stream,
    interval: Duration,
    state: NetworkState,
    at: Instant,
    /// The next link of the current draw; past the last link, a new draw is due.
    next: usize,
}

impl<'a> Resampled<'a> {
    /// Draws from the ranges of `table` with `stream` (a named stream of the run's seed). With an
    /// interval of zero there is one draw only.
    pub fn new(
        network: &Network,
        table: &'a RangeTable,
        mut stream: Stream,
        interval: Duration,
    ) -> Result<Self, RangeError> {
        let mut state = NetworkState::nominal(network);
        state.resample_uniform(&mut stream, table)?;
        Ok(Self { table, stream, interval, state, at: Instant::START, next: 0 })
    }

    fn draw(&mut self) -> Option<()> {
        let at = self.at + self.interval;
        if self.interval.is_zero() || at == Instant::NEVER {
            return None;
        }
        self.state.resample_uniform(&mut self.stream, self.table).ok()?;
        (self.at, self.next) = (at, 0);
        Some(())
    }
}

impl Iterator for Resampled<'_> {
    type Item = StateEvent;

    fn next(&mut self) -> Option<StateEvent> {
        if self.state.link_count() == 0 {
            return None;
        }
        if self.next == self.state.link_count() {
            self.draw()?;
        }
        let link = LinkId::from_index(self.next);
        self.next += 1;
        let change = LinkChange::Bandwidth(self.state.bandwidth_when_up(link));
        Some(StateEvent { at: self.at, link, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{Params, find};
    use motet_net::state::BandwidthRange;
    use motet_units::Seed;

    fn ring() -> Network {
        find("ring").unwrap().build(&Params::from_words(["gpus=3"]).unwrap()).unwrap()
    }

    #[test]
    fn resampling_draws_as_states_do() {
        let network = ring();
        let range =
            BandwidthRange { low: Bandwidth::gbit_per_s(10), high: Bandwidth::gbit_per_s(100) };
        let table = RangeTable::new(&network, |_, _| range).unwrap();
        let stream = || Seed::new(7).stream("background");
        let source = Resampled::new(&network, &table, stream(), Duration::from_us(3)).unwrap();
        let events: Vec<StateEvent> = source.take(4 * 6).collect();
        let trace = StateTrace::new(&network, events.clone()).unwrap();
        assert_eq!(trace.events(), events, "in time order");
        let (mut expected, mut stream) = (NetworkState::nominal(&network), stream());
        for step in 0..4u64 {
            expected.resample_uniform(&mut stream, &table).unwrap();
            let at = Instant::from_ps(step * 3_000_000);
            assert_eq!(trace.state_at(&NetworkState::nominal(&network), at), expected);
        }
        let once = Resampled::new(&network, &table, Seed::new(7).stream("x"), Duration::ZERO);
        assert_eq!(once.unwrap().count(), 6);
    }

    #[test]
    fn traffic_leaves_the_rest() {
        let network = ring();
        let at = Instant::from_ps(5);
        let traffic = |gb| Traffic { at, link: LinkId(1), rate: Bandwidth::gb_per_s(gb) };
        let trace = from_traffic(&network, [traffic(60), traffic(20)]).unwrap();
        let rates: Vec<LinkChange> = trace.events().iter().map(|it| it.change).collect();
        let left = [Bandwidth::ZERO, Bandwidth::gb_per_s(30)];
        assert_eq!(rates, left.map(LinkChange::Bandwidth));
        let unknown = Traffic { link: LinkId(6), ..traffic(1) };
        assert!(matches!(from_traffic(&network, [unknown]), Err(TraceError::UnknownLink { .. })));
        let state = constant(&network, |link, _| Bandwidth::gb_per_s(u64::from(link.0) * 10));
        assert_eq!(state.bandwidth(LinkId(2)), Bandwidth::gb_per_s(30));
        assert_eq!(state.bandwidth(LinkId(5)), Bandwidth::ZERO);
    }
}
