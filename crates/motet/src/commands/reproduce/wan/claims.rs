//! What is claimed of a figure, and whether it came out: the paper's sentences, for either strength
//! of the programs hand, and what Motet holds itself to.

use motet_wan::Mode;

use super::super::claims::Claim;
use super::figure::{Axis, Point};
use super::{REMAP, SYNTH, gain, seconds};
use crate::commands::wan::Outcome;

/// A point of a figure: where, and what came out.
pub(super) type Result = (Point, Vec<Outcome>);

/// The least and the most over all points.
fn span(results: &[Result], of: impl Fn(&[Outcome]) -> f64) -> (f64, f64) {
    let values = results.iter().map(|it| of(&it.1));
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)))
}

pub(super) fn claims(axis: Axis, results: &[Result]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (strength, modes) in [("remap", REMAP), ("synth", SYNTH)] {
        claims.extend(published(strength, modes, axis, results));
    }
    for (strength, modes) in [("remap", REMAP), ("synth", SYNTH)] {
        claims.push(never_slower(strength, modes, results));
    }
    let (least, most) = span(results, |it| gain(it, SYNTH[1]));
    claims.push(Claim::ours(
        "both (synth) gain at least 30% at every point".to_owned(),
        least >= 30.0,
        format!("{least:.1} to {most:.1}%"),
    ));
    claims
}

/// The paper's sentences, for one strength.
fn published(strength: &str, modes: [Mode; 2], axis: Axis, results: &[Result]) -> Vec<Claim> {
    let [programs, both] = modes;
    let claim = |statement: &str, holds: bool, found: String| {
        Claim::published(format!("{strength}: {statement}"), holds, found)
    };
    let moving = [Mode::Routes, programs, both];
    let fastest = |it: &[Outcome]| moving.iter().map(|mode| gain(it, *mode)).fold(100.0, f64::min);
    let (worst, _) = span(results, fastest);
    let ahead = |it: &[Outcome]| gain(it, Mode::Routes) - gain(it, programs);
    let (least_ahead, most_ahead) = span(results, ahead);
    let best = |it: &[Outcome]| {
        let alone = seconds(it, Mode::Routes).min(seconds(it, programs));
        (1.0 - seconds(it, both) / alone) * 100.0
    };
    let (least_best, most_best) = span(results, best);
    let (least, most) = span(results, |it| gain(it, both));
    let near = (30.0..=36.0).contains(&least) && (30.0..=36.0).contains(&most);
    let shape = match axis {
        Axis::Chunk => {
            let off = off_line(results, &[Mode::Base, Mode::Routes, programs, both]);
            let found = format!("within {:.1}% of a line", off * 100.0);
            claim("time is nearly linear in the chunk size", off <= 0.1, found)
        }
        Axis::Delay => {
            let rises = rises(results, &[Mode::Base, Mode::Routes, programs, both]);
            let found = if rises.is_empty() {
                "in every mode, at every step".to_owned()
            } else {
                format!("not {}", rises.join(", "))
            };
            claim("less delay takes less time", rises.is_empty(), found)
        }
    };
    vec![
        claim("base is slowest", worst > 0.0, format!("the least gain is {worst:.1}%")),
        claim(
            "routes are better than programs alone",
            least_ahead > 0.0,
            format!("ahead by {least_ahead:.1} to {most_ahead:.1} points"),
        ),
        claim(
            "both are best",
            least_best > 0.0,
            format!("{least_best:.1} to {most_best:.1}% less than the better hand alone"),
        ),
        claim("both gain about 33% (30 to 36)", near, format!("{least:.1} to {most:.1}%")),
        shape,
    ]
}

/// Both hands are never slower than either alone, in total, at any point.
fn never_slower(strength: &str, [programs, both]: [Mode; 2], results: &[Result]) -> Claim {
    let ratio =
        |it: &[Outcome]| seconds(it, both) / seconds(it, Mode::Routes).min(seconds(it, programs));
    let (_, most) = span(results, ratio);
    Claim::ours(
        format!("both ({strength}) are never slower than either hand alone"),
        most <= 1.0,
        format!("at most {most:.4} of the better hand's time"),
    )
}

/// How far, relative to itself, the time of any mode is from the line that fits it best.
fn off_line(results: &[Result], modes: &[Mode]) -> f64 {
    let count = results.len() as f64;
    let mut worst = 0.0f64;
    for mode in modes {
        let points: Vec<(f64, f64)> =
            results.iter().map(|it| (it.0.x, seconds(&it.1, *mode))).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(&|it| it.0), mean(&|it| it.1));
        let slope = mean(&|it| (it.0 - x) * (it.1 - y)) / mean(&|it| (it.0 - x) * (it.0 - x));
        for point in &points {
            let line = y + slope * (point.0 - x);
            worst = worst.max((point.1 / line - 1.0).abs());
        }
    }
    worst
}

/// Where less delay does not take less time: the mode, and the two delays in µs.
fn rises(results: &[Result], modes: &[Mode]) -> Vec<String> {
    let mut found = Vec::new();
    for mode in modes {
        for pair in results.windows(2) {
            if seconds(&pair[0].1, *mode) > seconds(&pair[1].1, *mode) {
                let (name, from, to) = (mode.name(), pair[1].0.x, pair[0].0.x);
                found.push(format!("{name} from {from} to {to} µs"));
            }
        }
    }
    found
}
