//! Reads measurements of MSCCL++ plans: the harness's lines and our tables.

use motet_collective::CollectiveKind;
use motet_net::formats::{ReadError, csv_records};
use motet_synth::one_sided::Shape;
use motet_units::Bytes;
use serde::Deserialize;

use super::entry::{self, Entry};

/// The columns of a table, in order.
pub const COLUMNS: [&str; 12] = [
    "collective",
    "ranks",
    "pattern",
    "slices",
    "peers_per_block",
    "apart",
    "form",
    "threads",
    "bytes",
    "median_us",
    "p10_us",
    "p90_us",
];

/// An optional column: the ranks per server of a plan whose packets go over ports between servers; empty for plans
/// without ports.
const PORTS: &str = "gpus_per_server";

/// A measured call.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The plan's name.
    pub plan: String,
    pub size: Bytes,
    /// The median time, in µs.
    pub micros: f64,
}

/// The measurements of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub calls: Vec<Measured>,
    /// Lines that are no measurement of a plan: not right, not run, or NCCL's.
    pub others: u64,
}

#[derive(Deserialize)]
struct Line {
    status: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    entry: String,
    #[serde(default)]
    bytes: u64,
    median_us: Option<f64>,
}

/// Reads `results.jsonl` of `benches/mscclpp`.
///
/// # Errors
/// At the first line that is none.
pub fn read_harness(text: &str) -> Result<Results, ReadError> {
    let mut results = Results::default();
    let lines = text.lines().enumerate().filter(|it| !it.1.trim().is_empty());
    for (index, line) in lines {
        let at = |it: ReadError| it.at_line(index + 1);
        let line: Line = serde_json::from_str(line).map_err(|it| {
            at(ReadError::new(format!("not a result of the harness: {it}")).with_remedy(
                "every line is a JSON object with `status`, `entry`, `bytes` and `median_us`",
            ))
        })?;
        let micros = match line.median_us {
            Some(it) if line.status == "ok" && line.source != "nccl" => it,
            _ => {
                results.others += 1;
                continue;
            }
        };
        if line.entry.is_empty() || line.bytes == 0 {
            let problem = "`entry` and `bytes` must say what was measured";
            return Err(at(ReadError::new(problem)));
        }
        let (plan, size) = (line.entry, Bytes::new(line.bytes));
        results.calls.push(Measured { plan, size, micros: time(micros).map_err(at)? });
    }
    Ok(results)
}

/// Whether a line is the heading of a table.
pub(super) fn is_heading(line: &str) -> bool {
    line.split(',').map(str::trim).take(2).eq(COLUMNS[..2].iter().copied())
}

/// Reads a table with [`COLUMNS`]; further columns do not matter, nor does their order.
///
/// # Errors
/// At the first line that is wrong.
pub fn read_table(text: &str) -> Result<Results, ReadError> {
    let mut records = csv_records(text);
    let empty = || ReadError::new("the table is empty");
    let (line, heading) = records.next().ok_or_else(empty)??;
    let place = |name: &str| {
        heading.iter().position(|it| it == name).ok_or_else(|| {
            ReadError::new(format!("there is no column `{name}`"))
                .at_line(line)
                .with_remedy(format!("the columns are {}", COLUMNS.join(",")))
        })
    };
    let mut places = [0; COLUMNS.len()];
    for (at, name) in places.iter_mut().zip(COLUMNS).take(COLUMNS.len() - 2) {
        *at = place(name)?;
    }
    let ports = heading.iter().position(|it| it == PORTS);
    let mut results = Results::default();
    for record in records {
        let (line, record) = record?;
        let field = |column: usize| record.get(places[column]).unwrap_or_default();
        let ports = ports.and_then(|it| record.get(it)).unwrap_or_default();
        results.calls.push(row(&field, ports).map_err(|it| it.at_line(line))?);
    }
    Ok(results)
}

/// One row of a table.
fn row<'a>(field: &dyn Fn(usize) -> &'a str, ports: &str) -> Result<Measured, ReadError> {
    let wrong = |column: usize| {
        let (name, value) = (COLUMNS[column], field(column));
        ReadError::new(format!("`{value}` is no {name}"))
    };
    let number = |column: usize| field(column).parse::<u32>().map_err(|_| wrong(column));
    let either = |column: usize, yes: &str, no: &str| match field(column) {
        it if it == yes => Ok(true),
        it if it == no => Ok(false),
        _ => Err(wrong(column)),
    };
    let kind: CollectiveKind = field(0).parse().map_err(|_| wrong(0))?;
    let pattern = entry::pattern(field(2)).ok_or_else(|| wrong(2))?;
    let shape = Shape {
        pattern,
        slices: number(3)?,
        peers_per_block: number(4)?,
        apart: either(5, "true", "false")?,
        gpus_per_server: match ports {
            "" => None,
            gpus => {
                Some(gpus.parse().map_err(|_| ReadError::new(format!("`{gpus}` is no {PORTS}")))?)
            }
        },
    };
    let in_place = either(6, "in", "out")?;
    let entry = Entry { kind, ranks: number(1)?, shape, in_place, threads: number(7)? };
    if !entry.is_possible() {
        return Err(ReadError::new(format!("there is no program `{entry}`")));
    }
    let size = field(8).parse::<u64>().ok().filter(|it| *it > 0).ok_or_else(|| wrong(8))?;
    let micros = field(9).parse::<f64>().map_err(|_| wrong(9))?;
    Ok(Measured { plan: entry.to_string(), size: Bytes::new(size), micros: time(micros)? })
}

/// A time that can have been measured.
fn time(micros: f64) -> Result<f64, ReadError> {
    if micros.is_finite() && micros > 0.0 {
        Ok(micros)
    } else {
        Err(ReadError::new(format!("a call cannot take {micros} µs")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "collective,ranks,pattern,slices,peers_per_block,apart,form,threads,bytes,median_us\n\
                         allreduce,8,packets-twice,8,1,true,out,512,16384,7.25\n";

    #[test]
    fn both_formats_say_the_same() {
        let table = read_table(TABLE).unwrap();
        let lines = "{\"id\": \"x\", \"status\": \"ok\", \"bytes\": 16384, \"median_us\": 7.25, \
                     \"source\": \"motet\", \"entry\": \"allreduce-8-packets-twice-s8-p1a-t512\"}\n";
        let harness = read_harness(lines).unwrap();
        assert_eq!(table, harness);
        assert_eq!(table.calls[0].size, Bytes::kib(16));
        let others = "{\"status\": \"hang\"}\n\n{\"status\": \"ok\", \"source\": \"nccl\", \"median_us\": 1}\n";
        assert_eq!(read_harness(others).unwrap(), Results { calls: vec![], others: 2 });
    }

    #[test]
    fn a_table_may_have_ports() {
        let (heading, row) = TABLE.split_once('\n').unwrap();
        let table = format!("{heading},gpus_per_server\n{},4\n{},\n", row.trim(), row.trim());
        let calls = read_table(&table).unwrap().calls;
        assert_eq!(calls[0].plan, "allreduce-8-packets-twice-s8-p1a-g4-t512");
        assert_eq!(calls[1].plan, "allreduce-8-packets-twice-s8-p1a-t512");
        let error = read_table(&table.replace(",4", ",many")).unwrap_err();
        assert_eq!(error.problem, "`many` is no gpus_per_server");
        let error = read_table(&table.replace(",4", ",8")).unwrap_err();
        assert!(error.problem.starts_with("there is no program"), "{error}");
    }

    #[test]
    fn errors_name_the_line() {
        let error = read_table(&TABLE.replace("16384", "much")).unwrap_err();
        assert_eq!((error.at.unwrap().line, error.problem.as_str()), (2, "`much` is no bytes"));
        let error = read_table(&TABLE.replace(",apart", "")).unwrap_err();
        assert_eq!(error.problem, "there is no column `apart`");
        let error = read_table(&TABLE.replace("7.25", "-1")).unwrap_err();
        assert_eq!(error.problem, "a call cannot take -1 µs");
        let error = read_table(&TABLE.replace("allreduce", "broadcast")).unwrap_err();
        assert!(error.problem.starts_with("there is no program `broadcast-8-"), "{error}");
        let error = read_harness("\n[]\n").unwrap_err();
        assert_eq!(error.at.unwrap().line, 2);
    }
}
