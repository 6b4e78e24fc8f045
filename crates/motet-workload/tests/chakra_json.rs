//! Chakra's three JSON dialects, and recorded traces made into a recording.

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Rank};
use motet_workload::formats::chakra::{self, Collective, Message, NodeKind, Trace, json, recorded};
use motet_workload::recording::{Clocks, Recording};
use proptest::prelude::*;

const JSONIZER: &str = include_str!("../../../fuzz/corpus/workload_chakra_json/jsonizer.json");
const FEEDER: &str = include_str!("../../../fuzz/corpus/workload_chakra_json/feeder.json");
const PYTORCH: &str = include_str!("../../../fuzz/corpus/workload_chakra_json/pytorch.json");

fn collective(kind: CollectiveKind, bytes: Option<u64>, group: Option<&str>) -> NodeKind {
    NodeKind::Collective {
        what: Some(Collective::Data(kind)),
        bytes: bytes.map(Bytes::new),
        group: group.map(str::to_owned),
    }
}

/// What is read of a text is the same after writing it as JSON and as bytes.
fn round_trips(trace: &Trace) {
    let written = json::write(trace).unwrap_or_default();
    assert_eq!(json::read(&written).as_ref(), Ok(trace));
    assert_eq!(chakra::read(&chakra::write(trace)).as_ref(), Ok(trace));
}

#[test]
fn reads_what_the_jsonizer_writes() {
    let trace = json::read(JSONIZER).unwrap();
    assert_eq!(trace.version, "0.0.4");
    let [compute, gather, send] = trace.nodes.as_slice() else { panic!("{trace:?}") };
    let operations = NodeKind::Compute { operations: Some(3_000_000_000), bytes: None };
    assert_eq!((compute.duration, &compute.kind), (12, &operations));
    assert_eq!((gather.start, gather.duration), (100, 40));
    assert_eq!((gather.waits.as_slice(), gather.control.as_slice()), (&[1][..], &[1, 9][..]));
    assert_eq!(gather.kind, collective(CollectiveKind::AllGather, Some(1024), Some("1")));
    let message = Message { bytes: Some(Bytes::new(8)), from: None, to: Some(Rank(1)), tag: None };
    assert_eq!(send.kind, NodeKind::Send(message));
    round_trips(&trace);
}

#[test]
fn reads_what_the_feeder_reads() {
    let trace = json::read(FEEDER).unwrap();
    let kinds: Vec<&NodeKind> = trace.nodes.iter().map(|it| &it.kind).collect();
    assert_eq!(trace.nodes[0].duration, 318);
    // On the CPU a launch, on the device told by the kernel's name.
    assert!(matches!(kinds[1], NodeKind::Collective { what: None, .. }));
    assert_eq!(*kinds[2], collective(CollectiveKind::Broadcast, None, None));
    assert_eq!(*kinds[3], collective(CollectiveKind::AllGather, Some(1024), Some("1")));
    let NodeKind::Send(it) = kinds[4] else { panic!("{:?}", kinds[4]) };
    assert_eq!((it.from, it.to, it.tag), (Some(Rank(0)), Some(Rank(1)), Some(7)));
    round_trips(&trace);
}

#[test]
fn reads_execution_traces_of_pytorch() {
    let trace = json::read(PYTORCH).unwrap();
    assert_eq!(trace.version, "1.0.2-chakra.0.0.4");
    let kinds: Vec<&NodeKind> = trace.nodes.iter().map(|it| &it.kind).collect();
    assert_eq!(*kinds[0], NodeKind::Metadata);
    let gather = collective(CollectiveKind::AllGather, Some(1024), Some("0"));
    assert_eq!((kinds[1], trace.nodes[1].is_cpu), (&gather, Some(true)));
    assert!(matches!(kinds[2], NodeKind::Compute { .. }), "its label is not a second one");
    assert_eq!((kinds[3], trace.nodes[3].is_cpu), (&gather, Some(false)));
    assert_eq!((trace.nodes[3].start, trace.nodes[3].duration), (1000, 40));
    assert!(matches!(kinds[4], NodeKind::Compute { .. }), "waiting is no collective");
    let NodeKind::Send(it) = kinds[5] else { panic!("{:?}", kinds[5]) };
    assert_eq!(it.bytes, Some(Bytes::new(16)));
    round_trips(&trace);
}

#[test]
fn recorded_traces_become_a_recording() {
    let trace = json::read(PYTORCH).unwrap();
    let groups = recorded::groups(r#"{"0": [0, 1]}"#).unwrap();
    let log = |rank| recorded::log(&trace, rank, 2, &groups).unwrap();
    let it = Recording::join(vec![log(0), log(1)], Clocks::Shared).unwrap();
    // The kernel alone: what the CPU calls is its launch. Whole arrays, as everywhere.
    let [gather] = it.calls() else { panic!("{:?}", it.calls()) };
    assert_eq!((gather.kind, gather.bytes), (CollectiveKind::AllGather, Bytes::new(2048)));
    assert_eq!(gather.span().length().as_ps(), 40_000_000);
    let alone = Recording::join(vec![log(0)], Clocks::Shared).unwrap_err();
    assert_eq!(alone.to_string(), "ranks are missing: 1 (group `0` of 2)");
    let plan = json::read(FEEDER).unwrap();
    let error = recorded::log(&plan, 0, 2, &groups).unwrap_err();
    assert!(error.problem.contains("no times of communication"), "{}", error.problem);
    assert!(recorded::groups("[1]").unwrap_err().problem.starts_with("not a file of groups"));
}

#[test]
fn errors_have_places() {
    let error = |text: &str| json::read(text).unwrap_err();
    let at = |text: &str| error(text).at.map(|it| (it.line, it.column));
    assert_eq!(error("").problem, "the file is empty");
    assert_eq!(at(&JSONIZER.replace("\"id\": \"2\"", "\"id\": \"two\"")), Some((11, 13)));
    assert_eq!(at(&FEEDER.replace("\"Id\": 436", "\"Id\": {}")).map(|it| it.0), Some(6));
    let unknown = error(&JSONIZER.replace("COMM_SEND_NODE", "COMM_SHOUT_NODE"));
    assert_eq!(unknown.problem, "node 3 (`send`) is of the unknown type -1");
    let twice = error(&FEEDER.replace("\"Id\": 437", "\"Id\": 436"));
    assert_eq!(twice.problem, "two nodes have the number 436");
    let none = error(&JSONIZER.replace("\"uint64Val\": \"1024\"", "\"uint64Val\": \"-1\""));
    assert_eq!(none.problem, "attribute `comm_size` has a `uint64Val` that is none");
    assert!(error("{}{]").problem.starts_with("not a Chakra trace"));
}

proptest! {
    #[test]
    fn any_change_is_read_or_refused(place in 0usize..1_000_000, piece in "\\PC{0,4}") {
        for text in [JSONIZER, FEEDER, PYTORCH] {
            let place = place % text.len();
            let changed = format!("{}{piece}{}", &text[..place], &text[place + 1..]);
            if let Ok(trace) = json::read(&changed) {
                round_trips(&trace);
            }
        }
    }
}
