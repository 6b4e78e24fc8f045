//! The files that tests of several crates read. Only tests depend on this crate, and it is never published.
//!
//! Where to start: [`ours`] and [`sample`] give a file's text, [`skip`] says that a test cannot run here.
//!
//! There are two sorts. *Our own* files are in this crate's folder `data`: `networks` has well-known systems as
//! explicit cluster files, with their AllGather bounds in `bounds.md`, and `repro` has small inputs on which
//! something once went wrong. They are always there: [`ours`] and [`our_networks`] read them. *Samples* are
//! files of other projects (NCCL topologies, MSCCL programs, TACCL sketches, WAN maps), which are not ours to
//! copy. They lie beside the repository, in `../shared/data`, or are missing: [`sample`] and [`samples`] then
//! return `None`, the test returns early, and a line that begins with `skipped:` says so. `.ci/run` counts
//! these lines and sums them up in one line at its end.
//!
//! [`skip`] is for tests that lack something else than a file: rights, a device, another program.
//!
//! [`plugin()`] is the third thing that tests of several crates share: the libraries of `plugins`, built for them.

#![allow(clippy::panic, reason = "a test fails by panicking, and so does a test's helper")]

mod plugin;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub use plugin::plugin;

/// Our own files.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

/// Other projects' files, if somebody has put them there.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// The text of one of our own files, such as `networks/dgx1.toml`.
#[must_use]
pub fn ours(path: &str) -> String {
    let file = Path::new(OURS).join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All of our own networks, sorted by name: the name without its ending, and the text of the cluster file.
#[must_use]
pub fn our_networks() -> Vec<(String, String)> {
    let folder = Path::new(OURS).join("networks");
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter_map(|it| it.strip_suffix(".toml").map(str::to_owned)).collect();
    names.sort();
    names.into_iter().map(|it| (it.clone(), ours(&format!("networks/{it}.toml")))).collect()
}

/// The text of another project's file, such as `nccl-topo/ndv4-topo.xml`, or `None` with a `skipped:` line.
#[must_use]
pub fn sample(path: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(SAMPLES).join(path)).ok();
    if text.is_none() {
        skipped(path);
    }
    text
}

/// A folder of other projects' files, such as `msccl`, or `None` with a `skipped:` line.
#[must_use]
pub fn samples(folder: &str) -> Option<PathBuf> {
    let path = Path::new(SAMPLES).join(folder);
    if path.is_dir() {
        return Some(path);
    }
    skipped(folder);
    None
}

/// Says which test is skipped for want of which file.
fn skipped(path: &str) {
    skip(&format!("../shared/data/{path} is not there"));
}

/// Says that the test that calls this is skipped, and why: what it needs and this machine lacks. `.ci/run` sums up those with the
/// same reason.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // `eprintln!` would be caught by the test harness and dropped, because a skipped test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_networks_are_there() {
        let networks = our_networks();
        assert_eq!(networks.len(), 13);
        assert!(networks.iter().any(|(name, text)| name == "dgx1" && text.contains("[[link]]")));
    }
}
