//! `report.html`: a plan for people, one page that needs no network: styles and pictures are in it.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::formats::svg;
use motet_tune::plan::folder::Maker;
use motet_tune::plan::{Pick, Plan, Tuned, algbw};
use motet_units::{Bytes, Duration};

use super::show::setting;
use crate::plot::{Line, Plot, escaped};

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em;\
color:#222}h1,h2{font-weight:600}table{border-collapse:collapse;font-size:13px}\
td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}td:last-child,th:last-child\
{text-align:left}svg{max-width:100%;height:auto}.note{color:#666}";

/// A plan and the network it is for.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) network: &'a Network,
    pub(super) maker: &'a Maker,
}

/// A bandwidth of a task by the time of something.
type Timed<'a> = (&'a str, fn(&Tuned) -> Option<u64>);

const BANDWIDTHS: [Timed<'static>; 5] = [
    ("bound", |it| Some(it.bound_ps)),
    ("plan", |it| Some(it.pick.time_ps)),
    ("NCCL at its best", |it| it.nccl_best.as_ref().map(|it| it.time_ps)),
    ("NCCL by itself", |it| it.nccl.as_ref().map(|it| it.time_ps)),
    ("MSCCL, one setting", |it| it.msccl.as_ref().map(|it| it.time_ps)),
];

const ABLATION: [Timed<'static>; 3] = [
    ("program and knobs", |it| it.program.as_ref().map(|it| it.time_ps)),
    ("program only", |it| it.sketch_only.as_ref().map(|it| it.time_ps)),
    ("knobs only", |it| it.knobs_only.as_ref().map(|it| it.time_ps)),
];

impl Report<'_> {
    pub(super) fn html(&self) -> String {
        let Plan { network, signature, ranks, seed, tasks, .. } = self.plan;
        let title = escaped(&format!("Plan for {network}"));
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{} tasks over {ranks} ranks; \
             network {signature}; seed {seed}; made by Motet {} with <code>{}</code>.</p>\n",
            tasks.len(),
            escaped(&self.maker.motet),
            escaped(&self.maker.command)
        );
        self.gains(&mut out);
        let mut kinds: Vec<CollectiveKind> = tasks.iter().map(|it| it.collective).collect();
        kinds.dedup();
        for kind in kinds {
            self.collective(kind, &mut out);
        }
        self.topology(&mut out);
        self.left_out(&mut out);
        out.push_str("</body></html>\n");
        out
    }

    fn gains(&self, out: &mut String) {
        let gains = [
            ("NCCL at its best setting", self.plan.gains(|it| it.nccl_best.as_ref())),
            ("NCCL by itself", self.plan.gains(|it| it.nccl.as_ref())),
            ("MSCCL with one setting for everything", self.plan.gains(|it| it.msccl.as_ref())),
            ("the best program under that setting", self.plan.gains(|it| it.sketch_only.as_ref())),
            ("that program under its best knobs", self.plan.gains(|it| it.knobs_only.as_ref())),
        ];
        out.push_str("<ul>\n");
        for (name, span) in gains {
            if let Some((low, high)) = span {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "<li>{low:.2} to {high:.2} times as fast as {name}</li>");
            }
        }
        out.push_str("</ul>\n");
    }

    fn tasks(&self, kind: CollectiveKind) -> impl Iterator<Item = &Tuned> {
        self.plan.tasks.iter().filter(move |it| it.collective == kind)
    }

    fn line(&self, kind: CollectiveKind, (name, time): Timed<'_>, over: Option<Timed<'_>>) -> Line {
        let point = |task: &Tuned| {
            let ps = time(task)?;
            let y = match over {
                Some((_, over)) => over(task)? as f64 / ps.max(1) as f64,
                None => algbw(task.size(), Duration::from_ps(ps)),
            };
            Some((task.size_bytes as f64, y))
        };
        Line { name: name.to_owned(), points: self.tasks(kind).filter_map(point).collect() }
    }

    fn collective(&self, kind: CollectiveKind, out: &mut String) {
        let _ = writeln!(out, "<h2>{}</h2>", escaped(kind.name()));
        let lines = BANDWIDTHS.iter().map(|it| self.line(kind, *it, None)).collect();
        let plot = Plot {
            title: format!("{kind}: bandwidth over size"),
            x: "bytes".to_owned(),
            y: "GB/s".to_owned(),
            log_x: true,
            lines,
        };
        out.push_str(&plot.svg());
        let lines: Vec<Line> =
            ABLATION.iter().map(|it| self.line(kind, *it, Some(BANDWIDTHS[4]))).collect();
        if lines.iter().any(|it| !it.points.is_empty()) {
            let plot = Plot {
                title: format!("{kind}: what tuning each part alone gains"),
                x: "bytes".to_owned(),
                y: "times MSCCL, one setting".to_owned(),
                log_x: true,
                lines,
            };
            out.push_str(&plot.svg());
        }
        out.push_str(
            "<table><tr><th>size</th><th>µs</th><th>GB/s</th><th>bound</th><th>× NCCL</th>\
             <th>× MSCCL</th><th>setting</th></tr>\n",
        );
        for task in self.tasks(kind) {
            row(task, out);
        }
        out.push_str("</table>\n");
    }

    /// The network with what links do under the largest task that a program of ours does best.
    fn topology(&self, out: &mut String) {
        let by_size = self.plan.tasks.iter().rev();
        let found = by_size.filter_map(|task| {
            let pick = Some(&task.pick).filter(|it| it.is_program())?;
            let layout = self.plan.way(&pick.way)?.family.in_instances(pick.instances)?;
            let links = layout.laid.usage(task.size(), &pick.knobs(&self.plan.setup));
            Some((task, pick, links))
        });
        let largest = found.max_by_key(|it| it.0.size_bytes);
        out.push_str("<h2>Network</h2>\n");
        let Some((task, pick, links)) = largest else {
            out.push_str(&svg::write(self.network));
            return;
        };
        let caption = caption(task, pick);
        let picture = svg::write_utilization(self.network, &caption, |id| svg::Traffic {
            utilization: links[id.index()].busy.as_ps() as f64 / pick.time_ps.max(1) as f64,
            bytes: links[id.index()].bytes,
        });
        out.push_str(&picture);
    }

    fn left_out(&self, out: &mut String) {
        if self.plan.left_out.is_empty() {
            return;
        }
        out.push_str("<h2>Left out</h2>\n<ul class=\"note\">\n");
        for (name, why) in &self.plan.left_out {
            let _ = writeln!(out, "<li>{}: {}</li>", escaped(name), escaped(why));
        }
        out.push_str("</ul>\n");
    }
}

fn caption(task: &Tuned, pick: &Pick) -> String {
    let (size, time) = (Bytes::new(task.size_bytes), pick.time().as_us_f64());
    format!("{} of {size} in {time:.3} µs: {}", task.collective, setting(pick))
}

fn row(task: &Tuned, out: &mut String) {
    let best = &task.pick;
    let gain = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"));
    let _ = writeln!(
        out,
        "<tr><td>{}</td><td>{:.3}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        task.size(),
        best.time().as_us_f64(),
        best.algbw(task.size()),
        algbw(task.size(), Duration::from_ps(task.bound_ps)),
        gain(task.gain(task.nccl_best.as_ref())),
        gain(task.gain(task.msccl.as_ref())),
        escaped(&setting(best))
    );
}
