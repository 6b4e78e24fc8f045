//! [`Plot`]: lines over two axes as an SVG, enough for a report: ticks, a legend, tooltips.
//!
//! Colours are Okabe and Ito's, which people with any colour vision tell apart; lines also differ
//! in their dashes.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;

const COLOURS: [&str; 8] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#0072b2", "#cc79a7", "#999933"];
const DASHES: [&str; 4] = ["", "6 3", "2 2", "8 3 2 3"];

/// A line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines over two axes, with their title and labels.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) log_x: bool,
    pub(crate) lines: Vec<Line>,
}

impl Plot {
    /// The picture. The vertical axis begins at zero, the horizontal one at the smallest value.
    pub(crate) fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|it| &it.points).copied();
        let span = |values: &mut dyn Iterator<Item = f64>| {
            let (low, high) = values
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)));
            if low.is_finite() {
                (low, if high > low { high } else { low + 1.0 })
            } else {
                (0.0, 1.0)
            }
        };
        let x = span(&mut all().map(|it| self.scaled(it.0)));
        let (_, top) = span(&mut all().map(|it| it.1));
        // From zero, so that heights can be compared.
        let y = (0.0, top.max(f64::MIN_POSITIVE) * 1.05);
        let place = |(a, b): (f64, f64)| {
            let across = (self.scaled(a) - x.0) / (x.1 - x.0) * (WIDTH - LEFT - RIGHT);
            let up = (b - y.0) / (y.1 - y.0) * (HEIGHT - TOP - BOTTOM);
            (LEFT + across, HEIGHT - BOTTOM - up)
        };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
            escaped(&self.title)
        );
        self.axes(&mut out, x, y, &place);
        for (number, line) in self.lines.iter().enumerate() {
            draw(&mut out, number, line, &place);
        }
        out.push_str("</svg>\n");
        out
    }

    /// A horizontal value as the axis measures it.
    fn scaled(&self, x: f64) -> f64 {
        if self.log_x { x.max(f64::MIN_POSITIVE).log10() } else { x }
    }

    fn axes(
        &self,
        out: &mut String,
        x: (f64, f64),
        y: (f64, f64),
        place: &dyn Fn((f64, f64)) -> (f64, f64),
    ) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let unscaled = |it: f64| if self.log_x { 10f64.powf(it) } else { it };
        for tick in ticks(y.0, y.1) {
            let at = place((unscaled(x.0), tick)).1;
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        let along = if self.log_x { powers(x.0, x.1) } else { ticks(x.0, x.1) };
        for tick in along {
            let at = place((unscaled(tick), y.0)).0;
            let _ = writeln!(
                out,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#000\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                number(unscaled(tick))
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#000\"/>\n\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 18.0,
            escaped(&self.x),
            (TOP + bottom) / 2.0,
            escaped(&self.y)
        );
    }
}

fn draw(out: &mut String, number: usize, line: &Line, place: &dyn Fn((f64, f64)) -> (f64, f64)) {
    let colour = COLOURS[number % COLOURS.len()];
    let dash = DASHES[number % DASHES.len()];
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let (x, y) = place(*point);
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    let name = escaped(&line.name);
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dash}\"><title>{name}</title></path>"
    );
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 12.0 + 20.0 * number as f64);
    let _ = writeln!(
        out,
        "<path d=\"M{x} {y}h26\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\
         <text x=\"{}\" y=\"{}\">{name}</text>",
        x + 32.0,
        y + 4.0
    );
}

/// Five or so round numbers from `low` to `high`.
pub(crate) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|it| it * power).find(|it| *it >= rough);
    let step = step.unwrap_or(rough);
    let mut at = (low / step).ceil() * step;
    let mut found = Vec::new();
    while at <= high + step * 1e-9 && found.len() < 20 {
        found.push(at);
        at += step;
    }
    found
}

/// The logarithms of round numbers from `low` to `high`: of powers of ten over many decades, of 1,
/// 2 and 5 times them over a few, of evenly spread ones within one.
pub(crate) fn powers(low: f64, high: f64) -> Vec<f64> {
    if high - low < 1.0 {
        return ticks(10f64.powf(low), 10f64.powf(high)).into_iter().map(f64::log10).collect();
    }
    let steps: &[f64] = if high - low > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = (low.floor() as i32)..=(high.floor() as i32).min(low.floor() as i32 + 40);
    let all = decades.flat_map(|ten| steps.iter().map(move |it| f64::from(ten) + it.log10()));
    all.filter(|it| (low - 1e-9..=high + 1e-9).contains(it)).collect()
}

pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if (0.01..100_000.0).contains(&size) {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.1e}")
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.3, 1.0).len(), 4);
    }

    #[test]
    fn logarithmic_ticks_are_round_numbers() {
        let numbers = |low: f64, high: f64| -> Vec<String> {
            powers(low.log10(), high.log10()).iter().map(|it| number(10f64.powf(*it))).collect()
        };
        assert_eq!(numbers(3.0, 60.0), ["5", "10", "20", "50"]);
        assert_eq!(
            numbers(10.0, 10_000.0),
            ["10", "20", "50", "100", "200", "500", "1000", "2000", "5000", "10000"]
        );
        assert_eq!(numbers(1.0, 50_000.0), ["1", "10", "100", "1000", "10000"]);
        assert_eq!(numbers(90.0, 240.0), ["100", "150", "200"]);
    }

    #[test]
    fn a_plot_is_well_formed_whatever_it_is_given() {
        for points in [vec![], vec![(1.0, 1.0)], vec![(1.0, 0.0), (1e6, 5e9)]] {
            let line = Line { name: "a < b".to_owned(), points };
            let plot = Plot {
                title: "t & t".to_owned(),
                x: "x".to_owned(),
                y: "y".to_owned(),
                log_x: true,
                lines: vec![line],
            };
            let svg = plot.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("a &lt; b") && svg.contains("t &amp; t"));
        }
    }
}
