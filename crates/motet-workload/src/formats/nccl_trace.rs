//! Traces of Motet's own NCCL plugin (`motet_runtime::trace`), one per process, made into logs of ranks.
//!
//! A process knows its rank in each of its communicators, not in the job. The job's ranks are the ranks in
//! the largest communicator that all traces have; without such a communicator they are the order in which the
//! traces were given. Times are by each GPU's own clock, so the logs must be joined with
//! [`Clocks::Own`](crate::recording::Clocks). Calls that were not timed are left out and counted in a note.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::CollectiveKind;
use motet_runtime::trace::{Communicator, Source, Trace, TracedCall};
use motet_units::Rank;

use crate::recording::{LoggedCall, LoggedGroup, LoggedSpan, RankLog};

/// The logs of the processes of one job.
#[must_use]
pub fn logs(traces: &[Trace]) -> Vec<RankLog> {
    let world = world(traces);
    let rank = |place: usize| match world {
        Some(id) => communicator(&traces[place], id).map_or(place as u32, |it| it.rank),
        None => place as u32,
    };
    // For each communicator, which rank of the job each of its ranks is.
    let mut members: BTreeMap<u64, BTreeMap<u32, u32>> = BTreeMap::new();
    for (place, trace) in traces.iter().enumerate() {
        for it in &trace.communicators {
            members.entry(it.id).or_default().insert(it.rank, rank(place));
        }
    }
    let size = world.and_then(|id| communicator(traces.first()?, id)).map(|it| it.ranks);
    let mut all = Vec::new();
    for (place, trace) in traces.iter().enumerate() {
        let mut log = RankLog { rank: rank(place), world: size, ..RankLog::default() };
        if world.is_none() {
            log.notes.push(
                "the traces share no communicator of all ranks: ranks are the order of the files"
                    .to_owned(),
            );
        }
        let group = |it: &Communicator| logged(it, world == Some(it.id), members.get(&it.id));
        log.groups = trace.communicators.iter().map(group).collect();
        log.calls = trace.calls.iter().filter_map(call).collect();
        let left_out = trace.calls.len() - log.calls.len();
        if left_out > 0 {
            let note =
                format!("rank {}: {left_out} calls were not timed and are left out", log.rank);
            log.notes.push(note);
        }
        if let Some(at) = trace.cut_at {
            log.notes.push(format!("rank {}: the trace breaks off at byte {at}", log.rank));
        }
        all.push(log);
    }
    all
}

fn communicator(trace: &Trace, id: u64) -> Option<&Communicator> {
    trace.communicators.iter().find(|it| it.id == id)
}

/// The largest communicator in which every trace has a different rank.
fn world(traces: &[Trace]) -> Option<u64> {
    let first = traces.first()?;
    let shared = first.communicators.iter().filter(|it| {
        let found: Vec<_> = traces.iter().filter_map(|trace| communicator(trace, it.id)).collect();
        let ranks: BTreeSet<u32> = found.iter().map(|it| it.rank).collect();
        ranks.len() == traces.len()
    });
    shared.max_by_key(|it| it.ranks).map(|it| it.id)
}

fn logged(it: &Communicator, is_world: bool, members: Option<&BTreeMap<u32, u32>>) -> LoggedGroup {
    let known = members.filter(|all| all.len() == it.ranks as usize);
    let members = match known {
        Some(all) => {
            let mut ranks: Vec<Rank> = all.values().map(|it| Rank(*it)).collect();
            ranks.sort_unstable();
            Some(ranks)
        }
        // Ranks of the job are the world's own, also those of which there is no trace. The bound keeps a
        // damaged number from filling memory.
        None if is_world && it.ranks <= 1 << 20 => Some((0..it.ranks).map(Rank).collect()),
        None => None,
    };
    LoggedGroup {
        name: format!("{:016x}", it.id),
        description: it.name.clone(),
        size: Some(it.ranks),
        members,
    }
}

fn call(it: &TracedCall) -> Option<LoggedCall> {
    if it.source == Source::Unknown {
        return None;
    }
    // Both crates name collectives alike; a test holds them to it.
    let kind: CollectiveKind = it.collective.name().parse().ok()?;
    let start = i64::try_from(it.start_ns).ok()?;
    let end = start.checked_add(i64::try_from(it.duration_ns).ok()?)?;
    Some(LoggedCall {
        group: it.communicator as usize,
        kind,
        bytes: it.bytes,
        span: LoggedSpan { start, end },
        stream: 0,
        sequence: Some(it.sequence),
        ends: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Parallelism;
    use crate::recording::{Clocks, Recording};
    use motet_runtime::key::Collective;
    use motet_units::Bytes;

    /// Four processes: a communicator of all, and pairs. Their clocks are a second apart.
    fn traces() -> Vec<Trace> {
        let about =
            |id, rank, ranks| Communicator { id, rank, ranks, nodes: 1, name: String::new() };
        let of = |rank: u32| {
            let call = |communicator, sequence, collective, start_ns| TracedCall {
                communicator,
                sequence,
                collective,
                bytes: Bytes::mib(1),
                algorithm: None,
                protocol: None,
                channels: 1,
                finished: 1,
                source: Source::Gpu,
                start_ns: u64::from(rank) * 1_000_000_000 + start_ns,
                duration_ns: 1000,
            };
            let untimed =
                TracedCall { source: Source::Unknown, ..call(0, 9, Collective::AllReduce, 0) };
            Trace {
                communicators: vec![about(77, rank % 2, 2), about(5, rank, 4)],
                calls: vec![
                    call(0, 1, Collective::AllGather, 100),
                    call(1, 1, Collective::AllReduce, 5000),
                    untimed,
                ],
                cut_at: None,
            }
        };
        let mut all: Vec<Trace> = (0..4).map(of).collect();
        all[2].communicators[0].id = 78;
        all[3].communicators[0].id = 78;
        all
    }

    #[test]
    fn processes_find_their_ranks_and_partners() {
        let mut traces = traces();
        traces.reverse();
        let it = Recording::join(logs(&traces), Clocks::Own).unwrap();
        assert_eq!((it.ranks().len(), it.world()), (4, Some(4)));
        let members: Vec<_> =
            it.calls().iter().map(|call| it.group(call).members.clone()).collect();
        let pair = |a, b| vec![Rank(a), Rank(b)];
        assert_eq!(members, [pair(0, 1), pair(2, 3), (0..4).map(Rank).collect()]);
        // Clocks a second apart are brought together.
        assert!(it.calls().iter().all(|it| it.span().length().as_ps() == 1_000_000));
        assert_eq!(it.group(&it.calls()[0]).parallelism, Some(Parallelism::Dp));
        assert_eq!(it.notes().len(), 4);
    }

    #[test]
    fn missing_processes_are_named() {
        let mut traces = traces();
        traces.remove(2);
        let error = Recording::join(logs(&traces), Clocks::Own).unwrap_err();
        let text = "ranks are missing: 2 (group `0000000000000005` of 4); 1 of the 2 in group `000000000000004e`";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn collectives_have_the_same_names() {
        for it in Collective::ALL {
            assert!(it.name().parse::<CollectiveKind>().is_ok(), "{it}");
        }
    }
}
