//! The committed Rust code of the protos is what the protos say. `MOTET_REGENERATE=1 cargo test -p motet-server --test protos`
//! writes it anew after a change. No protoc is needed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::path::{Path, PathBuf};

fn generate(protos: &[&str], include: &Path, file: &str, server: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    let files = protox::compile(protos.iter().map(|it| include.join(it)), [include]).unwrap();
    tonic_prost_build::configure()
        .btree_map(".")
        .build_server(server)
        .out_dir(folder.path())
        .compile_fds(files)
        .unwrap();
    let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
    format!("//! Made from the protos by `tests/protos.rs`: do not edit.\n\n{text}")
}

fn check(protos: &[&str], file: &str, target: &str, server: bool) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let made = generate(protos, &root.join("proto"), file, server);
    let target = root.join(target);
    if std::env::var_os("MOTET_REGENERATE").is_some() {
        std::fs::write(&target, &made).unwrap();
    }
    let there = std::fs::read_to_string(&target).unwrap_or_default();
    assert!(
        there == made,
        "{} is not what the protos say; run this test with MOTET_REGENERATE=1",
        target.display()
    );
}

#[test]
fn the_controllers_protocol() {
    check(&["motet/control/v1/control.proto"], "motet.control.v1.rs", "src/api/v1.rs", true);
}

#[test]
fn etcds_protocol() {
    check(&["etcd/rpc.proto"], "etcdserverpb.rs", "src/store/etcd/rpc.rs", false);
    check(&["etcd/election.proto"], "v3electionpb.rs", "src/store/etcd/election.rs", false);
}
