//! [`Belief`]: what the controller believes of the links' rates.
//!
//! It may be *told* them, as a controller that owns the WAN is, and as the simulation assumes; or it must go by what was
//! *measured*: how many bytes routers have carried over each link, read every few milliseconds while a collective runs. The highest rate over a window is a lower bound of the link's: it is the link's rate if
//! the link was busy throughout, and that is likely of the one that held the collective up. So a lower figure than believed counts only for that link, a higher one for any. Of a link that
//! carried nothing, nothing is learned, and what is believed slowly returns to what it nominally is, so that it will be tried again.

use motet_net::{Network, NetworkState};
use motet_units::{Bandwidth, Duration, Instant, LinkId};

/// How the controller knows rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// It is told the present rate of every link.
    #[default]
    Told,
    /// It goes by the throughput of the collectives so far.
    Measured,
}

/// The window over which throughput is taken. Shorter ones see bursts, longer ones miss what a short collective reaches.
const WINDOW: Duration = Duration::from_ms(20);

/// Links that carried less than this in a collective say nothing.
const LEAST: u64 = 64 << 10;

/// How much of the way to the nominal rate belief returns with each collective in which a link carried nothing.
const RETURNING: f64 = 0.1;

/// What links had carried at a moment: bytes of each, by link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: Instant,
    pub carried: Vec<(LinkId, u64)>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Belief {
    nominal: NetworkState,
    state: NetworkState,
}

impl Belief {
    /// That all is as it nominally is.
    #[must_use]
    pub fn new(network: &Network) -> Self {
        let nominal = NetworkState::nominal(network);
        Self { state: nominal.clone(), nominal }
    }

    #[must_use]
    pub const fn state(&self) -> &NetworkState {
        &self.state
    }

    /// Learns from what was seen during a collective.
    pub fn learn(&mut self, samples: &[Sample]) {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
        let mut seen: Vec<(LinkId, u64, f64)> = Vec::new();
        for (number, (link, before)) in first.carried.iter().enumerate() {
            let after = last.carried.get(number).map_or(0, |it| it.1);
            let bytes = after.saturating_sub(*before);
            if bytes >= LEAST {
                seen.push((*link, bytes, peak(samples, number)));
            } else {
                self.forget(*link);
            }
        }
        let bits = |it: LinkId| self.state.bandwidth(it).bits_per_s().max(1) as f64;
        let busiest = seen
            .iter()
            .max_by(|a, b| (a.1 as f64 / bits(a.0)).total_cmp(&(b.1 as f64 / bits(b.0))));
        let busiest = busiest.map(|it| it.0);
        for (link, _, peak) in seen {
            if peak > 0.0 && (busiest == Some(link) || peak > bits_of(&self.state, link)) {
                self.state.set_bandwidth(link, Bandwidth::from_bits_per_s(peak.round() as u64));
            }
        }
    }

    fn forget(&mut self, link: LinkId) {
        let (now, nominal) = (bits_of(&self.state, link), bits_of(&self.nominal, link));
        let bits = now + RETURNING * (nominal - now);
        self.state.set_bandwidth(link, Bandwidth::from_bits_per_s(bits.round() as u64));
    }
}

fn bits_of(state: &NetworkState, link: LinkId) -> f64 {
    state.bandwidth(link).bits_per_s() as f64
}

/// The highest rate of a link over the window, in bit/s; over all there is if that is shorter.
fn peak(samples: &[Sample], number: usize) -> f64 {
    let carried = |it: &Sample| it.carried.get(number).map_or(0, |it| it.1);
    let mut best = 0.0_f64;
    for (start, from) in samples.iter().enumerate() {
        let later = samples.get(start + 1..).unwrap_or_default();
        let to = later.iter().find(|it| it.at.since(from.at) >= WINDOW);
        let to = to.or_else(|| later.last().filter(|_| start == 0));
        let Some(to) = to else { break };
        let seconds = to.at.since(from.at).as_us_f64() * 1e-6;
        if seconds > 0.0 {
            best = best.max((carried(to).saturating_sub(carried(from))) as f64 * 8.0 / seconds);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    /// Samples every 5 ms of links that carry so many Mbit/s each.
    fn steady(rates: &[(LinkId, u64)], ms: u64) -> Vec<Sample> {
        let sample = |it: u64| Sample {
            at: Instant::START + Duration::from_ms(it),
            carried: rates.iter().map(|(link, mbit)| (*link, mbit * 125 * it)).collect(),
        };
        (0..=ms / 5).map(|it| sample(it * 5)).collect()
    }

    #[test]
    fn the_link_that_held_up_is_believed_and_others_only_if_faster() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let wan: Vec<LinkId> = network
            .link_ids()
            .filter(|it| network.link(*it).spec.class == motet_net::LinkClass::Wan)
            .collect();
        let mut belief = Belief::new(&network);
        let nominal = belief.state().bandwidth(wan[1]);
        belief.learn(&steady(&[(wan[0], 100), (wan[1], 50), (wan[2], 0)], 100));
        let now =
            |belief: &Belief, it: LinkId| belief.state().bandwidth(it).bits_per_s() / 1_000_000;
        assert_eq!(now(&belief, wan[0]), 100);
        assert_eq!(belief.state().bandwidth(wan[1]), nominal);
        // Now the slow link is known; faster than believed counts for any.
        belief.learn(&steady(&[(wan[0], 150), (wan[1], 50), (wan[2], 0)], 100));
        assert_eq!(now(&belief, wan[0]), 150);
        // Nothing is carried: belief returns.
        for _ in 0..200 {
            belief.learn(&steady(&[(wan[0], 0)], 100));
        }
        assert!(now(&belief, wan[0]) > 99_000);
    }
}
