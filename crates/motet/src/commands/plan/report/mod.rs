//! `report.html`: a plan for people, one page that needs no network: style, script and pictures are in it.
//!
//! It says first what the plan gains and how far that can be believed ([`summary`]); then for every
//! collective the charts ([`lines`], drawn by [`chart`] on the axes of [`axis`]) and the numbers
//! ([`table`]); then the network ([`picture`]) and where everything comes from ([`origin`]). The same
//! plan gives the same bytes.

mod axis;
mod chart;
mod lines;
mod origin;
mod picture;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_page::{FILE_POLICY as POLICY, STYLE as SHARED};
use motet_synth::Goal;
use motet_tune::plan::files::{ProgramFile, runs};
use motet_tune::plan::folder::Maker;
use motet_tune::plan::{Plan, Runtime, TunedTask};
use motet_units::Rank;

use crate::plot::escaped;
use lines::{COMPARED, Charts, PARTS};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A plan and the network it is for.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) network: &'a Network,
    pub(super) maker: &'a Maker,
}

impl Report<'_> {
    pub(super) fn html(&self) -> String {
        let Plan { network, ranks, tasks, .. } = self.plan;
        let title = escaped(&format!("Plan for {network}"));
        let mut kinds: Vec<CollectiveKind> = tasks.iter().map(|it| it.collective).collect();
        kinds.dedup();
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <title>{title}</title>\n<style>\n{SHARED}{STYLE}</style>\n</head>\n<body>\n<header>\n\
             <h1>{title}</h1>\n<p class=\"soft\">{} of {} over {ranks} ranks; made by \
             Motet {}</p>\n</header>\n",
            counted(tasks.len(), "task"),
            counted(kinds.len(), "collective"),
            escaped(&self.maker.motet)
        );
        contents(&kinds, &mut out);
        out.push_str("<main>\n");
        self.summary(&mut out);
        let programs =
            [Runtime::Msccl, Runtime::Mscclpp].map(|it| runs(&self.plan.tasks, it)).concat();
        for kind in kinds {
            self.collective(kind, &programs, &mut out);
        }
        self.picture(&mut out);
        self.origin(&programs, &mut out);
        // Writing to a string cannot fail.
        let _ = write!(out, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
        out
    }

    fn collective(&self, kind: CollectiveKind, programs: &[ProgramFile], out: &mut String) {
        let tasks: Vec<&TunedTask> =
            self.plan.tasks.iter().filter(|it| it.collective == kind).collect();
        let bus = bus_factor(kind, self.plan.ranks);
        let _ = writeln!(out, "<section id=\"{kind}\">\n<h2>{kind}</h2>");
        out.push_str(&Charts { kind, tasks: &tasks, lines: &COMPARED, bus }.compared());
        table::table(self.plan, kind, &tasks, bus, programs, out);
        if let Some(charts) = (Charts { kind, tasks: &tasks, lines: &PARTS, bus }).gains() {
            let _ = writeln!(
                out,
                "<details>\n<summary>What tuning each part alone gains over MSCCL's default</summary>\n\
                 <p class=\"soft\">MSCCL's default sends straight to everyone, once, under Simple. \
                 <em>Program only</em> keeps that setting and changes the program; <em>setting \
                 only</em> keeps the program and changes instances and protocol.</p>\n\
                 {charts}</details>"
            );
        }
        out.push_str("</section>\n");
    }
}

fn contents(kinds: &[CollectiveKind], out: &mut String) {
    out.push_str("<nav aria-label=\"On this page\">\n<ul>\n");
    let fixed = |id: &'static str| (id.to_owned(), id.to_owned());
    let kinds = kinds.iter().map(|it| (it.to_string(), it.to_string()));
    let after = ["network", "files", "origin"].map(fixed);
    for (id, name) in [fixed("summary")].into_iter().chain(kinds).chain(after) {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{name}</a></li>");
    }
    out.push_str("</ul>\n</nav>\n");
}

/// How many times algorithm bandwidth bus bandwidth is, as nccl-tests counts it.
fn bus_factor(kind: CollectiveKind, ranks: u32) -> f64 {
    let collective = Goal::rooted(kind, ranks, Rank(0)).and_then(|it| it.collective(1));
    let factor = collective.map(|it| it.busbw_factor());
    factor.map_or(1.0, |(numerator, denominator)| f64::from(numerator) / f64::from(denominator))
}

/// A link to a file of the plan's folder.
fn link(path: &str, text: &str) -> String {
    let mut href = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                href.push(char::from(byte));
            }
            _ => {
                let _ = write!(href, "%{byte:02X}");
            }
        }
    }
    format!("<a href=\"{href}\">{}</a>", escaped(text))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A gain as tables show it.
fn times(gain: Option<f64>) -> String {
    gain.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"))
}
