//! What `motet sim` writes for other programs: its JSON fields, the trace and the picture.

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
fn a_program_for_another_network_runs_here_without_its_routes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.json");
    let motet = |args: &[&str]| {
        let binary = env!("CARGO_BIN_EXE_motet");
        Command::new(binary).args(args).current_dir(folder.path()).output().unwrap()
    };
    let made = motet(&["synth", "dgx-a100", "-c", "allgather", "-s", "1M", "-o", "q.json"]);
    assert!(made.status.success() && file.is_file(), "{made:?}");
    let refused = motet(&["sim", "dgx-h100", "q.json", "-s", "1M"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("`motet sim --reroute` leaves them out"), "{said}");
    let rerouted = motet(&["sim", "dgx-h100", "q.json", "-s", "1M", "--reroute", "--json"]);
    assert!(rerouted.status.success(), "{}", String::from_utf8_lossy(&rerouted.stderr));
    let json: Value = serde_json::from_slice(&rerouted.stdout).unwrap();
    // On this network's own links, and so not below its bound.
    assert!(json["time_us"].as_f64() >= json["bound_time_us"].as_f64(), "{json}");
}

#[test]
fn knobs_are_in_the_json_where_they_are_given() {
    let json = |more: &[&str]| -> Value {
        let output = sim(&[&["--json"], more].concat());
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let plain = json(&[]);
    assert_eq!(plain.get("knobs"), None);
    let ll = json(&["--protocol", "ll", "--channels", "2", "--buffer-size", "512 KiB"]);
    let knobs = &ll["knobs"];
    assert_eq!(knobs["protocol"], "LL");
    assert_eq!((&knobs["channels"], &knobs["instances"]), (&2.into(), &2.into()));
    assert_eq!((&knobs["threads"], &knobs["buffer_bytes"]), (&Value::Null, &(1 << 19).into()));
    assert_eq!((&knobs["runtime"], &knobs["blocks"]), (&"MSCCL".into(), &4.into()));
    // 128 KiB of each chunk for each instance, 32 KiB at a time.
    assert_eq!((&knobs["iterations"], &knobs["iterations_simulated"]), (&4.into(), &4.into()));
    assert_eq!(knobs["launch_us"], 6.6);
    let time = |json: &Value| json["time_us"].as_f64().unwrap();
    let parts = ["launch_us", "latency_us", "data_us"].map(|it| knobs[it].as_f64().unwrap());
    assert!((parts.iter().sum::<f64>() - time(&ll)).abs() < 1e-3);
    assert!(time(&ll) > time(&plain) + 6.6);
    // Payload is what it was; flags keep the links busy twice as long.
    let (a, b) = (&plain["link_utilization"][0], &ll["link_utilization"][0]);
    assert_eq!(a["bytes"], b["bytes"]);
    let busy = |json: &Value, link: &Value| time(json) * link["utilization"].as_f64().unwrap();
    assert!((busy(&ll, b) / busy(&plain, a) - 2.0).abs() < 1e-3);
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

#[test]
fn the_picture_is_written_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring.svg");
    let output = sim(&["--json", "--svg", path.to_str().unwrap()]);
    assert!(output.status.success());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let picture = std::fs::read_to_string(path).unwrap();
    let links = json["link_utilization"].as_array().unwrap();
    // What the result says of a link, its `<title>` says too.
    for link in links {
        let (from, to) = (link["from"].as_str().unwrap(), link["to"].as_str().unwrap());
        let percent = link["utilization"].as_f64().unwrap() * 100.0;
        let title = format!(
            "<title>{from} → {to}: other 50 GB/s, busy {percent:.1}% of the time, 768 KiB</title>"
        );
        assert_eq!(picture.matches(&title).count(), 1, "{title}");
    }
    assert_eq!(picture.matches(", idle</title>").count(), 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}
