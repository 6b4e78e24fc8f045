//! [`Point`]: the metrics of training at one update; a curve of points is written as CSV.

use std::fmt::Write as _;

/// The training metrics of one update, as means over its calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub update: u64,
    /// The reward, with the logarithm of time in it.
    pub reward: f32,
    /// How much more the drawn actions cost than the best one, which the simulator knows: 0.1 is about 10 %.
    pub regret: f32,
    /// The same for the first action of every space, NCCL's own choice.
    pub default_regret: f32,
    /// The entropy of the policy's odds, in nats: how undecided it is.
    pub entropy: f32,
    /// The root of the mean square of the value's error.
    pub value_error: f32,
    /// The length of the gradient before it was clipped.
    pub gradient: f32,
    /// The regret of the best policy so far, taking its likeliest actions, on lives that are not trained on.
    pub best: f32,
}

/// The fields' names, in order.
pub const COLUMNS: [&str; 8] =
    ["update", "reward", "regret", "default_regret", "entropy", "value_error", "gradient", "best"];

impl Point {
    /// The fields after the first.
    #[must_use]
    pub const fn values(&self) -> [f32; 7] {
        let Self { reward, regret, default_regret, entropy, value_error, gradient, best, .. } =
            *self;
        [reward, regret, default_regret, entropy, value_error, gradient, best]
    }

    pub(super) const fn of(update: u64, values: [f32; 7]) -> Self {
        let [reward, regret, default_regret, entropy, value_error, gradient, best] = values;
        Self { update, reward, regret, default_regret, entropy, value_error, gradient, best }
    }
}

/// A curve as CSV.
#[must_use]
pub fn csv(curve: &[Point]) -> String {
    let mut text = format!("{}\n", COLUMNS.join(","));
    for point in curve {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}", point.update);
        for value in point.values() {
            let _ = write!(text, ",{value:.6}");
        }
        text.push('\n');
    }
    text
}
