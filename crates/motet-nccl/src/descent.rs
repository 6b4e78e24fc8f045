//! Terms that explain measured times best, whatever the model: what [`mscclpp`](crate::mscclpp) and
//! [`fitted`](crate::fitted) have in common when they are fitted.
//!
//! Relative errors are what counts, so that the sum of the absolute logarithms of time said over time
//! measured is made as small as can be, by moving one term after the other up or down while that
//! helps, in ever smaller steps. With a score that is piecewise smooth and has so few positive unknowns,
//! that is as good as methods with derivatives and gives the same result everywhere. Where two terms can stand in for
//! one another (a call's own cost and that of its hops), moving either alone does not help, so that pairs
//! are moved against one another, too, if asked for ([`Moves`]).

/// The first step of a term is a factor of this.
const FIRST_STEP: f64 = 1.3;
/// So often the steps are made smaller, each time by the square root.
const ROUNDS: u32 = 6;
/// So often in one round all terms are tried at most.
const TRIES: u32 = 8;

/// Which terms are moved at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// One.
    Single,
    /// One; and one up while another one goes down.
    Pairs,
}

/// Moves positive `values` to where `score` is least. Those it does not depend on stay as they are.
pub(crate) fn descend<const N: usize>(
    values: &mut [f64; N],
    moves: Moves,
    score: impl Fn(&[f64; N]) -> f64,
) {
    let mut best = score(values);
    let mut step = FIRST_STEP;
    for _ in 0..ROUNDS {
        for _ in 0..TRIES {
            let before = best;
            for term in 0..N {
                best = improve(values, term, step, best, &score);
            }
            if moves == Moves::Pairs {
                best = improve_pairs(values, step, best, &score);
            }
            if before - best < before * 1e-3 {
                break;
            }
        }
        step = step.sqrt();
    }
}

/// Moves every term that matters up against every other.
fn improve_pairs<const N: usize>(
    values: &mut [f64; N],
    step: f64,
    mut best: f64,
    score: impl Fn(&[f64; N]) -> f64,
) -> f64 {
    let matters = weights(values, &score).map(|it| it != 0.0);
    for up in (0..N).filter(|it| matters[*it]) {
        for down in (0..N).filter(|it| matters[*it] && *it != up) {
            loop {
                let old = *values;
                values[up] *= step;
                values[down] /= step;
                let now = score(values);
                if now >= best * (1.0 - 1e-9) {
                    *values = old;
                    break;
                }
                best = now;
            }
        }
    }
    best
}

/// Moves one term by factors of `step` while that makes the score smaller.
fn improve<const N: usize>(
    values: &mut [f64; N],
    term: usize,
    step: f64,
    mut best: f64,
    score: impl Fn(&[f64; N]) -> f64,
) -> f64 {
    for factor in [step, 1.0 / step] {
        loop {
            let old = values[term];
            values[term] = old * factor;
            let now = score(values);
            if now >= best * (1.0 - 1e-9) {
                values[term] = old;
                break;
            }
            best = now;
        }
    }
    best
}

/// How much each term matters: by which share the score grows at least if the term alone is a fifth larger
/// or smaller. 0 if it does not depend on it; below 0 if another value were better.
pub(crate) fn weights<const N: usize>(
    values: &[f64; N],
    score: impl Fn(&[f64; N]) -> f64,
) -> [f64; N] {
    let best = score(values);
    std::array::from_fn(|term| {
        let with = |factor: f64| {
            let mut other = *values;
            other[term] *= factor;
            score(&other)
        };
        let least = with(1.2).min(with(1.0 / 1.2));
        if best > 0.0 { least / best - 1.0 } else { 0.0 }
    })
}

/// A value to so many digits: of a fitted term, more than three or four say nothing.
pub(crate) fn rounded(value: f64, digits: usize) -> f64 {
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    text.parse().unwrap_or(value)
}

/// The middle of some values, 0 of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
