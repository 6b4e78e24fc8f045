//! Hyperband: random points through all brackets, widest first, round after round; ends with the
//! budget, or after a round that found nothing better by 1%.

use motet_units::{Seed, Stream};

use super::brackets::most_rungs;
use super::halving::Halving;
use super::{Ledger, Strategy, random};
use crate::profile::Request;
use crate::space::Space;

/// A round that gains less is the last.
const LEAST_GAIN: f64 = 0.01;

pub(super) struct Hyperband {
    most: u32,
    ratio: u32,
    stream: Stream,
    running: Halving,
    /// The bracket that runs.
    s: u32,
    /// The best mean at the end of the last round.
    before: f64,
}

impl Hyperband {
    pub(super) fn new(most: u32, ratio: u32, seed: Seed) -> Self {
        let s = most_rungs(most, ratio);
        let stream = seed.stream("hyperband");
        Self {
            most,
            ratio,
            stream,
            running: Halving::new(s, most, ratio),
            s,
            before: f64::INFINITY,
        }
    }

    /// Goes on to the next bracket; `false` if the search is over.
    fn next_bracket(&mut self, ledger: &Ledger) -> bool {
        if self.s > 0 {
            self.s -= 1;
        } else {
            let best = ledger.best_at(self.most).and_then(|it| ledger.record(it).mean());
            let best = best.unwrap_or(f64::INFINITY);
            if best > self.before * (1.0 - LEAST_GAIN) {
                return false;
            }
            self.before = best;
            self.s = most_rungs(self.most, self.ratio);
        }
        self.running = Halving::new(self.s, self.most, self.ratio);
        true
    }
}

impl Strategy for Hyperband {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        loop {
            let lacking = self.running.lacking();
            let requests = if lacking > 0 {
                let points = random::draw(&mut self.stream, ledger, space, lacking);
                if points.is_empty() {
                    return Vec::new();
                }
                let requests = self.running.add(&points, ledger);
                self.running.close();
                requests
            } else if let Some(requests) = self.running.promote(ledger) {
                requests
            } else if self.next_bracket(ledger) {
                continue;
            } else {
                return Vec::new();
            };
            if !requests.is_empty() {
                return requests;
            }
        }
    }
}
