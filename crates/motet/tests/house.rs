//! The house rules that a test can check: who may use whom, and how files begin.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::fs;
use std::path::{Path, PathBuf};

/// Who uses whom on its own floor.
const BESIDE: [(&str, &str); 4] = [
    ("motet-collective", "motet-net"),
    ("motet-runtime", "motet-units"),
    ("motet-server", "motet-switch"),
    ("motet-synth", "motet-nccl"),
];

/// Each crate with its floor; a crate may use what stands on a floor below it, and on its own
/// floor only what [`BESIDE`] says.
const FLOORS: [(&str, u32); 27] = [
    ("motet-units", 0),
    ("motet-testdata", 0),
    ("motet-graph", 0),
    ("motet-page", 0),
    ("motet-runtime", 0),
    ("motet-cuda", 1),
    ("motet-net", 1),
    ("motet-collective", 1),
    ("motet-exec", 2),
    ("motet-live", 2),
    ("motet-control", 2),
    ("motet-sim", 2),
    ("motet-nccl", 3),
    ("motet-synth", 3),
    ("motet-workload", 3),
    ("motet-capi", 4),
    ("motet-exact", 4),
    ("motet-tune", 4),
    ("motet-agent", 5),
    ("motet-rails", 5),
    ("motet-wan", 5),
    ("motet-nccl-plugin", 6),
    ("motet-shim", 6),
    ("motet-switch", 6),
    ("motet-server", 6),
    ("motet-testbed", 6),
    ("motet", 7),
];

fn floor(name: &str) -> u32 {
    let found = FLOORS.iter().find(|it| it.0 == name);
    found
        .unwrap_or_else(|| panic!("`{name}` has no floor; give it one here and in ARCHITECTURE.md"))
        .1
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of all crates, with their names.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = ["crates", "plugins"].map(|it| fs::read_dir(workspace().join(it)).unwrap());
    let folders = folders.into_iter().flatten().map(|it| it.unwrap().path());
    let named = |folder: PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|it| it.strip_prefix("name = ")).unwrap();
        (name.trim_matches('"').to_owned(), folder)
    };
    folders.map(named).collect()
}

#[test]
fn a_crate_uses_only_what_stands_below_it() {
    for (name, folder) in crates() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap();
        for line in dependencies.lines().filter(|it| it.starts_with("motet")) {
            let used = line.split(['.', ' ', '=']).next().unwrap();
            let below = floor(used) < floor(&name);
            let beside = BESIDE.contains(&(name.as_str(), used));
            assert!(below || beside, "`{name}` may not use `{used}`");
        }
    }
    assert_eq!(crates().len(), FLOORS.len());
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_is_not_too_long() {
    let mut files = Vec::new();
    crates().iter().for_each(|it| sources(&it.1, &mut files));
    assert!(files.len() > 200);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} does not begin with `//!`", file.display());
        if text.starts_with("//! Made from the protos") {
            continue;
        }
        let lines = text.lines().count();
        assert!(lines <= 700, "{} has {lines} lines: two ideas in one file?", file.display());
    }
}

/// What crates.io and a lawyer ask for is in one place, the workspace's manifest, and every crate takes it from
/// there.
#[test]
fn every_crate_has_a_licence_and_a_description() {
    for (name, folder) in crates() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in ["version.workspace = true", "license.workspace = true", "description = \""] {
            assert!(manifest.contains(line), "`{name}` lacks `{line}`");
        }
        if !manifest.contains("publish = false") {
            for line in ["readme.workspace = true", "keywords = [", "categories = ["] {
                assert!(manifest.contains(line), "`{name}` lacks `{line}`");
            }
            for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
                assert!(folder.join(file).is_file(), "`{name}` lacks a link to ../../{file}");
            }
        }
    }
}
