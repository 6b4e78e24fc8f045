//! [`Plot`]: lines over two axes as an SVG, enough for a report: ticks, a legend, tooltips.
//!
//! Colours are Okabe and Ito's, which people with any colour vision tell apart; lines also differ
//! in their dashes. [`STYLE`] gives every colour a second value for readers whose screen is dark.

use std::fmt::Write as _;

pub(crate) use motet_net::formats::xml::escape as escaped;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;

/// Classes of lines and areas; [`STYLE`] has their colours.
const COLOURS: usize = 8;

/// The style sheet of every picture: `g` the ground, `i` ink, `t` text, `f` faint lines, `cN` the
/// N-th colour of a line and `aN` that of an area.
pub(crate) const STYLE: &str = "<style>\
.g{fill:#fff}.t,text{fill:#000}.i{stroke:#000}.f{stroke:#ddd}\
.c0{stroke:#000}.c1{stroke:#e69f00}.c2{stroke:#56b4e9}.c3{stroke:#009e73}\
.c4{stroke:#d55e00}.c5{stroke:#0072b2}.c6{stroke:#cc79a7}.c7{stroke:#999933}\
.a0{fill:#000}.a4{fill:#d55e00}.a5{fill:#0072b2}.over{fill:#fff}\
@media(prefers-color-scheme:dark){\
.g{fill:#16181d}.t,text{fill:#e6e6e6}.i{stroke:#e6e6e6}.f{stroke:#3a3f47}\
.c0{stroke:#e6e6e6}.c1{stroke:#ffb733}.c2{stroke:#7cc7f2}.c3{stroke:#2fc79a}\
.c4{stroke:#ff8a3d}.c5{stroke:#4aa3e0}.c6{stroke:#e39cc4}.c7{stroke:#c7c75c}\
.a0{fill:#e6e6e6}.a4{fill:#ff8a3d}.a5{fill:#4aa3e0}.over{fill:#16181d}}\
</style>\n";
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
             font-family=\"sans-serif\" font-size=\"12\">\n{STYLE}\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" class=\"g\"/>\n"
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
                "<path d=\"M{LEFT} {at:.1}H{right}\" class=\"f\"/>\
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
                "<path d=\"M{at:.1} {bottom}v5\" class=\"i\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                number(unscaled(tick))
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" class=\"i\"/>\n\
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
    let colour = number % COLOURS;
    let dash = DASHES[number % DASHES.len()];
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let (x, y) = place(*point);
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    let name = escaped(&line.name);
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" class=\"c{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dash}\"><title>{name}</title></path>"
    );
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 12.0 + 20.0 * number as f64);
    let _ = writeln!(
        out,
        "<path d=\"M{x} {y}h26\" class=\"c{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\
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
