//! TACCL's own samples read; what we export has their shape and reads back.

use motet_net::Network;
use motet_net::builders::{self, Params};
use serde_json::Value;

use super::*;
use crate::sketch::sketches;

fn sample(name: &str) -> Option<String> {
    motet_testdata::sample(&format!("taccl/taccl_sketch_{name}.json"))
}

fn build(kind: &str, words: &[&str]) -> Network {
    let params = Params::from_words(words.iter().copied()).unwrap();
    builders::find(kind).unwrap().build(&params).unwrap()
}

#[test]
fn samples_read_and_come_back() {
    for name in ["sk1-dgx2-n2", "sk2-dgx2-n2", "sk1-ndv2-n2", "sk2-ndv2-n2"] {
        let Some(text) = sample(name) else { return };
        let sketch = read(&text).unwrap_or_else(|it| panic!("{name}: {it}"));
        let ours: Value = serde_json::from_str(&write(&sketch)).unwrap();
        assert_eq!(ours, serde_json::from_str::<Value>(&text).unwrap(), "{name}");
    }
}

#[test]
fn samples_mean_what_they_say() {
    let Some(text) = sample("sk1-dgx2-n2") else { return };
    let sketch = read(&text).unwrap();
    assert_eq!((sketch.nodes, sketch.input_chunkup), (2, 2));
    assert_eq!(sketch.symmetry, [(2, 16), (16, 32)]);
    assert!(sketch.internode.as_ref().unwrap().enforce_ordering);
    // Of two GPUs at a NIC the odd one sends and the even one receives.
    let network = build("dgx-2", &["count=2", "detail=full"]);
    let ours = sketch.on(&network, "sk1").unwrap();
    let connections = ours.connections.as_ref().unwrap();
    assert_eq!(connections.groups.len(), 8);
    for group in &connections.groups {
        let ranks = |gpus: &[motet_units::NodeId]| -> Vec<usize> {
            let ranks = gpus.iter().map(|it| network.ranks().iter().position(|at| at == it));
            ranks.map(|it| it.unwrap()).collect()
        };
        assert_eq!(group.ports.len(), 2);
        assert!(ranks(&group.senders).iter().all(|it| it % 2 == 1));
        assert!(ranks(&group.receivers).iter().all(|it| it % 2 == 0));
    }
    let back = export(&network, &ours).unwrap();
    let (a, b) = (back.internode.unwrap(), sketch.internode.unwrap());
    assert_eq!((a.connect, a.relays), (b.connect, b.relays));
    assert_eq!((back.symmetry, back.intranode), (sketch.symmetry, sketch.intranode));
    let Some(text) = sample("sk2-dgx2-n2") else { return };
    // Each to its like, but two GPUs share a NIC: still one NIC of each server in a group.
    let ours = read(&text).unwrap().on(&network, "sk2").unwrap();
    assert_eq!(ours.connections.unwrap().groups.len(), 8);
}

/// Every key of an export is a key of a sample, of the same type.
#[test]
fn exports_have_the_shape_of_the_samples() {
    let samples: Vec<Value> = ["sk1-dgx2-n2", "sk2-dgx2-n2", "sk1-ndv2-n2", "sk2-ndv2-n2"]
        .iter()
        .filter_map(|it| Some(serde_json::from_str(&sample(it)?).unwrap()))
        .collect();
    if samples.is_empty() {
        return;
    }
    for network in [
        build("v100-x4", &["count=3", "detail=full"]),
        build("dgx-a100", &["count=2", "nics=4", "detail=full"]),
        build("dgx-a100", &["count=2"]),
    ] {
        for candidate in sketches(&network) {
            let made = export(&network, &candidate.sketch).unwrap();
            let text = write(&made);
            assert_eq!(read(&text).unwrap(), made, "{text}");
            let ours: Value = serde_json::from_str(&text).unwrap();
            same_shape(&ours, &samples, "");
        }
    }
}

fn same_shape(ours: &Value, samples: &[Value], path: &str) {
    let Value::Object(ours) = ours else { return };
    for (key, value) in ours {
        // Keys of the maps are GPUs, not words.
        if key.parse::<u32>().is_ok() {
            continue;
        }
        let path = format!("{path}/{key}");
        let theirs: Vec<Value> = samples.iter().filter_map(|it| it.get(key).cloned()).collect();
        let alike = |it: &Value| std::mem::discriminant(it) == std::mem::discriminant(value);
        assert!(theirs.iter().any(alike), "{path}: {value}");
        same_shape(value, &theirs, &path);
    }
}

#[test]
fn one_connection_per_server() {
    let network = build("v100-x4", &["count=3", "detail=full"]);
    let candidates = sketches(&network);
    let last = candidates.last().unwrap();
    let made = export(&network, &last.sketch).unwrap();
    let internode = made.internode.unwrap();
    assert_eq!(internode.connect, Connect::Map([(0, vec![0])].into()));
    assert_eq!(internode.relays, Some([(0, vec![0, 1, 2, 3])].into()));
    assert_eq!((made.symmetry, made.intranode), (vec![(4, 12)], Intranode::AsIs));
}

const SMALL: &str = r#"{"nnodes": 2,
"intranode_sketch": {"strategy": "switch", "switches": [[0, 1]], "switch_hyperedge_strategy": ["uc-min"]},
"internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
"symmetry_offsets": [[2, 4]],
"hyperparameters": {"input_chunkup": 1}}"#;

#[test]
fn says_what_is_wrong_and_where() {
    read(SMALL).unwrap();
    for (from, to, line, part) in [
        ("\"nnodes\": 2", "\"nnodes\": 0", 1, "nnodes is 0"),
        ("\"nnodes\": 2", "\"nnodes\": 99999", 1, "nnodes is 99999"),
        ("\"nnodes\": 2", "\"nnodes\": -2", 1, "invalid value"),
        ("\"nnodes\": 2", "\"gpus_per_node\": 8", 1, "unknown field `gpus_per_node`"),
        ("\"switch\"", "\"swich\"", 2, "unknown variant `swich`"),
        ("[[0, 1]]", "[[0, 1], [1, 2]]", 2, "2 switches and 1"),
        (
            "[[0, 1]], \"switch_hyperedge_strategy\": [\"uc-min\"]",
            "[[0, 1], [1, 2]], \"switch_hyperedge_strategy\": [\"uc-min\", \"uc-max\"]",
            2,
            "GPU 1",
        ),
        ("{\"0\": [1]}", "\"some\"", 3, "unknown variant `some`"),
        ("{\"0\": [1]}", "7", 3, "or a map from senders"),
        ("{\"0\": [1]}", "{\"0\": [1], \"1\": [0, 1]}", 3, "different numbers"),
        ("{\"0\": [1]}", "{}", 3, "or none"),
        ("{\"0\": [1]}", "{\"0\": [4000000000]}", 3, "no GPU 4000000000"),
        ("{\"0\": [1]}", "{\"0\": [1]}, \"enforce_ordering\": true", 3, "without a gpus_to"),
        ("[[2, 4]]", "[[0, 4]]", 4, "[0, 4] is no symmetry"),
        ("[[2, 4]]", "[[3, 4]]", 4, "[3, 4] is no symmetry"),
        ("\"input_chunkup\": 1", "\"input_chunkup\": 0", 5, "input_chunkup is 0"),
    ] {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL, "{from}");
        let error = read(&text).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
        assert_eq!(error.at.map(|it| it.line), Some(line), "{to}: {error}");
        assert!(error.remedy.is_some(), "{to}");
    }
}

#[test]
fn what_does_not_fit_a_network_is_refused() {
    let sketch = read(SMALL).unwrap();
    let error = sketch.on(&build("v100-x4", &["count=3"]), "x").unwrap_err();
    assert!(error.problem.contains("for 2 servers"), "{error}");
    let far = TacclSketch {
        internode: Some(Internode {
            connect: Connect::Map([(9, vec![1])].into()),
            relays: None,
            enforce_ordering: false,
        }),
        ..sketch
    };
    let error = far.on(&build("v100-x4", &["count=2"]), "x").unwrap_err();
    assert!(error.problem.contains("GPU 9"), "{error}");
    let sketch = crate::sketch::Sketch::full("full", &build("ring", &[]));
    assert_eq!(export(&build("ring", &[]), &sketch), Err(NotTaccl::NoServers));
}
