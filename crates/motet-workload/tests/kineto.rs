//! Traces of PyTorch's profiler: what is read of them, and what is refused.

use motet_collective::CollectiveKind::{AllGather, ReduceScatter, SendRecv};
use motet_units::{Bytes, Rank};
use motet_workload::Parallelism;
use motet_workload::formats::kineto::read;
use motet_workload::recording::{Clocks, Recording};
use proptest::prelude::*;

const RANK_0: &str = include_str!("../../../fuzz/corpus/workload_kineto/fsdp-rank-0.json");
const RANK_1: &str = include_str!("../../../fuzz/corpus/workload_kineto/fsdp-rank-1.json");

const PIPELINE_0: &str = include_str!("../../../fuzz/corpus/workload_kineto/pipeline-rank-0.json");
const PIPELINE_1: &str = include_str!("../../../fuzz/corpus/workload_kineto/pipeline-rank-1.json");

#[test]
fn two_ranks_make_a_recording() {
    let logs = vec![read(RANK_1).unwrap(), read(RANK_0).unwrap()];
    let it = Recording::join(logs, Clocks::Shared).unwrap();
    assert_eq!((it.ranks().len(), it.world()), (2, Some(2)));
    let calls: Vec<_> = it.calls().iter().map(|it| (it.kind, it.bytes, it.seen.len())).collect();
    let expected = [
        // The whole array: two shards of 1024 numbers of two bytes.
        (AllGather, Bytes::new(4096), 2),
        (SendRecv, Bytes::new(200), 2),
        // A batch without partners, once on each rank.
        (SendRecv, Bytes::ZERO, 1),
        (SendRecv, Bytes::ZERO, 1),
        // All that it says stands in its launch.
        (ReduceScatter, Bytes::new(16384), 2),
    ];
    assert_eq!(calls, expected);
    let gather = &it.calls()[0];
    assert_eq!(it.group(gather).members, [Rank(0), Rank(1)]);
    // The step's start is the first thing seen; 15.125 µs later rank 1 joins.
    assert_eq!(gather.joined().as_ps(), 15_125_000);
    assert_eq!(gather.span().length().as_ps(), 30_500_000);
    let scatter = &it.calls()[4];
    assert_eq!(scatter.span().start.as_ps(), 180_001_000);
    assert_eq!(it.group(&it.calls()[1]).parallelism, Some(Parallelism::Pp));
    assert_eq!(it.compute(Rank(0)).len(), 1);
    assert_eq!(it.steps().len(), 1);
    assert_eq!(it.notes().len(), 2, "{:?}", it.notes());
    assert!(it.notes()[0].contains("1 kernels of messages say neither partner nor size"));
}

/// PyTorch's pipelines put messages together in one kernel; what they are is known where it was launched.
#[test]
fn batches_of_messages_are_told_by_their_launch() {
    let logs = vec![read(PIPELINE_0).unwrap(), read(PIPELINE_1).unwrap()];
    let it = Recording::join(logs, Clocks::Shared).unwrap();
    let calls: Vec<_> =
        it.calls().iter().map(|it| (it.kind, it.bytes, it.sender, it.seen.len())).collect();
    let (zero, one) = (Some(Rank(0)), Some(Rank(1)));
    let expected = [
        (SendRecv, Bytes::new(2000), zero, 2),
        // Two in one kernel.
        (SendRecv, Bytes::new(2000), zero, 2),
        (SendRecv, Bytes::new(1000), one, 2),
        // Launched outside any batch: nobody says what these are.
        (SendRecv, Bytes::ZERO, None, 1),
        (SendRecv, Bytes::ZERO, None, 1),
    ];
    assert_eq!(calls, expected);
    assert_eq!(it.group(&it.calls()[0]).parallelism, Some(Parallelism::Pp));
    let [first, second, third] = [0, 1, 2].map(|at| &it.calls()[at]);
    // From when the later of both ranks joins.
    assert_eq!((first.joined().as_ps(), first.span().end.as_ps()), (34_000_000, 74_000_000));
    assert_eq!((second.joined(), second.span()), (third.joined(), third.span()));
    assert!(it.notes()[0].contains("1 kernels of messages say neither"), "{:?}", it.notes());
}

#[test]
fn long_lists_of_ranks_are_completed_or_left_open() {
    // Cut short, as PyTorch does beyond 30, and not in the job's table: first rank and stride have them.
    let text = RANK_0
        .replace(
            r#""Process Group Ranks": "[0, 1]", "Global"#,
            r#""Process Group Ranks": "[0, ..., 31]", "Global"#,
        )
        .replace(r#""Group size": 2"#, r#""Group size": 32"#);
    let log = read(&text).unwrap();
    let of = |kind| log.calls.iter().find(|it| it.kind == kind).map(|it| &log.groups[it.group]);
    let scatter = of(ReduceScatter).unwrap();
    assert_eq!(scatter.members.as_ref().map(Vec::len), Some(32));
    // The AllGather's list does not have as many ranks as its group, and nothing else tells them.
    let gather = of(AllGather).unwrap();
    assert_eq!((gather.members.as_ref(), gather.size), (None, Some(32)));
}

#[test]
fn times_keep_their_nanoseconds() {
    // Since 1970 in microseconds: a float of 64 bits would round this to a quarter of a microsecond.
    let text = RANK_0
        .replace("\"baseTimeNanoseconds\": 1700000000000000000,", "")
        .replace("\"ts\": 20.125", "\"ts\": 1700000000000020.127");
    let log = read(&text).unwrap();
    let gather = log.calls.iter().find(|it| it.kind == AllGather).unwrap();
    assert_eq!(gather.span.start, 1_700_000_000_000_020_127);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let error = |text: &str| read(text).unwrap_err();
    let nobody = error(r#"{"traceEvents": []}"#);
    assert!(nobody.problem.contains("does not say of which rank"));
    assert!(nobody.remedy.unwrap().contains("after torch.distributed is initialized"));
    let silent = error(r#"{"distributedInfo": {"rank": 3}, "traceEvents": []}"#);
    assert!(silent.problem.contains("no communication"), "{}", silent.problem);
    let cut = error(&RANK_0[..RANK_0.len() / 2]);
    assert_eq!(cut.problem, "the trace breaks off");
    assert!(cut.at.is_some());
    let other = error("[1, 2]");
    assert!(other.problem.starts_with("not a Kineto trace"), "{}", other.problem);
    let strange = error(
        &RANK_0
            .replace("ncclDevKernel_AllGather", "ncclDevKernel_X")
            .replace("_allgather_base", "y"),
    );
    assert!(strange.problem.contains("is no known collective"), "{}", strange.problem);
    let timeless = error(&RANK_0.replace("\"ts\": 20.125", "\"ts\": \"20.!\""));
    assert!(timeless.problem.ends_with("has no time"), "{}", timeless.problem);
    // A type that is not known costs the size, not the call.
    let log = read(&RANK_0.replace("BFloat16", "Nibble")).unwrap();
    assert_eq!(log.calls[0].bytes, Bytes::ZERO);
    assert!(log.notes.iter().any(|it| it.contains("1 calls are of the unknown type `Nibble`")));
}

#[test]
fn missing_ranks_are_named() {
    let error = Recording::join(vec![read(RANK_0).unwrap()], Clocks::Shared).unwrap_err();
    assert_eq!(error.to_string(), "ranks are missing: 1 (group `0` of 2); 1 (group `7` of 2)");
}

proptest! {
    /// Whatever stands in one place of a trace, it is read or refused.
    #[test]
    fn any_change_is_read_or_refused(place in 0usize..RANK_0.len(), piece in "\\PC{0,4}") {
        if RANK_0.is_char_boundary(place) {
            let text = format!("{}{piece}{}", &RANK_0[..place], &RANK_0[place + 1..]);
            let _ = read(&text);
        }
    }
}
