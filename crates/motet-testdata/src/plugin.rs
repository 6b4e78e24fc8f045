//! The shared libraries of `plugins`, for tests that load them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The folder of the whole project.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The libraries that this process has asked for.
static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The library that the crate in `plugins/FOLDER` makes, such as `libmotet_nccl.so` of `nccl`.
///
/// `cargo test --workspace` has built it as an example of that crate. A test that was built alone may find none, or one that is
/// older than some source; then the first test of a process that asks has it built, and the others wait for that.
#[must_use]
pub fn plugin(folder: &str, library: &str) -> PathBuf {
    // After a build that failed the next test tries again, and says for itself that it failed.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let profile = profile();
        let example = profile.join("examples").join(library);
        let made = example.metadata().and_then(|it| it.modified());
        if made.is_ok_and(|it| is_newer_than_sources(it, Path::new(PROJECT))) {
            return example;
        }
        build(&profile, folder, library)
    };
    built.entry(library.to_owned()).or_insert_with(make).clone()
}

/// TARGET/debug, as the test lies in TARGET/debug/deps.
fn profile() -> PathBuf {
    let test = std::env::current_exe();
    let test = test.unwrap_or_else(|error| panic!("where the test itself lies: {error}"));
    let Some(profile) = test.ancestors().nth(2) else {
        panic!("{} is not in a folder that cargo has built", test.display());
    };
    profile.to_owned()
}

/// Whether no file that a library could be made of was changed since.
fn is_newer_than_sources(made: SystemTime, project: &Path) -> bool {
    let members = ["crates", "plugins"].iter().flat_map(|it| entries(&project.join(it)));
    let sources = members.flat_map(|it| [it.join("src"), it.join("Cargo.toml")]);
    let all = ["Cargo.toml", "Cargo.lock"].map(|it| project.join(it)).into_iter().chain(sources);
    all.into_iter().all(|it| is_older(&it, made))
}

fn is_older(path: &Path, made: SystemTime) -> bool {
    if path.is_dir() {
        return entries(path).iter().all(|it| is_older(it, made));
    }
    // What is not there was not changed.
    path.metadata().and_then(|it| it.modified()).map_or(true, |it| it <= made)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|it| it.ok().map(|it| it.path())).collect()
}

fn build(profile: &Path, folder: &str, library: &str) -> PathBuf {
    let target = profile.parent().unwrap_or(profile);
    let manifest = Path::new(PROJECT).join("plugins").join(folder).join("Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--lib", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("{cargo:?}: {error}"));
    assert!(status.success(), "{cargo:?}: {status}");
    profile.join(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_changed_since_is_seen() {
        let project = Path::new(PROJECT);
        let in_2128 = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(5_000_000_000);
        assert!(is_newer_than_sources(in_2128, project));
        assert!(!is_newer_than_sources(SystemTime::UNIX_EPOCH, project));
    }
}
