//! [`Report`]: an experiment that was run: rows, claims and assumptions, printed as text or JSON and
//! written as CSV, Parquet and SVG.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::claims::Claim;
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::Plot;
use crate::printer::Printer;
use crate::table::{Table, Values};

/// Everything about one experiment.
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) table: Table,
    pub(super) claims: Vec<Claim>,
    /// What all experiments of the paper assume, and what this one does beside it.
    pub(super) usual: &'static [&'static str],
    pub(super) assumed: Vec<String>,
    /// With the ending of each file's name.
    pub(super) plots: Vec<(String, Plot)>,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    experiment: &'a str,
    seed: u64,
    rows: Vec<Map<String, Value>>,
    claims: &'a [Claim],
    assumed: Vec<&'a str>,
}

impl Report {
    /// Prints the report, and writes its files where that is asked for.
    pub(super) fn finish(
        self,
        args: &ReproduceArgs,
        printer: &mut Printer,
    ) -> Result<Status, Failure> {
        if let Some(folder) = &args.output {
            std::fs::create_dir_all(folder).map_err(|it| {
                Failure::unreadable(format!("cannot be made: {it}")).in_file(folder)
            })?;
            for ending in ["csv", "parquet"] {
                self.table.write(&format!("{folder}/{}.{ending}", self.name), printer)?;
            }
            for (ending, plot) in &self.plots {
                let file = format!("{folder}/{}-{ending}.svg", self.name);
                files::write(&file, &plot.svg(), printer)?;
            }
        }
        if printer.is_json() {
            printer.json(&self.json(args.seed))?;
        } else {
            printer.out(&self.text(args.seed))?;
        }
        Ok(Status::Done)
    }

    fn assumed(&self) -> impl Iterator<Item = &str> {
        self.usual.iter().copied().chain(self.assumed.iter().map(String::as_str))
    }

    fn json(&self, seed: u64) -> ReportJson<'_> {
        let row = |row: usize| {
            let cell = |values: &Values| match values {
                Values::Whole(it) => json!(it[row]),
                Values::Number(it, _) => json!(it[row]),
                Values::Words(it) => json!(it[row]),
            };
            self.table.columns.iter().map(|(name, it)| (name.clone(), cell(it))).collect()
        };
        ReportJson {
            experiment: self.name,
            seed,
            rows: (0..self.table.rows()).map(row).collect(),
            claims: &self.claims,
            assumed: self.assumed().collect(),
        }
    }

    fn text(&self, seed: u64) -> String {
        let mut out = format!("{} (seed {seed})\n\n", Printer::strong(self.title));
        out.push_str(&self.table.text());
        out.push_str("\n  ours beside the paper's:\n");
        for it in &self.claims {
            let Claim { statement, ours, .. } = it;
            let published = it.published.as_deref().unwrap_or("nothing");
            let word = if it.holds { "yes" } else { "no" };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "    {word:4} {statement}: published {published}, ours {ours}");
            if let Some(detail) = &it.detail {
                let _ = writeln!(out, "{}", wrapped(detail, 9));
            }
        }
        out.push_str("\n  assumed:\n");
        for it in self.assumed() {
            let _ = writeln!(out, "{}", wrapped(it, 4));
        }
        out
    }
}

/// Lines of at most 100 characters, each after `indent` spaces.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |it| it.chars().count());
        if line > 0 && line + 1 + word.chars().count() + indent > 100 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let space = " ".repeat(indent);
    lines.iter().map(|it| format!("{space}{it}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(40), 4);
        assert!(text.lines().count() == 3 && text.lines().all(|it| it.starts_with("    word")));
        assert!(text.lines().all(|it| it.len() <= 100));
    }
}
