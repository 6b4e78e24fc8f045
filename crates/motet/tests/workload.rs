//! Training jobs and traces on the command line: converted, shown, and planned for.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn motet(folder: &Path, words: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_motet")).current_dir(folder).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&motet(folder, &[words, &["--json"]].concat())).unwrap()
}

const JOB: [&str; 9] = ["llama3-8b", "--tp", "2", "--dp", "2", "--pp", "2", "--global-batch", "4"];

#[test]
fn a_job_becomes_traces_and_traces_become_text_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = [&["workload", "convert"], &JOB[..], &["-o", "et"]].concat();
    let made = json(at, &words);
    assert_eq!((made["ranks"].as_u64(), made["format"].as_str()), (Some(8), Some("et")));
    let shown = json(at, &["workload", "show", "et"]);
    assert_eq!((shown["ranks"].as_u64(), &shown["nodes"]), (Some(8), &made["nodes"]));
    // Tensor-parallel AllGathers of all eight ranks: what each stage's table says, over four ranks each.
    let job = json(at, &[&["workload", "show"], &JOB[..]].concat());
    let of_job = |stage: usize| {
        let calls = job["stages"][stage]["calls"].as_array().unwrap();
        let found =
            calls.iter().find(|it| it["parallelism"] == "TP" && it["collective"] == "allgather");
        found.unwrap()["calls"].as_u64().unwrap()
    };
    let groups: std::collections::BTreeMap<String, Vec<u32>> =
        serde_json::from_str(&fs::read_to_string(at.join("et/groups.json")).unwrap()).unwrap();
    let rows = shown["rows"].as_array().unwrap().iter();
    let gathers = rows.filter(|it| it["collective"] == "allgather");
    let pairs = gathers.filter(|it| groups[it["group"].as_str().unwrap()][1] % 2 == 1);
    let counted: u64 = pairs.map(|it| it["calls"].as_u64().unwrap()).sum();
    assert_eq!(counted, 4 * (of_job(0) + of_job(1)));
    // To JSON and back, one file and all of them.
    motet(at, &["workload", "convert", "et/et.3.et", "-o", "three.json"]);
    motet(at, &["workload", "convert", "three.json", "-o", "three.et"]);
    assert_eq!(fs::read(at.join("three.et")).unwrap(), fs::read(at.join("et/et.3.et")).unwrap());
    motet(at, &["workload", "convert", "et", "-o", "all", "--to", "json"]);
    assert!(at.join("all/all.7.json").exists() && at.join("all/groups.json").exists());
    assert_eq!(json(at, &["workload", "show", "all"])["rows"], shown["rows"]);
}

#[test]
fn a_recording_becomes_traces_that_read_as_the_same_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/workload_kineto");
    let trace = |rank| corpus.join(format!("fsdp-rank-{rank}.json")).to_string_lossy().into_owned();
    let (one, other) = (trace(0), trace(1));
    motet(at, &["workload", "convert", "-q", &one, &other, "-o", "chakra"]);
    let (kineto, chakra) = (
        json(at, &["workload", "show", "-q", &one, &other]),
        json(at, &["workload", "show", "-q", "chakra"]),
    );
    let of = |it: &Value| -> Vec<(String, u64, u64)> {
        let row = |it: &Value| {
            let name = it["collective"].as_str().unwrap().to_owned();
            (name, it["calls"].as_u64().unwrap(), it["bytes"].as_u64().unwrap())
        };
        let mut rows: Vec<_> = it["rows"].as_array().unwrap().iter().map(row).collect();
        // Groups have no descriptions any more, so rows may stand in another order.
        rows.sort();
        rows
    };
    assert_eq!(chakra["kind"], "recording");
    assert_eq!(of(&kineto), of(&chakra));
}

#[test]
fn a_jobs_groups_are_planned_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words =
        ["plan", "dgx-a100:count=2", "--workload", "roberta-125m", "--tp", "4", "--dp", "4"];
    let more = ["--sharding", "fsdp", "--sequence", "512", "--trials", "0", "-o", "plans"];
    let made = json(at, &[&words[..], &more[..]].concat());
    let written: Value =
        serde_json::from_str(&fs::read_to_string(at.join("plans/workload.json")).unwrap()).unwrap();
    assert_eq!(made, written);
    let plans = made["plans"].as_array().unwrap();
    let shapes: Vec<_> =
        plans.iter().map(|it| (it["ranks"].as_u64(), it["nodes"].as_u64())).collect();
    assert_eq!(
        shapes,
        [(Some(4), Some(2)), (Some(4), Some(1))],
        "data parallel, then tensor parallel"
    );
    for plan in plans {
        let check = motet(at, &["plan", "check", plan["folder"].as_str().unwrap()]);
        assert!(check.contains("holds up"), "{check}");
    }
    assert_eq!(made["motet_plan"], "plans/dp-4:plans/tp-4");
    let rank = &made["ranks"][0];
    let us = |name: &str| rank[name].as_f64().unwrap();
    assert!(us("planned_us") <= us("tuned_us") && us("tuned_us") <= us("nccl_us"));
    assert!(us("nccl_us") > 0.0);
}
