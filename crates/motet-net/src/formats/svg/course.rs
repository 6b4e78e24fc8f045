//! [`Course`]: the course of a line from item to item, straight or curved.
//!
//! A line that would pass behind a box between its ends is led around it; otherwise it would seem
//! to end there.

use super::layered::{ARCS, box_width};
use super::picture::{Picture, Stroke};
use super::{Scene, SceneStyle};

/// Half the height of a box.
pub(super) const HALF_BOX: f64 = 13.0;
/// How far from its straight way a line may go around a box: the first that is free is taken.
const DETOURS: [f64; 8] = [28.0, -28.0, 48.0, -48.0, 72.0, -72.0, 96.0, -96.0];
/// More lines than this hide everything anyway; they stay straight.
const MAX_LINES: usize = 2_000;

pub(super) type Point = (f64, f64);

/// A Bézier curve: its ends and up to two control points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    from: Point,
    via: Vec<Point>,
    to: Point,
}

/// The way of each line.
pub(super) fn courses(picture: &Picture, scene: &Scene) -> Vec<Course> {
    let rows = matches!(scene.style, SceneStyle::Rows { .. });
    let detours = rows && picture.lines.len() <= MAX_LINES;
    let course = |line: &Stroke| {
        let direct = Course::of(scene, line);
        let hits = |course: &Course, ends: bool| course.hits(picture, scene, line, ends);
        if !detours || !direct.via.is_empty() || !hits(&direct, false) {
            return direct;
        }
        let bent = || DETOURS.iter().map(|it| direct.clone().bent(*it));
        let free = bent().find(|it| !hits(it, true)).or_else(|| bent().find(|it| !hits(it, false)));
        free.unwrap_or(direct)
    };
    picture.lines.iter().map(course).collect()
}

impl Course {
    fn of(scene: &Scene, line: &Stroke) -> Self {
        let (from, to) = (scene.at[line.from], scene.at[line.to]);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let via = match scene.style {
            // A line within a row passes below it, deeper the further it goes.
            SceneStyle::Rows { reach } if dy.abs() < 1.0 => {
                // A quadratic curve goes half as deep as its control point.
                let depth = (ARCS - 24.0) * (0.25 + 0.75 * dx.abs() / reach.max(1.0));
                vec![((from.0 + to.0) / 2.0, from.1 + HALF_BOX + 2.0 * depth)]
            }
            // A line that wraps around keeps to the left of its column and above its row.
            SceneStyle::Grid { spacing } if dx.abs().max(dy.abs()) > 1.5 * spacing => {
                let aside = spacing * 0.36;
                let (along_x, along_y) = (dx.signum() * spacing, dy.signum() * spacing);
                if dy.abs() < 1.0 {
                    let y = from.1 - aside;
                    vec![(from.0 + along_x * 0.2, y), (to.0 - along_x * 0.2, y)]
                } else {
                    let x = from.0 - aside;
                    vec![(x, from.1 + along_y * 0.2), (x, to.1 - along_y * 0.2)]
                }
            }
            _ => Vec::new(),
        };
        Self { from, via, to }
    }

    /// Out to one side, as far as the middle of the straight way.
    fn bent(self, aside: f64) -> Self {
        let middle = ((self.from.0 + self.to.0) / 2.0, (self.from.1 + self.to.1) / 2.0);
        let (x, y) = self.normal();
        // A quadratic curve goes half as far as its control point.
        let via = vec![(middle.0 + x * aside * 2.0, middle.1 + y * aside * 2.0)];
        Self { via, ..self }
    }

    /// Whether it runs behind a box in a row between its ends, or, if asked, in the rows of its
    /// ends, where boxes stand so close that a straight line may graze them.
    fn hits(&self, picture: &Picture, scene: &Scene, line: &Stroke, ends: bool) -> bool {
        const SAMPLES: usize = 32;
        const ROOM: f64 = 5.0;
        let points: Vec<Point> =
            (1..SAMPLES).map(|it| self.at(it as f64 / SAMPLES as f64).0).collect();
        let margin = if ends { 1.0 } else { -1.0 };
        let above = self.from.1.min(self.to.1) - margin;
        let below = self.from.1.max(self.to.1) + margin;
        picture.items.iter().zip(&scene.at).enumerate().any(|(index, (item, (x, y)))| {
            let wide = box_width(&item.label) / 2.0 + ROOM;
            let inside = |it: &Point| (it.0 - x).abs() < wide && (it.1 - y).abs() < HALF_BOX + ROOM;
            let other = index != line.from && index != line.to;
            other && above < *y && *y < below && points.iter().any(inside)
        })
    }

    /// Right of the way to go, of length 1. The y axis points down: right of east is south.
    fn normal(&self) -> Point {
        let (dx, dy) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let length = (dx * dx + dy * dy).sqrt().max(1e-9);
        (-dy / length, dx / length)
    }

    pub(super) fn reversed(mut self) -> Self {
        self.via.reverse();
        Self { from: self.to, via: self.via, to: self.from }
    }

    /// The same so far to the right of the way to go.
    pub(super) fn aside(self, right: f64) -> Self {
        let (x, y) = self.normal();
        let (x, y) = (x * right, y * right);
        let moved = |it: Point| (it.0 + x, it.1 + y);
        Self {
            from: moved(self.from),
            via: self.via.into_iter().map(moved).collect(),
            to: moved(self.to),
        }
    }

    /// As the `d` of a `<path>`.
    pub(super) fn path(&self) -> String {
        let command = ["L", "Q", "C"][self.via.len().min(2)];
        let points = self.via.iter().chain([&self.to]);
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        format!("M{:.1} {:.1}{command}{}", self.from.0, self.from.1, points.join(" "))
    }

    /// The point at `t`, 0 to 1, and the direction there, of length 1.
    pub(super) fn at(&self, t: f64) -> (Point, Point) {
        // De Casteljau's construction; the last two points give the direction.
        let mut points: Vec<Point> = Vec::with_capacity(4);
        points.push(self.from);
        points.extend_from_slice(&self.via);
        points.push(self.to);
        let between = |a: Point, b: Point| (a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * t);
        while points.len() > 2 {
            points = points.windows(2).map(|it| between(it[0], it[1])).collect();
        }
        let (dx, dy) = (points[1].0 - points[0].0, points[1].1 - points[0].1);
        let length = (dx * dx + dy * dy).sqrt().max(1e-9);
        (between(points[0], points[1]), (dx / length, dy / length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_lines_move_aside() {
        let east = Course { from: (0.0, 0.0), via: Vec::new(), to: (10.0, 0.0) };
        assert_eq!(east.path(), "M0.0 0.0L10.0 0.0");
        assert_eq!(east.at(0.5), ((5.0, 0.0), (1.0, 0.0)));
        assert_eq!(east.clone().aside(2.0).path(), "M0.0 2.0L10.0 2.0");
        assert_eq!(east.reversed().aside(2.0).path(), "M10.0 -2.0L0.0 -2.0");
    }

    #[test]
    fn curves_are_followed() {
        let arc = Course { from: (0.0, 0.0), via: vec![(5.0, 8.0)], to: (10.0, 0.0) };
        assert_eq!(arc.at(0.5), ((5.0, 4.0), (1.0, 0.0)));
        assert_eq!(arc.at(1.0).0, (10.0, 0.0));
        assert_eq!(arc.path(), "M0.0 0.0Q5.0 8.0 10.0 0.0");
    }
}
