//! The Python package's own tests, where an interpreter has what they need: torch, pytest and the package itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Nothing of this can be had by a Rust toolchain, so most machines lack some of it, and that is no failure. With
/// `MOTET_PYTHON_TESTS` it is one, for whoever believes that all of it is there.
#[test]
fn the_torch_backend() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let needed = Command::new(&python).args(["-c", "import torch, pytest, motet.torch"]).output();
    let missing = match needed {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(said.trim_end().lines().last().unwrap_or("it says nothing").to_owned())
        }
        Err(error) => Some(error.to_string()),
    };
    if let Some(missing) = missing {
        let asked = std::env::var_os("MOTET_PYTHON_TESTS").is_some();
        assert!(!asked, "{python} cannot run the tests in python/: {missing}");
        skip(&format!("{python} lacks torch, pytest or the package in python/ ({missing})"));
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q", "-rs", "tests"]).current_dir(folder);
    let output = tests.output().unwrap_or_else(|it| panic!("{python}: {it}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // Those on GPUs and those that need openssl are left out where these are missing, and pytest says so:
    // `SKIPPED [2] tests/test_torch.py:95: there is no GPU`.
    for line in said.lines().filter_map(|it| it.strip_prefix("SKIPPED [")) {
        let (number, rest) = line.split_once("] ").unwrap_or(("1", line));
        let why = rest.split_once(": ").map_or(rest, |it| it.1);
        (0..number.parse().unwrap_or(1)).for_each(|_| skip(why));
    }
}

/// Says why tests in Python were skipped. The harness would catch `println!` and drop it, because a skipped test passes.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: the torch backend: {why}");
}
