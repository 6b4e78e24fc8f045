//! The folder of a plan: where `motet plan -o` puts it, what it leaves alone, and what of it is read.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn run(at: &Path, program: &str, words: &[&str]) -> Output {
    Command::new(program).current_dir(at).args(words).output().unwrap()
}

fn motet(at: &Path, words: &[&str]) -> Output {
    run(at, env!("CARGO_BIN_EXE_motet"), words)
}

/// A small plan in `folder`, of sizes up to `max`.
fn words<'a>(folder: &'a str, max: &'a str) -> Vec<&'a str> {
    vec![
        "plan",
        "v100-x4:count=2",
        "-o",
        folder,
        "--min",
        "1KiB",
        "--max",
        max,
        "--trials",
        "0",
        "--collectives",
        "allgather",
        "--json",
    ]
}

fn plan(at: &Path, folder: &str, max: &str) -> Output {
    motet(at, &words(folder, max))
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command stopped with exit code 2 and said so.
fn refused(output: &Output, with: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", said(output));
    assert!(said(output).contains(with), "{}", said(output));
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_slash_at_the_end_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for max in ["1KiB", "2KiB"] {
        done(&plan(at, "plan/", max));
        assert_eq!(names(at), ["plan"]);
        done(&motet(at, &["plan", "show", "plan/"]));
    }
    let diff = done(&motet(at, &["plan", "diff", "plan/", "plan"]));
    assert!(diff.starts_with("2 tasks the same"), "{diff}");
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("disk/v1")).unwrap();
    symlink("disk/v1", at.join("plan")).unwrap();
    let mut last = Vec::new();
    for (name, max) in [("plan", "1KiB"), ("plan/", "2KiB")] {
        done(&plan(at, name, max));
        assert_eq!(fs::read_link(at.join("plan")).unwrap(), Path::new("disk/v1"));
        assert_eq!(
            (names(at), names(&at.join("disk"))),
            (vec!["disk".into(), "plan".into()], vec!["v1".into()])
        );
        let now = fs::read(at.join("disk/v1/plan.json")).unwrap();
        assert_ne!(now, last);
        last = now;
    }
    fs::rename(at.join("disk/v1"), at.join("disk/v2")).unwrap();
    refused(&plan(at, "plan", "1KiB"), "is a link that cannot be followed");
    assert_eq!(names(&at.join("disk")), ["v2"]);
}

#[test]
fn a_full_disk_leaves_the_old_plan_and_what_was_tuned() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(&plan(at, "plan", "1KiB"));
    let old = fs::read(at.join("plan/plan.json")).unwrap();
    // No file may grow beyond some kilobytes, which looks like a full disk: the journal ends within
    // a line, and the plan's files cannot be written.
    let limited = "trap '' XFSZ; ulimit -f 12; exec \"$0\" \"$@\"";
    let more = words("plan", "1MiB");
    let mut all = vec!["-c", limited, env!("CARGO_BIN_EXE_motet")];
    all.extend(&more);
    let output = run(at, "sh", &all);
    refused(&output, "cannot be written");
    assert!(said(&output).contains("run the same command again"), "{}", said(&output));
    assert_eq!(names(at), ["plan", "plan.part"]);
    assert_eq!(names(&at.join("plan.part")), ["journal.jsonl"]);
    assert_eq!(fs::read(at.join("plan/plan.json")).unwrap(), old);
    done(&motet(at, &["plan", "check", "plan"]));
    let journal = fs::read_to_string(at.join("plan.part/journal.jsonl")).unwrap();
    assert!(journal.ends_with('\n') && journal.lines().count() > 1, "{journal}");
    // With room again it goes on, and is the plan that it would have been.
    let text = done(&plan(at, "plan", "1MiB"));
    assert!(!text.contains("\"resumed\":0"), "{text}");
    assert_eq!(names(at), ["plan"]);
    let resumed = fs::read(at.join("plan/plan.json")).unwrap();
    done(&plan(at, "again", "1MiB"));
    assert_eq!(fs::read(at.join("again/plan.json")).unwrap(), resumed);
}

#[test]
fn what_cannot_be_a_plan_is_refused_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(&plan(at, "no/plan", "1KiB"), "the folder above it does not exist");
    refused(&plan(at, ".", "1KiB"), "is no name for a folder");
    fs::write(at.join("file"), "mine").unwrap();
    refused(&plan(at, "file", "1KiB"), "is a file");
    // Where not even root can make a folder.
    if cfg!(target_os = "linux") {
        refused(&plan(at, "/proc/plan", "1KiB"), "cannot be made");
    }
    done(&plan(at, "plan", "1KiB"));
    fs::write(at.join("plan/notes.txt"), "mine").unwrap();
    let output = plan(at, "plan", "2KiB");
    refused(&output, "has `notes.txt` in it");
    assert_eq!(fs::read_to_string(at.join("plan/notes.txt")).unwrap(), "mine");
    assert_eq!(names(at), ["file", "plan"]);
    // A plan that is damaged is made anew.
    fs::remove_file(at.join("plan/notes.txt")).unwrap();
    fs::write(at.join("plan/checksums"), "").unwrap();
    fs::write(at.join("plan/plan.json"), "").unwrap();
    done(&plan(at, "plan", "1KiB"));
    done(&motet(at, &["plan", "check", "plan"]));
}

/// `plan show`, `check` and `diff` all refuse the plan in `plan`.
fn unread(at: &Path, with: &str) {
    for words in [["show", "plan"].as_slice(), &["check", "plan"], &["diff", "plan", "plan"]] {
        let all: Vec<&str> = ["plan"].iter().chain(words).copied().collect();
        refused(&motet(at, &all), with);
    }
}

#[test]
fn only_plain_files_of_the_folder_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(&plan(at, "plan", "1KiB"));
    let table = at.join("plan/table");
    let text = fs::read_to_string(&table).unwrap();
    // A link within the folder is as good as a file, one that leads out of it is not.
    fs::rename(&table, at.join("plan/real")).unwrap();
    symlink("real", &table).unwrap();
    done(&motet(at, &["plan", "check", "plan"]));
    fs::remove_file(&table).unwrap();
    fs::rename(at.join("plan/real"), at.join("outside")).unwrap();
    symlink("../outside", &table).unwrap();
    unread(at, "plan/table: leads out of the plan's folder");
    fs::remove_file(&table).unwrap();
    // A pipe would be waited for, a folder is nothing to read.
    assert!(run(at, "mkfifo", &["plan/table"]).status.success());
    unread(at, "plan/table: is no plain file");
    fs::remove_file(&table).unwrap();
    fs::create_dir(&table).unwrap();
    unread(at, "plan/table: is no plain file");
    fs::remove_dir(&table).unwrap();
    // It takes no room on disk, and would take a gigabyte of memory.
    File::create(&table).unwrap().set_len((1 << 30) + 1).unwrap();
    unread(at, "plan/table: is larger than");
    fs::write(&table, [0xff, 0xfe]).unwrap();
    unread(at, "plan/table: is not UTF-8 text");
    fs::write(&table, text).unwrap();
    done(&motet(at, &["plan", "check", "plan"]));
}

#[test]
fn the_report_is_among_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(&plan(at, "plan", "4KiB"));
    let html = fs::read_to_string(at.join("plan/report.html")).unwrap();
    let links = html.split(" href=\"").skip(1).filter_map(|it| it.split('"').next());
    for link in links.filter(|it| !it.starts_with('#')) {
        assert!(at.join("plan").join(link).exists(), "{link}");
    }
    let first = html;
    done(&plan(at, "plan", "4KiB"));
    assert_eq!(fs::read_to_string(at.join("plan/report.html")).unwrap(), first);
}

/// In place, only plans that are right in place are written, priced by the terms that were given.
#[test]
fn plans_in_place_by_own_terms() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let results = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benches/mscclpp/results/h200-2026-11-17/ours.csv"
    );
    // A part of the table is enough for terms that are not the built-in ones.
    let table = fs::read_to_string(results).unwrap();
    let part: Vec<&str> = table.lines().step_by(20).collect();
    fs::write(at.join("part.csv"), part.join("\n") + "\n").unwrap();
    done(&motet(at, &["calibrate", "part.csv", "-o", "terms.toml"]));
    let words = "plan v100-x4 -o plan --runtime mscclpp --ranks-per-gpu 4 --min 64K --max 16M \
                 --max-blocks 120 -c alltoall,allreduce --terms terms.toml --in-place";
    done(&motet(at, &words.split_whitespace().collect::<Vec<_>>()));
    let mut plans = 0;
    for entry in fs::read_dir(at.join("plan/mscclpp/plans")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(plan["inplace"], true, "{}", plan["name"]);
        plans += 1;
    }
    assert!(plans > 4, "{plans}");
    assert!(at.join("plan/mscclpp/terms.toml").exists());
    assert!(done(&motet(at, &["plan", "check", "plan"])).contains("holds up"));
}
