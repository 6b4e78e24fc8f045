//! The scene as SVG: frames, lines, items, then title and legend. Every item and line carries a
//! `<title>`, which viewers show when the mouse rests on it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Scene;
use super::layered::{ARCS, box_width};
use super::picture::{Picture, Stroke};
use crate::LinkClass;
use crate::formats::palette;
use crate::formats::xml::escape;

const HEAD: f64 = 54.0;
const LEGEND: f64 = 34.0;
const BOX: f64 = 26.0;
const DOT: f64 = 7.0;
/// Legible on white and on black.
const INK: &str = "#7a7a7a";

pub(super) fn svg(picture: &Picture, scene: &Scene) -> String {
    let wide = scene.width.max(420.0).ceil();
    let high = (scene.height + HEAD + LEGEND).ceil();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
         width=\"{wide}\" height=\"{high}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"11\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&picture.title));
    text(&mut out, (16.0, 24.0), "font-size=\"16\" font-weight=\"600\"", &picture.title);
    text(&mut out, (16.0, 42.0), "", &picture.subtitle);
    let _ = writeln!(out, "<g transform=\"translate(0 {HEAD})\">");
    for frame in &scene.frames {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" \
             fill=\"{INK}\" fill-opacity=\"0.08\" stroke=\"{INK}\" stroke-opacity=\"0.5\"/>",
            frame.x, frame.y, frame.width, frame.height
        );
        text(&mut out, (frame.x + 8.0, frame.y + 14.0), "", &frame.label);
    }
    // The wide below the narrow, so that none hides another.
    let mut lines: Vec<&Stroke> = picture.lines.iter().collect();
    lines.sort_by_key(|it| std::cmp::Reverse(it.bandwidth));
    for line in lines {
        stroke(&mut out, picture, scene, line);
    }
    items(&mut out, picture, scene);
    out.push_str("</g>\n");
    legend(&mut out, picture, high - LEGEND / 2.0 + 4.0);
    out.push_str("</svg>\n");
    out
}

// Writing to a String cannot fail.
fn text(out: &mut String, (x, y): (f64, f64), style: &str, content: &str) {
    let content = escape(content);
    let _ =
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{INK}\" {style}>{content}</text>");
}

fn stroke(out: &mut String, picture: &Picture, scene: &Scene, line: &Stroke) {
    let (from, to) = (scene.at[line.from], scene.at[line.to]);
    let style = palette::style(line.class);
    // A line within a row passes below or above it, deeper the further it goes.
    let flat = !scene.dots && (from.1 - to.1).abs() < 1.0;
    let path = if flat {
        let reach = (from.0 - to.0).abs();
        // A quadratic curve goes half as deep as its control point.
        let depth = (ARCS - 24.0) * (0.25 + 0.75 * reach / scene.reach.max(1.0));
        let bend = BOX / 2.0 + 2.0 * depth;
        let (x, y) = ((from.0 + to.0) / 2.0, from.1 + bend);
        format!("M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", from.0, from.1, to.0, to.1)
    } else {
        format!("M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1)
    };
    let _ = write!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"0.85\"",
        style.colour,
        palette::width(line.bandwidth)
    );
    if !style.dashes.is_empty() {
        let _ = write!(out, " stroke-dasharray=\"{}\"", style.dashes);
    }
    let (a, b) = (&picture.items[line.from].label, &picture.items[line.to].label);
    let arrow = if line.both_ways { "↔" } else { "→" };
    let title = escape(&format!("{a} {arrow} {b}: {}, {}", line.class, line.bandwidth));
    let _ = writeln!(out, "><title>{title}</title></path>");
}

fn items(out: &mut String, picture: &Picture, scene: &Scene) {
    let sides = if scene.dots { label_sides(picture, scene) } else { Vec::new() };
    for (index, item) in picture.items.iter().enumerate() {
        let (x, y) = scene.at[index];
        let fill = palette::fill(item.kind);
        let title = escape(&format!("{} ({})", item.label, item.kind));
        if scene.dots {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\" fill=\"{fill}\" \
                 stroke=\"#444444\"><title>{title}</title></circle>"
            );
            let (dx, dy, anchor) = sides[index];
            let style = format!("text-anchor=\"{anchor}\"");
            text(out, (x + dx, y + dy), &style, &item.label);
            continue;
        }
        let width = box_width(&item.label);
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BOX}\" rx=\"5\" \
             fill=\"{fill}\" stroke=\"#444444\" stroke-width=\"0.8\"><title>{title}</title></rect>",
            x - width / 2.0,
            y - BOX / 2.0
        );
        let label = escape(&shorten(&item.label));
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#1a1a1a\" text-anchor=\"middle\">{label}</text>",
            y + 4.0
        );
    }
}

/// A label that fits the widest box; its item's `<title>` has the whole.
fn shorten(label: &str) -> String {
    if label.chars().count() <= 20 {
        return label.to_owned();
    }
    let end: Vec<char> = label.chars().rev().take(16).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// Where a label goes relative to its dot: offset and text anchor.
type Side = (f64, f64, &'static str);

/// For each dot the first side on which its label covers no other dot and no earlier label.
fn label_sides(picture: &Picture, scene: &Scene) -> Vec<Side> {
    const SIDES: [Side; 4] = [
        (DOT + 4.0, 4.0, "start"),
        (-DOT - 4.0, 4.0, "end"),
        (0.0, -DOT - 5.0, "middle"),
        (0.0, DOT + 14.0, "middle"),
    ];
    let mut taken: Vec<[f64; 4]> =
        scene.at.iter().map(|(x, y)| [x - DOT, y - DOT, x + DOT, y + DOT]).collect();
    let mut sides = Vec::with_capacity(picture.items.len());
    for (item, (x, y)) in picture.items.iter().zip(&scene.at) {
        let width = item.label.chars().count() as f64 * 6.0;
        let area = |(dx, dy, anchor): Side| {
            let left = match anchor {
                "start" => x + dx,
                "end" => x + dx - width,
                _ => x - width / 2.0,
            };
            [left, y + dy - 10.0, left + width, y + dy + 2.0]
        };
        let free = |side: &&Side| {
            let [l, t, r, b] = area(**side);
            l > 0.0 && !taken.iter().any(|it| l < it[2] && it[0] < r && t < it[3] && it[1] < b)
        };
        let side = SIDES.iter().find(free).copied().unwrap_or(SIDES[0]);
        taken.push(area(side));
        sides.push(side);
    }
    sides
}

fn legend(out: &mut String, picture: &Picture, y: f64) {
    let mut classes: BTreeMap<LinkClass, (u64, u64)> = BTreeMap::new();
    for line in &picture.lines {
        let bits = line.bandwidth.bits_per_s();
        let range = classes.entry(line.class).or_insert((bits, bits));
        *range = (range.0.min(bits), range.1.max(bits));
    }
    let mut x = 16.0;
    for (class, (low, high)) in classes {
        let style = palette::style(class);
        let rate = |bits| motet_units::Bandwidth::from_bits_per_s(bits);
        let label = if low == high {
            format!("{class} {}", short(rate(low)))
        } else {
            format!("{class} {} to {}", short(rate(low)), short(rate(high)))
        };
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}h26\" stroke=\"{}\" stroke-width=\"{}\" \
             stroke-dasharray=\"{}\"/>",
            y - 4.0,
            style.colour,
            palette::width(rate(high)),
            if style.dashes.is_empty() { "none" } else { style.dashes }
        );
        text(out, (x + 32.0, y), "", &label);
        x += 32.0 + label.chars().count() as f64 * 6.2 + 22.0;
    }
}

/// Three digits are enough to read.
fn short(rate: motet_units::Bandwidth) -> String {
    let gb = rate.as_gb_per_s_f64();
    if gb >= 100.0 {
        format!("{gb:.0} GB/s")
    } else if gb >= 1.0 {
        format!("{gb:.1} GB/s")
    } else {
        format!("{:.0} Mbit/s", gb * 8e3)
    }
}
