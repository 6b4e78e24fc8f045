//! What `motet sim` writes for other programs: its JSON fields and the trace.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ring-allgather-4.json");

fn sim(more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_motet"))
        .args(["sim", "ring:gpus=4", PROGRAM, "--size", "1 MiB"])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn the_json_has_its_fields() {
    let output = sim(&["--json", "--over-time", "10"]);
    assert!(output.status.success());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Three steps of 256 KiB at 50 GB/s and 500 ns each.
    assert_eq!(json["time_us"], 17.228_64);
    assert_eq!(json["transfers"], 16);
    assert!(json["events"].as_u64().unwrap() > 0);
    assert!(json["wall_seconds"].as_f64().unwrap() >= 0.0);
    let number = |field: &str| json[field].as_f64().unwrap();
    assert!((number("algbw_gbps") - 1_048_576.0 / 17_228.64).abs() < 1e-9);
    assert!((number("busbw_gbps") - number("algbw_gbps") * 0.75).abs() < 1e-9);
    assert!((number("ratio_to_bound") - number("bound_time_us") / 17.228_64).abs() < 1e-9);
    let links = json["link_utilization"].as_array().unwrap();
    assert_eq!(links.len(), 4);
    for link in links {
        assert_eq!(link["bytes"], 3 << 18);
        assert_eq!(link["over_time"].as_array().unwrap().len(), 10);
    }
}

#[test]
fn the_trace_is_written_and_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let path = folder.path().join(name);
        let output = sim(&["--trace", path.to_str().unwrap()]);
        assert!(output.status.success());
        (std::fs::read_to_string(path).unwrap(), output.stdout)
    };
    let (trace, text) = read("a.json");
    assert_eq!((trace.clone(), text), read("b.json"));
    let json: Value = serde_json::from_str(&trace).unwrap();
    let spans = json["traceEvents"].as_array().unwrap().iter().filter(|it| it["ph"] == "X");
    // Twelve transfers between ranks: on a link, at the sender and at the receiver.
    assert_eq!(spans.count(), 36);
}

#[test]
fn the_trace_does_not_mix_with_the_result() {
    let output = sim(&["--trace", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
