//! Algorithm 1 of *TuCCL* (Li et al.) as it is printed, to compare with.
//!
//! Its brackets are the wrong way round (the widest begins at full length), the first rung keeps
//! everything, and whatever is left is profiled at full length after every rung, so that R = 81
//! and η = 3 take 169 + 141 profiles and 21,730 iterations. SAMPLE draws uniformly: the printed
//! algorithm hands nothing that it learnt to it.

use motet_units::{Seed, Stream};

use super::brackets::most_rungs;
use super::{Ledger, Strategy, random};
use crate::profile::Request;
use crate::space::Space;

enum Next {
    /// Line 8: the points at this rung's iterations.
    Rung,
    /// Line 10: what is left at full length.
    Full,
    Over,
}

pub(super) struct Literal {
    most: u32,
    ratio: u32,
    stream: Stream,
    s: u32,
    i: u32,
    points: Vec<usize>,
    next: Next,
    /// x* and its value.
    best: Option<(usize, f64)>,
}

impl Literal {
    pub(super) fn new(most: u32, ratio: u32, seed: Seed) -> Self {
        let stream = seed.stream("literal");
        let points = Vec::new();
        Self { most, ratio, stream, s: 0, i: 0, points, next: Next::Rung, best: None }
    }

    /// The points of the last batch with their means, best first.
    fn ranked(ledger: &Ledger) -> Vec<(usize, f64)> {
        let means = ledger.last().iter().filter_map(|it| Some((it.request.point, it.mean()?)));
        let mut ranked: Vec<(usize, f64)> = means.collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        ranked
    }

    /// Line 10, once the full profiles are there.
    fn settle(&mut self, ledger: &Ledger) {
        let best = Self::ranked(ledger).first().copied();
        if let Some((point, value)) = best
            && self.best.is_none_or(|it| value < it.1)
        {
            self.best = Some((point, value));
        }
    }
}

impl Strategy for Literal {
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request> {
        let s_max = most_rungs(self.most, self.ratio);
        match self.next {
            Next::Rung => {
                if self.i > 0 || self.s > 0 {
                    self.settle(ledger);
                }
                if self.i > self.s {
                    (self.s, self.i) = (self.s + 1, 0);
                }
                if self.s > s_max {
                    self.next = Next::Over;
                    return Vec::new();
                }
                if self.i == 0 {
                    let count = self.ratio.pow(s_max - self.s) as usize;
                    self.points = random::draw(&mut self.stream, ledger, space, count);
                }
                self.next = Next::Full;
                let iterations = self.most / self.ratio.pow(self.s) * self.ratio.pow(self.i);
                self.points.iter().map(|it| ledger.more(*it, iterations)).collect()
            }
            Next::Full => {
                let keep = self.ratio.pow(s_max - self.s).div_ceil(self.ratio.pow(self.i));
                self.points = Self::ranked(ledger).iter().map(|it| it.0).collect();
                self.points.truncate(keep as usize);
                self.i += 1;
                self.next = Next::Rung;
                self.points.iter().map(|it| ledger.more(*it, self.most)).collect()
            }
            Next::Over => Vec::new(),
        }
    }

    fn recommend(&self, ledger: &Ledger) -> Option<usize> {
        self.best.map(|it| it.0).or_else(|| ledger.incumbent())
    }
}
