//! Logs of nccl-tests: what `all_reduce_perf` and its like print.
//!
//! Columns are found by the heading, counted from the right, as old versions leave some at the left empty.
//! Everything that is neither a comment of nccl-tests nor a row (NCCL's own log, the launcher's words) is
//! passed over.

use motet_collective::CollectiveKind;
use motet_net::formats::ReadError;
use motet_units::Bytes;

/// A log, or several behind one another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    pub calls: Vec<LogCall>,
    /// The ranks that are listed, if any.
    pub ranks: Option<u32>,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct LogCall {
    /// Its line, from 1.
    pub line: usize,
    /// The collective that was run; logs of old versions do not say it.
    pub kind: Option<CollectiveKind>,
    /// In nccl-tests' sense.
    pub size: Bytes,
    /// Times in µs.
    pub out_of_place: Option<f64>,
    pub in_place: Option<f64>,
}

/// Where the times stand, counted from the right.
#[derive(Clone, Copy)]
struct Columns {
    count: usize,
    times: [Option<usize>; 2],
}

/// Columns that old versions may leave empty: operation and root.
const MAY_LACK: usize = 2;

/// Whether a text has a heading of nccl-tests.
pub(super) fn is_log(text: &str) -> bool {
    text.lines().any(|it| columns(it).is_some())
}

fn columns(line: &str) -> Option<Columns> {
    let words: Vec<&str> = line.trim().strip_prefix('#')?.split_whitespace().collect();
    if words.first() != Some(&"size") || !words.contains(&"busbw") {
        return None;
    }
    let count = words.len();
    let mut times = words.iter().enumerate().filter(|it| *it.1 == "time").map(|it| count - it.0);
    let times = [times.next(), times.next()];
    times[0].is_some().then_some(Columns { count, times })
}

/// Reads a log.
///
/// # Errors
/// At the first row that does not have the columns of its heading, and if there is no row.
pub fn read(text: &str) -> Result<Log, ReadError> {
    let mut log = Log::default();
    let (mut found, mut kind) = (None, None);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            found = columns(line).or(found);
            kind = test(line).or(kind);
            log.ranks = log.ranks.max(rank(line).map(|it| it.saturating_add(1)));
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(size) = words.first().filter(|it| it.bytes().all(|it| it.is_ascii_digit())) else {
            continue;
        };
        let wrong = |problem: String| ReadError::new(problem).at_line(index + 1);
        let Some(columns) = found else {
            return Err(wrong("a row before the heading with size, time and busbw".to_owned()));
        };
        if words.len() > columns.count || words.len() + MAY_LACK < columns.count {
            let (has, heading) = (words.len(), columns.count);
            return Err(wrong(format!("the row has {has} columns, and the heading {heading}")));
        }
        let size = size.parse().map_err(|_| wrong(format!("`{size}` is no size")))?;
        let [out_of_place, in_place] = columns.times.map(|it| {
            let Some(word) = it.and_then(|it| words.get(words.len().checked_sub(it)?)) else {
                return Ok(None);
            };
            time(word).map_err(wrong)
        });
        let (out_of_place, in_place) = (out_of_place?, in_place?);
        let size = Bytes::new(size);
        log.calls.push(LogCall { line: index + 1, kind, size, out_of_place, in_place });
    }
    if log.calls.is_empty() {
        return Err(ReadError::new("the log has no row with a size and a time"));
    }
    Ok(log)
}

/// The collective of a line such as `# Collective test starting: all_reduce_perf`.
fn test(line: &str) -> Option<CollectiveKind> {
    let name = line.split_whitespace().find_map(|it| it.strip_suffix("_perf"))?;
    name.rsplit('/').next()?.parse().ok()
}

/// The rank of a line such as `#  Rank  0 Group  0 Pid 4711 on host device 0 [0x07] NVIDIA H100`.
fn rank(line: &str) -> Option<u32> {
    let mut words = line.trim().strip_prefix('#')?.split_whitespace();
    (words.next()? == "Rank").then(|| words.next()?.parse().ok()).flatten()
}

fn time(word: &str) -> Result<Option<f64>, String> {
    if word.eq_ignore_ascii_case("n/a") {
        return Ok(None);
    }
    match word.parse::<f64>() {
        Ok(it) if it.is_finite() && it > 0.0 => Ok(Some(it)),
        _ => Err(format!("`{word}` is no time in µs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_gather_perf
# Using devices
#  Rank  0 Group  0 Pid   4711 on    host device  0 [0000:07:00] NVIDIA H100
#  Rank  1 Group  0 Pid   4712 on    host device  1 [0000:0f:00] NVIDIA H100
host:4711:4711 [0] NCCL INFO Bootstrap: Using eth0
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float    none      -1     6.05    0.17    0.08       0     6.03    0.17    0.08       0
        2048           256     float              -1     7.00    0.17    0.08     N/A      N/A    0.17    0.08     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.08
";

    #[test]
    fn rows_have_their_times() {
        assert!(is_log(LOG));
        let log = read(LOG).unwrap();
        assert_eq!((log.ranks, log.calls.len()), (Some(2), 2));
        let first = LogCall {
            line: 11,
            kind: Some(CollectiveKind::AllGather),
            size: Bytes::kib(1),
            out_of_place: Some(6.05),
            in_place: Some(6.03),
        };
        assert_eq!(log.calls[0], first);
        assert_eq!((log.calls[1].out_of_place, log.calls[1].in_place), (Some(7.0), None));
    }

    #[test]
    fn errors_name_the_line() {
        let error = read(&LOG.replace("6.05    0.17", "much 0.17")).unwrap_err();
        assert_eq!(
            (error.at.unwrap().line, error.problem.as_str()),
            (11, "`much` is no time in µs")
        );
        let error = read(&LOG.replace("6.05    0.17    0.08       0", "")).unwrap_err();
        assert_eq!(error.problem, "the row has 9 columns, and the heading 13");
        assert!(read("1024 256 float").is_err());
        assert!(read("# nothing").is_err());
    }
}
