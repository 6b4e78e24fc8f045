//! Shows how busy lines were by colour and width: each direction is a stroke of its own with an
//! arrow, on the right-hand side in the direction of travel.
//!
//! On a light ground the colours run from light amber to dark violet, each darker than the one
//! before; on a dark ground from violet to light amber, each lighter than the one before. So
//! colour-blind readers and grey printers see the same order, and busy links stand out; the width
//! shows the same once more. The light colour is an attribute of the element, the dark one is in a
//! style sheet, by the element's class.

use std::fmt::Write;

use super::course::{Course, HALF_BOX, Point};
use super::draw::{DOT, text};
use super::layered::box_width;
use super::load::{Load, Loads};
use super::picture::{Picture, Stroke};
use super::{Scene, SceneStyle};
use crate::formats::xml::escape;

/// Equal steps from hardly busy to always, on a light ground.
const LIGHT: Scale = [
    [0xf6, 0xc2, 0x5b],
    [0xee, 0x86, 0x4a],
    [0xd0, 0x48, 0x5c],
    [0x8a, 0x28, 0x7f],
    [0x35, 0x10, 0x5e],
];
/// The same on a dark ground.
const DARK: Scale = [
    [0x6a, 0x3f, 0xa0],
    [0xb0, 0x41, 0x8f],
    [0xe0, 0x58, 0x6c],
    [0xf4, 0x9a, 0x52],
    [0xff, 0xe0, 0x8a],
];
/// How many dark colours there are; the legend has a step for each.
const LEVELS: usize = 20;
const IDLE: &str = "class=\"idle\" stroke=\"#c8c8c8\"";
/// Between the two directions of a line.
const GAP: f64 = 1.2;
const THINNEST: f64 = 1.4;
const WIDEST: f64 = 5.0;
/// Where along a stroke its arrow may stand, the best first: past the middle, so that two
/// directions' do not meet.
const ARROW: [f64; 5] = [0.6, 0.7, 0.8, 0.45, 0.3];
const LEGEND_ROW: f64 = 17.0;
const BAR: f64 = 160.0;

type Scale = [[u8; 3]; 5];

/// The colour of a utilization from 0 to 1 on a light ground.
pub(super) fn colour(utilization: f64) -> String {
    mixed(&LIGHT, utilization)
}

/// Attributes that make `currentColor` the colour of a utilization, on either ground.
pub(super) fn paint(utilization: f64) -> String {
    let level = (utilization.clamp(0.0, 1.0) * LEVELS as f64) as usize;
    format!("class=\"h{}\" color=\"{}\"", level.min(LEVELS - 1), colour(utilization))
}

/// The style sheet that turns a picture of traffic dark where the reader's colour scheme is: ground
/// (class `ground`), text of colour `ink`, idle links, and a colour for each level of [`paint`].
pub(super) fn scheme(ink: &str) -> String {
    let mut out = format!(
        "<style>@media(prefers-color-scheme:dark){{.ground{{fill:#16181d}}\
         text[fill=\"{ink}\"]{{fill:#e6e6e6}}.idle{{stroke:#565c66}}"
    );
    for level in 0..LEVELS {
        let colour = mixed(&DARK, middle_of(level));
        let _ = write!(out, ".h{level}{{color:{colour}}}");
    }
    out.push_str("}</style>\n");
    out
}

fn middle_of(level: usize) -> f64 {
    (level as f64 + 0.5) / LEVELS as f64
}

fn mixed(scale: &Scale, utilization: f64) -> String {
    let along = utilization.clamp(0.0, 1.0) * (scale.len() - 1) as f64;
    let low = (along as usize).min(scale.len() - 2);
    let part = along - low as f64;
    let mix = |it: usize| {
        let (a, b) = (f64::from(scale[low][it]), f64::from(scale[low + 1][it]));
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

pub(super) fn width(utilization: f64) -> f64 {
    THINNEST + (WIDEST - THINNEST) * utilization.clamp(0.0, 1.0)
}

/// Both directions of all lines, the busiest on top.
pub(super) fn strokes(
    out: &mut String,
    picture: &Picture,
    scene: &Scene,
    courses: &[Course],
    loads: &Loads,
) {
    let mut directions: Vec<(&Load, usize, bool)> = Vec::new();
    for (index, [there, back]) in loads.lines.iter().enumerate() {
        directions.extend([(there, index, false), (back, index, true)]);
    }
    directions.retain(|it| it.0.links > 0);
    directions.sort_by(|a, b| {
        let key = |it: &(&Load, usize, bool)| (it.0.used > 0, it.0.most);
        let ((a_used, a_most), (b_used, b_most)) = (key(a), key(b));
        a_used.cmp(&b_used).then(a_most.total_cmp(&b_most))
    });
    let places = places(picture);
    for (load, index, back) in directions {
        let line = &picture.lines[index];
        let course = courses[index].clone();
        let course = if back { course.reversed() } else { course };
        let course = course.aside(places[index] * (WIDEST + GAP) * 2.0 + (WIDEST + GAP) / 2.0);
        let (from, to) = if back { (line.to, line.from) } else { (line.from, line.to) };
        let (a, b) = (&picture.items[from].label, &picture.items[to].label);
        let title = format!("{a} → {b}: {} {}, {}", line.class, load.bandwidth, load.words());
        let seen = |it: &f64| !hidden(picture, scene, course.at(*it).0);
        let place = ARROW.into_iter().find(seen).unwrap_or(ARROW[0]);
        stroke(out, &title, load, &course, place);
    }
}

/// Whether an item covers a point, or an arrow there.
fn hidden(picture: &Picture, scene: &Scene, (x, y): Point) -> bool {
    const ROOM: f64 = 8.0;
    let rows = matches!(scene.style, SceneStyle::Rows { .. });
    picture.items.iter().zip(&scene.at).any(|(item, at)| {
        let half = if rows { (box_width(&item.label) / 2.0, HALF_BOX) } else { (DOT, DOT) };
        (at.0 - x).abs() < half.0 + ROOM && (at.1 - y).abs() < half.1 + ROOM
    })
}

/// Lines of several classes between the same two items stand side by side: which place each has.
fn places(picture: &Picture) -> Vec<f64> {
    let pair = |it: &Stroke| (it.from.min(it.to), it.from.max(it.to));
    let mut places: Vec<f64> = Vec::with_capacity(picture.lines.len());
    // Lines come in the order of their items.
    for (index, line) in picture.lines.iter().enumerate() {
        let beside = index.checked_sub(1).filter(|it| pair(&picture.lines[*it]) == pair(line));
        places.push(beside.map_or(0.0, |it| places[it] + 1.0));
    }
    places
}

// Writing to a String cannot fail.
fn stroke(out: &mut String, title: &str, load: &Load, course: &Course, place: f64) {
    let (path, title) = (course.path(), escape(title));
    if load.used > 0 {
        let (paint, width) = (paint(load.most), width(load.most));
        let _ = write!(
            out,
            "<g {paint}><title>{title}</title>\
             <path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{width:.1}\"/>\
             <path d=\"{}\" fill=\"currentColor\"/>",
            arrow(course, place, width)
        );
    } else {
        let _ = write!(out, "<g><title>{title}</title><path d=\"{path}\" fill=\"none\" {IDLE}/>");
    }
    out.push_str("</g>\n");
}

/// A triangle on a stroke.
fn arrow(course: &Course, place: f64, width: f64) -> String {
    let ((x, y), (dx, dy)) = course.at(place);
    let (long, half) = (6.0 + width, 2.0 + width * 0.75);
    let corner = |along: f64, aside: f64| -> Point {
        (x + dx * along - dy * aside, y + dy * along + dx * aside)
    };
    let (tip, left, right) = (corner(long, 0.0), corner(0.0, -half), corner(0.0, half));
    format!("M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z", tip.0, tip.1, left.0, left.1, right.0, right.1)
}

/// What the legend says of the classes, a line each.
fn rows(loads: &Loads) -> Vec<String> {
    let class = |(class, load): (&crate::LinkClass, &Load)| format!("{class}: {}", load.words());
    loads.classes.iter().map(class).collect()
}

/// The room that the legend takes.
pub(super) fn legend_size(loads: &Loads) -> (f64, f64) {
    let rows = rows(loads);
    let longest = rows.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    ((longest as f64 * 6.0 + 32.0).max(BAR + 370.0), 44.0 + rows.len() as f64 * LEGEND_ROW)
}

pub(super) fn legend(out: &mut String, ink: &str, top: f64, loads: &Loads) {
    let (left, middle) = (100.0, top + 12.0);
    let _ =
        writeln!(out, "<path d=\"M16 {middle:.1}h26\" {IDLE} stroke-width=\"1\" fill=\"none\"/>");
    text(out, ink, (48.0, middle + 4.0), "", "idle");
    for step in 0..LEVELS {
        let (utilization, wide) = (middle_of(step), BAR / LEVELS as f64);
        let high = width(utilization) * 2.0;
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
             fill=\"currentColor\" {}/>",
            left + step as f64 * wide,
            middle - high / 2.0,
            paint(utilization)
        );
    }
    for (share, label) in [(0.0, "0%"), (0.5, "50%"), (1.0, "100%")] {
        let at = (left + BAR * share, middle + 18.0);
        text(out, ink, at, "text-anchor=\"middle\"", label);
    }
    let what = "of the time busy; arrows show the direction";
    text(out, ink, (left + BAR + 24.0, middle + 4.0), "", what);
    let several = loads.lines.iter().flatten().any(|it| it.links > 1);
    if several || loads.items.iter().any(|it| it.links > 0) {
        let what = "a line or box of several links has the colour of the busiest";
        text(out, ink, (left + BAR + 24.0, middle + 18.0), "", what);
    }
    for (index, row) in rows(loads).iter().enumerate() {
        text(out, ink, (16.0, top + 48.0 + index as f64 * LEGEND_ROW), "", row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of an sRGB colour, 0 to 1, by the formula of WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let it = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if it <= 0.040_45 { it / 12.92 } else { libm::pow((it + 0.055) / 1.055, 2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn busier_stands_out_more_and_is_wider() {
        let steps: Vec<f64> = (0..=20).map(|it| f64::from(it) / 20.0).collect();
        for pair in steps.windows(2) {
            assert!(luminance(&colour(pair[0])) > luminance(&colour(pair[1])), "{pair:?}");
            assert!(luminance(&mixed(&DARK, pair[0])) < luminance(&mixed(&DARK, pair[1])));
            assert!(width(pair[0]) < width(pair[1]));
        }
        assert_eq!((colour(0.0), colour(1.0)), ("#f6c25b".to_owned(), "#35105e".to_owned()));
        assert_eq!(colour(7.0), colour(1.0));
    }
}
