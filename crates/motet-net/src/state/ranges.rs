//! Drawing states at random: a [`RangeTable`] gives every link a range of bandwidths, and
//! [`NetworkState::resample_uniform`] draws each link's from it.
//!
//! This is how Xiong et al. (§V-A) model background traffic: at each step every link's available
//! bandwidth is drawn anew, 20–200 Gbit/s inside a datacenter and 10–100 Gbit/s on the WAN.

use motet_units::{Bandwidth, LinkId, Stream};
use rand::Rng;

use super::NetworkState;
use crate::link::Link;
use crate::network::Network;

/// The least and the most bandwidth a link may have, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BandwidthRange {
    /// The least bandwidth that is drawn.
    pub low: Bandwidth,
    /// The greatest bandwidth that is drawn.
    pub high: Bandwidth,
}

/// Why a table of ranges cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeError {
    #[error("the bandwidth range of link {link} is empty: {low} is more than {high}")]
    Empty { link: LinkId, low: Bandwidth, high: Bandwidth },
    #[error(
        "there are ranges for {ranges} links, but the state has {links}; make both from one network"
    )]
    WrongNetwork { ranges: usize, links: usize },
}

/// A range for every link of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTable {
    ranges: Vec<BandwidthRange>,
}

impl RangeTable {
    /// The table that `range` gives link by link (by class, by tier, around the nominal rate…).
    pub fn new(
        network: &Network,
        mut range: impl FnMut(LinkId, &Link) -> BandwidthRange,
    ) -> Result<Self, RangeError> {
        let ranges = network
            .link_ids()
            .map(|link| {
                let range = range(link, network.link(link));
                let BandwidthRange { low, high } = range;
                if low > high { Err(RangeError::Empty { link, low, high }) } else { Ok(range) }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { ranges })
    }

    /// The range of a link.
    #[must_use]
    pub fn range(&self, link: LinkId) -> BandwidthRange {
        self.ranges[link.index()]
    }
}

impl NetworkState {
    /// Draws every link's bandwidth uniformly from its range; up and down stay as they are.
    ///
    /// Exactly one number is taken from the stream for every link, in link order, so that the
    /// range of one link has no effect on what the others draw.
    pub fn resample_uniform(
        &mut self,
        stream: &mut Stream,
        table: &RangeTable,
    ) -> Result<(), RangeError> {
        let (ranges, links) = (table.ranges.len(), self.available.len());
        if ranges != links {
            return Err(RangeError::WrongNetwork { ranges, links });
        }
        for (slot, range) in self.available.iter_mut().zip(&table.ranges) {
            let (low, high) = (range.low.bits_per_s(), range.high.bits_per_s());
            let choices = u128::from(high - low) + 1;
            // The high half of draw × choices is uniform but for 2⁻⁶⁴ × choices, far below what
            // any run could see, and takes one draw each time, where rejection takes several.
            let offset = (u128::from(stream.next_u64()) * choices) >> 64;
            // Below `choices`, so low + offset is at most high.
            *slot = Bandwidth::from_bits_per_s(low + offset as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkClass;
    use crate::testing::multigraph;
    use motet_units::Seed;
    use proptest::prelude::*;

    fn gbit(low: u64, high: u64) -> BandwidthRange {
        BandwidthRange { low: Bandwidth::gbit_per_s(low), high: Bandwidth::gbit_per_s(high) }
    }

    fn seed_000(network: &Network) -> RangeTable {
        let range = |_: LinkId, link: &Link| match link.spec.class {
            LinkClass::Wan => gbit(10, 100),
            _ => gbit(20, 200),
        };
        RangeTable::new(network, range).unwrap()
    }

    proptest! {
        #[test]
        fn draws_stay_in_range_and_repeat(network in multigraph(6, 12), seed: u64) {
            let table = seed_000(&network);
            let draw = || {
                let mut state = NetworkState::nominal(&network);
                state.resample_uniform(&mut Seed::new(seed).stream("links"), &table).unwrap();
                state
            };
            let state = draw();
            prop_assert_eq!(&state, &draw());
            for link in network.link_ids() {
                let range = table.range(link);
                prop_assert!((range.low..=range.high).contains(&state.bandwidth(link)));
            }
        }

        #[test]
        fn the_widest_range_is_safe(network in multigraph(3, 4), seed: u64) {
            let all = BandwidthRange {
                low: Bandwidth::ZERO, high: Bandwidth::from_bits_per_s(u64::MAX),
            };
            let table = RangeTable::new(&network, |_, _| all).unwrap();
            let mut state = NetworkState::nominal(&network);
            let mut stream = Seed::new(seed).stream("links");
            prop_assert_eq!(state.resample_uniform(&mut stream, &table), Ok(()));
        }
    }

    /// Means of 4,000 draws of a uniform [20, 200] stay within four standard errors of 110.
    #[test]
    fn the_mean_is_in_the_middle() {
        let network = crate::testing::ring(2, crate::node::NodeKind::Leaf);
        let table = RangeTable::new(&network, |_, _| gbit(20, 200)).unwrap();
        let mut state = NetworkState::nominal(&network);
        let mut stream = Seed::new(1).stream("links");
        let draws = 4_000;
        let mut sum = 0.0;
        for _ in 0..draws {
            state.resample_uniform(&mut stream, &table).unwrap();
            sum += state.bandwidth(LinkId(0)).bits_per_s() as f64 / 1e9;
        }
        let error = 180.0 / 12f64.sqrt() / f64::from(draws).sqrt();
        assert!((sum / f64::from(draws) - 110.0).abs() < 4.0 * error);
    }

    #[test]
    fn wrong_tables_are_refused() {
        let one = crate::testing::ring(3, crate::node::NodeKind::Gpu);
        let other = crate::testing::ring(4, crate::node::NodeKind::Gpu);
        assert!(matches!(
            RangeTable::new(&one, |_, _| gbit(2, 1)),
            Err(RangeError::Empty { link: LinkId(0), .. })
        ));
        let mut stream = Seed::new(1).stream("links");
        let mut state = NetworkState::nominal(&other);
        let refused = state.resample_uniform(&mut stream, &seed_000(&one));
        assert!(matches!(refused, Err(RangeError::WrongNetwork { .. })));
    }
}
