//! [`Seed`]: where every random choice comes from.
//!
//! One seed per run, printed with its result. Each use takes a stream of its own by name, so
//! that adding a random choice in one place leaves every other place's numbers as they were.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A random stream: portable, so that the same seed gives the same bytes on every machine.
pub type Stream = Xoshiro256PlusPlus;

/// The seed of a run or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The seed of this number.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Its number, to print beside a result.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The seed of the part called `name`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        // FNV-1a over the name, then a mixing step so that similar names share nothing.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(mix(self.0 ^ mix(hash)))
    }

    /// The seed of the `index`-th of many alike: runs, restarts, ranks.
    #[must_use]
    pub fn numbered(self, index: u64) -> Self {
        Self(mix(self.0.wrapping_add(mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15)))))
    }

    /// The stream called `name`.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        Stream::seed_from_u64(self.named(name).0)
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The finalizer of SplitMix64: every input bit reaches every output bit.
const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn streams_are_reproducible_and_apart() {
        let seed = Seed::new(7);
        let first: Vec<u64> = std::iter::repeat_with({
            let mut stream = seed.stream("links");
            move || stream.next_u64()
        })
        .take(4)
        .collect();
        let mut again = seed.stream("links");
        assert!(first.iter().all(|it| *it == again.next_u64()));
        assert_ne!(first[0], seed.stream("flows").next_u64());
        assert_ne!(first[0], Seed::new(8).stream("links").next_u64());
        assert_ne!(seed.numbered(0), seed.numbered(1));
    }

    /// Pins the stream: a change here changes every published figure.
    #[test]
    fn the_stream_never_changes() {
        assert_eq!(Seed::new(1).stream("pin").next_u64(), 18_388_186_240_290_292_210);
    }
}
