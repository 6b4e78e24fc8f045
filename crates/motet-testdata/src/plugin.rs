//! The shared libraries of `plugins`, built for a test that loads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The folder of all plugins.
const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins");

/// The libraries that this process has had built.
static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The library that the crate in `plugins/FOLDER` makes, such as `libmotet_nccl.so` of `nccl`. Cargo builds none
/// for tests, as no test can link with it, so the first test of a process that asks has it built; the others
/// wait for that. It lies where the test's own build does.
#[must_use]
pub fn plugin(folder: &str, library: &str) -> PathBuf {
    // After a build that failed the next test tries again, and says for itself that it failed.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || build(&Path::new(PLUGINS).join(folder).join("Cargo.toml"), library);
    built.entry(library.to_owned()).or_insert_with(make).clone()
}

fn build(manifest: &Path, library: &str) -> PathBuf {
    let test = std::env::current_exe();
    let test = test.unwrap_or_else(|error| panic!("where the test itself lies: {error}"));
    // TARGET/debug/deps/test
    let mut above = test.ancestors().skip(2);
    let (Some(profile), Some(target)) = (above.next(), above.next()) else {
        panic!("{} is not in a folder that cargo has built", test.display());
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--lib", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(target);
    // It is small; what takes long is building what it needs, with other features than the workspace's.
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("{cargo:?}: {error}"));
    assert!(status.success(), "{cargo:?}: {status}");
    profile.join(library)
}
