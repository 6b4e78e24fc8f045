//! What `motet bench --tuning` writes for other programs: its JSON fields, and that they are the
//! figures of the table.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use serde_json::Value;

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loopback.toml");

fn tuning(more: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_motet"))
        .args(["bench", CLUSTER, "--tuning", "-q"])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn the_json_is_the_table() {
    let json: Value = serde_json::from_slice(&tuning(&["--json"])).unwrap();
    let table = String::from_utf8(tuning(&[])).unwrap();
    assert_eq!((&json["model"], &json["ranks"]), (&"NCCL 2.30".into(), &4.into()));
    assert_eq!((&json["nodes"], &json["channels"]), (&4.into(), &2.into()));
    let cells = json["tuning"].as_array().unwrap();
    // Collectives × algorithms × protocols.
    assert_eq!((cells.len(), json["max_threads"].as_array().unwrap().len()), (5 * 7 * 3, 7 * 3));
    let of_ring = |collective: &str| {
        let ring = cells.iter().filter(|it| it["algorithm"] == "Ring");
        let ring = ring.filter(|it| it["collective"] == collective);
        let number = |it: &Value, field: &str| it[field].as_f64().unwrap();
        let cell = |it: &Value| {
            format!("{:8.1}/{:6.1} |", number(it, "latency_us"), number(it, "bandwidth_gbps"))
        };
        ring.map(cell).collect::<String>()
    };
    for (row, collective) in [("AllReduce", "allreduce"), ("AllGather", "allgather")] {
        let line = table.lines().find(|it| it.trim_start().starts_with(row)).unwrap();
        assert!(line.contains(&of_ring(collective)), "{line}");
    }
    let graphs = json["graphs"].as_array().unwrap();
    let names: Vec<&str> = graphs.iter().map(|it| it["graph"].as_str().unwrap()).collect();
    assert_eq!(names, ["ring", "tree"]);
    assert_eq!((&graphs[0]["channels"], &graphs[0]["type_inter"]), (&1.into(), &"PHB".into()));
}
