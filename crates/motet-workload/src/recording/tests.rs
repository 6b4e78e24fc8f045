//! Tests of [`Recording::join`] on logs written by hand.

use motet_collective::CollectiveKind::{AllGather, AllReduce, SendRecv};

use super::*;

const DAY: i64 = 1_700_000_000_000_000_000;

fn group(name: &str, description: &str, members: &[u32]) -> LoggedGroup {
    LoggedGroup {
        name: name.to_owned(),
        description: description.to_owned(),
        size: Some(members.len() as u32),
        members: Some(members.iter().map(|it| Rank(*it)).collect()),
    }
}

fn call(group: usize, kind: CollectiveKind, bytes: u64, start: i64, end: i64) -> LoggedCall {
    let span = LoggedSpan { start: DAY + start, end: DAY + end };
    LoggedCall {
        group,
        kind,
        bytes: Bytes::new(bytes),
        span,
        stream: 7,
        sequence: None,
        ends: None,
    }
}

fn log(rank: u32, groups: Vec<LoggedGroup>, calls: Vec<LoggedCall>) -> RankLog {
    RankLog { rank, groups, calls, ..RankLog::default() }
}

fn ns(it: Instant) -> u64 {
    it.as_ps() / 1000
}

/// Two tensor-parallel pairs that share a name, and two data-parallel pairs.
fn four() -> Vec<RankLog> {
    let of = |rank: u32, late: i64| {
        let tensor = if rank < 2 { [0, 1] } else { [2, 3] };
        let data = if rank.is_multiple_of(2) { [0, 2] } else { [1, 3] };
        let groups = vec![group("5", "mesh_tp", &tensor), group("6", "mesh_dp_shard", &data)];
        // The second is listed first: profilers write kernels in any order.
        let calls = vec![
            call(1, AllReduce, 64, 100 + late, 160),
            call(0, AllGather, 32, late, 40),
            call(0, AllGather, 32, 50 + late, 90),
        ];
        log(rank, groups, calls)
    };
    vec![of(2, 0), of(0, 0), of(1, 5), of(3, 10)]
}

#[test]
fn ranks_are_put_together() {
    let it = Recording::join(four(), Clocks::Shared).unwrap();
    assert_eq!(it.ranks(), [Rank(0), Rank(1), Rank(2), Rank(3)]);
    assert_eq!(it.groups().len(), 4, "groups of one name and other members are others");
    let uses: Vec<_> = it.groups().iter().map(|it| it.parallelism).collect();
    let (tp, dp) = (Some(Parallelism::Tp), Some(Parallelism::Dp));
    assert_eq!(uses, [tp, dp, dp, tp]);
    assert_eq!(it.calls().len(), 6);
    let last = &it.calls()[5];
    assert_eq!((last.kind, last.bytes), (AllReduce, Bytes::new(64)));
    assert_eq!(it.group(last).members, [Rank(1), Rank(3)]);
    assert_eq!((ns(last.span().start), ns(last.joined()), ns(last.span().end)), (105, 110, 160));
    let first = &it.calls()[0];
    assert_eq!((ns(first.span().start), ns(first.joined())), (0, 5));
    assert_eq!(first.seen[1].stream, 7);
    assert_eq!(it.notes(), [] as [String; 0]);
}

#[test]
fn missing_ranks_are_named() {
    let mut logs = four();
    logs.retain(|it| it.rank != 3);
    let error = Recording::join(logs, Clocks::Shared).unwrap_err();
    let text = "ranks are missing: 3 (group `6` of 2); 3 (group `5` of 2)";
    assert_eq!(error.to_string(), text);
    assert!(error.remedy().contains("record again with the profiler on every rank"));
    // Members are not listed, but their number is.
    let mut logs = four();
    logs.truncate(1);
    logs[0].groups[0] = LoggedGroup { size: Some(64), members: None, ..logs[0].groups[0].clone() };
    logs[0].calls.remove(0);
    let error = Recording::join(logs, Clocks::Shared).unwrap_err();
    assert_eq!(error.to_string(), "ranks are missing: 63 of the 64 in group `5`");
    assert_eq!(Recording::join(vec![], Clocks::Shared), Err(JoinError::Nothing));
    let twice = vec![four().remove(0), four().remove(0)];
    assert_eq!(Recording::join(twice, Clocks::Shared), Err(JoinError::Twice(Rank(2))));
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let mut logs = four();
    logs[1].calls.pop();
    let error = Recording::join(logs, Clocks::Shared).unwrap_err().to_string();
    assert_eq!(error, "rank 0 has 1 calls in group `5` and rank 1 has 2");
    let mut logs = four();
    logs[2].calls[2].kind = AllReduce;
    let error = Recording::join(logs, Clocks::Shared).unwrap_err().to_string();
    let text = "call 1 of group `5` is allgather of 32 B on rank 0 and allreduce of 32 B on rank 1";
    assert_eq!(error, text);
}

#[test]
fn sequence_numbers_match_recordings_that_begin_apart() {
    let pair = |rank, from: u64| {
        let numbered = |number: u64| LoggedCall {
            sequence: Some(number),
            ..call(0, AllReduce, 8, number as i64 * 10, number as i64 * 10 + 5)
        };
        log(rank, vec![group("0", "", &[0, 1])], (from..from + 4).map(numbered).collect())
    };
    let it = Recording::join(vec![pair(0, 3), pair(1, 5)], Clocks::Shared).unwrap();
    assert_eq!(it.calls().len(), 2);
    assert_eq!(it.notes(), ["4 calls at the ends were not seen on all ranks and are left out"]);
    assert_eq!(it.groups()[0].parallelism, Some(Parallelism::Dp));
    assert!(it.groups()[0].is_guessed);
    let error = Recording::join(vec![pair(0, 0), pair(1, 9)], Clocks::Shared).unwrap_err();
    assert_eq!(error, JoinError::Apart("0".to_owned()));
}

#[test]
fn messages_are_matched_by_their_ends() {
    let ends = Some((Rank(1), Rank(0)));
    let message = |start| LoggedCall { ends, ..call(0, SendRecv, 9, start, start + 3) };
    let unknown = call(0, SendRecv, 0, 50, 60);
    let groups = vec![group("0", "", &[0, 1, 2])];
    let logs = vec![
        log(0, groups.clone(), vec![message(1), message(20)]),
        log(1, groups.clone(), vec![message(0), message(22), unknown]),
        log(2, vec![], vec![]),
    ];
    let it = Recording::join(logs.clone(), Clocks::Shared).unwrap();
    let seen: Vec<usize> = it.calls().iter().map(|it| it.seen.len()).collect();
    assert_eq!(seen, [2, 2, 1]);
    assert_eq!(it.groups()[0].parallelism, Some(Parallelism::Pp));
    let text = Recording::join(vec![logs[0].clone(), logs[2].clone()], Clocks::Shared);
    assert_eq!(text.unwrap_err().to_string(), "ranks are missing: 1 (group `0` of 3)");
}

#[test]
fn clocks_are_brought_together_by_ends() {
    let mut logs = four();
    for (place, ahead) in [(0, 7_000), (1, 0), (2, -900), (3, 1_000_000)] {
        for call in &mut logs[place].calls {
            call.span.start += ahead;
            call.span.end += ahead;
        }
    }
    let own = Recording::join(logs, Clocks::Own).unwrap();
    assert_eq!(own.calls(), Recording::join(four(), Clocks::Shared).unwrap().calls());
}

#[test]
fn compute_is_merged_and_steps_span_ranks() {
    let span = |start, end| LoggedSpan { start, end };
    let mut one = log(0, vec![], vec![]);
    one.compute = vec![span(5, 9), span(0, 3), span(2, 4)];
    one.steps = vec![span(0, 10), span(10, 20)];
    let two = RankLog { rank: 1, steps: vec![span(1, 12)], ..RankLog::default() };
    let it = Recording::join(vec![one, two], Clocks::Shared).unwrap();
    let spans = |all: &[Span]| all.iter().map(|it| (ns(it.start), ns(it.end))).collect::<Vec<_>>();
    assert_eq!(spans(it.compute(Rank(0))), [(0, 4), (5, 9)]);
    assert_eq!(spans(it.compute(Rank(1))), []);
    assert_eq!(spans(it.steps()), [(0, 12)]);
    let far = RankLog { rank: 2, steps: vec![span(i64::MIN, i64::MAX)], ..RankLog::default() };
    let error = Recording::join(vec![far], Clocks::Shared).unwrap_err();
    assert_eq!(error, JoinError::FarApart);
}

#[test]
fn descriptions_tell_parallelisms() {
    let of = |text: &str| parallelism::described(text).map_or("-", Parallelism::name);
    let texts = [
        ("mesh_tp", "TP"),
        ("mesh_dp_shard_cp", "DP"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "TP"),
        ("EXPERT_DATA_PARALLEL_GROUP", "DP"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "EP"),
        ("CONTEXT_PARALLEL_GROUP", "CP"),
        ("mesh_pp", "PP"),
        ("default_pg", "-"),
        ("", "-"),
    ];
    for (text, name) in texts {
        assert_eq!(of(text), name, "{text}");
    }
}
