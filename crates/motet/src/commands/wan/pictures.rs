//! What `motet wan` draws: how completion times are distributed, what changed when, and which link
//! was the bottleneck how often.

use std::fmt::Write as _;

use motet_units::Duration;
use motet_wan::account::What;

use super::tables::ends;
use super::{Outcome, Ran};
use crate::plot::{Line, Plot, STYLE, escaped};

/// Points of a line.
const POINTS: usize = 200;

/// The share of collectives done within a time, for every mode.
pub(crate) fn distribution(title: &str, accounts: &[Outcome]) -> Plot {
    let line = |(mode, account): &Outcome| {
        let mut sorted = account.times.clone();
        sorted.sort_unstable();
        let point = |it: usize| {
            let at = it * sorted.len().saturating_sub(1) / POINTS;
            let time = sorted.get(at).copied().unwrap_or(Duration::ZERO);
            (time.as_us_f64() / 1e3, it as f64 / POINTS as f64)
        };
        Line { name: mode.name().to_owned(), points: (0..=POINTS).map(point).collect() }
    };
    Plot {
        title: title.to_owned(),
        x: "milliseconds".to_owned(),
        y: "share of collectives".to_owned(),
        log_x: true,
        lines: accounts.iter().map(line).collect(),
    }
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
/// Of the panel of the bandwidth, and of each row below it.
const PANEL: f64 = 140.0;
const ROW: f64 = 26.0;
const TOP: f64 = 48.0;
const GAP: f64 = 34.0;

/// Routes, programs and stalls, each with its class in [`STYLE`].
const KINDS: [(&str, &str); 3] =
    [("routes change", "a5"), ("program changes", "a4"), ("waits", "a0")];

/// What happened in one stretch of collectives.
#[derive(Clone, Copy, Default)]
struct Stretch {
    counts: [u32; 3],
    bandwidth: f64,
    samples: u32,
}

fn head(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n{STYLE}\
         <rect width=\"{width}\" height=\"{height}\" class=\"g\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title)
    )
}

impl Ran<'_> {
    /// The events of a mode, stretch by stretch; as many stretches as can be told apart.
    fn stretches(&self, account: &motet_wan::Account) -> Vec<Stretch> {
        let count = self.scenario.count.max(1);
        let most = POINTS as u32 * 2;
        let mut stretches = vec![Stretch::default(); count.min(most) as usize];
        let all = stretches.len() as u64;
        for event in &account.events {
            let at = (u64::from(event.index) * all / u64::from(count)).min(all - 1);
            let stretch = &mut stretches[at as usize];
            match &event.what {
                What::Routes { .. } => stretch.counts[0] += 1,
                What::Program { .. } => stretch.counts[1] += 1,
                What::Stalled { .. } => stretch.counts[2] += 1,
                What::Bandwidth { wan } => {
                    stretch.bandwidth += wan.as_gb_per_s_f64();
                    stretch.samples += 1;
                }
            }
        }
        stretches
    }

    /// WAN bandwidth above, and below it, mode by mode, how often routes and programs changed.
    pub(super) fn timeline_picture(&self) -> String {
        let rows = self.accounts.len() as f64;
        let height = TOP + PANEL + GAP + rows * ROW + 56.0;
        let title = format!("{}: bandwidth, routes and programs", self.scenario.name);
        let mut out = head(WIDTH, height, &title);
        self.draw_bandwidth(&mut out);
        let top = TOP + PANEL + GAP;
        for (row, (mode, account)) in self.accounts.iter().enumerate() {
            let y = top + row as f64 * ROW;
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <path d=\"M{LEFT} {:.1}H{}\" class=\"f\"/>",
                LEFT - 8.0,
                y + 15.0,
                mode.name(),
                y + ROW - 2.0,
                WIDTH - RIGHT
            );
            draw_changes(&mut out, &self.stretches(account), y, self.scenario.count);
        }
        let foot = top + rows * ROW;
        self.draw_numbers(&mut out, foot);
        for (number, (name, colour)) in KINDS.iter().enumerate() {
            let x = LEFT + 170.0 * number as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"12\" height=\"10\" class=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{:.1}\">{name}</text>",
                foot + 34.0,
                x + 18.0,
                foot + 43.0
            );
        }
        out.push_str("</svg>\n");
        out
    }

    /// What the WAN's links carry together.
    fn draw_bandwidth(&self, out: &mut String) {
        let Some(base) = self.base() else { return };
        let stretches = self.stretches(base);
        let mut last = 0.0;
        let mut level = |it: &Stretch| {
            if it.samples > 0 {
                last = it.bandwidth / f64::from(it.samples);
            }
            last
        };
        let levels: Vec<f64> = stretches.iter().map(&mut level).collect();
        let most = levels.iter().copied().fold(f64::MIN_POSITIVE, f64::max) * 1.05;
        let (bottom, wide) = (TOP + PANEL, WIDTH - LEFT - RIGHT);
        let mut path = String::new();
        for (number, level) in levels.iter().enumerate() {
            let x = |it: usize| LEFT + wide * it as f64 / levels.len() as f64;
            let y = bottom - PANEL * level / most;
            let word = if number == 0 { "M" } else { "L" };
            let _ = write!(path, "{word}{:.1} {y:.1}H{:.1}", x(number), x(number + 1));
        }
        for part in [0.0, 0.5, 1.0] {
            let (y, value) = (bottom - PANEL * part, most * part);
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{}\" class=\"f\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.1}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{:.1}\">all WAN links, GB/s</text>\
             <path d=\"{path}\" fill=\"none\" class=\"c3\" stroke-width=\"1.5\"/>",
            TOP + PANEL / 2.0
        );
    }

    /// The horizontal axis: collectives.
    fn draw_numbers(&self, out: &mut String, y: f64) {
        for quarter in 0..=4u64 {
            let x = LEFT + (WIDTH - LEFT - RIGHT) * quarter as f64 / 4.0;
            let number = u64::from(self.scenario.count) * quarter / 4;
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{number}</text>",
                y + 16.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">collective</text>",
            LEFT - 8.0,
            y + 16.0
        );
    }

    /// Which link was busy longest how often, mode by mode.
    pub(super) fn bottleneck_picture(&self) -> String {
        const LINKS: usize = 24;
        const NAMES: f64 = 300.0;
        const CELL: f64 = 118.0;
        let network = self.scenario.network;
        let count = |link: motet_units::LinkId| -> u64 {
            self.accounts.iter().map(|it| u64::from(it.1.bottleneck[link.index()])).sum()
        };
        let mut links: Vec<_> = network.link_ids().filter(|it| count(*it) > 0).collect();
        links.sort_by_key(|it| (std::cmp::Reverse(count(*it)), *it));
        let left_out = links.len().saturating_sub(LINKS);
        links.truncate(LINKS);
        let width = NAMES + CELL * self.accounts.len() as f64 + 16.0;
        let height = 80.0 + 22.0 * links.len() as f64 + 24.0;
        let title = format!("{}: how often each link was busy longest", self.scenario.name);
        let mut out = head(width, height, &title);
        for (column, (mode, account)) in self.accounts.iter().enumerate() {
            let x = NAMES + CELL * column as f64;
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"62\" text-anchor=\"middle\">{}</text>",
                x + CELL / 2.0,
                mode.name()
            );
            for (row, link) in links.iter().enumerate() {
                let all = account.times.len().max(1) as f64;
                let share = f64::from(account.bottleneck[link.index()]) / all;
                let y = 72.0 + 22.0 * row as f64;
                let ink = if share > 0.55 { "over" } else { "t" };
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"20\" class=\"a5\" \
                     fill-opacity=\"{share:.3}\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"{ink}\" \
                     text-anchor=\"middle\">{:.1}%</text>",
                    CELL - 2.0,
                    x + CELL / 2.0,
                    y + 14.0,
                    share * 100.0
                );
            }
        }
        for (row, link) in links.iter().enumerate() {
            let (from, to) = ends(network, *link);
            let class = network.link(*link).spec.class;
            let name = escaped(&format!("{from} -> {to} ({class})"));
            let y = 86.0 + 22.0 * row as f64;
            let _ = writeln!(out, "<text x=\"16\" y=\"{y:.1}\">{name}</text>");
        }
        if left_out > 0 {
            let y = height - 8.0;
            let _ = writeln!(out, "<text x=\"16\" y=\"{y:.1}\">and {left_out} more</text>");
        }
        out.push_str("</svg>\n");
        out
    }
}

/// A row of the timeline: how many of a stretch's collectives found something changed.
fn draw_changes(out: &mut String, stretches: &[Stretch], y: f64, count: u32) {
    let wide = (WIDTH - LEFT - RIGHT) / stretches.len() as f64;
    let collectives = f64::from(count) / stretches.len() as f64;
    let height = (ROW - 6.0) / KINDS.len() as f64;
    for (number, stretch) in stretches.iter().enumerate() {
        for (kind, (_, colour)) in KINDS.iter().enumerate() {
            if stretch.counts[kind] == 0 {
                continue;
            }
            // What happens at all is to be seen.
            let share = (f64::from(stretch.counts[kind]) / collectives).clamp(0.35, 1.0);
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{height:.1}\" \
                 class=\"{colour}\" fill-opacity=\"{share:.2}\"/>",
                LEFT + wide * number as f64,
                y + 2.0 + height * kind as f64,
                wide.max(1.0)
            );
        }
    }
}
