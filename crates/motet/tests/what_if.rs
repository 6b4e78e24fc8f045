//! `--fail` and `--scale` of `bound`, `synth` and `sim`, alone and one after the other.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn motet(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
    command.current_dir(folder).args(words).output().unwrap()
}

fn number(folder: &Path, words: &[&str], key: &str) -> f64 {
    let output = motet(folder, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value[key].as_f64().unwrap()
}

fn refusal(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = motet(folder, words);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A ring of four that lost a link is a line, whose ends have one link of 50 GB/s.
#[test]
fn a_bound_without_a_link_or_with_a_slow_one() {
    let folder = tempfile::tempdir().unwrap();
    let bound = |more: &[&str]| {
        let words = ["bound", "ring:gpus=4", "-c", "allgather"];
        number(folder.path(), &[&words[..], more].concat(), "algbw_gbps")
    };
    assert!((bound(&[]) - 100.0 * 4.0 / 3.0).abs() < 1e-9);
    assert!((bound(&["--fail", "gpu0-gpu1"]) - 50.0 * 4.0 / 3.0).abs() < 1e-9);
    assert!((bound(&["--scale", "gpu0-gpu1=0.5"]) - 75.0 * 4.0 / 3.0).abs() < 1e-9);
    let words = ["bound", "ring:gpus=4", "-c", "allgather", "--fail", "gpu0-gpu7"];
    let (code, text) = refusal(folder.path(), &words);
    assert_eq!(code, Some(2));
    assert!(text.contains("there is no link `gpu0-gpu7`") && text.contains("did you mean"));
}

/// What is made for a network without a link runs on it; what was made before does not.
#[test]
fn a_program_made_around_a_failure_runs_under_it() {
    let folder = tempfile::tempdir().unwrap();
    let synth = ["synth", "ring:gpus=4", "-c", "allgather", "-s", "1 MB", "-o"];
    let sim = ["sim", "ring:gpus=4"];
    let fail = ["--fail", "gpu0-gpu1"];
    let made = number(folder.path(), &[&synth[..], &["line.json"], &fail].concat(), "time_us");
    let run = [&sim[..], &["line.json", "-s", "1 MB"]].concat();
    let ran = number(folder.path(), &[&run[..], &fail].concat(), "time_us");
    assert!((made - ran).abs() < 1e-6, "{made} {ran}");
    let _ = number(folder.path(), &[&synth[..], &["ring.json"]].concat(), "time_us");
    let run = [&sim[..], &["ring.json", "-s", "1 MB"]].concat();
    let slow = [&run[..], &["--scale", "gpu0->gpu1=50%"]].concat();
    let (whole, slow) =
        (number(folder.path(), &run, "time_us"), number(folder.path(), &slow, "time_us"));
    assert!(slow > whole, "{slow} {whole}");
    let (code, text) = refusal(folder.path(), &[&run[..], &fail].concat());
    assert_eq!(code, Some(1));
    assert!(text.contains("which `--fail` takes down"), "{text}");
}

/// Times end at 2⁶⁴ ps: what takes longer is said to be too slow, and is no fault in Motet.
#[test]
fn a_network_too_slow_for_the_clock_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let slow = "ring:gpus=2,bandwidth=1 bit/s";
    for command in ["bound", "synth"] {
        let (code, text) =
            refusal(folder.path(), &[command, slow, "-c", "allgather", "-s", "1 GiB"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("213 days") && !text.contains("fault"), "{text}");
    }
}

/// What people type first: a template in one word, a slip, an empty file, a rate without a unit.
#[test]
fn slips_are_answered_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.toml"), "# nothing yet\n").unwrap();
    let made = motet(folder.path(), &["net", "gen", "dgx-h100:count=4", "nics=4"]);
    assert!(made.status.success() && made.stdout.starts_with(b"name = \"dgx-h100\""));
    for (words, part) in [
        (&["net", "gen", "dgx-h10"][..], "did you mean `dgx-h100`"),
        (&["net", "show", "dgx-h10"], "did you mean `dgx-h100`"),
        (&["net", "show", "empty.toml"], "[[server]]"),
        (&["net", "gen", "ring", "bandwidth=400G"], "write `400 Gbit/s` for bits"),
        (&["net", "show", "wan:file=gone.gml"], "gone.gml"),
        (&["probe", "run", "10.0.0.1:7461"], "address = \"10.0.0.1:7461\""),
        (&["probe", "serve", "--listen", "10.0.0.1:0", "--no-token"], "makes up a token"),
    ] {
        let (code, text) = refusal(folder.path(), words);
        assert_eq!(code, Some(2), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
    }
}
