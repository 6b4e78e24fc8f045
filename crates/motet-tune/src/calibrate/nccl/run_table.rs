//! The table that `benches/nccl/run.py` writes: one line for each round of each setting.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_net::formats::ReadError;
use motet_units::Bytes;

use super::call::{self, NcclCall};
use super::store::{Fields, each_row, is_time};

/// The columns, in order.
pub const COLUMNS: [&str; 7] = ["rig", "ranks", "collective", "bytes", "mode", "round", "us"];

/// Whether a line is the heading of such a table.
pub(in crate::calibrate) fn is_heading(line: &str) -> bool {
    line.split(',').map(str::trim).eq(COLUMNS)
}

/// The contents of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTable {
    pub calls: Vec<NcclCall>,
    /// Rounds under a plan, which are left out: the table does not say which settings the plan chose.
    pub of_plans: u64,
}

/// A setting that NCCL was run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Own,
    Forced(Algorithm, Protocol, Option<u32>),
}

/// Ranks, whether each is a node, collective, bytes and setting.
type Key = (u32, bool, CollectiveKind, u64, Mode);

/// Reads a table; the rounds of a setting become one call.
///
/// # Errors
/// At the first line that is wrong.
pub fn read(text: &str) -> Result<RunTable, ReadError> {
    let mut rounds: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let mut of_plans = 0;
    each_row(text, &COLUMNS, "this is no heading of a table of run.py", &mut |field| {
        match row(field)? {
            Some((key, micros)) => rounds.entry(key).or_default().push(micros),
            None => of_plans += 1,
        }
        Ok(())
    })?;
    Ok(RunTable { calls: rounds.into_iter().map(|(key, all)| call(key, all)).collect(), of_plans })
}

/// `None` for a round under a plan.
fn row(field: &Fields<'_>) -> Result<Option<(Key, f64)>, ReadError> {
    let wrong = |column: usize| {
        let (name, value) = (COLUMNS[column], field(column));
        ReadError::new(format!("`{value}` is no {name}"))
    };
    let ranks = field(1).parse().ok().filter(|it| *it > 0).ok_or_else(|| wrong(1))?;
    let collective = field(2).parse().map_err(|_| wrong(2))?;
    let bytes = field(3).parse().map_err(|_| wrong(3))?;
    let micros = field(6).parse().ok().filter(|it| is_time(*it)).ok_or_else(|| wrong(6))?;
    let mode = match field(4) {
        // The same once more, which shows the noise.
        "default" | "default again" => Mode::Own,
        "plan" => return Ok(None),
        other => forced(other).ok_or_else(|| {
            wrong(4).with_remedy("a mode is default, plan or algorithm/protocol[/channels]")
        })?,
    };
    // On the rig of sockets every rank is a host of its own to NCCL.
    Ok(Some(((ranks, field(0) == "sockets", collective, bytes, mode), micros)))
}

fn forced(mode: &str) -> Option<Mode> {
    let mut words = mode.split('/');
    let algorithm = call::algorithm(words.next()?)?;
    let protocol = call::protocol(words.next()?)?;
    let channels = match words.next() {
        Some(it) => Some(it.parse().ok().filter(|it| *it > 0)?),
        None => None,
    };
    words.next().is_none().then_some(Mode::Forced(algorithm, protocol, channels))
}

fn call((ranks, apart, collective, bytes, mode): Key, mut all: Vec<f64>) -> NcclCall {
    all.sort_by(f64::total_cmp);
    let (algorithm, protocol, channels) = match mode {
        Mode::Own => (None, None, None),
        Mode::Forced(algorithm, protocol, channels) => (Some(algorithm), Some(protocol), channels),
    };
    NcclCall {
        nccl: None,
        ranks: Some(ranks),
        nodes: apart.then_some(ranks),
        collective,
        size: Bytes::new(bytes),
        algorithm,
        protocol,
        channels,
        chunk: None,
        rounds: u32::try_from(all.len()).ok(),
        micros: all.get(all.len() / 2).copied().unwrap_or_default(),
        least: all.first().copied(),
        most: all.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "rig,ranks,collective,bytes,mode,round,us\n\
                         sockets,4,allreduce,2048,default,0,91.5\n\
                         sockets,4,allreduce,2048,plan,0,104.5\n\
                         sockets,4,allreduce,2048,ring/simple/1,0,170\n\
                         sockets,4,allreduce,2048,ring/simple/1,1,180\n\
                         sockets,4,allreduce,2048,ring/simple/1,2,176\n\
                         sockets,4,allreduce,2048,default again,0,99.5\n";

    #[test]
    fn rounds_become_one_call() {
        let read = read(TABLE).unwrap();
        assert_eq!((read.calls.len(), read.of_plans), (2, 1));
        let [own, forced] = &read.calls[..] else { panic!("{read:?}") };
        assert_eq!((own.algorithm, own.rounds, own.nodes), (None, Some(2), Some(4)));
        assert_eq!(
            (forced.algorithm, forced.protocol),
            (Some(Algorithm::Ring), Some(Protocol::Simple))
        );
        assert_eq!((forced.channels, forced.micros), (Some(1), 176.0));
        assert_eq!((forced.least, forced.most), (Some(170.0), Some(180.0)));
    }

    #[test]
    fn errors_name_the_line() {
        let error = read(&TABLE.replacen("ring/simple/1", "ring", 1)).unwrap_err();
        assert_eq!((error.at.unwrap().line, error.problem.as_str()), (4, "`ring` is no mode"));
        let error = read(&TABLE.replacen("104.5", "0", 1)).unwrap_err();
        assert_eq!((error.at.unwrap().line, error.problem.as_str()), (3, "`0` is no us"));
        assert!(read("a,b\n").unwrap_err().problem.starts_with("this is no heading"));
    }
}
