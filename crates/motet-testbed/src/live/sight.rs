//! [`Belief`]: what the controller believes of the links' rates.
//!
//! It may be *told* them, as a controller that owns the WAN is, and as the simulation assumes; or it must go by what it *measured*: how many bytes
//! each link has sent and how many wait in the queue before it, as routers count them, read every few milliseconds while a collective runs. While bytes wait a link is busy, and what
//! it sends then is its rate. While none wait, what it sends says only that it is no slower than that.
//!
//! Of a link that was not busy, the last measurement gets old: its believed rate moves towards the mean of its measurements. A
//! link that was never measured is believed to have the same share of its nominal rate as the measured links have of theirs:
//! one believed to have all of it would draw every route to it, fast or not.

use motet_net::{Network, NetworkState};
use motet_units::{Bandwidth, Duration, Instant, LinkId};

/// How the controller knows rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// It is told the present rate of every link.
    #[default]
    Told,
    /// It goes by what links sent during the collectives so far.
    Measured,
}

/// How long a link must have been busy in a collective for its rate to be measured: queues hold segments of up to 64 KiB, and one
/// more or less must not count for much.
const BUSY: Duration = Duration::from_ms(20);

/// A measurement this close to what is believed changes nothing: routes must not move for noise.
const NOISE: f64 = 0.05;

/// By what part of its distance to the mean a link's believed rate moves with each collective that did not measure it.
const AGEING: f64 = 0.1;

/// The weight of a new measurement in a link's mean.
const SMOOTHING: f64 = 0.2;

/// How many bytes a link has sent by a moment, and how many wait before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub link: LinkId,
    pub sent: u64,
    pub waiting: u64,
}

/// All WAN links at a moment, always in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: Instant,
    pub links: Vec<Seen>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Belief {
    nominal: NetworkState,
    state: NetworkState,
    /// By link: the mean of what was measured, in bit/s; `None` before the first.
    means: Vec<Option<f64>>,
}

impl Belief {
    /// Believes at first that every link has its nominal rate.
    #[must_use]
    pub fn new(network: &Network) -> Self {
        let nominal = NetworkState::nominal(network);
        Self { state: nominal.clone(), nominal, means: vec![None; network.links().len()] }
    }

    #[must_use]
    pub const fn state(&self) -> &NetworkState {
        &self.state
    }

    /// Learns from what was seen during a collective.
    pub fn learn(&mut self, samples: &[Sample]) {
        let Some(first) = samples.first() else { return };
        let rates: Vec<Option<f64>> =
            (0..first.links.len()).map(|it| busy_rate(samples, it)).collect();
        for (seen, rate) in first.links.iter().zip(&rates) {
            if let (Some(rate), Some(mean)) = (rate, self.means.get_mut(seen.link.index())) {
                *mean = Some(mean.map_or(*rate, |it| it + SMOOTHING * (rate - it)));
            }
        }
        let share = self.share(first);
        for (number, (seen, rate)) in first.links.iter().zip(rates).enumerate() {
            let before = bits_of(&self.state, seen.link);
            let mean = self.means.get(seen.link.index()).copied().flatten();
            let likely = match mean {
                Some(mean) => before + AGEING * (mean - before),
                None => share * bits_of(&self.nominal, seen.link),
            };
            let after = rate.unwrap_or_else(|| likely.max(whole_rate(samples, number)));
            if (after - before).abs() > NOISE * before {
                let after = Bandwidth::from_bits_per_s(after.round() as u64);
                self.state.set_bandwidth(seen.link, after);
            }
        }
    }

    /// Which part of their nominal rates the links that were ever measured have, all together; 1 if none was.
    fn share(&self, sample: &Sample) -> f64 {
        let (mut measured, mut nominal) = (0.0, 0.0);
        for seen in &sample.links {
            if let Some(mean) = self.means.get(seen.link.index()).copied().flatten() {
                measured += mean;
                nominal += bits_of(&self.nominal, seen.link);
            }
        }
        if nominal > 0.0 { measured / nominal } else { 1.0 }
    }
}

fn bits_of(state: &NetworkState, link: LinkId) -> f64 {
    state.bandwidth(link).bits_per_s() as f64
}

/// Bytes that a link sent between two samples, and the seconds between them.
fn between(from: &Sample, to: &Sample, number: usize) -> Option<(f64, f64)> {
    let sent = to.links.get(number)?.sent.saturating_sub(from.links.get(number)?.sent);
    Some((sent as f64, to.at.since(from.at).as_us_f64() * 1e-6))
}

fn bits_per_s((bytes, seconds): (f64, f64)) -> f64 {
    if seconds > 0.0 { bytes * 8.0 / seconds } else { 0.0 }
}

/// The rate of a link while bytes waited before it, in bit/s; `None` if that was not long enough.
fn busy_rate(samples: &[Sample], number: usize) -> Option<f64> {
    let waits = |it: &Sample| it.links.get(number).is_some_and(|it| it.waiting > 0);
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for pair in samples.windows(2).filter(|it| waits(&it[0]) && waits(&it[1])) {
        let (more, longer) = between(&pair[0], &pair[1], number)?;
        bytes += more;
        seconds += longer;
    }
    (seconds >= BUSY.as_us_f64() * 1e-6 && bytes > 0.0).then(|| bits_per_s((bytes, seconds)))
}

/// The rate of a link over all of a collective, in bit/s.
fn whole_rate(samples: &[Sample], number: usize) -> f64 {
    let ends = samples.first().zip(samples.last());
    ends.and_then(|(from, to)| between(from, to, number)).map_or(0.0, bits_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    /// Samples every 5 ms of links that send so many Mbit/s each, with or without a queue.
    fn steady(rates: &[(LinkId, u64, bool)], ms: u64) -> Vec<Sample> {
        let sample = |it: u64| Sample {
            at: Instant::START + Duration::from_ms(it),
            links: rates
                .iter()
                .map(|(link, mbit, busy)| Seen {
                    link: *link,
                    sent: mbit * 125 * it,
                    waiting: if *busy { 1500 } else { 0 },
                })
                .collect(),
        };
        (0..=ms / 5).map(|it| sample(it * 5)).collect()
    }

    fn wan(network: &Network) -> Vec<LinkId> {
        let is_wan = |it: &LinkId| network.link(*it).spec.class == motet_net::LinkClass::Wan;
        network.link_ids().filter(is_wan).collect()
    }

    fn mbit(belief: &Belief, link: LinkId) -> u64 {
        belief.state().bandwidth(link).bits_per_s() / 1_000_000
    }

    #[test]
    fn what_a_busy_link_sends_is_its_rate_and_other_links_are_no_slower() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let wan = wan(&network);
        let mut belief = Belief::new(&network);
        let nominal = mbit(&belief, wan[1]);
        belief.learn(&steady(&[(wan[0], 100, true), (wan[1], 50, false)], 100));
        // Of the other it is known only that it is no slower than what it sent; it may be as far from its nominal rate.
        assert!(nominal > 100 && mbit(&belief, wan[0]) == 100);
        assert_eq!(mbit(&belief, wan[1]), 100);
        // It has become slower, and the other is now measured too.
        belief.learn(&steady(&[(wan[0], 60, true), (wan[1], 50, true)], 100));
        assert_eq!((mbit(&belief, wan[0]), mbit(&belief, wan[1])), (60, 50));
        // Not busy, but faster than believed.
        belief.learn(&steady(&[(wan[0], 90, false), (wan[1], 51, true)], 100));
        assert_eq!((mbit(&belief, wan[0]), mbit(&belief, wan[1])), (90, 50));
    }

    #[test]
    fn a_measurement_gets_old() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let link = wan(&network)[0];
        let mut belief = Belief::new(&network);
        for rate in [200, 200, 200, 50] {
            belief.learn(&steady(&[(link, rate, true)], 100));
        }
        assert_eq!(mbit(&belief, link), 50);
        for _ in 0..100 {
            belief.learn(&steady(&[(link, 0, false)], 100));
        }
        // Near the mean of all: 200 a few times, and 50.
        assert!((100..=180).contains(&mbit(&belief, link)), "{}", mbit(&belief, link));
    }

    #[test]
    fn a_moment_of_queueing_measures_nothing() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let link = wan(&network)[0];
        let mut belief = Belief::new(&network);
        let nominal = mbit(&belief, link);
        belief.learn(&steady(&[(link, 10, true)], 10));
        assert_eq!(mbit(&belief, link), nominal);
    }
}
