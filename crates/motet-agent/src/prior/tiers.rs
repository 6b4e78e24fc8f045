//! [`TierPrior`]: bandwidth and latency of each tier by the survey (Fig. 11), and [`SyncRound`]: how long synchronizing a model's
//! replicas over one of them takes (§7, §8).

use motet_net::Tier;
use motet_units::{Bandwidth, Bytes, Duration, Rounding};

/// The survey's figures for a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierPrior {
    pub what: &'static str,
    /// Lower and upper end of the range; `None` for tier 0, for which it says no more than "terabits".
    pub bandwidth: Option<(Bandwidth, Bandwidth)>,
    /// Latency as a multiple of tier 1's; a prior only, for measured latencies do not stand in these ratios.
    pub latency: u32,
}

const TIERS: [TierPrior; Tier::COUNT] = [
    TierPrior { what: "same die", bandwidth: None, latency: 1 },
    TierPrior {
        what: "same NVSwitch, up to 256 GPUs",
        bandwidth: Some((Bandwidth::gb_per_s(900), Bandwidth::gb_per_s(900))),
        latency: 1,
    },
    TierPrior {
        what: "same rack",
        bandwidth: Some((Bandwidth::gbit_per_s(100), Bandwidth::gbit_per_s(400))),
        latency: 7,
    },
    TierPrior {
        what: "same zone",
        bandwidth: Some((Bandwidth::gbit_per_s(25), Bandwidth::gbit_per_s(100))),
        latency: 15,
    },
    TierPrior {
        what: "across datacenters",
        bandwidth: Some((Bandwidth::gbit_per_s(1), Bandwidth::gbit_per_s(25))),
        latency: 30,
    },
];

/// What the survey says of a tier.
#[must_use]
pub const fn of(tier: Tier) -> &'static TierPrior {
    &TIERS[tier.index()]
}

/// How far a tier is on a scale from 0 (tier 1 and nearer) to 1 (tier 4), by the logarithm of its latency.
#[must_use]
pub fn farness(tier: Tier) -> f64 {
    let log = |it: u32| libm::log2(f64::from(it));
    log(of(tier).latency) / log(TIERS[Tier::COUNT - 1].latency)
}

/// Synchronizing the replicas of a model once, as the survey counts it: every parameter crosses one link once. It ignores that
/// algorithms send data more than once, latency, and parallel links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRound {
    pub parameters: u64,
    pub bits: u8,
    pub over: Bandwidth,
}

impl SyncRound {
    /// The survey's example: 100 billion parameters of 16 bits.
    #[must_use]
    pub const fn of_the_survey(over: Bandwidth) -> Self {
        Self { parameters: 100_000_000_000, bits: 16, over }
    }

    #[must_use]
    pub fn bytes(&self) -> Bytes {
        let bytes = (u128::from(self.parameters) * u128::from(self.bits)).div_ceil(8);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// `None` over a link without bandwidth.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        self.over.transfer_time(self.bytes(), Rounding::Nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §7: "1000 Mbps commodity network: 1600 s per sync round; on NVLink: 0.22 s".
    #[test]
    fn a_hundred_billion_parameters() {
        let seconds = |over| {
            let time = SyncRound::of_the_survey(over).time().unwrap();
            time.as_us_f64() / 1e6
        };
        let slow = seconds(Bandwidth::gbit_per_s(1));
        assert_eq!(slow, 1600.0);
        let fast = seconds(of(Tier::new(1).unwrap()).bandwidth.unwrap().0);
        assert!((fast - 0.2222).abs() < 1e-4, "{fast}");
        // "8000x" in the text; 1600 by 0.22 is 7273.
        assert_eq!((slow / fast).round(), 7200.0);
    }

    #[test]
    fn time_follows_from_each_assumption() {
        let round = SyncRound::of_the_survey(Bandwidth::gbit_per_s(1));
        let time = |it: SyncRound| it.time().unwrap();
        assert_eq!(time(SyncRound { bits: 8, ..round }).saturating_mul(2), time(round));
        let half = SyncRound { parameters: round.parameters / 2, ..round };
        assert_eq!(time(half).saturating_mul(2), time(round));
        let none = SyncRound { over: Bandwidth::from_bits_per_s(0), ..round };
        assert_eq!(none.time(), None);
        assert_eq!(SyncRound { parameters: 3, bits: 3, ..round }.bytes(), Bytes::new(2));
    }

    #[test]
    fn tiers_get_slower_and_farther() {
        let all: Vec<Tier> = Tier::all().collect();
        assert_eq!((farness(all[1]), farness(all[4])), (0.0, 1.0));
        for pair in all.windows(2).skip(1) {
            assert!(farness(pair[0]) < farness(pair[1]));
            let most = |it: Tier| of(it).bandwidth.unwrap().1;
            assert!(most(pair[0]) > most(pair[1]));
        }
    }
}
