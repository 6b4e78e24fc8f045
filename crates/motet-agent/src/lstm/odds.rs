//! [`Odds`]: the probability of each action of a space under the policy, and its gradients.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_units::Bytes;
use rand::RngExt as _;

use super::features::{Catalogue, DENSE, Nominal, ROWS};
use super::math::add_scaled;
use super::memory::Ledger;

/// The features of a call's actions.
#[derive(Clone, Debug)]
pub struct Faced {
    catalogue: Arc<Catalogue>,
    /// For each action, the factors of the [dense](DENSE) rows.
    dense: Vec<[f32; DENSE.len()]>,
}

impl Faced {
    #[must_use]
    pub fn new(
        catalogue: &Arc<Catalogue>,
        nominal: &Nominal,
        ledger: &Ledger,
        (kind, bytes): (CollectiveKind, Bytes),
    ) -> Self {
        let known = ledger.of(kind, bytes);
        let one = |action: usize| {
            let (kernel, same) = catalogue.kernel(action);
            let [slower, unseen, own, own_unseen] = known(kernel, same);
            [nominal.ratio(action), slower, unseen, own, own_unseen]
        };
        let dense = (0..catalogue.len()).map(one).collect();
        Self { catalogue: Arc::clone(catalogue), dense }
    }

    fn logit(&self, rows: &[f32; ROWS], action: usize) -> f32 {
        let own = self.catalogue.rows(action).iter();
        let sum = own.fold(0.0, |sum, (row, share)| sum + share * rows[usize::from(*row)]);
        let dense = DENSE.iter().zip(&self.dense[action]);
        dense.fold(sum, |sum, (row, by)| sum + rows[*row] * by)
    }

    /// Propagates gradients of the actions' logits to the rows' gradients.
    pub fn pull(&self, logits: &[f32], rows: &mut [f32; ROWS]) {
        for (action, (by, dense)) in logits.iter().zip(&self.dense).enumerate() {
            for (row, share) in self.catalogue.rows(action) {
                rows[usize::from(*row)] += by * share;
            }
            for (row, share) in DENSE.iter().zip(dense) {
                rows[*row] += by * share;
            }
        }
    }
}

/// A probability distribution over actions.
#[derive(Clone, Debug, PartialEq)]
pub struct Odds {
    odds: Vec<f32>,
    /// The logarithms of the probabilities.
    logs: Vec<f32>,
}

impl Odds {
    /// The softmax over the call's actions, from the logits of the rows.
    #[must_use]
    pub fn of(rows: &[f32; ROWS], faced: &Faced) -> Self {
        let mut logs: Vec<f32> =
            (0..faced.catalogue.len()).map(|it| faced.logit(rows, it)).collect();
        let most = logs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum = logs.iter().fold(0.0, |sum, it| sum + libm::expf(it - most));
        let whole = most + libm::logf(sum);
        logs.iter_mut().for_each(|it| *it -= whole);
        Self { odds: logs.iter().map(|it| libm::expf(*it)).collect(), logs }
    }

    #[must_use]
    pub fn odds(&self) -> &[f32] {
        &self.odds
    }

    /// The likeliest action, and the first of equally likely ones; NCCL's own choice if all odds are NaN.
    #[must_use]
    pub fn best(&self) -> usize {
        let mut best = (0, f32::NEG_INFINITY);
        for (at, log) in self.logs.iter().enumerate() {
            if *log > best.1 {
                best = (at, *log);
            }
        }
        best.0
    }

    /// Draws an action by its probability.
    pub fn draw(&self, stream: &mut motet_units::Stream) -> usize {
        let mut left = stream.random::<f32>();
        for (at, odds) in self.odds.iter().enumerate() {
            left -= odds;
            if left < 0.0 {
                return at;
            }
        }
        self.best()
    }

    /// The entropy of the distribution, in nats.
    #[must_use]
    pub fn entropy(&self) -> f32 {
        -self.odds.iter().zip(&self.logs).fold(0.0, |sum, (odds, log)| sum + odds * log)
    }

    /// The gradient of log odds of an action with respect to logits, times `by`, added to `logits`.
    pub fn pull_log(&self, action: usize, by: f32, logits: &mut [f32]) {
        add_scaled(logits, -by, &self.odds);
        if let Some(own) = logits.get_mut(action) {
            *own += by;
        }
    }

    /// The gradient of the entropy, times `by`, added to `logits`.
    pub fn pull_entropy(&self, by: f32, logits: &mut [f32]) {
        let entropy = self.entropy();
        for ((logit, odds), log) in logits.iter_mut().zip(&self.odds).zip(&self.logs) {
            *logit -= by * odds * (log + entropy);
        }
    }

    /// The gradient of the cross entropy to `target` (which sums up to 1), times `by`, added to `logits`.
    pub fn pull_towards(&self, target: &[f32], by: f32, logits: &mut [f32]) {
        add_scaled(logits, by, &self.odds);
        add_scaled(logits, -by, target);
    }
}
