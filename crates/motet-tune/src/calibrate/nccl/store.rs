//! Measured calls of NCCL as a table: what Motet writes wherever it measures NCCL, and reads again.
//!
//! CSV with a heading. An empty field means that the value is not known, or was left to NCCL; lines that begin
//! with `#` are comments.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_net::formats::{ReadError, csv_records};
use motet_units::Bytes;

use super::call::{self, NcclCall};

/// The columns, in order.
pub const COLUMNS: [&str; 13] = [
    "nccl",
    "ranks",
    "nodes",
    "collective",
    "bytes",
    "algorithm",
    "protocol",
    "channels",
    "chunk",
    "rounds",
    "us",
    "least_us",
    "most_us",
];

/// Whether a line is the heading of such a table.
pub(in crate::calibrate) fn is_heading(line: &str) -> bool {
    line.split(',').map(str::trim).eq(COLUMNS)
}

/// Reads a table.
///
/// # Errors
/// At the first line that is wrong.
pub fn read(text: &str) -> Result<Vec<NcclCall>, ReadError> {
    let mut calls = Vec::new();
    let what = "this is no heading of a table of NCCL's calls";
    each_row(text, &COLUMNS, what, &mut |field| {
        calls.push(row(field)?);
        Ok(())
    })?;
    Ok(calls)
}

/// The fields of a row, by column.
pub(super) type Fields<'a> = dyn Fn(usize) -> &'a str + 'a;

/// Hands the rows of a table with these columns to `each`; `other` is the error message for another heading.
///
/// # Errors
/// At the first line that is wrong.
pub(super) fn each_row(
    text: &str,
    columns: &[&str],
    other: &str,
    each: &mut dyn FnMut(&Fields<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut records = csv_records(text);
    let remedy = || format!("the columns are {}", columns.join(","));
    let empty = || ReadError::new("the table is empty").with_remedy(remedy());
    let (line, heading) = records.next().ok_or_else(empty)??;
    if !heading.iter().eq(columns.iter().copied()) {
        return Err(ReadError::new(other).at_line(line).with_remedy(remedy()));
    }
    for record in records {
        let (line, record) = record?;
        if record.len() != columns.len() {
            let problem =
                format!("the row has {} fields, and the heading {}", record.len(), columns.len());
            return Err(ReadError::new(problem).at_line(line).with_remedy(remedy()));
        }
        each(&|column| record.get(column).unwrap_or_default()).map_err(|it| it.at_line(line))?;
    }
    Ok(())
}

fn row(field: &Fields<'_>) -> Result<NcclCall, ReadError> {
    let wrong = |column: usize| {
        let (name, value) = (COLUMNS[column], field(column));
        ReadError::new(format!("`{value}` is no {name}")).with_remedy(remedy(column))
    };
    let number = |column: usize| match field(column) {
        "" => Ok(None),
        it => it.parse::<u32>().ok().filter(|it| *it > 0).map(Some).ok_or_else(|| wrong(column)),
    };
    let time = |column: usize| match field(column) {
        "" => Ok(None),
        it => it.parse().ok().filter(|it| is_time(*it)).map(Some).ok_or_else(|| wrong(column)),
    };
    let nccl = match field(0) {
        "" => None,
        it => Some(it.parse().map_err(|_| wrong(0))?),
    };
    let collective: CollectiveKind = field(3).parse().map_err(|_| wrong(3))?;
    let algorithm = match field(5) {
        "" => None,
        it => Some(call::algorithm(it).ok_or_else(|| wrong(5))?),
    };
    let protocol = match field(6) {
        "" => None,
        it => Some(call::protocol(it).ok_or_else(|| wrong(6))?),
    };
    let chunk = match field(8) {
        "" => None,
        it => Some(Bytes::new(it.parse::<u64>().map_err(|_| wrong(8))?)),
    };
    Ok(NcclCall {
        nccl,
        ranks: number(1)?,
        nodes: number(2)?,
        collective,
        size: Bytes::new(field(4).parse().map_err(|_| wrong(4))?),
        algorithm,
        protocol,
        channels: number(7)?,
        chunk,
        rounds: number(9)?,
        micros: time(10)?.ok_or_else(|| wrong(10))?,
        least: time(11)?,
        most: time(12)?,
    })
}

/// A time that can have been measured.
pub(super) fn is_time(micros: f64) -> bool {
    micros.is_finite() && micros > 0.0
}

const fn remedy(column: usize) -> &'static str {
    match column {
        0 => "a version is three numbers, as in 2.28.9",
        3 => "collectives are allreduce, allgather, reducescatter, broadcast, reduce and so on",
        5 => "algorithms are tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree and pat",
        6 => "protocols are ll, ll128 and simple",
        10 => "a time is a number of µs above zero",
        11 | 12 => "a time is a number of µs above zero, or nothing",
        _ => "write a whole number, or nothing where it is not known",
    }
}

/// Calls as a table that [`read`] gives back as they are.
#[must_use]
pub fn write(calls: &[NcclCall]) -> String {
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for it in calls {
        let text = |it: Option<String>| it.unwrap_or_default();
        let number = |it: Option<u32>| text(it.map(|it| it.to_string()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{}",
            text(it.nccl.map(|it| it.to_string())),
            number(it.ranks),
            number(it.nodes),
            it.collective,
            it.size.get(),
            it.algorithm.map_or("", call::algorithm_name),
            it.protocol.map_or("", call::protocol_name),
            number(it.channels),
            text(it.chunk.map(|it| it.get().to_string())),
            number(it.rounds),
            it.micros,
            text(it.least.map(|it| it.to_string())),
            text(it.most.map(|it| it.to_string())),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use motet_nccl::{Algorithm, Protocol};

    use super::*;

    const TABLE: &str = "nccl,ranks,nodes,collective,bytes,algorithm,protocol,channels,chunk,rounds,us,least_us,most_us\n\
         2.28.9,4,4,allreduce,65536,tree,simple,2,,9,165.372,160,171.5\n\
         # what nobody said\n\
         ,,,reducescatter,1024,,,,,,57.4,,\n";

    #[test]
    fn what_is_read_comes_back() {
        let calls = read(TABLE).unwrap();
        assert_eq!(calls[0].algorithm, Some(Algorithm::Tree));
        assert_eq!(calls[0].protocol, Some(Protocol::Simple));
        assert_eq!(calls[0].micros, 165.372);
        assert_eq!((calls[1].ranks, calls[1].micros, calls[1].most), (None, 57.4, None));
        assert_eq!(read(&write(&calls)), Ok(calls));
    }

    #[test]
    fn errors_name_line_and_remedy() {
        let problem = |from: &str, to: &str| {
            assert!(TABLE.contains(from), "{from}");
            let error = read(&TABLE.replacen(from, to, 1)).unwrap_err();
            (error.at.map(|it| it.line), error.problem)
        };
        assert_eq!(problem("tree", "bush"), (Some(2), "`bush` is no algorithm".into()));
        assert_eq!(problem("165.372", "-1"), (Some(2), "`-1` is no us".into()));
        assert_eq!(problem("57.4", ""), (Some(4), "`` is no us".into()));
        assert_eq!(problem("171.5", "nan"), (Some(2), "`nan` is no most_us".into()));
        assert_eq!(problem("2.28.9", "two"), (Some(2), "`two` is no nccl".into()));
        assert_eq!(problem(",2,,", ",0,,"), (Some(2), "`0` is no channels".into()));
        assert!(problem("9,165.372,", "").1.starts_with("the row has 11 fields"));
        assert!(problem("chunk,", "").1.starts_with("this is no heading"));
        assert_eq!(read("").unwrap_err().problem, "the table is empty");
    }
}
