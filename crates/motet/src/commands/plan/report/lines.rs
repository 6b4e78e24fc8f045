//! The charts of a collective: what is drawn on them, their legend, and what the script says of a size.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_tune::plan::{Pick, TunedTask, algbw};
use motet_units::Duration;
use serde::Serialize;

use super::axis::time;
use super::chart::{Chart, Curve, Scale};
use crate::commands::plan::show::setting;
use crate::plot::escaped;

/// A time in picoseconds, and the pick that takes it unless it is the bound.
type Timed<'a> = (u64, Option<&'a Pick>);

/// A line of the charts: a time for each task that has one.
pub(super) struct Line {
    name: &'static str,
    class: &'static str,
    /// What the legend adds.
    note: &'static str,
    of: fn(&TunedTask) -> Option<Timed<'_>>,
}

fn timed(pick: Option<&Pick>) -> Option<Timed<'_>> {
    pick.map(|it| (it.time_ps, pick))
}

const PLAN: &str = "plan";
const DOTS: &str = " (dots: a program)";

/// The plan is broad and below the others, so that it shows where it is one of them.
pub(super) const COMPARED: [Line; 6] = [
    Line { name: "plan", class: PLAN, note: DOTS, of: |it| timed(Some(&it.pick)) },
    Line { name: "bound", class: "bound", note: "", of: |it| Some((it.bound_ps, None)) },
    Line {
        name: "NCCL at its best setting",
        class: "best",
        note: "",
        of: |it| timed(it.nccl_best.as_ref()),
    },
    Line { name: "NCCL by itself", class: "own", note: "", of: |it| timed(it.nccl.as_ref()) },
    Line { name: "MSCCL's default", class: "msccl", note: "", of: |it| timed(it.msccl.as_ref()) },
    Line {
        name: "MSCCL++ pick",
        class: "plus",
        note: " (where there is one)",
        of: |it| timed(it.mscclpp.as_ref()),
    },
];

/// What tuning each part alone gains.
pub(super) const PARTS: [Line; 3] = [
    Line {
        name: "program and setting",
        class: PLAN,
        note: DOTS,
        of: |it| timed(it.program.as_ref()),
    },
    Line { name: "program only", class: "best", note: "", of: |it| timed(it.sketch_only.as_ref()) },
    Line { name: "setting only", class: "own", note: "", of: |it| timed(it.knobs_only.as_ref()) },
];

/// What the script says of every size.
#[derive(Serialize)]
struct Data {
    sizes: Vec<String>,
    lines: Vec<DataLine>,
}

#[derive(Serialize)]
struct DataLine {
    name: &'static str,
    class: &'static str,
    /// Time, algorithm bandwidth, bus bandwidth, setting.
    points: Vec<Option<[String; 4]>>,
}

/// Some lines over the sizes of a collective.
pub(super) struct Charts<'a> {
    pub(super) kind: CollectiveKind,
    pub(super) tasks: &'a [&'a TunedTask],
    pub(super) lines: &'static [Line],
    /// From algorithm to bus bandwidth.
    pub(super) bus: f64,
}

impl Charts<'_> {
    /// Time beside bandwidth.
    pub(super) fn compared(&self) -> String {
        let [time, bandwidth] =
            [(Scale::Time, "time"), (Scale::Bandwidth { bus: self.bus }, "bandwidth")]
                .map(|(scale, what)| self.chart(scale, what));
        self.together(&[time, bandwidth])
    }

    /// How many times as fast as MSCCL's default; nothing where that cannot run.
    pub(super) fn gains(&self) -> Option<String> {
        let any = self.tasks.iter().any(|it| it.msccl.is_some());
        any.then(|| self.together(&[self.chart(Scale::Gain, "gain over MSCCL's default")]))
    }

    /// The lines that some task has.
    fn drawn(&self) -> impl Iterator<Item = &'static Line> {
        self.lines.iter().filter(|line| self.tasks.iter().any(|it| (line.of)(it).is_some()))
    }

    fn together(&self, charts: &[String]) -> String {
        let mut out = String::from("<ul class=\"legend\">\n");
        for line in self.drawn() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<li><svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">\
                 <path class=\"line {}\" d=\"M3 6H31\"/></svg>{}{}</li>",
                line.class,
                escaped(line.name),
                line.note
            );
        }
        let _ = write!(
            out,
            "</ul>\n<div class=\"charts\">\n<div class=\"pair\">\n{}</div>\n\
             <script type=\"application/json\">{}</script>\n\
             <div class=\"tip\" role=\"status\" hidden></div>\n</div>\n",
            charts.concat(),
            self.data()
        );
        out
    }

    fn data(&self) -> String {
        let point = |line: &Line, task: &TunedTask| {
            let (ps, pick) = (line.of)(task)?;
            let took = Duration::from_ps(ps);
            let rate = algbw(task.size(), took);
            let words = pick.map_or_else(String::new, setting);
            let time = rounded(took.as_us_f64());
            Some([time, format!("{rate:.2}"), format!("{:.2}", rate * self.bus), words])
        };
        let lines = self.drawn().map(|line| DataLine {
            name: line.name,
            class: line.class,
            points: self.tasks.iter().map(|it| point(line, it)).collect(),
        });
        let sizes = self.tasks.iter().map(|it| it.size().to_string()).collect();
        let data = Data { sizes, lines: lines.collect() };
        // Text and lists of it are always JSON; `<` must not end the script.
        motet_page::embedded(&serde_json::to_string(&data).unwrap_or_default())
    }

    fn chart(&self, scale: Scale, what: &str) -> String {
        let kind = self.kind;
        let value = |task: &TunedTask, ps: u64| match scale {
            Scale::Time => Some(Duration::from_ps(ps).as_us_f64()),
            Scale::Bandwidth { .. } => Some(algbw(task.size(), Duration::from_ps(ps))),
            Scale::Gain => Some(task.msccl.as_ref()?.time_ps as f64 / ps.max(1) as f64),
        };
        let curve = |line: &Line| Curve {
            name: line.name,
            class: line.class,
            values: self.tasks.iter().map(|it| value(it, (line.of)(it)?.0)).collect(),
            dots: self
                .tasks
                .iter()
                .map(|it| {
                    line.class == PLAN
                        && (line.of)(it).and_then(|it| it.1).is_some_and(Pick::is_program)
                })
                .collect(),
        };
        let names: Vec<&str> = self.drawn().map(|it| it.name).collect();
        let sizes: Vec<u64> = self.tasks.iter().map(|it| it.size_bytes).collect();
        let about = format!(
            "Lines over size for {}. The table of {kind} has the numbers; with the chart focused, the \
             arrow keys go through the sizes.",
            names.join(", ")
        );
        let word = what.split(' ').next().unwrap_or_default();
        Chart {
            id: format!("{kind}-{word}"),
            title: format!("{kind}: {what} over size"),
            about,
            sizes: &sizes,
            scale,
            curves: self.drawn().map(curve).collect(),
        }
        .svg()
    }
}

/// A time in four digits or so.
fn rounded(us: f64) -> String {
    let unit = if us >= 1e6 {
        1e6
    } else if us >= 1e3 {
        1e3
    } else {
        1.0
    };
    time((us / unit * 1e2).round() / 1e2 * unit)
}
