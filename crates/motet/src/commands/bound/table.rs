//! Many bounds at once: collectives × sizes × the values of a template's parameter, as a table, as CSV or
//! Parquet, and as a plot.

use std::fmt::Write as _;
use std::path::Path;

use motet_collective::CollectiveKind;
use motet_collective::bound::{Bound, Ratio};
use motet_net::Network;
use motet_units::{Bandwidth, Bytes};
use serde::Serialize;

use super::json::{BoundJson, json};
use crate::args::bound::BoundArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::progress::Bar;
use crate::table::{Table, Values};

/// One row: a bound at a size, on the network of one value of `--sweep`.
struct Row {
    /// What the parameter was set to, if one is swept.
    value: Option<String>,
    bound: Bound,
    size: Option<Bytes>,
    json: BoundJson,
}

/// What stands in the table and the plot.
struct Rows<'a> {
    args: &'a BoundArgs,
    sizes: &'a [Bytes],
    /// The parameter that is swept.
    key: Option<&'a str>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct RowsJson<'a> {
    cluster: &'a str,
    /// The parameter that is swept.
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<&'a str>,
    bounds: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    /// What it was set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(flatten)]
    bound: &'a BoundJson,
}

pub(super) fn run(
    args: &BoundArgs,
    sizes: &[Bytes],
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let (key, clusters) = clusters(args)?;
    let mut rows = Rows { args, sizes, key, rows: Vec::new() };
    let total = clusters.len() * args.collective.len();
    let bar = Bar::start(printer, total as u64, "bounds");
    for (value, cluster) in clusters {
        let network = super::network(args, &cluster, printer)?;
        for kind in &args.collective {
            let bound = super::bound_of(args, *kind, sizes, &cluster, &network)?;
            rows.add(value.clone(), &bound, &network);
            bar.set((rows.rows.len() / sizes.len().max(1)) as u64);
        }
    }
    drop(bar);
    if let Some(name) = &args.csv {
        rows.table().write(name, printer)?;
    }
    if let Some(name) = &args.plot {
        files::write(name, &rows.plot()?.svg(), printer)?;
    }
    if printer.is_json() {
        printer.json(&rows.json())?;
    } else if args.csv.as_deref() != Some("-") {
        printer.out(&rows.text())?;
    }
    Ok(Status::Done)
}

/// A value of `--sweep`, if there is one, and the cluster that it leads to.
type Swept = (Option<String>, String);

/// The clusters to look at: the one given, or one for each value of `--sweep`, with the parameter's name.
fn clusters(args: &BoundArgs) -> Result<(Option<&str>, Vec<Swept>), Failure> {
    let cluster = &args.cluster;
    let Some(sweep) = &args.sweep else { return Ok((None, vec![(None, cluster.clone())])) };
    if cluster == "-" || Path::new(cluster).exists() {
        return Err(Failure::unreadable("is a file, and only a template has parameters to sweep")
            .in_file(cluster)
            .with_remedy("`motet net gen --list` shows the templates and their parameters"));
    }
    let wrong = || {
        Failure::unreadable(format!("`--sweep {sweep}` names no parameter and values"))
            .with_remedy("write the parameter and its values as count=2,4,8")
    };
    let (key, values) = sweep.split_once('=').ok_or_else(wrong)?;
    let values: Vec<&str> = values.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    if key.is_empty() || values.is_empty() {
        return Err(wrong());
    }
    let before = if cluster.contains(':') { ',' } else { ':' };
    let named = |value: &str| (Some(value.to_owned()), format!("{cluster}{before}{key}={value}"));
    Ok((Some(key), values.into_iter().map(named).collect()))
}

impl Row {
    /// The most at this size, latency included; where there is no size, the most at any. In GB/s.
    fn algbw(&self) -> f64 {
        match self.size {
            Some(size) => {
                let time = self.bound.program_time(size).as_us_f64();
                if time > 0.0 { size.get() as f64 / (time * 1e3) } else { 0.0 }
            }
            None => self.limit(),
        }
    }

    /// The most that programs reach at any size; 0 if nothing has to move.
    fn limit(&self) -> f64 {
        self.bound.program_algbw().map_or(0.0, Ratio::to_f64)
    }

    /// The same if all switches reduced and copied.
    fn in_switches(&self) -> f64 {
        self.bound.algbw().map_or(0.0, Ratio::to_f64)
    }

    fn json(&self) -> RowJson<'_> {
        RowJson { value: self.value.as_deref(), bound: &self.json }
    }

    fn time_us(&self) -> Option<f64> {
        self.size.map(|it| self.bound.program_time(it).as_us_f64())
    }
}

impl Rows<'_> {
    /// A row for each size, or one without.
    fn add(&mut self, value: Option<String>, bound: &Bound, network: &Network) {
        let sizes: Vec<Option<Bytes>> = match self.sizes.is_empty() {
            true => vec![None],
            false => self.sizes.iter().copied().map(Some).collect(),
        };
        for size in sizes {
            let (value, bound) = (value.clone(), bound.clone());
            let json = json(&bound, network, size);
            self.rows.push(Row { value, bound, size, json });
        }
    }

    fn json(&self) -> RowsJson<'_> {
        RowsJson {
            cluster: &self.args.cluster,
            sweep: self.key,
            bounds: self.rows.iter().map(Row::json).collect(),
        }
    }

    fn text(&self) -> String {
        let key = self.key.unwrap_or("");
        let width = self.rows.iter().filter_map(|it| it.value.as_ref()).map(String::len);
        let width = width.max().unwrap_or(0).max(key.len());
        let lead = |text: &str| match self.key {
            Some(_) => format!("{text:>width$}  "),
            None => String::new(),
        };
        let sized = !self.sizes.is_empty();
        let at_size = if sized { "      size  at least, µs  GB/s at most" } else { "" };
        let heading = format!("{}{:13} ranks{at_size}  GB/s at any size", lead(key), "collective");
        let mut out = format!("{}\n", Printer::strong(&heading));
        for row in &self.rows {
            let (kind, ranks) = (row.bound.collective.name(), row.bound.ranks);
            let at_size = match (row.size, row.time_us()) {
                (Some(size), Some(time)) => {
                    let size = size.to_string();
                    format!("{size:>10}  {time:>12.3}  {:>12.2}", row.algbw())
                }
                _ => String::new(),
            };
            let (lead, limit) = (lead(row.value.as_deref().unwrap_or("")), row.limit());
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{lead}{kind:13} {ranks:>5}{at_size}  {limit:>16.2}");
        }
        if sized {
            out.push_str("times are on ideal links\n");
        }
        self.args.collective.iter().for_each(|it| self.switches(*it, &mut out));
        out
    }

    /// Lines below the table: what switches that copy and reduce change in a collective.
    fn switches(&self, kind: CollectiveKind, out: &mut String) {
        let rows = || self.rows.iter().filter(|it| it.bound.collective == kind);
        let able = rows().filter_map(|it| it.bound.in_switch.as_ref()?.algbw()).map(Ratio::to_f64);
        let more = rows().map(|it| (it.in_switches(), it.limit())).filter(|it| it.0 > it.1);
        let more = more.map(|it| it.0).filter(|_| kind == CollectiveKind::AllReduce);
        let most = if self.key.is_some() { "up to" } else { "at most" };
        let (able, more) = (able.reduce(f64::max), more.reduce(f64::max));
        let sharp = if able.is_some() { "SHARP" } else { "NVLS, SHARP" };
        // Writing to a string cannot fail.
        if let Some(limit) = able {
            let _ = writeln!(
                out,
                "{kind} by programs that have switches copy and reduce over all ranks (NVLS): {most} {limit:.2} \
                 GB/s at any size"
            );
        }
        if let Some(limit) = more {
            let _ = writeln!(
                out,
                "{kind} if all switches reduced and copied by themselves ({sharp}): {most} {limit:.2} GB/s at any size"
            );
        }
    }

    /// One row per bound, for other programs.
    fn table(&self) -> Table {
        let words = |of: &dyn Fn(&Row) -> String| Values::Words(self.rows.iter().map(of).collect());
        let numbers =
            |of: &dyn Fn(&Row) -> f64| Values::Number(self.rows.iter().map(of).collect(), 6);
        let mut table = Table::new();
        if let Some(key) = self.key {
            table = table.with(key, words(&|it| it.value.clone().unwrap_or_default()));
        }
        let ranks = self.rows.iter().map(|it| i64::from(it.bound.ranks)).collect();
        table = table
            .with("collective", words(&|it| it.bound.collective.name().to_owned()))
            .with("ranks", Values::Whole(ranks));
        if !self.sizes.is_empty() {
            let bytes = |it: &Row| it.size.and_then(|it| i64::try_from(it.get()).ok());
            let bytes = self.rows.iter().map(|it| bytes(it).unwrap_or(i64::MAX)).collect();
            table = table
                .with("size_bytes", Values::Whole(bytes))
                .with("time_us", numbers(&|it| it.time_us().unwrap_or(0.0)))
                .with("algbw_gbytes_per_s", numbers(&Row::algbw));
        }
        table
            .with("limit_gbytes_per_s", numbers(&Row::limit))
            .with("in_switches_limit_gbytes_per_s", numbers(&Row::in_switches))
    }

    /// A line for each collective, and for each size where the parameter is what goes across.
    fn plot(&self) -> Result<Plot, Failure> {
        if self.key.is_none() && self.sizes.len() < 2 {
            return Err(Failure::unreadable("a plot needs several values to go over")
                .with_remedy("give several sizes, or `--sweep` a parameter of the template"));
        }
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let kind = row.bound.collective.name();
            let (name, x) = match (&row.value, row.size) {
                (Some(value), Some(size)) => (format!("{kind} {size}"), number(value)?),
                (Some(value), None) => (kind.to_owned(), number(value)?),
                (None, size) => (kind.to_owned(), size.map_or(0.0, |it| it.get() as f64)),
            };
            let point = (x, row.algbw());
            match lines.iter_mut().find(|it| it.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name, points: vec![point] }),
            }
        }
        Ok(Plot {
            title: format!("Bounds on {}", self.args.cluster),
            x: self.key.unwrap_or("size, bytes").to_owned(),
            y: "GB/s at most".to_owned(),
            log_x: self.key.is_none(),
            lines,
        })
    }
}

/// A parameter's value on an axis: a plain number, a bandwidth in GB/s, or a size in bytes.
fn number(value: &str) -> Result<f64, Failure> {
    let plain = value.parse().ok().filter(|it: &f64| it.is_finite());
    let bandwidth = || value.parse().ok().map(|it: Bandwidth| it.as_gb_per_s_f64());
    let bytes = || value.parse().ok().map(|it: Bytes| it.get() as f64);
    plain.or_else(bandwidth).or_else(bytes).ok_or_else(|| {
        Failure::unreadable(format!("`{value}` has no place on the plot's axis"))
            .with_remedy("sweep a parameter whose values are numbers, or leave out `--plot`")
    })
}
