//! [`Chart`]: lines over sizes as one inline SVG, its colours left to the page's style.
//!
//! Unlike a [`Plot`](crate::plot::Plot) it is no file of its own: it follows the reader's colour
//! scheme, has gaps where a line has no value, and tells the page's script where sizes stand.

use std::fmt::Write as _;

use super::axis::{Mark, Sizes, Values, time};
use crate::plot::{escaped, number};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 44.0;

/// What is over size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// In microseconds, logarithmic.
    Time,
    /// In GB/s, with bus bandwidth, so many times algorithm bandwidth, on the right.
    Bandwidth { bus: f64 },
    /// How many times as fast.
    Gain,
}

/// A line: a value for every size that has one.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// Its class in the page's style.
    pub(super) class: &'static str,
    pub(super) values: Vec<Option<f64>>,
    /// The sizes to mark with a dot.
    pub(super) dots: Vec<bool>,
}

pub(super) struct Chart<'a> {
    /// Unique in the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) sizes: &'a [u64],
    pub(super) scale: Scale,
    pub(super) curves: Vec<Curve>,
}

fn across(part: f64) -> f64 {
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

fn up(part: f64) -> f64 {
    HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
}

impl Chart<'_> {
    pub(super) fn svg(&self) -> String {
        let sizes = Sizes::new(self.sizes);
        let xs: Vec<f64> = self.sizes.iter().map(|it| across(sizes.at(*it))).collect();
        let values = || self.curves.iter().flat_map(|it| &it.values).filter_map(|it| *it);
        let axis = match self.scale {
            Scale::Time => Values::logarithmic(values()),
            Scale::Bandwidth { .. } | Scale::Gain => Values::from_zero(values()),
        };
        let places: Vec<String> = xs.iter().map(|it| format!("{it:.1}")).collect();
        let id = &self.id;
        let bottom = HEIGHT - BOTTOM;
        let mut out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" tabindex=\"0\" \
             aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-about\" data-x=\"{}\" \
             data-top=\"{TOP}\" data-bottom=\"{bottom}\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-about\">{}</desc>\n",
            places.join(" "),
            escaped(&self.title),
            escaped(&self.about)
        );
        self.frame(&mut out, &sizes.marks(), &axis);
        for curve in &self.curves {
            curve.draw(&mut out, &xs, &axis);
        }
        // Where the script shows the size that it speaks of.
        out.push_str("<path class=\"guide\"/>\n</svg>\n");
        out
    }

    /// Everything but the lines.
    fn frame(&self, out: &mut String, sizes: &[Mark], axis: &Values) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let (left_marks, left_name) = match self.scale {
            Scale::Time => (axis.marks(1.0, time), "time"),
            Scale::Bandwidth { .. } => (axis.marks(1.0, number), "algbw, GB/s"),
            Scale::Gain => (axis.marks(1.0, number), "times as fast"),
        };
        for (at, text) in left_marks {
            let y = up(at);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        if let Scale::Bandwidth { bus } = self.scale {
            for (at, text) in axis.marks(bus, number) {
                let y = up(at);
                let _ = writeln!(
                    out,
                    "<path class=\"axis\" d=\"M{right} {y:.1}h4\"/>\
                     <text x=\"{}\" y=\"{:.1}\">{text}</text>",
                    right + 7.0,
                    y + 4.0
                );
            }
            let _ = writeln!(
                out,
                "<path class=\"axis\" d=\"M{right} {TOP}V{bottom}\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">busbw, GB/s</text>",
                WIDTH - 2.0,
                TOP - 10.0
            );
        }
        for (at, text) in sizes {
            let x = across(*at);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>\
                 <path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                bottom + 18.0
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n\
             <text x=\"2\" y=\"{}\">{left_name}</text>\n\
             <text class=\"title\" x=\"2\" y=\"14\">{}</text>\n\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">size</text>",
            TOP - 10.0,
            escaped(&self.title),
            (LEFT + right) / 2.0,
            HEIGHT - 8.0
        );
    }
}

impl Curve {
    fn draw(&self, out: &mut String, xs: &[f64], axis: &Values) {
        let points = xs.iter().zip(&self.values);
        let points: Vec<Option<(f64, f64)>> =
            points.map(|(x, value)| Some((*x, up(axis.at((*value)?))))).collect();
        let mut path = String::new();
        let mut open = false;
        for point in &points {
            if let Some((x, y)) = point {
                // A point alone is a line of no length, which its round ends make a dot.
                let _ = match open {
                    true => write!(path, "L{x:.1} {y:.1}"),
                    false => write!(path, "M{x:.1} {y:.1}h0"),
                };
            }
            open = point.is_some();
        }
        if path.is_empty() {
            return;
        }
        let (name, class) = (escaped(self.name), self.class);
        let _ =
            writeln!(out, "<path class=\"line {class}\" d=\"{path}\"><title>{name}</title></path>");
        for (point, dot) in points.iter().zip(&self.dots) {
            if let (Some((x, y)), true) = (point, dot) {
                let _ =
                    writeln!(out, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: Vec<Option<f64>>, scale: Scale) -> String {
        let sizes: Vec<u64> = (0..values.len()).map(|it| 1024 << it).collect();
        let dots = vec![true; values.len()];
        let curve = Curve { name: "a < b", class: "plan", values, dots };
        let (title, about) = ("t & t".to_owned(), "about".to_owned());
        Chart { id: "x".to_owned(), title, about, sizes: &sizes, scale, curves: vec![curve] }.svg()
    }

    #[test]
    fn a_chart_is_well_formed_whatever_it_is_given() {
        let all: [Vec<Option<f64>>; 5] = [
            vec![],
            vec![None],
            vec![Some(1.0)],
            vec![Some(0.0), Some(0.0)],
            vec![Some(1e-3), None, Some(5e9)],
        ];
        for values in all {
            for scale in [Scale::Time, Scale::Bandwidth { bus: 1.75 }, Scale::Gain] {
                let svg = chart(values.clone(), scale);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("t &amp; t"));
            }
        }
    }

    #[test]
    fn a_line_has_gaps_where_it_has_no_value() {
        let svg = chart(vec![Some(1.0), None, Some(2.0), Some(3.0)], Scale::Gain);
        let line = svg.lines().find(|it| it.contains("class=\"line plan\"")).unwrap_or_default();
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
        assert!(line.contains("a &lt; b"));
    }
}
