//! What `motet net sketch` writes, `motet synth --sketch` takes: as Motet's file, as TACCL's, and
//! edited by hand.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use motet_tune::sketch::taccl;
use serde_json::Value;

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/two-dgx-a100.toml");

fn motet(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
    command.current_dir(folder).args(words).output().unwrap()
}

fn json(folder: &Path, words: &[&str]) -> Value {
    let output = motet(folder, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sketch(folder: &Path, words: &[&str]) -> Value {
    json(folder, &[&["net", "sketch", CLUSTER, "--json"], words].concat())
}

/// The time of a program under a sketch, in µs, and its bound.
fn synth(folder: &Path, file: &str) -> (f64, f64) {
    let words = ["synth", CLUSTER, "-c", "allgather", "-s", "16 MiB", "-m", "greedy", "--json"];
    let made = json(folder, &[&words[..], &["--sketch", file]].concat());
    let number = |key: &str| made[key].as_f64().unwrap();
    (number("time_us"), number("bound_time_us"))
}

#[test]
fn what_is_written_can_be_given_to_synth() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = sketch(at, &["--connections", "2", "-o", "two.toml"]);
    assert_eq!((&made["name"], &made["format"]), (&"grouped-2".into(), &"motet".into()));
    let left: Vec<_> = made["stages"].as_array().unwrap().iter().collect();
    let names: Vec<_> = left.iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["network", "bind", "group", "transform"]);
    let connections = |it: &Value| it["gpu_connections"].as_u64().unwrap();
    assert_eq!(left.iter().map(|it| connections(it)).collect::<Vec<_>>(), [64, 64, 8, 2]);
    assert!(made["text"].is_null());

    // The same sketch as TACCL's JSON, which reads back, leads to the same program.
    let made = sketch(at, &["--connections", "2", "-o", "two.json"]);
    assert_eq!(made["format"], "taccl");
    let text = fs::read_to_string(at.join("two.json")).unwrap();
    assert_eq!(taccl::write(&taccl::read(&text).unwrap()), text);
    let two = synth(at, "two.toml");
    assert_eq!(synth(at, "two.json"), two);

    // Into a file, what each stage left is the result.
    let output = motet(at, &["net", "sketch", CLUSTER, "-o", "all.toml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().any(|it| it.split_whitespace().eq(["bind", "8", "64", "64", "64"])),
        "{text}"
    );
    // All GPUs connect, and it is faster; edited by hand to one, and it is slower.
    assert!(synth(at, "all.toml").0 < two.0);
    let text = fs::read_to_string(at.join("two.toml")).unwrap();
    let groups: Vec<&str> = text.split("[[group]]").collect();
    assert_eq!(groups.len(), 3, "{text}");
    fs::write(at.join("one.toml"), groups[..2].join("[[group]]")).unwrap();
    let one = synth(at, "one.toml");
    assert!(one.0 > two.0 && one.1 > two.1, "{one:?} {two:?}");
}

#[test]
fn what_is_no_sketch_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("bad.json"), "{\n  \"nnodes\": 0\n}").unwrap();
    let words = ["synth", CLUSTER, "-c", "allgather", "-s", "1 MiB", "--sketch", "bad.json"];
    let output = motet(at, &words);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("bad.json:") && text.contains("hint: "), "{text}");
}
