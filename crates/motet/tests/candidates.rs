//! `motet plan --write-candidates`: what was considered can be loaded and timed, and the pick is the best of it.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn done(folder: &Path, words: &[&str]) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_motet")).current_dir(folder).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_candidate_is_a_right_plan_and_none_is_priced_below_the_pick() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = "plan v100-x4 -c allgather --min 64K --max 128K --runtime mscclpp -o plan";
    let words: Vec<&str> = words.split(' ').chain(["--write-candidates", "all"]).collect();
    done(at, &words);
    let manifest = fs::read_to_string(at.join("all/manifest.jsonl")).unwrap();
    let lines: Vec<Value> = manifest.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(lines.iter().all(|it| it["ranks"] == 4 && it["forms"][0] == "out"));
    // What the harness would load is right, and made for every size that it is listed for.
    for line in &lines {
        let file = format!("all/{}", line["file"].as_str().unwrap());
        done(at, &["verify", &file, "-q"]);
        let plan: Value =
            serde_json::from_str(&fs::read_to_string(at.join(&file)).unwrap()).unwrap();
        let (least, most) = (&plan["min_message_size"], &plan["max_message_size"]);
        let range = least.as_u64().unwrap()..=most.as_u64().unwrap();
        let bytes = line["bytes"].as_array().unwrap();
        assert!(bytes.iter().all(|it| range.contains(&it.as_u64().unwrap())), "{file}");
    }
    let mut least = BTreeMap::new();
    let mut kinds = BTreeMap::<String, usize>::new();
    let mut table = csv::Reader::from_path(at.join("all/candidates.csv")).unwrap();
    for row in table.deserialize::<(String, u64, String, String, u32, f64)>() {
        let (_, bytes, plan, kind, _, us) = row.unwrap();
        assert!(lines.iter().any(|it| it["id"] == plan.as_str()), "{plan}");
        *kinds.entry(kind.clone()).or_default() += 1;
        if kind == "one-sided" {
            let so_far = least.entry(bytes).or_insert(us);
            *so_far = so_far.min(us);
        }
    }
    assert!(kinds["one-sided"] > 10 && kinds["synthesized"] > 4, "{kinds:?}");
    let plan: Value =
        serde_json::from_str(&fs::read_to_string(at.join("plan/plan.json")).unwrap()).unwrap();
    for task in plan["tasks"].as_array().unwrap() {
        let said = task["mscclpp"]["time_ps"].as_f64().unwrap() / 1e6;
        let best = least[&task["size_bytes"].as_u64().unwrap()];
        assert!((said - best).abs() < 1e-3, "{said} {best}");
    }
}
