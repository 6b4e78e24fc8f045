//! Random faults of a simulated switch, from a seed.

use motet_units::Seed;
use motet_units::seed::Stream;
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// A fault in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It refuses, and does nothing.
    Refuses,
    /// It does nothing and does not answer.
    Ignores,
    /// It carries the change out, but its answer does not arrive.
    DoesInSilence,
    /// It deletes what it should and creates half of what it should.
    DoesHalf,
    /// It loses its power and comes back at once, with or without its circuits
    /// ([`Retention`](super::Retention)).
    LosesPower,
    /// A port of a circuit that it should create fails for good.
    PortFails,
}

/// How often each fault occurs: in one change out of so many, or never without a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultRates {
    pub seed: u64,
    pub refuses_one_in: Option<u32>,
    pub ignores_one_in: Option<u32>,
    pub does_in_silence_one_in: Option<u32>,
    pub does_half_one_in: Option<u32>,
    pub loses_power_one_in: Option<u32>,
    pub port_fails_one_in: Option<u32>,
}

/// Draws faults at random, from a seed.
#[derive(Debug, Default)]
pub(super) struct Chance {
    rates: Vec<(u32, Mishap)>,
    stream: Option<Stream>,
}

impl Chance {
    pub(super) fn new(rates: &FaultRates) -> Self {
        let seed = rates.seed;
        let all = [
            (rates.refuses_one_in, Mishap::Refuses),
            (rates.ignores_one_in, Mishap::Ignores),
            (rates.does_in_silence_one_in, Mishap::DoesInSilence),
            (rates.does_half_one_in, Mishap::DoesHalf),
            (rates.loses_power_one_in, Mishap::LosesPower),
            (rates.port_fails_one_in, Mishap::PortFails),
        ];
        let rates: Vec<_> =
            all.into_iter().filter_map(|(rate, it)| Some((rate?.max(1), it))).collect();
        Self { rates, stream: Some(Seed::new(seed).stream("switch faults")) }
    }

    /// The fault of the next change, if any. A number is drawn for every kind of fault each time, whether or
    /// not one was found already, so that all changes draw equally often.
    pub(super) fn next(&mut self) -> Option<Mishap> {
        let stream = self.stream.as_mut()?;
        let mut found = None;
        for (rate, mishap) in &self.rates {
            let hit = stream.random_range(0..*rate) == 0;
            found = found.or(hit.then_some(*mishap));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_that_of_the_seed() {
        let rates = |seed| FaultRates {
            seed,
            refuses_one_in: Some(10),
            does_half_one_in: Some(20),
            ..FaultRates::default()
        };
        let draw = |seed| {
            let mut chance = Chance::new(&rates(seed));
            (0..10_000).map(|_| chance.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let refused = draw(1).iter().filter(|it| **it == Some(Mishap::Refuses)).count();
        assert!((900..1100).contains(&refused), "{refused} of 10000");
        assert!(Chance::new(&FaultRates::default()).next().is_none());
    }
}
