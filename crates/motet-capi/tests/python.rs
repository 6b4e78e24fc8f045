//! The Python package's own tests, where it is installed. They take a while (every rank loads torch), so they run only when asked for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_torch_backend() {
    if std::env::var_os("MOTET_PYTHON_TESTS").is_none() {
        println!(
            "skipped: set MOTET_PYTHON_TESTS=1, with PYTHON an interpreter that has torch, pytest and the package in python/"
        );
        return;
    }
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q", "-rs", "tests"]).current_dir(folder);
    let output = tests.output().unwrap_or_else(|it| panic!("{python}: {it}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("skipped"), "{said}");
}
