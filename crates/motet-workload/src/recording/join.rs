//! [`Recording::join`]: merges the logs of single ranks into calls of groups.
//!
//! `groups` says which groups of different logs are the same, `timed` makes the times comparable.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Rank, brief};

use super::error::{JoinError, Missing};
use super::groups::groups;
use super::timed::timed;
use super::{
    Clocks, LoggedCall, LoggedSpan, RankLog, RecordedGroup, Recording, clocks, parallelism,
};

/// A call with the records of its ranks, whose times are still by the ranks' own clocks.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    pub(super) group: usize,
    pub(super) kind: CollectiveKind,
    pub(super) bytes: Bytes,
    pub(super) sender: Option<Rank>,
    pub(super) seen: Vec<Seen>,
}

/// One rank's record of a call; `place` is the index of the rank's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) place: usize,
    pub(super) span: LoggedSpan,
    pub(super) stream: u64,
}

pub(super) fn join(mut logs: Vec<RankLog>, how: Clocks) -> Result<Recording, JoinError> {
    logs.sort_by_key(|it| it.rank);
    if logs.is_empty() {
        return Err(JoinError::Nothing);
    }
    if let Some(twice) = logs.windows(2).find(|it| it[0].rank == it[1].rank) {
        return Err(JoinError::Twice(Rank(twice[0].rank)));
    }
    let mut notes: BTreeSet<String> = logs.iter().flat_map(|it| it.notes.iter().cloned()).collect();
    let (mut groups, numbers) = groups(&logs)?;
    let mut joiner = Joiner { logs: &logs, groups: &groups, calls: Vec::new(), dropped: 0 };
    joiner.collectives(&numbers)?;
    joiner.messages(&numbers)?;
    let (matched, dropped) = (joiner.calls, joiner.dropped);
    if dropped > 0 {
        notes.insert(format!(
            "{dropped} calls at the ends were not seen on all ranks and are left out"
        ));
    }
    let mut kinds = vec![BTreeSet::new(); groups.len()];
    for call in &matched {
        // A kernel of messages that says nothing else may be an AllToAll as well.
        if call.kind != CollectiveKind::SendRecv || call.sender.is_some() {
            kinds[call.group].insert(call.kind);
        }
    }
    parallelism::guess(&mut groups, &kinds, logs.len());
    let offsets = match how {
        Clocks::Shared => vec![0; logs.len()],
        Clocks::Own => {
            let (offsets, sets) = clocks::offsets(logs.len(), &matched);
            if sets > 1 {
                notes.insert(format!(
                    "clocks of {sets} sets of ranks cannot be compared: they share no collective"
                ));
            }
            offsets
        }
    };
    timed(logs, groups, matched, &offsets, notes)
}

struct Joiner<'a> {
    logs: &'a [RankLog],
    groups: &'a [RecordedGroup],
    calls: Vec<Matched>,
    /// Calls that some rank did not see.
    dropped: usize,
}

/// A rank's calls of one group.
type Line<'a> = (usize, Vec<&'a LoggedCall>);

impl<'a> Joiner<'a> {
    /// Groups calls by a key. For each key there is a line per rank, with its calls in the order in which
    /// they started.
    fn lines<K: Ord>(
        &self,
        numbers: &[Vec<Option<usize>>],
        key: impl Fn(usize, &LoggedCall) -> Option<K>,
    ) -> BTreeMap<K, Vec<Line<'a>>> {
        let mut lines: BTreeMap<K, Vec<Line<'a>>> = BTreeMap::new();
        for (place, (log, numbers)) in self.logs.iter().zip(numbers).enumerate() {
            let mut calls: Vec<&LoggedCall> = log.calls.iter().collect();
            calls.sort_by_key(|it| it.span);
            for call in calls {
                let number = numbers.get(call.group).copied().flatten();
                let Some(key) = number.and_then(|it| key(it, call)) else { continue };
                let lines = lines.entry(key).or_default();
                match lines.last_mut().filter(|it| it.0 == place) {
                    Some((_, line)) => line.push(call),
                    None => lines.push((place, vec![call])),
                }
            }
        }
        lines
    }

    fn collectives(&mut self, numbers: &[Vec<Option<usize>>]) -> Result<(), JoinError> {
        let is_collective = |it: &LoggedCall| it.kind != CollectiveKind::SendRecv;
        let lines = self.lines(numbers, |group, it| is_collective(it).then_some(group));
        for (group, lines) in lines {
            let mut lines = lines;
            // A member that called nothing at all has an empty line.
            for member in &self.groups[group].members {
                let place = self.logs.partition_point(|it| it.rank < member.0);
                if !lines.iter().any(|it| it.0 == place) {
                    lines.push((place, Vec::new()));
                }
            }
            lines.sort_by_key(|it| it.0);
            if lines.iter().all(|(_, line)| line.iter().all(|it| it.sequence.is_some())) {
                self.by_sequence(group, &lines)?;
            } else {
                self.by_place(group, &lines)?;
            }
        }
        Ok(())
    }

    fn by_sequence(&mut self, group: usize, lines: &[Line<'a>]) -> Result<(), JoinError> {
        let mut all: BTreeMap<(CollectiveKind, u64), Vec<(usize, &LoggedCall)>> = BTreeMap::new();
        for (place, line) in lines {
            for call in line {
                all.entry((call.kind, call.sequence.unwrap_or(0)))
                    .or_default()
                    .push((*place, call));
            }
        }
        let before = self.calls.len();
        for calls in all.into_values() {
            let ranks: BTreeSet<usize> = calls.iter().map(|it| it.0).collect();
            if ranks.len() == lines.len() && calls.len() == lines.len() {
                self.push(group, &calls);
            } else {
                self.dropped += 1;
            }
        }
        if self.calls.len() == before {
            return Err(JoinError::Apart(self.name(group)));
        }
        Ok(())
    }

    fn by_place(&mut self, group: usize, lines: &[Line<'a>]) -> Result<(), JoinError> {
        let Some((first, others)) = lines.split_first() else { return Ok(()) };
        let rank = |line: &Line<'_>| Rank(self.logs[line.0].rank);
        for other in others {
            if other.1.len() != first.1.len() {
                return Err(JoinError::Counts {
                    group: self.name(group),
                    one: (rank(first), first.1.len()),
                    other: (rank(other), other.1.len()),
                });
            }
            let pairs = first.1.iter().zip(&other.1);
            if let Some(place) = pairs.into_iter().position(|(a, b)| !alike(a, b)) {
                let what = |line: &Line<'_>| {
                    let it = line.1[place];
                    (rank(line), format!("{} of {}", it.kind.name(), it.bytes))
                };
                let (one, other) = (what(first), what(other));
                return Err(JoinError::Unlike { group: self.name(group), place, one, other });
            }
        }
        for place in 0..first.1.len() {
            let calls: Vec<_> = lines.iter().map(|it| (it.0, it.1[place])).collect();
            self.push(group, &calls);
        }
        Ok(())
    }

    /// Messages are matched between their two ends; one whose ends are not known stands alone.
    fn messages(&mut self, numbers: &[Vec<Option<usize>>]) -> Result<(), JoinError> {
        let is_message = |it: &LoggedCall| it.kind == CollectiveKind::SendRecv;
        let alone =
            self.lines(numbers, |group, it| (is_message(it) && it.ends.is_none()).then_some(group));
        for (group, lines) in alone {
            for (place, line) in lines {
                line.into_iter().for_each(|it| self.push(group, &[(place, it)]));
            }
        }
        let pairs = self.lines(numbers, |group, it| {
            it.ends.filter(|_| is_message(it)).map(|ends| (group, ends))
        });
        for ((group, (from, to)), mut lines) in pairs {
            for end in [from, to] {
                let place = self.logs.partition_point(|it| it.rank < end.0);
                if self.logs.get(place).is_none_or(|it| it.rank != end.0) {
                    let (group, size) = (self.name(group), self.groups[group].members.len());
                    let lost = Missing { group, size, ranks: vec![end], count: 1 };
                    return Err(JoinError::Missing(vec![lost]));
                }
                if !lines.iter().any(|it| it.0 == place) {
                    lines.push((place, Vec::new()));
                }
            }
            lines.sort_by_key(|it| it.0);
            self.by_place(group, &lines)?;
        }
        Ok(())
    }

    fn push(&mut self, group: usize, calls: &[(usize, &LoggedCall)]) {
        let Some((_, first)) = calls.first() else { return };
        let bytes = calls.iter().map(|it| it.1.bytes).max().unwrap_or(first.bytes);
        let seen = calls.iter().map(|(place, it)| Seen {
            place: *place,
            span: it.span,
            stream: it.stream,
        });
        let (kind, sender) = (first.kind, first.ends.map(|it| it.0));
        self.calls.push(Matched { group, kind, bytes, sender, seen: seen.collect() });
    }

    fn name(&self, group: usize) -> String {
        let it = &self.groups[group];
        brief(if it.name.is_empty() { &it.description } else { &it.name }).to_string()
    }
}

/// Whether two records may be of the same call. Sizes are compared only for collectives in which all ranks
/// have the same size.
fn alike(one: &LoggedCall, other: &LoggedCall) -> bool {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let even = matches!(one.kind, AllGather | AllReduce | ReduceScatter);
    one.kind == other.kind && (!even || one.bytes == other.bytes)
}
