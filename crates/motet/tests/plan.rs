//! `motet plan` killed at any moment leaves the old plan whole, and the next run goes on.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn motet(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
    command.current_dir(folder).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn done(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

const FEW: [&str; 10] = [
    "plan",
    "v100-x4:count=2",
    "-o",
    "plan",
    "--min",
    "1KiB",
    "--trials",
    "2",
    "--collectives",
    "allgather",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    FEW.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_plan_that_is_killed_leaves_the_old_one_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = done(motet(at, &with(&["--max", "2KiB"])));
    // Called as it was asked for: without its parameters the template's name is that of another network.
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.starts_with("plan for v100-x4:count=2: "), "{said}");
    let old = fs::read(at.join("plan/plan.json")).unwrap();
    assert!(!at.join("plan.part").exists());
    // Killed as soon as something is in the journal.
    let more = with(&["--max", "64MiB"]);
    let mut child = motet(at, &more).spawn().unwrap();
    let journal = at.join("plan.part/journal.jsonl");
    let lines = || fs::read_to_string(&journal).map_or(0, |it| it.lines().count());
    while lines() < 3 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = journal.exists();
    if killed {
        assert_eq!(fs::read(at.join("plan/plan.json")).unwrap(), old);
        done(motet(at, &["plan", "show", "plan"]));
    } else {
        eprintln!("the plan was done before it could be killed");
    }
    let output = done(motet(at, &with(&["--max", "64MiB", "--json"])));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!killed || !text.contains("\"resumed\":0"), "{text}");
    let resumed = fs::read(at.join("plan/plan.json")).unwrap();
    // The same plan made in one go is the same.
    fs::rename(at.join("plan"), at.join("first")).unwrap();
    done(motet(at, &with(&["--max", "64MiB"])));
    assert_eq!(fs::read(at.join("plan/plan.json")).unwrap(), resumed);
    let output = done(motet(at, &["plan", "diff", "first", "plan"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("17 tasks the same, 0 otherwise"), "{text}");
}

#[test]
fn what_is_no_plan_is_refused_or_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("plan")).unwrap();
    fs::write(at.join("plan/mine"), "precious").unwrap();
    let output = motet(at, &with(&["--max", "1KiB"])).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(at.join("plan/mine")).unwrap(), "precious");
    let show = |folder: &str, more: &[&str]| {
        let words: Vec<&str> =
            ["plan", "show", folder].into_iter().chain(more.iter().copied()).collect();
        motet(at, &words).output().unwrap().status.code()
    };
    assert_eq!(show("plan", &[]), Some(2));
    fs::remove_file(at.join("plan/mine")).unwrap();
    done(motet(at, &with(&["--max", "1KiB"])));
    assert_eq!(show("plan", &["--network", "v100-x4:count=2"]), Some(0));
    assert_eq!(show("plan", &["--network", "v100-x4:count=3"]), Some(1));
    let table = fs::read_to_string(at.join("plan/table")).unwrap();
    fs::write(at.join("plan/table"), &table[..table.len() / 2]).unwrap();
    assert_eq!(show("plan", &[]), Some(1));
}

#[test]
fn a_sketch_of_any_name_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let sketch = done(motet(at, &["net", "sketch", "v100-x4:count=2"]));
    let text = String::from_utf8(sketch.stdout).unwrap();
    let text = text.replace("name = \"grouped\"", "name = \"../../two, by hand\"");
    fs::write(at.join("mine.toml"), text).unwrap();
    done(motet(at, &with(&["--max", "1KiB", "--sketch", "mine.toml"])));
    done(motet(at, &["plan", "show", "plan"]));
    assert!(at.join("plan/sketches/two-by-hand.toml").is_file());
}
