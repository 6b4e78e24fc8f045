//! What `motet export` says of the file it writes: its loss, its servers, its sizes, its limits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

use serde_json::Value;

fn motet(words: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Command::new(env!("CARGO_BIN_EXE_motet")).current_dir(root).args(words).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const RING: &str = "examples/ring-allgather-4.json";

#[test]
fn a_synthesized_program_knows_its_network_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (program, file) = (path("program.json"), path("file.xml"));
    let network = "examples/two-dgx-a100.toml";
    let size = ["-c", "allgather", "-s", "1 MiB", "-m", "ring", "-o", &program];
    assert!(motet(&[&["synth", network], &size[..]].concat()).status.success());
    let text = std::fs::read_to_string(&program).unwrap();
    let expected = format!("\"made_for\": {{\"cluster\": \"{network}\", \"size_bytes\": 1048576}}");
    assert!(text.contains(&expected), "{text}");

    let output = motet(&["export", &program, "--to", "msccl", "-o", &file, "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |field: &str| json[field].as_f64().unwrap();
    assert_eq!(json["size_bytes"], 1 << 20);
    assert!(number("program_time_us") > 0.0);
    let loss = number("file_time_us") / number("program_time_us") - 1.0;
    assert!((number("loss") - loss).abs() < 1e-9);
    assert_eq!(loss > 0.02, errors(&output).contains("warning: the file takes"), "{loss}");

    // Sixteen GPUs of two servers: memory within, ports between.
    let plan = path("plan.json");
    let output = motet(&["export", &program, "--to", "mscclpp", "-o", &plan]);
    assert!(!errors(&output).contains("reach each other's memory"), "{}", errors(&output));
    let plan = std::fs::read_to_string(&plan).unwrap();
    assert!(plan.contains("\"port\"") && plan.contains("\"memory\""));
}

#[test]
fn a_loss_is_said_with_its_reason() {
    // A quarter of the data goes the other way round the ring: three links, one after the other.
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (program, file) = (path("program.json"), path("file.xml"));
    let text = r#"{"motet_program": 1, "name": "both-ways",
 "collective": {"kind": "broadcast", "ranks": 2, "chunks": 4, "root": 0},
 "forms": ["in-place"], "protocol": "Simple", "min_size": 0,
 "paths": [[0], [7, 5, 3]],
 "transfers": [["c",0,"o",0,1,"o",0,3,0], ["c",0,"o",3,1,"o",3,1,1]]}"#;
    std::fs::write(&program, text).unwrap();
    let words = ["export", &program, "--to", "msccl", "-o", &file];
    let more = ["--cluster", "ring:gpus=4", "-s", "64 MiB", "--json"];
    let output = motet(&[&words[..], &more[..]].concat());
    let told = errors(&output);
    assert!(told.contains("the format has no routes"), "{told}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["loss"].as_f64().unwrap() > 0.02, "{json}");
    assert!(json["reasons"][0].as_str().unwrap().contains("no routes"), "{json}");
}

#[test]
fn what_is_not_known_is_said() {
    let output = motet(&["export", RING, "--to", "mscclpp"]);
    assert!(errors(&output).contains("all ranks are taken for GPUs"), "{}", errors(&output));
    assert!(errors(&output).contains("is not known; `--cluster`"), "{}", errors(&output));
    let output =
        motet(&["export", RING, "--to", "msccl", "--cluster", "ring:gpus=4", "-s", "1 MiB"]);
    assert_eq!(errors(&output), "");
    let output = motet(&["export", RING, "--to", "msccl", "--cluster", "ring:gpus=3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("has 3 GPUs, and the program 4 ranks"), "{}", errors(&output));
    let output = motet(&["export", RING, "--to", "msccl", "--json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn sizes_that_a_runtime_passes_over_are_said() {
    let output = motet(&["export", RING, "--to", "msccl", "--instances", "3"]);
    assert!(errors(&output).contains("divide by 12"), "{}", errors(&output));
    let sized = ["--cluster", "ring:gpus=4", "-s", "12 KiB"];
    let output =
        motet(&[&["export", RING, "--to", "msccl", "--instances", "3"], &sized[..]].concat());
    assert!(!errors(&output).contains("divide by"), "{}", errors(&output));
}

#[test]
fn limits_are_named_with_a_remedy() {
    let output = motet(&["export", RING, "--to", "msccl", "--instances", "128"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("take fewer `--instances`"), "{}", errors(&output));
    let output = motet(&["export", RING, "--to", "msccl", "--msccl-steps", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("motet synth --for msccl"), "{}", errors(&output));
}

/// What `synth --for` makes is exported, and its file takes what was said.
#[test]
fn a_program_made_for_a_runtime_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (program, file) = (path("program.json"), path("file"));
    let network = "examples/a100-4-x2.toml";
    for (collective, runtime) in
        [("allgather", "msccl"), ("reducescatter", "msccl"), ("allreduce", "mscclpp")]
    {
        let task = ["synth", network, "-c", collective, "-s", "1 MiB", "--for", runtime];
        let made = motet(&[&task[..], &["--json", "-o", &program][..]].concat());
        assert!(made.status.success(), "{}", errors(&made));
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let limits = &made["for"];
        assert!(limits["limit_cost"].as_f64().unwrap() >= 0.0, "{made}");
        let output = motet(&["export", &program, "--to", runtime, "-o", &file, "--json"]);
        assert!(output.status.success(), "{}", errors(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["file_time_us"], limits["file_time_us"], "{collective}: {json}");
    }
}

/// What `synth --for mscclpp` says of MSCCL++'s kernels is the time of the file that is then exported.
#[test]
fn a_one_sided_program_takes_what_was_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (program, file) = (path("program.json"), path("plan.json"));
    let json = |words: &[&str]| -> Value {
        let output = motet(words);
        assert!(output.status.success(), "{}", errors(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let words = ["synth", "v100-x4", "-c", "allreduce", "-s", "16 KiB", "--for", "mscclpp"];
    let made = json(&[&words[..], &["-o", &program, "--json"]].concat());
    assert_eq!(made["method"], "one-sided", "{made}");
    let threads = made["for"]["threads"].to_string();
    let words = ["export", &program, "--to", "mscclpp", "--mscclpp-threads", &threads];
    json(&[&words[..], &["-o", &file, "--json"]].concat());
    let run = json(&["sim", "v100-x4", &file, "-s", "16 KiB", "--kernels", "--json"]);
    assert_eq!(run["time_us"], made["for"]["kernel_time_us"], "{run}");
    assert!(made["for"]["other_kernel_time_us"].as_f64() > made["for"]["kernel_time_us"].as_f64());
}
