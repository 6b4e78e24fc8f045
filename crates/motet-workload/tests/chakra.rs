//! Chakra traces: samples of other projects are read right, what we write reads back equal, and what
//! cannot be is refused.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Rank};
use motet_workload::formats::chakra::{Collective, Node, NodeKind, Trace, export, read, write};
use motet_workload::{Batch, Draft, Gpu, Host, Job, Layout, Sharding, models};
use proptest::prelude::*;

/// ASTRA-sim's example: each of eight ranks gathers, 1 MiB from each.
#[test]
fn reads_astra_sims_example() {
    let Some(folder) = motet_testdata::samples("chakra/all_gather_8npus_1MB") else { return };
    for rank in 0..8 {
        let bytes = fs::read(folder.join(format!("all_gather.{rank}.et"))).unwrap();
        let trace = read(&bytes).unwrap();
        assert_eq!(trace.version, "0.0.4");
        let [node] = trace.nodes.as_slice() else { panic!("{} nodes", trace.nodes.len()) };
        assert_eq!((node.name.as_str(), node.is_cpu), ("all_gather_8npus_1MB", Some(false)));
        let what = Some(Collective::Data(CollectiveKind::AllGather));
        let bytes = Some(Bytes::mib(1));
        assert_eq!(node.kind, NodeKind::Collective { what, bytes, group: None });
        assert_eq!(read(&write(&trace)).unwrap(), trace);
    }
}

/// Two nodes, byte by byte as Chakra's schema has them: fields by number, attributes of the types that its
/// feeder asks for.
#[test]
fn writes_by_the_schema() {
    let node = Node {
        id: 1,
        name: "x".to_owned(),
        waits: vec![0],
        control: vec![],
        start: 0,
        duration: 5,
        is_cpu: Some(false),
        kind: NodeKind::Compute { operations: Some(3), bytes: None },
    };
    let metadata =
        Node { id: 0, waits: vec![], kind: NodeKind::Metadata, is_cpu: None, ..node.clone() };
    let bytes = write(&Trace { version: "0.0.4".to_owned(), nodes: vec![metadata, node] });
    let attribute = |name: &str, value: &[u8]| {
        let mut all = vec![0x52, (2 + name.len() + value.len()) as u8, 0x0a, name.len() as u8];
        all.extend(name.bytes());
        all.extend(value);
        all
    };
    let mut expected = b"\x07\x0a\x050.0.4".to_vec();
    expected.extend(b"\x07\x12\x01x\x18\x01\x38\x05");
    let mut second = b"\x08\x01\x12\x01x\x18\x04\x2a\x01\x00\x38\x05".to_vec();
    second.extend(attribute("is_cpu_op", &[0xd8, 0x01, 0x00]));
    second.extend(attribute("num_ops", &[0x48, 0x03]));
    expected.push(second.len() as u8);
    expected.extend(second);
    assert_eq!(bytes, expected);
}

fn job() -> Job {
    let layout =
        Layout { tp: 2, dp: 4, ep: 2, pp: 2, sharding: Sharding::Optimizer, ..Layout::default() };
    let (model, gpu) = (models::named("mixtral-8x7b").unwrap(), Gpu::named("h100").unwrap());
    let host = Host { call: Duration::from_us(200) };
    let batch = Batch { sequence: 4096, micro: 1, global: 12 };
    Draft { host, ..Draft::new(model, gpu, layout, batch) }.check().unwrap()
}

#[test]
fn a_job_reads_back_equal_and_ranks_fit_together() {
    let job = job();
    let iteration = job.iteration(0).unwrap();
    let groups: BTreeMap<String, Vec<u32>> =
        serde_json::from_str(&export::groups(&job, &iteration).unwrap()).unwrap();
    let mut sent = BTreeSet::new();
    let mut received = BTreeSet::new();
    // For each group, what each of its ranks calls, in order.
    let mut calls: BTreeMap<String, BTreeMap<u32, Vec<_>>> = BTreeMap::new();
    for rank in 0..16 {
        let trace = export::trace(&job, &iteration, Rank(rank)).unwrap();
        assert_eq!(read(&write(&trace)).unwrap(), trace);
        assert_eq!(trace.missing(), []);
        for node in &trace.nodes {
            match &node.kind {
                NodeKind::Send(it) => {
                    assert_eq!(it.from, Some(Rank(rank)));
                    assert!(sent.insert((it.from, it.to, it.tag, it.bytes)));
                }
                NodeKind::Receive(it) => {
                    assert_eq!(it.to, Some(Rank(rank)));
                    assert!(received.insert((it.from, it.to, it.tag, it.bytes)));
                }
                NodeKind::Collective { what, bytes, group } => {
                    let name = group.clone().unwrap();
                    assert!(groups[&name].contains(&rank), "{rank} is not in {name}");
                    let of = calls.entry(name).or_default().entry(rank).or_default();
                    of.push((format!("{what:?}"), *bytes));
                }
                _ => assert!(matches!(node.kind, NodeKind::Compute { .. })),
            }
        }
    }
    // 8 pairs of ranks, three micro-batches, both ways; every message has its other end.
    assert_eq!(sent.len(), 8 * 3 * 2);
    assert_eq!(sent, received);
    for (name, ranks) in &groups {
        let of = &calls[name];
        assert_eq!(of.keys().copied().collect::<BTreeSet<_>>(), ranks.iter().copied().collect());
        let first = of.values().next().unwrap();
        assert!(of.values().all(|it| it == first), "group {name} does not call as one");
    }
    assert_eq!(export::trace(&job, &iteration, Rank(16)), None);
}

/// The corpus of the fuzz target begins with a file that means something.
#[test]
fn reads_the_corpus() {
    let trace =
        read(include_bytes!("../../../fuzz/corpus/workload_chakra/three-nodes.et")).unwrap();
    assert_eq!(trace.nodes.len(), 3);
    let NodeKind::Send(it) = &trace.nodes[2].kind else { panic!("{:?}", trace.nodes[2]) };
    assert_eq!((it.bytes, it.to, it.tag), (Some(Bytes::new(8)), Some(Rank(1)), Some(7)));
}

fn refused(trace: &Trace) -> String {
    read(&write(trace)).unwrap_err().problem
}

#[test]
fn what_cannot_be_is_refused() {
    let node = |id, waits: &[u64]| Node {
        id,
        name: "n".to_owned(),
        waits: waits.to_vec(),
        control: vec![],
        start: 0,
        duration: 0,
        is_cpu: None,
        kind: NodeKind::Compute { operations: None, bytes: None },
    };
    let trace = |nodes| Trace { version: String::new(), nodes };
    assert_eq!(refused(&trace(vec![node(1, &[]), node(1, &[])])), "two nodes have the number 1");
    // A node that is not there is no reason to refuse, but it is told.
    let lost = read(&write(&trace(vec![node(1, &[7]), node(2, &[1])]))).unwrap();
    assert_eq!(lost.missing(), [(1, 7)]);
    let cycle = trace(vec![node(0, &[]), node(1, &[2]), node(2, &[1])]);
    assert_eq!(refused(&cycle), "node 1 waits for itself by way of others");
    // Control dependencies order nothing, and are kept.
    let called = Node { control: vec![1, 9], ..node(1, &[]) };
    let called = trace(vec![called]);
    assert_eq!(read(&write(&called)).unwrap(), called);
    // A node of type 0, and a file that is cut off.
    let error = read(b"\x00\x02\x08\x05").unwrap_err();
    assert_eq!(error.problem, "node 5 (``) is of the unknown type 0");
    let whole = write(&trace(vec![node(1, &[])]));
    let cut = read(&whole[..whole.len() - 1]).unwrap_err();
    assert!(cut.problem.starts_with("not a Chakra trace at byte 1"), "{}", cut.problem);
    assert!(read(b"").is_err());
    // A collective that does not say which it is: fine where the CPU launches it, else not.
    let silent = b"\x00\x02\x18\x07";
    assert_eq!(
        read(silent).unwrap_err().problem,
        "node 0 (``) is a collective without `comm_type`"
    );
    let launch = b"\x00\x12\x18\x07\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x01";
    let launch = read(launch).unwrap();
    assert!(matches!(launch.nodes[0].kind, NodeKind::Collective { what: None, .. }));
    assert_eq!(read(&write(&launch)).unwrap(), launch);
    // The version of a trace converted from PyTorch's is an attribute.
    let converted = read(b"\x11\x12\x0f\x0a\x06schema\xea\x01\x041.02").unwrap();
    assert_eq!(converted.version, "1.02");
    // A collective of a kind that Chakra has not: type 7, comm_type 99.
    let unknown = b"\x00\x11\x18\x07\x52\x0d\x0a\x09comm_type\x48\x63";
    assert_eq!(read(unknown).unwrap_err().problem, "node 0 (``) has the unknown comm_type 99");
}

proptest! {
    /// Any bytes are a trace that reads back equal, or an error; most begin like a trace.
    #[test]
    fn any_bytes_are_read_or_refused(
        noise in prop::collection::vec(any::<u8>(), 0..64),
        place in 0usize..90,
        byte in any::<u8>(),
    ) {
        let mut sample = b"\x07\x0a\x050.0.4".to_vec();
        sample.extend(b"\x27\x12\x01x\x18\x07\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00");
        sample.extend(b"\x52\x0d\x0a\x09comm_type\x48\x02\x2a\x01\x09\x04\x08\x09\x18\x01");
        prop_assert!(read(&sample).is_ok());
        let changed = sample.len().min(place);
        if let Some(it) = sample.get_mut(changed) {
            *it = byte;
        }
        for bytes in [noise, sample] {
            if let Ok(trace) = read(&bytes) {
                prop_assert_eq!(read(&write(&trace)), Ok(trace));
            }
        }
    }
}
