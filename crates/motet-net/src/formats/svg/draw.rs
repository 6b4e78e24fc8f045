//! The scene as SVG: frames, lines, items, then title and legend. Every item and line carries a
//! `<title>`, which viewers show when the mouse rests on it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::course::{Course, HALF_BOX, courses};
use super::layered::box_width;
use super::load::Loads;
use super::picture::{Item, Picture, Stroke};
use super::{Scene, SceneStyle, heat, labels};
use crate::LinkClass;
use crate::formats::palette;
use crate::formats::xml::escape;

const HEAD: f64 = 54.0;
const LEGEND: f64 = 34.0;
pub(super) const DOT: f64 = 7.0;
/// Legible on white and on black.
const INK: &str = "#7a7a7a";
/// Where the reader's colour scheme is known, text has more contrast than one ink for both can have.
const SCHEMES: &str = "<style>\
    @media(prefers-color-scheme:light){text[fill=\"#7a7a7a\"]{fill:#4a4a4a}}\
    @media(prefers-color-scheme:dark){text[fill=\"#7a7a7a\"]{fill:#c4c4c4}}\
    </style>\n";
/// Legible on the light ground that pictures of traffic bring along, because a scale of colours needs
/// one; where the reader's colour scheme is dark, [`heat::scheme`] changes both.
const DARK_INK: &str = "#4a4a4a";

pub(super) fn svg(picture: &Picture, scene: &Scene, loads: Option<&Loads>) -> String {
    let ink = if loads.is_some() { DARK_INK } else { INK };
    let heads = head(picture, loads);
    let top = HEAD + heads.len().saturating_sub(1) as f64 * 16.0;
    let (legend_wide, legend_high) = loads.map_or((0.0, LEGEND), heat::legend_size);
    let longest = heads.iter().map(|it| it.chars().count()).max().unwrap_or(0) as f64;
    let title = picture.title.chars().count() as f64;
    let text_wide = (longest * 6.2 + 32.0).max(title * 9.6 + 32.0).max(legend_wide);
    let wide = scene.width.max(420.0).max(text_wide.min(1200.0)).ceil();
    let high = (scene.height + top + legend_high).ceil();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
         width=\"{wide}\" height=\"{high}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"11\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&picture.title));
    if loads.is_some() {
        out.push_str(&heat::scheme(ink));
        let _ = writeln!(
            out,
            "<rect class=\"ground\" width=\"{wide}\" height=\"{high}\" fill=\"#ffffff\"/>"
        );
    } else {
        out.push_str(SCHEMES);
    }
    let bold = "font-size=\"16\" font-weight=\"600\"";
    text(&mut out, ink, (16.0, 24.0), bold, &picture.title);
    for (index, line) in heads.iter().enumerate() {
        text(&mut out, ink, (16.0, 42.0 + index as f64 * 16.0), "", line);
    }
    let _ = writeln!(out, "<g transform=\"translate(0 {top})\">");
    frames(&mut out, scene);
    let courses = courses(picture, scene);
    match loads {
        Some(loads) => heat::strokes(&mut out, picture, scene, &courses, loads),
        None => lines(&mut out, picture, &courses),
    }
    // Above the lines, which may cross them.
    for frame in &scene.frames {
        text(&mut out, ink, (frame.x + 8.0, frame.y + 14.0), "", &frame.label);
    }
    items(&mut out, ink, (picture, scene, &courses), loads);
    out.push_str("</g>\n");
    match loads {
        Some(loads) => heat::legend(&mut out, ink, high - legend_high, loads),
        None => legend(&mut out, ink, picture, high - LEGEND / 2.0 + 4.0),
    }
    out.push_str("</svg>\n");
    out
}

/// The lines below the title.
fn head<'a>(picture: &'a Picture, loads: Option<&'a Loads>) -> Vec<&'a str> {
    let caption = loads.map(|it| it.caption.as_str()).filter(|it| !it.is_empty());
    caption.into_iter().chain([picture.subtitle.as_str()]).collect()
}

// Writing to a String cannot fail.
pub(super) fn text(out: &mut String, ink: &str, (x, y): (f64, f64), style: &str, content: &str) {
    let content = escape(content);
    let _ =
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{ink}\" {style}>{content}</text>");
}

fn frames(out: &mut String, scene: &Scene) {
    for frame in &scene.frames {
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" \
             fill=\"{INK}\" fill-opacity=\"0.08\" stroke=\"{INK}\" stroke-opacity=\"0.5\"/>",
            frame.x, frame.y, frame.width, frame.height
        );
    }
}

/// Lines in the colours of their classes.
fn lines(out: &mut String, picture: &Picture, courses: &[Course]) {
    // The wide below the narrow, so that none hides another.
    let mut lines: Vec<(&Stroke, &Course)> = picture.lines.iter().zip(courses).collect();
    lines.sort_by_key(|it| std::cmp::Reverse(it.0.bandwidth));
    for (line, course) in lines {
        let style = palette::style(line.class);
        let _ = write!(
            out,
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
             stroke-opacity=\"0.85\"",
            course.path(),
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
}

fn items(
    out: &mut String,
    ink: &str,
    (picture, scene, courses): (&Picture, &Scene, &[Course]),
    loads: Option<&Loads>,
) {
    let sides = labels::sides(picture, scene, courses);
    for (index, item) in picture.items.iter().enumerate() {
        let (x, y) = scene.at[index];
        let (outline, title) = outline(item, index, loads);
        let look =
            format!("fill=\"{}\" {outline}><title>{title}</title>", palette::fill(item.kind));
        if !matches!(scene.style, SceneStyle::Rows { .. }) {
            let _ =
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\" {look}</circle>");
            let (dx, dy, anchor) = sides[index];
            let style = format!("text-anchor=\"{anchor}\"");
            text(out, ink, (x + dx, y + dy), &style, &item.label);
            continue;
        }
        let width = box_width(&item.label);
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" rx=\"5\" {look}</rect>",
            x - width / 2.0,
            y - HALF_BOX,
            HALF_BOX * 2.0
        );
        text(out, "#1a1a1a", (x, y + 4.0), "text-anchor=\"middle\"", &shorten(&item.label));
    }
}

/// The border of an item and its `<title>`. What gathers links within shows their heat.
fn outline(item: &Item, index: usize, loads: Option<&Loads>) -> (String, String) {
    let title = escape(&format!("{} ({})", item.label, item.kind));
    let inside = loads.map(|it| it.items[index]).filter(|it| it.links > 0);
    let Some(load) = inside else {
        return ("stroke=\"#444444\" stroke-width=\"0.8\"".to_owned(), title);
    };
    let width = heat::width(load.most);
    let colour = match load.used {
        0 => "stroke=\"#444444\"".to_owned(),
        _ => format!("stroke=\"currentColor\" {}", heat::paint(load.most)),
    };
    let words = escape(&load.words());
    (format!("{colour} stroke-width=\"{width:.1}\""), format!("{title}; inside: {words}"))
}

/// A label that fits the widest box; its item's `<title>` has the whole.
fn shorten(label: &str) -> String {
    if label.chars().count() <= 20 {
        return label.to_owned();
    }
    let end: Vec<char> = label.chars().rev().take(16).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

fn legend(out: &mut String, ink: &str, picture: &Picture, y: f64) {
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
        text(out, ink, (x + 32.0, y), "", &label);
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
