//! Force-directed layout for networks whose nodes are all of one kind (Fruchterman and Reingold):
//! lines attract, items repel, starting from a circle. After the start it uses only additions,
//! products and square roots, so every machine draws the same picture.

use super::picture::Picture;
use super::{Scene, SceneStyle};

const ROUNDS: usize = 400;
const MARGIN: f64 = 60.0;

pub(super) fn layout(picture: &Picture) -> Scene {
    let count = picture.items.len();
    let side = 90.0 * (count as f64).sqrt().max(2.0);
    let mut at: Vec<(f64, f64)> = (0..count)
        .map(|it| {
            let angle = it as f64 / count as f64 * std::f64::consts::TAU;
            // Rounded, since platforms differ in the last bit of a sine.
            let round = |it: f64| (it * side * 0.4 * 1e3).round() / 1e3;
            (round(libm::sin(angle)), round(-libm::cos(angle)))
        })
        .collect();
    let ideal = side / (count as f64).sqrt().max(1.0);
    for round in 0..ROUNDS {
        let heat = side * 0.1 * (1.0 - round as f64 / ROUNDS as f64);
        step(picture, &mut at, ideal, heat);
    }
    let low = at.iter().fold((0.0f64, 0.0f64), |low, it| (low.0.min(it.0), low.1.min(it.1)));
    let high = at.iter().fold((0.0f64, 0.0f64), |high, it| (high.0.max(it.0), high.1.max(it.1)));
    for it in &mut at {
        *it = (it.0 - low.0 + MARGIN, it.1 - low.1 + MARGIN);
    }
    Scene {
        at,
        frames: Vec::new(),
        width: high.0 - low.0 + 2.0 * MARGIN + 50.0,
        height: high.1 - low.1 + 2.0 * MARGIN,
        style: SceneStyle::Dots,
    }
}

fn step(picture: &Picture, at: &mut [(f64, f64)], ideal: f64, heat: f64) {
    let mut push = vec![(0.0, 0.0); at.len()];
    let mut move_apart = |a: usize, b: usize, force: f64, dx: f64, dy: f64| {
        push[a] = (push[a].0 + dx * force, push[a].1 + dy * force);
        push[b] = (push[b].0 - dx * force, push[b].1 - dy * force);
    };
    for a in 0..at.len() {
        for b in a + 1..at.len() {
            let (dx, dy) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
            let square = (dx * dx + dy * dy).max(1.0);
            move_apart(a, b, ideal * ideal / square, dx, dy);
        }
    }
    for line in &picture.lines {
        let (dx, dy) = (at[line.from].0 - at[line.to].0, at[line.from].1 - at[line.to].1);
        let distance = (dx * dx + dy * dy).sqrt().max(1.0);
        move_apart(line.from, line.to, -distance / ideal, dx, dy);
    }
    for (it, (dx, dy)) in at.iter_mut().zip(push) {
        let length = (dx * dx + dy * dy).sqrt().max(1e-9);
        let stride = length.min(heat) / length;
        *it = (it.0 + dx * stride, it.1 + dy * stride);
    }
}
