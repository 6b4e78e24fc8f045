//! NCCL's own debug log (`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING`), as NCCL 2.18 to 2.32 write it:
//! its version, the times that rank 0 expects (the TUNING tables), what was built (GRAPH lines, rings and trees),
//! and which algorithm each call took.
//!
//! Source of the formats: `tuning.cc`, `enqueue.cc`, `search.cc`, `rings.cc` and `init.cc` of NVIDIA/nccl at its tags. A log is the
//! work of many processes that write over one another, so a line of a known kind that is torn is counted, not
//! refused ([`NcclLog::torn`]); everything else is passed over. [`tables`] reads the TUNING tables.

pub mod tables;

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_net::formats::ReadError;
use motet_units::Bytes;

use super::call::{self, Version};
use tables::{Reader, TuningTable};

/// What NCCL puts before all that it logs.
const MARK: &str = "NCCL INFO ";

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclLog {
    pub version: Option<Version>,
    /// The ranks of the largest communicator.
    pub ranks: Option<u32>,
    pub nodes: Option<u32>,
    /// Channels of that communicator.
    pub channels: Option<u32>,
    /// One for each communicator whose rank 0 printed it.
    pub tables: Vec<TuningTable>,
    /// `Pattern …`: every distinct line once, in order.
    pub graphs: Vec<String>,
    /// By channel and number of ranks: the ranks in the order of the ring.
    pub rings: BTreeMap<(u32, usize), Vec<u32>>,
    /// By channel and rank: the rank above it in the tree.
    pub trees: BTreeMap<(u32, u32), Option<u32>>,
    pub calls: Vec<LoggedCall>,
    /// Calls that ran a kernel for symmetric memory or copy engines, which has no algorithm and protocol.
    pub symmetric: u64,
    /// Lines of a known kind that could not be read.
    pub torn: Torn,
}

/// Lines that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Torn {
    pub lines: u64,
    /// The first of them, from 1.
    pub first: Option<usize>,
}

/// A call, as rank 0 logged it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedCall {
    pub line: usize,
    /// 2.22 does not say.
    pub collective: Option<CollectiveKind>,
    bytes: u64,
    /// Whether these are one rank's bytes of an AllGather or ReduceScatter.
    per_rank: bool,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// Channels that carry data, since 2.24.
    pub channels: Option<u32>,
    /// The time that NCCL expects, in µs; only 2.22 and 2.23 log it.
    pub expected: Option<f64>,
    /// Ranks of the process's communicator, if the log says.
    pub ranks: Option<u32>,
}

impl LoggedCall {
    /// The size in nccl-tests' sense; `ranks` where the log does not say how many there are.
    #[must_use]
    pub fn size(&self, ranks: Option<u32>) -> Option<Bytes> {
        let times = if self.per_rank { u64::from(self.ranks.or(ranks)?) } else { 1 };
        self.bytes.checked_mul(times).map(Bytes::new)
    }
}

/// Whether a text has lines of NCCL's log.
pub(in crate::calibrate) fn is_log(text: &str) -> bool {
    text.lines().any(|it| it.contains(MARK))
}

/// What the lines of one process say of its communicator.
#[derive(Default)]
struct Process {
    ranks: Option<u32>,
    nodes: Option<u32>,
    table: Reader,
}

/// Reads a log.
///
/// # Errors
/// If no line of it says anything about a communicator or a call.
pub fn read(text: &str) -> Result<NcclLog, ReadError> {
    let mut log = NcclLog::default();
    let mut processes: BTreeMap<&str, Process> = BTreeMap::new();
    let mut graphs = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        if let Some((_, after)) = line.split_once("NCCL version ") {
            log.version = log.version.or_else(|| after.trim().parse().ok());
            continue;
        }
        let Some((before, message)) = line.split_once(MARK) else { continue };
        let process = processes.entry(name(before)).or_default();
        let read = message_of(&mut log, process, &mut graphs, message.trim_end(), index + 1);
        if read.is_none() {
            log.torn.lines += 1;
            log.torn.first = log.torn.first.or(Some(index + 1));
        }
    }
    for process in processes.into_values() {
        log.tables.extend(process.table.finish());
    }
    log.tables.sort_by_key(|it| it.line);
    let empty = log.tables.is_empty() && log.graphs.is_empty() && log.calls.is_empty();
    if empty && log.ranks.is_none() && log.symmetric == 0 {
        let problem = "NCCL's log says nothing of what it believes, built or chose";
        return Err(ReadError::new(problem).with_remedy(
            "run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING and give what rank 0 printed",
        ));
    }
    Ok(log)
}

/// The process of `[time] host:pid:tid [0] `.
fn name(before: &str) -> &str {
    let word = before.split_whitespace().rev().find(|it| it.contains(':')).unwrap_or_default();
    word.rsplit_once(':').map_or(word, |it| it.0)
}

/// Takes in one message; `None` if it is of a known kind and cannot be read.
fn message_of<'a>(
    log: &mut NcclLog,
    process: &mut Process,
    graphs: &mut BTreeSet<&'a str>,
    message: &'a str,
    line: usize,
) -> Option<()> {
    if message.contains(" Bytes -> ") {
        if message.contains(" -> Algo ") {
            log.calls.push(LoggedCall { line, ranks: process.ranks, ..call(message)? });
        } else {
            log.symmetric += 1;
        }
    } else if message.contains('|') {
        process.table.line(message, line, (process.ranks, process.nodes))?;
    } else if message.starts_with("Pattern ") {
        if graphs.insert(message) {
            log.graphs.push(message.to_owned());
        }
    } else if let Some(rest) = message.strip_prefix("Channel ") {
        if let Some((channel, ranks)) = ring(rest) {
            log.rings.entry((channel, ranks.len())).or_insert(ranks);
        }
    } else if let Some(rest) = message.strip_prefix("Trees") {
        trees(&mut log.trees, rest)?;
    } else if let Some((count, _)) = message.split_once(" coll channels") {
        log.channels = log.channels.max(Some(count.trim().parse().ok()?));
    } else if let Some(ranks) = after(message, "nranks") {
        let nodes = after(message, "nnodes");
        process.ranks = Some(ranks);
        process.nodes = nodes.or(process.nodes);
        if log.ranks.is_none_or(|it| it <= ranks) {
            (log.ranks, log.nodes) = (Some(ranks), nodes.or(log.nodes));
        }
    }
    Some(())
}

/// The number after a word, whatever its case: `nRanks 4`.
fn after(message: &str, name: &str) -> Option<u32> {
    let mut words = message.split_whitespace();
    words.find(|it| it.eq_ignore_ascii_case(name))?;
    words.next()?.parse().ok().filter(|it| *it > 0)
}

/// `AllReduce: 65536 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}` since 2.24;
/// `AllReduce: 65536 Bytes -> Algo 1 proto 2 time 41.5` in 2.23, and without the collective in 2.22.
fn call(message: &str) -> Option<LoggedCall> {
    let (before, after) = message.split_once(" Bytes -> Algo ")?;
    let (collective, bytes) = match before.rsplit_once(": ") {
        Some((name, bytes)) => (Some(name.trim().parse().ok()?), bytes),
        None => (None, before),
    };
    let mut words = after.split_whitespace();
    let (algorithm, _, protocol) = (words.next()?, words.next()?, words.next()?);
    let named = algorithm.parse::<usize>().is_err();
    let (algorithm, protocol) = match (algorithm.parse::<usize>(), protocol.parse::<usize>()) {
        (Ok(algorithm), Ok(protocol)) => {
            (*Algorithm::ALL.get(algorithm)?, *Protocol::ALL.get(protocol)?)
        }
        _ => (call::algorithm(algorithm)?, call::protocol(protocol)?),
    };
    let rest = words.next()?;
    let channels = rest.strip_prefix("channel{Lo..Hi}={").map(|it| {
        let (low, high) = it.strip_suffix('}')?.split_once("..")?;
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        high.checked_sub(low)?.checked_add(1)
    });
    let expected = match rest {
        "time" => Some(words.next()?.parse().ok().filter(|it: &f64| it.is_finite())?),
        _ => None,
    };
    let half =
        matches!(collective, Some(CollectiveKind::AllGather | CollectiveKind::ReduceScatter));
    Some(LoggedCall {
        line: 0,
        collective,
        bytes: bytes.trim().parse().ok()?,
        per_rank: named && half,
        algorithm,
        protocol,
        channels: match channels {
            Some(it) => Some(it?),
            None => None,
        },
        expected,
        ranks: None,
    })
}

/// `00/02 : 0 1 2 3`; connections (`00/0 : 1[0] -> 2[0] …`) and rings that NCCL cut short are none.
fn ring(rest: &str) -> Option<(u32, Vec<u32>)> {
    let (head, ranks) = rest.split_once(" :")?;
    let channel = head.split_once('/')?.0.parse().ok()?;
    let ranks: Option<Vec<u32>> = ranks.split_whitespace().map(|it| it.parse().ok()).collect();
    Some((channel, ranks.filter(|it| !it.is_empty())?))
}

/// ` [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1`: children, rank and parent of each channel.
fn trees(all: &mut BTreeMap<(u32, u32), Option<u32>>, rest: &str) -> Option<()> {
    let mut words = rest.split_whitespace();
    while let Some(channel) = words.next() {
        let channel = channel.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
        let mut parts = words.next()?.split("->").skip(1);
        let rank = parts.next()?.parse().ok()?;
        let parent: i64 = parts.next()?.parse().ok()?;
        all.entry((channel, rank)).or_insert(u32::try_from(parent).ok());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> NcclLog {
        let text: Vec<String> =
            lines.iter().map(|it| format!("host:12:34 [0] NCCL INFO {it}")).collect();
        read(&text.join("\n")).unwrap()
    }

    #[test]
    fn calls_of_all_versions() {
        let found = log(&[
            "comm 0x55 rank 0 nRanks 4 nNodes 4 localRanks 1 localRank 0 MNNVL 0",
            "AllReduce: 65536 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}",
            "AllGather: 16384 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..0}",
            "AllGather: 65536 Bytes -> Algo 1 proto 0 time 41.5",
            "1024 Bytes -> Algo 0 proto 0 time 7.25",
            "AllReduce [Symmetric]: 1024 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1",
            "AllReduce: 65536 Bytes -> Algo RI",
        ]);
        assert_eq!((found.ranks, found.nodes, found.symmetric), (Some(4), Some(4), 1));
        assert_eq!(found.torn, Torn { lines: 1, first: Some(7) });
        let [simple, pat, old, oldest] = &found.calls[..] else { panic!("{found:?}") };
        assert_eq!((simple.algorithm, simple.protocol), (Algorithm::Ring, Protocol::Simple));
        assert_eq!((simple.channels, simple.size(None)), (Some(2), Some(Bytes::kib(64))));
        // Since 2.24 a rank's own bytes are logged.
        assert_eq!(pat.size(None), Some(Bytes::kib(64)));
        assert_eq!((old.size(None), old.expected), (Some(Bytes::kib(64)), Some(41.5)));
        assert_eq!((oldest.collective, oldest.algorithm), (None, Algorithm::Tree));
    }

    #[test]
    fn what_was_built() {
        let found = log(&[
            "Pattern 4, crossNic 0, nChannels 1, bw 1.200000/1.200000, type LOC/PHB, sameChannels 1",
            "Pattern 4, crossNic 0, nChannels 1, bw 1.200000/1.200000, type LOC/PHB, sameChannels 1",
            "Channel 00/02 : 0 1 2 3",
            "Channel 01/02 : 0 1 2 ...",
            "Channel 00/0 : 3[0] -> 0[0] [receive] via NET/Socket/0",
            "Trees [0] 2/-1/-1->0->-1 [1] -1/-1/-1->0->1",
            "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer",
        ]);
        assert_eq!(found.graphs.len(), 1);
        assert_eq!(found.rings, BTreeMap::from([((0, 4), vec![0, 1, 2, 3])]));
        assert_eq!(found.trees, BTreeMap::from([((0, 0), None), ((1, 0), Some(1))]));
        assert_eq!((found.channels, found.torn.lines), (Some(2), 0));
    }

    #[test]
    fn versions_and_logs_of_nothing() {
        let text =
            "NCCL version 2.28.9+cuda13.0\nh:1:2 [0] NCCL INFO rank 0 nranks 8 - Init COMPLETE\n";
        let found = read(text).unwrap();
        assert_eq!(found.version.map(|it| it.to_string()).as_deref(), Some("2.28.9"));
        assert_eq!(found.ranks, Some(8));
        let error = read("h:1:2 [0] NCCL INFO Bootstrap : Using lo\n").unwrap_err();
        assert!(error.problem.contains("says nothing"), "{error}");
    }
}
