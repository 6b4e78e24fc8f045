//! [`Forecast`]: how much the present state of the network says about the next collectives.
//!
//! A program stays for many collectives. If states are drawn anew each time, the best program is
//! the one that is best on average; if they drift, the one that is best now. The forecast measures
//! which it is: the correlation of one state with the next, smoothed, and from it the weight that
//! the present should have over the collectives to come. It deals in bandwidths and weights, in
//! floating point, never in times.

use motet_net::{Network, NetworkState};
use motet_units::LinkId;

/// Statistics of the states so far.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Each link's mean, smoothed.
    mean: Vec<f64>,
    last: Vec<f64>,
    /// Smoothed sums of squared deviations, and of the products of consecutive deviations (for the autocorrelation).
    square: f64,
    product: f64,
    seen: u32,
}

/// Weight of a new state in the exponential moving averages.
const SMOOTHING: f64 = 0.02;

impl Forecast {
    #[must_use]
    pub fn new(network: &Network) -> Self {
        let links = network.links().len();
        Self { mean: vec![0.0; links], last: vec![0.0; links], square: 0.0, product: 0.0, seen: 0 }
    }

    /// Updates the statistics with the state of one more collective.
    pub fn learn(&mut self, state: &NetworkState) {
        let keep = 1.0 - SMOOTHING;
        let (mut square, mut product) = (0.0, 0.0);
        for index in 0..self.mean.len() {
            let now = state.bandwidth(LinkId::from_index(index)).bits_per_s() as f64;
            if self.seen == 0 {
                self.mean[index] = now;
            }
            let (before, after) = (self.last[index] - self.mean[index], now - self.mean[index]);
            if self.seen > 0 {
                square += (before * before + after * after) / 2.0;
                product += before * after;
            }
            self.mean[index] += SMOOTHING * (now - self.mean[index]);
            self.last[index] = now;
        }
        self.square = keep * self.square + square;
        self.product = keep * self.product + product;
        self.seen = self.seen.saturating_add(1);
    }

    /// The correlation of a state with the next, 0 to 1; 1 while nothing varies.
    #[must_use]
    pub fn correlation(&self) -> f64 {
        if self.square > 0.0 { (self.product / self.square).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// The mean weight of the present state over the next `horizon` collectives, the present one
    /// included.
    #[must_use]
    pub fn weight_of_now(&self, horizon: u32) -> f64 {
        let (correlation, horizon) = (self.correlation(), f64::from(horizon.max(1)));
        if correlation >= 1.0 - 1e-9 {
            return 1.0;
        }
        // Not `powf`, whose last digits differ between C libraries.
        (1.0 - libm::pow(correlation, horizon)) / (1.0 - correlation) / horizon
    }

    /// The expected bandwidth of each link over the next `horizon` collectives. Links that are down
    /// in `now` stay down.
    #[must_use]
    pub fn state(&self, now: &NetworkState, horizon: u32) -> NetworkState {
        let weight = self.weight_of_now(horizon);
        let mut state = now.clone();
        for index in 0..self.mean.len() {
            let link = LinkId::from_index(index);
            let bits = now.bandwidth_when_up(link).bits_per_s() as f64;
            let likely = weight * bits + (1.0 - weight) * self.mean[index];
            let likely = motet_units::Bandwidth::from_bits_per_s(likely.round().max(1.0) as u64);
            state.set_bandwidth(link, likely);
        }
        state
    }
}
