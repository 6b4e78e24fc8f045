//! What the tests share: the C host, compiled once, and folders of plans.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, dead_code, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use motet_runtime::folder::{CHECKSUMS, MANIFEST, TABLE, list};
use motet_runtime::{
    Algorithm, Bucket, Candidate, Checksum, Collective, Entry, Key, Method, Protocol, Setting,
    Signature, Table, TableKnobs,
};
use motet_units::{Bytes, Duration};

pub(crate) const SIGNATURE: Signature = Signature(0xfeed);
pub(crate) const RANKS: u32 = 4;
pub(crate) const NODES: u32 = 2;

/// The library.
pub(crate) fn library() -> PathBuf {
    motet_testdata::plugin("nccl", "libmotet_nccl.so")
}

/// The C host, compiled with the system's compiler.
pub(crate) fn host() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host");
        let host =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("host-{}", std::process::id()));
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        compiler.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-o"]).arg(&host);
        compiler.args(["main.c", "alloc.c", "tuner.c", "profiler.c"].map(|it| sources.join(it)));
        let status = compiler
            .args(["-rdynamic", "-ldl", "-lpthread", "-lm"])
            .status()
            .expect("a C compiler");
        assert!(status.success(), "the host does not compile");
        host
    })
}

/// A command that runs the host, without what the user's shell has set.
pub(crate) fn command(test: &[&str]) -> Command {
    let mut command = Command::new(host());
    command.arg(library()).args(test);
    clean(&mut command);
    command
}

pub(crate) fn clean(command: &mut Command) {
    for name in [
        "PLAN",
        "CONTROL",
        "TRACE",
        "METRICS",
        "PROFILE_EVERY",
        "AGENT",
        "AGENT_TOKEN",
        "AGENT_POLICY",
    ] {
        command.env_remove(format!("MOTET_{name}"));
    }
}

/// Runs it and gives what it printed.
pub(crate) fn passes(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    out.into_owned()
}

fn nccl(algorithm: Algorithm, protocol: Protocol, channels: Option<u32>) -> Candidate {
    let knobs = TableKnobs { protocol: Some(protocol), channels, ..TableKnobs::default() };
    let method = Method::Nccl { algorithm: Some(algorithm) };
    Candidate { setting: Setting { method, knobs }, expected: Duration::from_us(80) }
}

/// AllReduce of 1 MiB: ring and Simple, of which 80 µs are expected, and tree and Simple, of which 150.
pub(crate) fn two_candidates() -> Table {
    let key = Key {
        signature: SIGNATURE,
        collective: Collective::AllReduce,
        ranks: RANKS,
        bucket: Bucket::of(Bytes::mib(1)),
    };
    let ring = nccl(Algorithm::Ring, Protocol::Simple, None);
    let tree = nccl(Algorithm::Tree, Protocol::Simple, None);
    let candidates = vec![ring, Candidate { expected: Duration::from_us(150), ..tree }];
    Table::new(vec![Entry { key, candidates }]).unwrap()
}

/// AllReduce 1 KiB to 16 MiB: ring and Simple on two channels, with chunks of 64 KiB; AllGather of 1 MiB: a program,
/// and PAT for who has no executor.
pub(crate) fn table() -> Table {
    let key = |collective, log2| Key {
        signature: SIGNATURE,
        collective,
        ranks: RANKS,
        bucket: Bucket::new(log2).unwrap(),
    };
    let mut ring = nccl(Algorithm::Ring, Protocol::Simple, Some(2));
    ring.setting.knobs.chunk = Some(Bytes::kib(64));
    let mut entries: Vec<_> = (10..=24)
        .map(|it| Entry { key: key(Collective::AllReduce, it), candidates: vec![ring.clone()] })
        .collect();
    let mut program = nccl(Algorithm::Ring, Protocol::Simple, Some(9));
    program.setting.method = Method::Program { name: "x".into(), checksum: Checksum(1) };
    let pat = nccl(Algorithm::Pat, Protocol::Simple, None);
    entries.push(Entry { key: key(Collective::AllGather, 20), candidates: vec![program, pat] });
    Table::new(entries).unwrap()
}

/// `plan.json` with what a plugin reads of it, and something that it does not know.
pub(crate) fn manifest(basis: &str) -> String {
    format!(
        r#"{{"motet_plan": 2, "signature": "{SIGNATURE}", "ranks": {RANKS}, "nodes": {NODES}, "new": 1,
            "setup": {{}}, "tasks": [
            {{"collective": "allreduce", "size_bytes": 1048576, "pick": {{"basis": "{basis}", "way": "ring"}}}}]}}"#
    )
}

/// Writes a plan's folder with right checksums.
pub(crate) fn write_plan(folder: &Path, manifest: &str, table: &str) {
    write_files(folder, &[(MANIFEST, manifest), (TABLE, table)]);
}

/// The same with any files.
pub(crate) fn write_files(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder.join("nccl")).unwrap();
    let files = files.iter().map(|it| (it.0.to_owned(), it.1.to_owned()));
    let files: BTreeMap<_, _> = files.collect();
    fs::write(folder.join(CHECKSUMS), list(&files)).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

pub(crate) fn plan(folder: &Path) -> PathBuf {
    write_plan(folder, &manifest("kernels"), &table().write());
    folder.to_owned()
}
