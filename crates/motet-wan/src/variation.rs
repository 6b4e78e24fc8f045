//! [`Variation`]: how the available bandwidth of links varies from collective to collective.
//!
//! A sample lasts for whole collectives (Xiong et al. §V-A: bandwidths are resampled between them),
//! except in a recorded trace, which follows the run's clock, so that slower modes see more of it.
//! The state never changes during a collective.

use motet_net::state::{BandwidthRange, RangeTable};
use motet_net::{Network, NetworkState, StateTrace};
use motet_units::{Bandwidth, Instant, LinkId, Seed, Stream};
use rand::Rng;

/// The bandwidth that background traffic takes of each link, in ascending order of link ids; links that are not listed carry none.
pub type LinkLoads = Vec<(LinkId, Bandwidth)>;

/// How bandwidth varies.
#[derive(Clone, Debug)]
pub enum Variation {
    /// Not at all.
    None,
    /// Every link's bandwidth is drawn uniformly from its range, every `every` collectives.
    Uniform { ranges: RangeTable, every: u32 },
    /// As `Uniform`, but each sample keeps the share `correlation` of the last one's deviation
    /// from the middle of the range: a first-order autoregression, reflected into the range.
    Correlated { ranges: RangeTable, every: u32, correlation: f64 },
    /// Nominal bandwidth less background traffic: one matrix after the other, over and over.
    Background { traffic: Vec<LinkLoads>, every: u32 },
    /// A recorded trace, by the run's clock.
    Trace(StateTrace),
}

/// The state of a variation during a run.
#[derive(Debug)]
pub struct Course<'a> {
    variation: &'a Variation,
    network: &'a Network,
    stream: Stream,
    state: NetworkState,
    /// Deviations from the middle of each range, −1 to 1.
    deviation: Vec<f64>,
    /// The number of the present sample.
    sample: u64,
    /// The collective that was asked about last.
    asked: Option<u32>,
    next_event: usize,
}

/// Background traffic leaves at least one part in this many of a link's bandwidth, because routers
/// share links.
const LEFT_AT_LEAST: u64 = 20;

impl<'a> Course<'a> {
    /// Equal network, variation and seed give every mode the same sequence of states.
    #[must_use]
    pub fn new(network: &'a Network, variation: &'a Variation, seed: Seed) -> Self {
        Self {
            variation,
            network,
            stream: seed.stream("variation"),
            state: NetworkState::nominal(network),
            deviation: vec![0.0; network.links().len()],
            sample: 0,
            asked: None,
            next_event: 0,
        }
    }

    /// The state in which collective `index` starts at `now`, without faults, and the number of the
    /// sample, which changes only with the state. Call it in order; a collective that has to wait
    /// and asks again gets the same sample, in every mode.
    pub fn state(&mut self, index: u32, now: Instant) -> (&NetworkState, u64) {
        let again = self.asked.replace(index) == Some(index);
        match self.variation {
            Variation::Uniform { .. } | Variation::Correlated { .. } if again => {}
            Variation::None => {}
            Variation::Uniform { ranges, every } => {
                if index.is_multiple_of(*every) {
                    // The table was made for this network.
                    let _ = self.state.resample_uniform(&mut self.stream, ranges);
                    self.sample += 1;
                }
            }
            Variation::Correlated { ranges, every, correlation } => {
                if index.is_multiple_of(*every) {
                    self.drift(ranges, *correlation);
                    self.sample += 1;
                }
            }
            Variation::Background { traffic, every } => {
                let number = (index / *every) as usize % traffic.len().max(1);
                if let Some(loads) = traffic.get(number)
                    && index.is_multiple_of(*every)
                {
                    self.load(loads);
                    self.sample += 1;
                }
            }
            Variation::Trace(trace) => {
                let events = &trace.events()[self.next_event..];
                let due = events.iter().take_while(|it| it.at <= now).count();
                for event in &events[..due] {
                    self.state.apply(event.link, event.change);
                }
                self.next_event += due;
                self.sample += u64::from(due > 0);
            }
        }
        (&self.state, self.sample)
    }

    /// When a trace changes next.
    #[must_use]
    pub fn next_change(&self) -> Option<Instant> {
        match self.variation {
            Variation::Trace(trace) => trace.events().get(self.next_event).map(|it| it.at),
            _ => None,
        }
    }

    fn drift(&mut self, ranges: &RangeTable, correlation: f64) {
        let fresh = (1.0 - correlation * correlation).max(0.0).sqrt();
        for (index, deviation) in self.deviation.iter_mut().enumerate() {
            let link = LinkId::from_index(index);
            let draw = self.stream.next_u64() as f64 / u64::MAX as f64 * 2.0 - 1.0;
            let next =
                if self.sample == 0 { draw } else { correlation * *deviation + fresh * draw };
            *deviation = reflected(next);
            let BandwidthRange { low, high } = ranges.range(link);
            let (low, high) = (low.bits_per_s() as f64, high.bits_per_s() as f64);
            let bits = low + (high - low) * (*deviation + 1.0) / 2.0;
            self.state.set_bandwidth(link, Bandwidth::from_bits_per_s(bits.round() as u64));
        }
    }

    fn load(&mut self, loads: &[(LinkId, Bandwidth)]) {
        let mut loads = loads.iter().peekable();
        for link in self.network.link_ids() {
            let load = loads.next_if(|it| it.0 == link).map_or(Bandwidth::ZERO, |it| it.1);
            let nominal = self.network.link(link).spec.bandwidth.bits_per_s();
            let left = nominal.saturating_sub(load.bits_per_s()).max(nominal / LEFT_AT_LEAST);
            self.state.set_bandwidth(link, Bandwidth::from_bits_per_s(left));
        }
    }
}

/// Folded back into −1 to 1.
fn reflected(value: f64) -> f64 {
    let folded = (value + 1.0).rem_euclid(4.0);
    if folded <= 2.0 { folded - 1.0 } else { 3.0 - folded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    fn network() -> Network {
        builders::find("two-dc").unwrap().build(&Params::new()).unwrap()
    }

    fn ranges(network: &Network) -> RangeTable {
        let range =
            BandwidthRange { low: Bandwidth::gbit_per_s(10), high: Bandwidth::gbit_per_s(100) };
        RangeTable::new(network, |_, _| range).unwrap()
    }

    fn series(variation: &Variation) -> Vec<f64> {
        let network = network();
        let mut course = Course::new(&network, variation, Seed::new(7));
        let link = LinkId::from_index(3);
        (0..20_000)
            .map(|it| course.state(it, Instant::START).0.bandwidth(link).as_gb_per_s_f64())
            .collect()
    }

    fn correlation(series: &[f64]) -> f64 {
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let of = |lag: usize| -> f64 {
            series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum()
        };
        of(1) / of(0)
    }

    #[test]
    fn samples_stay_in_range_and_correlate_as_asked() {
        let table = ranges(&network());
        let uniform = series(&Variation::Uniform { ranges: table.clone(), every: 1 });
        assert!(correlation(&uniform).abs() < 0.05);
        let correlated = Variation::Correlated { ranges: table, every: 1, correlation: 0.9 };
        let drifting = series(&correlated);
        assert!(correlation(&drifting) > 0.7, "{}", correlation(&drifting));
        for it in uniform.iter().chain(&drifting) {
            assert!((1.249..=12.501).contains(it));
        }
    }

    #[test]
    fn a_sample_lasts_as_long_as_asked() {
        let network = network();
        let variation = Variation::Uniform { ranges: ranges(&network), every: 5 };
        let mut course = Course::new(&network, &variation, Seed::new(1));
        let samples: Vec<u64> = (0..11).map(|it| course.state(it, Instant::START).1).collect();
        assert_eq!(samples, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3]);
    }
}
