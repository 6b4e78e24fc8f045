//! Coordinate descent: finds the terms of a model that explain measured times best. Both fitted models,
//! [`mscclpp`](crate::mscclpp) and [`fitted`](crate::fitted), use it.
//!
//! The score that callers minimize is the sum of |ln(predicted time ÷ measured time)|, because relative errors
//! are what counts. One term after the other is moved up or down by a factor while that lowers the score, and the
//! factor gets smaller from round to round. For a score that is piecewise smooth in a few positive unknowns this is
//! as good as methods with derivatives, and it gives the same result on every machine. Where two terms can stand in
//! for one another (a call's own cost and that of its hops), moving either alone does not help; [`Moves::Pairs`]
//! moves one up while another goes down.

/// The factor by which terms are moved in the first round.
const FIRST_STEP: f64 = 1.3;
/// How many rounds there are; each moves by the square root of the factor of the round before.
const ROUNDS: u32 = 6;
/// How often all terms are tried in one round at most.
const TRIES: u32 = 8;

/// Which terms are moved at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// One term.
    Single,
    /// One term; then pairs, one up while the other goes down.
    Pairs,
}

/// Moves the positive `values` until no move lowers `score`. Values on which the score does not depend stay as
/// they are.
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

/// For every two terms that matter, moves one up and the other down while that lowers the score.
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

/// Moves one term up, then down, by factors of `step` while that lowers the score.
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

/// How much each term matters: the share by which the score grows if that term alone is a fifth larger or
/// smaller, whichever grows it less. 0 if the score does not depend on the term; negative if another value would be
/// better.
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

/// A value rounded to `digits` significant digits. Of a fitted term, more than three or four are noise.
pub(crate) fn rounded(value: f64, digits: usize) -> f64 {
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    text.parse().unwrap_or(value)
}

/// The median of some values (of an even number, the upper of the middle two); 0 of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
