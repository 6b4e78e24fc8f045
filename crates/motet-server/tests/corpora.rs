//! The corpora of the fuzz targets, replayed: nothing panics, and what should be understood is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::path::Path;

use motet_server::job::JobSpec;
use motet_server::{Config, fuzz};

/// Replays a corpus. Gives how many files were understood, and how many refused.
fn replay(name: &str, understood: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut counts = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let count = if understood(&bytes) { &mut counts.0 } else { &mut counts.1 };
        *count += 1;
    }
    counts
}

#[test]
fn frames_of_ranks() {
    let counts = replay("control_wire", |bytes| fuzz::frames::check(bytes).unwrap());
    assert_eq!(counts, (10, 4));
}

#[test]
fn messages_to_the_controller_and_from_it() {
    let counts = replay("server_messages", |bytes| fuzz::messages::check(bytes).unwrap());
    assert_eq!(counts, (8, 4));
}

#[test]
fn messages_in_any_order() {
    let counts = replay("server_turns", |bytes| fuzz::turns::check(bytes).unwrap());
    assert_eq!(counts, (6, 1));
}

#[test]
fn requests_over_grpc_and_http() {
    let counts = replay("server_requests", |bytes| fuzz::requests::check(bytes).unwrap());
    assert_eq!(counts, (10, 9));
}

#[test]
fn configurations_and_jobs() {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let counts = replay("server_config", |bytes| {
        let config = Config::parse(&text(bytes), Path::new("folder"));
        config.is_ok_and(|it| it.check().is_ok())
    });
    assert_eq!(counts, (5, 4));
    let counts = replay("server_job", |bytes| {
        let spec = serde_json::from_str::<JobSpec>(&text(bytes));
        spec.is_ok_and(|it| it.registration().is_ok() && it.ranks(0).is_ok())
    });
    assert_eq!(counts, (2, 3));
}
