//! [`Timeline`]: the load on a communicator, call by call.
//!
//! A timeline is a list of [`Episode`]s, each from one call to another; outside of episodes there is no load.
//! Episodes of one timeline may overlap: shares and delays multiply. How an episode's strength varies over
//! its length is its [`Pattern`].

use super::load::{Load, Where};

/// How an episode's strength varies over its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Full strength from its first call to its last.
    Abrupt,
    /// On and off: on in the first `on` calls of every `period`.
    Periodic { period: u64, on: u64 },
    /// Growing from nothing to full strength.
    Drifting,
}

/// A load that acts on a communicator for some calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// Its first call, and the first call after its end.
    pub calls: (u64, u64),
    pub pattern: Pattern,
    /// The load at full strength. A [`Load::fault`] strikes in the first call only.
    pub load: Load,
}

impl Episode {
    /// How strong it is at a call, from 0 to 1.
    #[must_use]
    pub fn strength(&self, call: u64) -> f64 {
        let (first, end) = self.calls;
        if !(first..end).contains(&call) {
            return 0.0;
        }
        let at = call - first;
        match self.pattern {
            Pattern::Abrupt => 1.0,
            Pattern::Periodic { period, on } => {
                if at % period.max(1) < on {
                    1.0
                } else {
                    0.0
                }
            }
            Pattern::Drifting => (at + 1) as f64 / (end - first) as f64,
        }
    }
}

/// The load on a communicator, as a list of episodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub episodes: Vec<Episode>,
}

impl Timeline {
    /// The load at a call.
    #[must_use]
    pub fn load(&self, call: u64) -> Load {
        let mut load = Load::NONE;
        for episode in &self.episodes {
            let strength = episode.strength(call);
            if strength <= 0.0 {
                continue;
            }
            let full = &episode.load;
            if full.share < 1.0 || full.delay > 1.0 {
                load.at = full.at;
            }
            // Geometric, so that half of an eighth of the bandwidth is about a third.
            load.share *= libm::pow(full.share, strength);
            load.delay *= libm::pow(full.delay, strength);
            load.neighbour = load.neighbour.max(full.neighbour * strength);
            load.fault |= full.fault && call == episode.calls.0;
        }
        load
    }

    /// The calls before which something changes abruptly, in order: beginnings and ends of abrupt episodes.
    #[must_use]
    pub fn changes(&self, calls: u64) -> Vec<u64> {
        let abrupt = self.episodes.iter().filter(|it| it.pattern == Pattern::Abrupt);
        let mut all: Vec<u64> = abrupt
            .flat_map(|it| [it.calls.0, it.calls.1])
            .filter(|it| (1..calls).contains(it))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether anything of it is inside servers.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.episodes.iter().any(|it| it.load.at == Where::Inside)
    }
}
