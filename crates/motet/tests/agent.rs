//! `motet agent train`, `eval` and `export`, whole: a run that is killed and goes on ends in the same bytes, and what is damaged
//! or of another run is refused.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn motet(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
    command.current_dir(folder).args(words);
    command
}

/// A tiny run, which judges nothing.
fn train<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let tiny = ["--budget", "6", "--lives", "2", "--calls", "20", "--judges", "0"];
    let tiny = [&tiny[..], &["--hidden", "4", "--every", "1"]].concat();
    [&["agent", "train", "-o", out][..], &tiny, more].concat()
}

fn done(folder: &Path, words: &[&str]) -> Output {
    let output = motet(folder, words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_killed_run_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, &train("whole", &[]));
    let mut child = motet(folder, &train("killed", &[])).spawn().unwrap();
    while !folder.join("killed.training").exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // It may be done already, which changes nothing.
    let _ = child.kill();
    child.wait().unwrap();
    done(folder, &train("killed", &["--resume"]));
    for ending in ["", ".training", ".csv", ".svg"] {
        let read = |name: &str| fs::read(folder.join(format!("{name}{ending}"))).unwrap();
        assert_eq!(read("whole"), read("killed"), "`{ending}`");
    }
    // Going on with other options is refused, and so is a checkpoint that is not there.
    let other = motet(folder, &train("whole", &["--resume", "--seed", "2"])).output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    let none = motet(folder, &train("none", &["--resume"])).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn tables_are_written_for_each_level_and_damage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, &train("policy", &["--without", "experts,recurrence"]));
    let cluster = "dgx-a100:count=1";
    let export = ["agent", "export", "policy", cluster, "-o", "tables", "--json"];
    let export = [&export[..], &["-c", "allreduce", "-s", "64 KiB,1 MiB"]].concat();
    let output = done(folder, &export);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables = found["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 3);
    for table in tables {
        let text = fs::read_to_string(folder.join("tables").join(table["file"].as_str().unwrap()));
        let read = motet_runtime::Table::read(&text.unwrap()).unwrap();
        assert_eq!(read.entries().len(), 2);
        assert_eq!(read.checksum().to_string(), table["checksum"].as_str().unwrap());
    }
    let text = fs::read_to_string(folder.join("policy")).unwrap();
    for (damaged, why) in [
        (text.replacen("seed=1", "seed=2", 1), "its contents do not have its checksum"),
        (text[..200].to_owned(), "its end is missing"),
        ("motet-table 1\n".to_owned(), "it is not a policy file"),
    ] {
        fs::write(folder.join("policy"), damaged).unwrap();
        let refused = motet(folder, &export).output().unwrap();
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(why) && error.contains("hint"), "{error}");
    }
}

/// A trained policy is judged beside the others; one that is damaged, of another version or for other actions is refused before
/// anything is run or written.
#[test]
fn a_policy_file_is_judged_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, &train("policy", &[]));
    let small = ["--family", "abrupt,straggler", "--seeds", "1", "--calls", "100", "--json"];
    let eval = [&["agent", "eval", "--policy", "lstm,lstm-bare,infer"][..], &small].concat();
    let files = ["--plot", "p.svg", "--plot-confusion", "c.svg", "--plot-tiers", "t.svg"];
    let eval = [&eval[..], &["--policy-file", "policy", "-o", "o.csv"], &files].concat();
    let output = done(folder, &eval);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["default_policy"], "infer");
    let rows = found["results"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|it| (&it["set"], &it["family"], &it["policy"])).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().any(|it| it.0 == "fresh" && it.1 == "straggler" && it.2 == "lstm"));
    assert!(rows.iter().all(|it| it["over_oracle"].as_f64().unwrap() >= 1.0));
    let written = ["o.csv", "p.svg", "c.svg", "t.svg"];
    for it in written {
        let text = fs::read_to_string(folder.join(it)).unwrap();
        assert!(text.len() > 100 && !text.contains("NaN\""), "{it}");
        fs::remove_file(folder.join(it)).unwrap();
    }
    let text = fs::read_to_string(folder.join("policy")).unwrap();
    let actions = text.lines().find(|it| it.starts_with("actions ")).unwrap();
    let sealed = |text: &str| {
        let body = &text[..text.rfind("checksum ").unwrap()];
        format!("{body}checksum {}\n", motet_runtime::Checksum::of(body.as_bytes()))
    };
    for (damaged, why) in [
        (text.replacen("seed=1", "seed=2", 1), "its contents do not have its checksum"),
        (text[..200].to_owned(), "its end is missing"),
        (text.replacen("motet-policy 1", "motet-policy 2", 1), "newer"),
        (sealed(&text.replacen(actions, "actions 0123456789abcdef", 1)), "actions"),
    ] {
        fs::write(folder.join("policy"), damaged).unwrap();
        let refused = motet(folder, &eval).output().unwrap();
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(why) && error.contains("hint"), "{error}");
        assert!(refused.stdout.is_empty());
        assert!(written.iter().all(|it| !folder.join(it).exists()), "{error}");
    }
    let none = motet(folder, &["agent", "eval", "--policy", "lstm"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("--policy-file"));
}
