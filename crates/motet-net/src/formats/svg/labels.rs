//! Where the labels of dots go: beside their dot, on the side where they cover the least.

use super::course::Course;
use super::draw::DOT;
use super::picture::Picture;
use super::{Scene, SceneStyle};

/// Where a label goes relative to its dot: offset and text anchor.
pub(super) type Side = (f64, f64, &'static str);

const SIDES: [Side; 4] = [
    (DOT + 4.0, 4.0, "start"),
    (-DOT - 4.0, 4.0, "end"),
    (0.0, -DOT - 5.0, "middle"),
    (0.0, DOT + 14.0, "middle"),
];
/// In a grid, lines that wrap around pass above and to the left; below to the right is room.
const IN_GRID: Side = (DOT, DOT + 11.0, "start");
/// Lines are looked at up to this many; more are everywhere anyway.
const MAX_LINES: usize = 2_000;

/// Left, top, right, bottom.
type Area = [f64; 4];

/// For each dot the first side on which its label covers no other dot and no earlier label, and
/// among those the one that fewest lines cross. Nothing where labels stand in boxes.
pub(super) fn sides(picture: &Picture, scene: &Scene, courses: &[Course]) -> Vec<Side> {
    match scene.style {
        SceneStyle::Rows { .. } => return Vec::new(),
        SceneStyle::Grid { .. } => return vec![IN_GRID; picture.items.len()],
        SceneStyle::Dots => {}
    }
    let mut taken: Vec<Area> =
        scene.at.iter().map(|(x, y)| [x - DOT, y - DOT, x + DOT, y + DOT]).collect();
    let courses = if courses.len() > MAX_LINES { &[][..] } else { courses };
    let mut sides = Vec::with_capacity(picture.items.len());
    for (item, at) in picture.items.iter().zip(&scene.at) {
        let width = item.label.chars().count() as f64 * 6.0;
        let cost = |side: &Side| {
            let area = area(*at, width, *side);
            let covers = taken.iter().filter(|it| overlap(&area, it)).count();
            let outside = usize::from(area[0] <= 0.0);
            let crossed = courses.iter().filter(|it| crosses(it, &area)).count();
            (covers + outside, crossed)
        };
        let side = SIDES.into_iter().min_by_key(cost).unwrap_or(SIDES[0]);
        taken.push(area(*at, width, side));
        sides.push(side);
    }
    sides
}

fn area((x, y): (f64, f64), width: f64, (dx, dy, anchor): Side) -> Area {
    let left = match anchor {
        "start" => x + dx,
        "end" => x + dx - width,
        _ => x - width / 2.0,
    };
    [left, y + dy - 10.0, left + width, y + dy + 2.0]
}

fn overlap(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Whether a straight line passes through an area: Liang and Barsky's clipping.
fn crosses(course: &Course, area: &Area) -> bool {
    let ((from, _), (to, _)) = (course.at(0.0), course.at(1.0));
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    let edges = [
        (-dx, from.0 - area[0]),
        (dx, area[2] - from.0),
        (-dy, from.1 - area[1]),
        (dy, area[3] - from.1),
    ];
    for (step, room) in edges {
        if step.abs() < 1e-9 {
            if room < 0.0 {
                return false;
            }
        } else if step < 0.0 {
            enter = enter.max(room / step);
        } else {
            leave = leave.min(room / step);
        }
    }
    enter < leave
}
